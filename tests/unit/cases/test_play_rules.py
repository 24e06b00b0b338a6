"""The rules by which the interpreter of event cases plays."""

import pytest

from services.sandbox.objects import Obj
from tests.cases.check import find_case
from tests.cases.play import _due, _held_before
from tests.cases.play_actions import change_of
from tests.cases.play_steps import read_script


@pytest.mark.parametrize(
    ("path", "current", "change"),
    [
        ("spec.replicas", {"spec": {}}, {"spec": {"replicas": 6}}),
        (
            "spec.hard.requests.nvidia.com/gpu",
            {"spec": {"hard": {"requests.nvidia.com/gpu": "5"}}},
            {"spec": {"hard": {"requests.nvidia.com/gpu": 6}}},
        ),
        ("status", {}, {"status": 6}),
    ],
)
def test_a_dotted_path_becomes_a_merge_patch(path: str, current: Obj, change: Obj) -> None:
    """A key that itself has dots is found by what the object has."""
    assert change_of(path, value=6, current=current) == change


def test_bindings_are_held_from_the_change_that_leads_to_them() -> None:
    """In C28 the plan follows from loading, so the binder stands still before anything is loaded."""
    assert _held_before(read_script(find_case("C28"))) == {0}


def test_a_stage_of_the_header_is_judged_once() -> None:
    """`step1` is judged in the first expecting step after the first change, and in no other."""
    script = read_script(find_case("C28"))
    due = [
        step.number
        for step in script.steps
        if step.verb is None
        and _due(script, changes=sum(one.verb is not None for one in script.steps[: step.number - 1]), step=step)
    ]
    assert due == [3]
