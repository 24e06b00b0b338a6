"""Dashboards ask for metrics that exist, with labels that they have."""

import json
import re
from pathlib import Path

import pytest

from tests.unit.test_metrics_page import SERVICES, registered

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "dashboards"
FILES = sorted(FOLDER.glob("*.json"))
KNOWN = {name: labels for service in SERVICES for name, labels in registered(service).items()}
_HISTOGRAM_SERIES = re.compile(r"_(bucket|sum|count)$")
_MATCHER = re.compile(r"(phalanx_\w+)\{([^}]*)\}")


def expressions(file: Path) -> list[str]:
    """Every query of a dashboard."""
    panels = json.loads(file.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def metric_of(series: str) -> str:
    """The metric that a series belongs to."""
    if series in KNOWN:
        return series
    return _HISTOGRAM_SERIES.sub("", series)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_metric_of_a_dashboard_exists(file: Path) -> None:
    """And series of a histogram are asked of histograms only."""
    asked = {name for expression in expressions(file) for name in re.findall(r"\bphalanx_\w+", expression)}
    assert asked
    assert {name for name in asked if metric_of(name) not in KNOWN} == set()
    assert {name for name in asked if name not in KNOWN and KNOWN[metric_of(name)][0] != "histogram"} == set()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_label_of_a_dashboard_exists(file: Path) -> None:
    """A label that is misspelt selects nothing, and the panel stays empty for ever."""
    for expression in expressions(file):
        for name, matchers in _MATCHER.findall(expression):
            labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
            assert labels <= {*KNOWN[metric_of(name)][1], "le"}, expression


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_panels_do_not_lie_on_each_other(file: Path) -> None:
    """Ids and places are used once."""
    panels = json.loads(file.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)


def test_there_is_a_dashboard() -> None:
    """The other tests are about something."""
    assert FILES
