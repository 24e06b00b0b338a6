"""Each case in force is a test, and each case is either in force or listed as not yet so."""

from pathlib import Path

import pytest

from tests.cases.check import find_case
from tests.cases.play import IN_FORCE as EVENTS_IN_FORCE
from tests.cases.queues import IN_FORCE as QUEUES_IN_FORCE
from tests.cases.run import IN_FORCE, SNAPSHOTS_IN_FORCE, Outcome, all_cases, replay, run, summary
from tests.cases.scaling import IN_FORCE as SCALING_IN_FORCE


@pytest.mark.parametrize("case_id", SNAPSHOTS_IN_FORCE)
async def test_snapshot(case_id: str, tmp_path: Path) -> None:
    """The solver answers the case as expected."""
    assert await replay(find_case(case_id), folder=tmp_path) == []


@pytest.mark.parametrize("case_id", EVENTS_IN_FORCE)
async def test_events(case_id: str, tmp_path: Path) -> None:
    """The services live through the case as expected."""
    assert await replay(find_case(case_id), folder=tmp_path) == []


@pytest.mark.parametrize("case_id", SCALING_IN_FORCE)
async def test_scaling(case_id: str, tmp_path: Path) -> None:
    """The core decides each row as expected."""
    assert await replay(find_case(case_id), folder=tmp_path) == []


@pytest.mark.parametrize("case_id", QUEUES_IN_FORCE)
async def test_queues(case_id: str, tmp_path: Path) -> None:
    """What is read of each queue gives the decision that is expected."""
    assert await replay(find_case(case_id), folder=tmp_path) == []


def test_cases_of_later_are_listed() -> None:
    """What is not in force is said to be so, and counted."""
    lines = [run(case) for case in all_cases() if case.id not in IN_FORCE]
    assert all(line.outcome is Outcome.NOT_IN_FORCE for line in lines)
    assert summary(lines) == f"cases: 0 in force, 0 ok, {len(all_cases()) - len(IN_FORCE)} not in force yet"
