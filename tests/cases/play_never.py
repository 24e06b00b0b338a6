"""What must not happen at any time, judged on everything that was recorded while the case was played.

A case's `never` is a sentence for people; what it means for this system is one function per case, written here. Every
case is also held to what holds always: no pod is bound twice, no transaction has two endings, no group is shown as
scheduled before it is.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from services.core.decisions import Proposed
from services.sandbox.objects import uid_of
from tests.cases.check import UnknownWord
from tests.cases.play_actions import INJECTED_SOURCE
from tests.cases.play_commands import Handled
from tests.cases.play_stage import Stage
from tests.cases.play_steps import Verb
from tests.e2e.recorder import ENDINGS, Seen

Problems = Iterable[str]


def judge_never(stage: Stage, *, handled: Iterable[Handled]) -> list[str]:
    """Return a sentence for each thing that should not have happened."""
    problems = [*_always(stage)]
    case = stage.script.case
    if "never" in case.expectation:
        judgement = NEVER.get(case.id)
        if judgement is None:
            raise UnknownWord(f"{case.id}: tests/cases/play_never.py does not say what its `never` means")
        problems += judgement(stage)
    problems += [
        f"message {one.id} was acknowledged although nothing came of it: {one.outcome}"
        for one in handled
        if one.is_acked and not one.outcome
    ]
    return problems


def own_decisions(stage: Stage) -> list[Seen]:
    """Return what the services decided, without what the harness put on the bus."""
    return [one for one in stage.system.recorder.seen if one.headers.get("ce-source") != INJECTED_SOURCE]


def _always(stage: Stage) -> Problems:
    bound = Counter(one.uid for one in stage.witness.bindings)
    for one in stage.witness.bindings:
        if bound[one.uid] > 1:
            yield f"pod {one.pod} with uid {one.uid} was bound {bound[one.uid]} times"
    endings = Counter(one.decision.transaction for one in own_decisions(stage) if isinstance(one.event, ENDINGS))
    for transaction, count in endings.items():
        if count > 1:
            yield f"transaction {transaction} ended {count} times"
    open_ones = stage.system.recorder.open()
    if open_ones:
        yield f"transactions are still open at the end: {[one.id for one in open_ones]}"
    yield from _shown_too_early(stage)
    for group in (ref.partition("/")[2] for ref in stage.manifests if ref.startswith("PodGroup/")):
        yield from _partly_bound(stage, group)


def _shown_too_early(stage: Stage) -> Problems:
    for shown in stage.witness.shown:
        needed = _min_count(stage, shown.group)
        if shown.bound_count < needed:
            yield f"group {shown.group} was shown as scheduled with {shown.bound_count} of {needed} members bound"


def _min_count(stage: Stage, group: str) -> int:
    manifest = stage.manifests[f"PodGroup/{group}"]
    return int(manifest["spec"]["schedulingPolicy"].get("gang", {}).get("minCount", 0))


def _partly_bound(stage: Stage, group: str) -> Problems:
    min_count = _min_count(stage, group)
    bound = stage.system.recorder.cluster.gang(stage.gang(group))
    if bound is not None and 0 < len(bound.placed) < min_count:
        yield f"group {group} is at rest with {len(bound.placed)} of {min_count} members bound"


def _deleted_member(stage: Stage) -> Problems:
    """C28: nothing is bound while too few members live, and the ending member plays no part any more."""
    for one in stage.witness.bindings:
        if len(one.live_members) < 3:
            yield f"pod {one.pod} was bound while only {len(one.live_members)} members lived"
    ending = next(step for step in stage.script.steps if step.verb is Verb.UPDATE)
    uid = uid_of(stage.witness.versions[ending.objects[0]][-1])
    if uid in {one.uid for one in stage.witness.bindings}:
        yield f"{ending.objects[0]} was bound although it was ending"
    proposals = [one.event for one in own_decisions(stage) if isinstance(one.event, Proposed)]
    promised = [proposal for proposal in proposals if uid in {one.uid for one in proposal.assignments}]
    if len(promised) > 1:
        yield f"{ending.objects[0]} was planned again after its deletion: {len(promised)} proposals"


def _lost_node(stage: Stage) -> Problems:
    """C26: nothing is bound or promised to a node that is gone, and the newcomer comes after the started gang."""
    gone = next(one.revision for one in stage.witness.deletions if one.ref == "Node/c26-n2")
    for one in stage.witness.bindings:
        if one.node == "c26-n2" and one.revision > gone:
            yield f"pod {one.pod} was bound to c26-n2 after its deletion"
    if late := {pod: node for pod, node in stage.promised().items() if node == "c26-n2"}:
        yield f"still promised to c26-n2: {late}"
    order = [one.pod for one in stage.witness.bindings]
    if "filler" in order and not {"g-1", "g-2"} <= set(order[: order.index("filler")]):
        yield f"filler was bound before the started gang: {order}"


def _lost_answers(stage: Stage) -> Problems:
    """C27: the member that somebody else bound is left in peace. Two bindings and free GPUs are judged elsewhere."""
    if "Pod/a-1" in {one.ref for one in stage.witness.deletions}:
        yield "pod a-1 was deleted"


def _stale_watch(stage: Stage) -> Problems:
    """C30: no decision rests on the state between the broken watch and the finished relist; the lost node is unused."""
    broken, relisted = stage.notes["broken_at"], stage.notes["relisted_at"]
    for one in own_decisions(stage):
        if isinstance(one.event, Proposed) and broken < one.event.revision < relisted:
            yield f"{one.decision.gang} was placed on revision {one.event.revision}, between {broken} and {relisted}"
    lost = "c30-n3"
    for one in own_decisions(stage):
        if isinstance(one.event, Proposed) and lost in {assignment.node for assignment in one.event.assignments}:
            yield f"{one.decision.gang} was placed on {lost}"


def _outdated_events(stage: Stage) -> Problems:
    """C41: the successors live. That m-7 took effect once, and before its acknowledgement, is counted elsewhere."""
    for ref, uid in stage.notes["stored"].items():
        if uid in {one.uid for one in stage.witness.deletions}:
            yield f"{ref} with uid {uid} was deleted"


NEVER: Mapping[str, Callable[[Stage], Problems]] = {
    "C26": _lost_node,
    "C27": _lost_answers,
    "C28": _deleted_member,
    "C30": _stale_watch,
    "C41": _outdated_events,
}
