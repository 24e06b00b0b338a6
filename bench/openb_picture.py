"""The picture of `make bench-openb` in docs: `python -m bench.openb_picture [RESULT]` draws what a result file holds.

It is a dozen lines of SVG by hand, because a library for plots would be the largest dependency of the project.
"""

import json
import statistics
from pathlib import Path
from typing import Any

import click

PICTURE = Path("docs/images/openb.svg")
WIDTH, HEIGHT, MARGIN = 720, 420, 60
LEFT, RIGHT = 80, 130
"""Percent that arrived: below 80 everything that is asked for is placed."""
BOTTOM, TOP = 78, 98
COLOURS = {"default": "#1f5fbf", "gpushare40": "#c2571a"}


@click.command(help=__doc__)
@click.argument("result", type=click.Path(path_type=Path, exists=True), default=Path("build/bench-openb.json"))
def main(result: Path) -> None:
    """Draw the mean over seeds of each list, with the best published policy as points."""
    PICTURE.write_text(picture(json.loads(result.read_text())))


def picture(document: dict[str, Any]) -> str:
    """Return the SVG of a result."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        *_axes(),
    ]
    for number, (workload, published) in enumerate(document["published_at_100_and_130"].items()):
        curves = [run["curve"] for run in document["runs"] if run["workload"] == workload]
        if not curves:
            continue
        means = [statistics.mean(column) for column in zip(*curves, strict=True)]
        points = " ".join(_point(percent, means[percent - 1]) for percent in range(LEFT, RIGHT + 1))
        colour = COLOURS[workload]
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for percent, value in zip((100, 130), published, strict=True):
            x, y = _point(percent, value).split(",")
            lines.append(f'<circle cx="{x}" cy="{y}" r="4" fill="#ffffff" stroke="{colour}" stroke-width="2"/>')
        text = f"{workload}: line, placer; circles, best published policy"
        lines.append(f'<text x="{WIDTH - 390}" y="{HEIGHT - 110 + 20 * number}" fill="{colour}">{text}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _axes() -> list[str]:
    lines = []
    for value in range(BOTTOM + 2, TOP + 1, 2):
        start, end = _point(LEFT, value), _point(RIGHT, value)
        (x, y), (end_x, _) = start.split(","), end.split(",")
        lines.append(f'<line x1="{x}" y1="{y}" x2="{end_x}" y2="{y}" stroke="#dddddd"/>')
        lines.append(f'<text x="{float(x) - 8:.1f}" y="{float(y) + 4:.1f}" text-anchor="end">{value}</text>')
    for percent in range(LEFT, RIGHT + 1, 10):
        x, y = _point(percent, BOTTOM).split(",")
        lines.append(f'<text x="{x}" y="{float(y) + 20:.1f}" text-anchor="middle">{percent}</text>')
    middle = WIDTH / 2
    lines.append(
        f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">GPUs asked for so far, % of the cluster</text>'
    )
    lines.append(f'<text x="{MARGIN}" y="30">GPUs allocated, % of the cluster (mean over seeds)</text>')
    return lines


def _point(percent: float, value: float) -> str:
    """Return a place on the picture as `x,y`."""
    x = MARGIN + (percent - LEFT) / (RIGHT - LEFT) * (WIDTH - 2 * MARGIN)
    y = HEIGHT - MARGIN - (value - BOTTOM) / (TOP - BOTTOM) * (HEIGHT - 2 * MARGIN)
    return f"{x:.1f},{y:.1f}"


if __name__ == "__main__":
    main()
