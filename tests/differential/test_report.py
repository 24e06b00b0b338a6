"""What a run leaves behind: seeds are read as people write them, and a problem's input can be planned again."""

from dataclasses import replace
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from services.cli.main import main as phalanx
from tests.differential.__main__ import Seeds
from tests.differential.comparison import Agreement, compare, rows
from tests.differential.drawing import draw_scenario
from tests.differential.features import Feature
from tests.differential.native import Observation
from tests.differential.ours import Answer
from tests.differential.report import input_of, summary, write


def observed(nodes: dict[str, str]) -> Observation:
    """The first gang of a scenario, as if kube-scheduler had bound its members there."""
    scenario = draw_scenario(2)
    case = scenario.gangs[0]
    return Observation(
        seed=2,
        case=case,
        features=case.features,
        objects=(*scenario.nodes, *scenario.namespaces),
        group=case.group,
        members=case.pods,
        nodes=nodes,
    )


def everywhere(seed_observation: Observation) -> dict[str, str]:
    """All members on the first node."""
    node = seed_observation.objects[0]["metadata"]["name"]
    return {pod["metadata"]["name"]: node for pod in seed_observation.members}


@pytest.mark.parametrize(
    ("text", "seeds"), [("3", [1, 2, 3]), ("7-9", [7, 8, 9]), ("4,2", [4, 2])], ids=["count", "range", "list"]
)
def test_seeds(text: str, seeds: list[int]) -> None:
    """A number, a range, or a list."""
    assert list(Seeds().convert(text, None, None)) == seeds


@pytest.mark.parametrize("text", ["", "x", "0", "9-7", "1,x"])
def test_seeds_that_are_none(text: str) -> None:
    """The error says what was expected."""
    with pytest.raises(click.BadParameter, match="expected"):
        Seeds().convert(text, None, None)


def test_a_gang_that_only_kube_scheduler_places_is_a_problem(tmp_path: Path) -> None:
    """It is counted in every row of its features, and its input is written as a file that the command reads."""
    observation = observed({})
    placed = replace(observation, nodes=everywhere(observation))
    found = compare(placed, lambda _: Answer(reasons=("NO: because",)))
    assert found.agreement is Agreement.ONLY_THEIRS
    assert any("because" in problem for problem in found.problems)
    counted = {row.name: row.counts[Agreement.ONLY_THEIRS] for row in rows([found])}
    assert {name for name, count in counted.items() if count} == {"all", *found.observation.features}
    write([found], seeds="2", duration_s=1.0, folder=tmp_path)
    path = tmp_path / f"{found.name}.yaml"
    assert len(list(yaml.safe_load_all(path.read_text()))) == len(observation.input)
    result = CliRunner().invoke(phalanx, ["plan", "--all-schedulers", "-f", str(path)])
    assert result.exit_code in {0, 1}, result.output


def test_an_answer_against_the_rules_is_a_problem() -> None:
    """Whoever gave it."""
    observation = observed({})
    placed = dict.fromkeys(everywhere(observation), "no-such-node")
    found = compare(observation, lambda _: Answer(nodes=placed))
    assert found.agreement is Agreement.ONLY_OURS
    assert any("our placement breaks NodeName" in problem for problem in found.problems)
    assert found.name in summary([found], seeds="2", duration_s=1.0)["problems"]
    assert "our placement breaks" in input_of(found)


def test_a_placement_that_nobody_found_is_a_problem() -> None:
    """Where there are few enough placements, each is tried: agreeing on a no is not enough."""
    observation = observed({})
    first, *_ = observation.case.pods
    bare = {**first, "spec": {"containers": [{"name": "main"}]}}
    alone = replace(observation, members=(bare,), case=replace(observation.case, pods=(bare,), group=None, wanted=1))
    found = compare(alone, lambda _: Answer())
    assert found.agreement is Agreement.BOTH_NO
    assert any("a placement exists" in problem for problem in found.problems)


def test_the_table_has_a_row_for_every_feature() -> None:
    """Also for those that were not drawn."""
    assert [row.name for row in rows([])] == ["all", *Feature]
