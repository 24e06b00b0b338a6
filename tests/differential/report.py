"""Shows what came of a run, and writes it down: a table, a JSON file, and for each problem its input as YAML."""

import json
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from tests.differential.comparison import Agreement, Comparison, refused_share, rows, shortcomings
from tests.suites.table import ROOT

FOLDER = ROOT / "build" / "differential"


def show(comparisons: Sequence[Comparison], *, console: Console) -> None:
    """The table, and what is wrong."""
    table = Table(box=None, padding=(0, 1))
    table.add_column("feature", no_wrap=True)
    for name in ("seeds", "gangs", *Agreement):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows(comparisons):
        counts = [str(row.counts[kind]) for kind in Agreement]
        table.add_row(row.name, str(row.seeds), str(row.gangs), *counts)
    console.print(table)
    fewer = sum(one.are_fewer for one in comparisons)
    if fewer:
        console.print(f"{fewer} gangs run with fewer members of ours than of kube-scheduler's, both with enough")
    for one in comparisons:
        for problem in one.problems:
            console.print(f"{one.name}: {problem}", style="red", highlight=False)
    for shortcoming in shortcomings(comparisons):
        console.print(shortcoming, style="red", highlight=False)


def write(comparisons: Sequence[Comparison], *, seeds: str, duration_s: float, folder: Path = FOLDER) -> Path:
    """Write the result and the inputs of all problems; return the result's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("seed-*.yaml"):
        stale.unlink()
    for one in comparisons:
        if one.problems:
            (folder / f"{one.name}.yaml").write_text(input_of(one))
    path = folder / "result.json"
    path.write_text(json.dumps(summary(comparisons, seeds=seeds, duration_s=duration_s), indent=2) + "\n")
    return path


def input_of(comparison: Comparison) -> str:
    """A file for `phalanx plan --all-schedulers`, with what both sides said of it on top."""
    observation, answer = comparison.observation, comparison.answer
    lines = [
        *comparison.problems,
        f"features: {', '.join(sorted(observation.features))}",
        f"wanted: {observation.case.wanted} of {len(observation.members)}",
        f"kube-scheduler: {dict(observation.nodes) or observation.said}",
        f"ours: {dict(answer.nodes) or '; '.join(answer.reasons)}",
    ]
    head = "".join(f"# {line}\n" for text in lines for line in text.splitlines())
    return head + yaml.safe_dump_all(map(_plain, observation.input), sort_keys=False)


def _plain(item: dict[str, Any]) -> dict[str, Any]:
    """The object without what only its server needs."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {**item, "metadata": metadata}


def summary(comparisons: Iterable[Comparison], *, seeds: str, duration_s: float) -> dict[str, Any]:
    """The result for programs."""
    found = tuple(comparisons)
    counted = rows(found)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
        "command": f"make test-differential SEEDS={seeds}",
        "against": "kube-scheduler 1.37.2, GenericWorkload on",
        "seconds": round(duration_s, 1),
        "refused by kube-scheduler": round(refused_share(found), 3),
        "fewer members than kube-scheduler": sum(one.are_fewer for one in found),
        "problems": {one.name: list(one.problems) for one in found if one.problems},
        "features": {row.name: {"seeds": row.seeds, "gangs": row.gangs, **row.counts} for row in counted},
    }


def _commit() -> str:
    shown = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, check=False, text=True
    )
    return shown.stdout.strip() or "unknown"
