"""Scripted faults: which requests they hit, and what a wrong script is told."""

from typing import Any

import pytest

from services.sandbox.faults import Action, Answer, Fault, Faults, Match, parse

_BINDING: dict[str, Any] = {
    "method": "POST",
    "path": "/api/v1/namespaces/a/pods/p/binding",
    "query": "dryRun=All",
    "body": lambda: {"target": {"name": "n1"}, "metadata": {"name": "p"}},
}


@pytest.mark.parametrize(
    ("match", "hits"),
    [
        (Match(), True),
        (Match(method="POST", path="binding$"), True),
        (Match(method="GET"), False),
        (Match(path="^/apis/"), False),
        (Match(query="dryRun"), True),
        (Match(query="continue"), False),
        (Match(body={"target": {"name": "n1"}}), True),
        (Match(body={"target": {"name": "n2"}}), False),
    ],
)
def test_match(match: Match, *, hits: bool) -> None:
    """A match looks at every part that it names and at nothing else."""
    assert match.hits(**_BINDING) is hits


def test_nth_and_times_choose_requests() -> None:
    """The second and third matching request are hit, no other."""
    faults = Faults()
    faults.add(Match(method="POST"), Action(answer=Answer(code=500)), nth=2, times=2)
    assert [bool(faults.struck(**_BINDING)) for _ in range(5)] == [False, True, True, False, False]


def test_removed_faults_release_and_hit_no_more() -> None:
    """A removed fault lets go of what it holds, and clearing leaves nothing in force."""
    faults = Faults()
    fault = faults.add(Match(), Action(hold=True), times=None)
    assert faults.remove(fault.id)
    assert not faults.remove(fault.id)
    assert not faults
    faults.add(Match(), Action(hold=True))
    faults.clear()
    assert faults.struck(**_BINDING) == []


async def test_release_is_remembered() -> None:
    """A request that comes after the release does not wait."""
    fault = Fault(id="f", match=Match(), action=Action(hold=True))
    fault.release()
    await fault.wait_released()
    assert fault.held_count == 0


def test_document_becomes_a_fault() -> None:
    """The JSON form says everything that the code form says."""
    answer = {"code": 503, "reason": "ServiceUnavailable", "retry_after_s": 1}
    document = {
        "match": {"method": "GET", "path": "pods", "query": "continue", "body": None},
        "nth": 2,
        "times": None,
        "action": {"answer": answer, "delay_s": 0.5, "cut": "after"},
    }
    match, action, nth, times = parse(document)
    assert match == Match(method="GET", path="pods", query="continue")
    expected = Answer(code=503, reason="ServiceUnavailable", retry_after_s=1)
    assert action == Action(answer=expected, delay_s=0.5, cut="after")
    assert (nth, times) == (2, None)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"matches": {}}, "unknown fields"),
        ({"match": {"verb": "GET"}}, "match: unknown fields"),
        ({"match": {"path": "("}}, "fault: "),
        ({"action": {"cut": "during"}}, "action.cut: expected before or after"),
        ({"action": {"answer": {"status": 500}}}, "fault: "),
        ([], "fault: expected an object"),
    ],
)
def test_wrong_documents_are_explained(document: Any, message: str) -> None:
    """A script with a mistake is refused with the place of the mistake."""
    with pytest.raises((ValueError, TypeError), match=message):
        parse(document)
