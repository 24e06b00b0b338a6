"""What was promised and what happened: judgements on what the witness saw. Pure."""

import itertools
import statistics
from dataclasses import dataclass

from services.cli.demo.objects import DemoGang
from services.cli.demo.witness import PodRecord, Witness
from services.core.decisions import Committed, Proposed, Refused, Repairing, RolledBack, Waiting

GPUS_PER_NODE = 8

GRACE_S = 0.5
"""The witness hears the API and the bus over two connections: shorter disagreements are its own delay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One promise, whether it was held, and what was seen."""

    text: str
    happened: str
    is_held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One measured time beside its goal; `goal_s` None where there is none."""

    text: str
    measured_s: float
    goal_s: float | None


def placed_whole(witness: Witness, gang: DemoGang) -> Promise:
    """Judge that every member of the gang ran, and that it took one committed transaction."""
    bound = [pod for pod in witness.of_gang(gang.name) if pod.bound_s is not None]
    finished = [pod for pod in bound if pod.finished_s is not None]
    commits = witness.decisions(gang.name, Committed)
    return Promise(
        text=f"{gang.name}: all {gang.members} pods are bound, in one transaction",
        happened=f"{len(bound)} bound, {len(finished)} finished, commits: {len(commits)}",
        is_held=len(bound) == gang.members and len(commits) == 1,
    )


def interleaved(witness: Witness, first: DemoGang, second: DemoGang) -> Promise:
    """Judge that the pods of two gangs came mixed, so that order of arrival could have split them."""
    order = [pod.gang for pod in sorted(witness.pods.values(), key=lambda pod: pod.created_s)]
    order = [name for name in order if name in {first.name, second.name}]
    changes = sum(left != right for left, right in itertools.pairwise(order))
    return Promise(
        text=f"pods of {first.name} and {second.name} arrive interleaved",
        happened=f"they alternated {changes} times",
        is_held=changes >= 3,  # noqa: PLR2004 - neither came first as a whole
    )


def waits_for(witness: Witness, waiting: DemoGang, running: DemoGang) -> Promise:
    """Judge that no pod of one gang was bound before the last pod of the other had finished."""
    ends = [pod.finished_s for pod in witness.of_gang(running.name) if pod.finished_s is not None]
    starts = [pod.bound_s for pod in witness.of_gang(waiting.name) if pod.bound_s is not None]
    early = sum(start < max(ends) for start in starts) if ends else len(starts)
    return Promise(
        text=f"{waiting.name} holds nothing while {running.name} runs",
        happened=f"{early} of its pods bound before {running.name}'s last GPU was free",
        is_held=early == 0 and len(ends) == running.members,
    )


def says_why(witness: Witness, gang: DemoGang, *, condition: dict[str, str]) -> Promise:
    """Judge that the gang said why it waits, on the bus and in its PodGroup."""
    waits = witness.decisions(gang.name, Waiting)
    codes = sorted(
        {
            reason.code.value
            for one in waits
            if isinstance(one.decision.event, Waiting)
            for reason in one.decision.event.reasons
        }
    )
    message = condition.get("message", "")
    is_held = condition.get("status") == "False" and "0 of the" in message and "nvidia.com/gpu" in message
    return Promise(
        text=f"{gang.name} says why it waits",
        happened=f"PodGroup: {message!r}; bus: {', '.join(codes) or 'nothing'}",
        is_held=is_held and bool(waits),
    )


def repaired(witness: Witness, gang: DemoGang) -> Promise:
    """Judge that a refused member was placed on another node and the gang committed whole."""
    repairs = witness.decisions(gang.name, Repairing)
    commits = [one.decision.event for one in witness.decisions(gang.name, Committed)]
    bound = [pod for pod in witness.of_gang(gang.name) if pod.bound_s is not None]
    lost = [pod for pod in bound if pod.leaving_s is not None and pod.finished_s is None]
    moved = sum(event.repaired for event in commits if isinstance(event, Committed))
    return Promise(
        text=f"{gang.name}: a binding that the API refuses is repaired around",
        happened=f"repairs: {len(repairs)}, moved: {moved}, bound: {len(bound)} of {gang.members}, lost: {len(lost)}",
        is_held=bool(repairs) and moved >= 1 and len(bound) == gang.members and not lost,
    )


def undone_whole(witness: Witness, gang: DemoGang) -> Promise:
    """Judge that a gang that cannot be repaired was taken back whole."""
    ends = [one.decision.event for one in witness.decisions(gang.name)]
    undone = [event for event in ends if isinstance(event, RolledBack)]
    refused = [event for event in ends if isinstance(event, Refused)]
    left = [pod for pod in witness.of_gang(gang.name) if pod.bound_s is not None and pod.leaving_s is None]
    taken_back = sum(len(event.undone) for event in undone)
    return Promise(
        text=f"{gang.name}: with repair-window 0s one refused binding undoes all",
        happened=f"{taken_back} of {gang.members} bound and taken back, {len(left)} left, then refused: {len(refused)}",
        is_held=taken_back == gang.members - 1 and not left,
    )


def never_partial(witness: Witness, gangs: tuple[DemoGang, ...]) -> Promise:
    """Judge that no gang was partly bound while it had no open transaction."""
    worst_s, where = 0.0, ""
    for gang in gangs:
        for start_s, end_s in rest_intervals(witness, gang):
            partial_s = _partial_s(witness.of_gang(gang.name), gang=gang, start_s=start_s, end_s=end_s)
            if partial_s > worst_s:
                worst_s, where = partial_s, gang.name
    return Promise(
        text="no gang is ever partly bound at rest",
        happened="never seen" if worst_s <= GRACE_S else f"{where} for {worst_s:.2f} s",
        is_held=worst_s <= GRACE_S,
    )


def never_sold_twice(witness: Witness) -> Promise:
    """Judge that no node ever held more pods than it has GPUs."""
    most, where = 0, ""
    for moment_s in sorted(pod.bound_s for pod in witness.pods.values() if pod.bound_s is not None):
        load: dict[str, int] = {}
        for pod in witness.pods.values():
            if pod.holds_gpu_at(moment_s):
                load[pod.node] = load.get(pod.node, 0) + 1
        node = max(load, key=lambda name: load[name], default="")
        if load.get(node, 0) > most:
            most, where = load[node], node
    return Promise(
        text=f"no GPU is promised twice ({GPUS_PER_NODE} a node)",
        happened=f"at most {most} in use, on {where}",
        is_held=0 < most <= GPUS_PER_NODE,
    )


def ended_once(witness: Witness) -> Promise:
    """Judge that each transaction has exactly one ending."""
    endings: dict[str, int] = {}
    begun = {one.decision.transaction for one in witness.heard if isinstance(one.decision.event, Proposed)}
    for one in witness.heard:
        if one.decision.ends_transaction:
            endings[one.decision.transaction] = endings.get(one.decision.transaction, 0) + 1
    twice = sum(count > 1 for count in endings.values())
    never = len(begun - set(endings))
    return Promise(
        text="each transaction ends exactly once",
        happened=f"{len(begun)} transactions: {never} open, {twice} ended twice",
        is_held=not twice and not never,
    )


def rest_intervals(witness: Witness, gang: DemoGang) -> list[tuple[float, float]]:
    """Return the intervals in which the gang had no open transaction, up to the last observation."""
    end_s = max(
        [one.at_s for one in witness.heard]
        + [pod.gone_s or pod.finished_s or pod.bound_s or pod.created_s for pod in witness.pods.values()],
        default=0.0,
    )
    intervals = []
    since_s: float | None = 0.0
    for one in witness.decisions(gang.name):
        if isinstance(one.decision.event, Proposed | Repairing) and since_s is not None:
            intervals.append((since_s, one.at_s))
            since_s = None
        elif one.decision.ends_transaction:
            since_s = one.at_s
    if since_s is not None:
        intervals.append((since_s, end_s))
    return intervals


def _partial_s(pods: list[PodRecord], *, gang: DemoGang, start_s: float, end_s: float) -> float:
    """Return for how long in a row some but too few members counted as placed."""
    moments = sorted(
        {start_s, end_s}
        | {
            moment
            for pod in pods
            for moment in (pod.bound_s, pod.leaving_s, pod.gone_s)
            if moment is not None and start_s <= moment <= end_s
        }
    )
    longest = run = 0.0
    for left, right in itertools.pairwise(moments):
        placed = sum(pod.counts_at(left) for pod in pods)
        run = run + right - left if 0 < placed < gang.members else 0.0
        longest = max(longest, run)
    return longest


def bind_time(witness: Witness, gang: DemoGang, *, goal_s: float | None) -> Timing:
    """Measure from the gang's last pod to its last binding."""
    pods = [pod for pod in witness.of_gang(gang.name) if pod.bound_s is not None]
    measured = max(pod.bound_s or 0.0 for pod in pods) - max(pod.created_s for pod in pods)
    return Timing(
        text=f"{gang.name}: last pod created → all {len(pods)} bound",
        measured_s=measured,
        goal_s=goal_s,
    )


def take_over_time(witness: Witness, waiting: DemoGang, running: DemoGang, *, goal_s: float | None) -> Timing:
    """Measure from the running gang's last finished pod to the waiting gang's first binding."""
    free_s = max(pod.finished_s or 0.0 for pod in witness.of_gang(running.name))
    first_s = min(pod.bound_s for pod in witness.of_gang(waiting.name) if pod.bound_s is not None)
    return Timing(
        text=f"{running.name}'s last GPU free → {waiting.name}'s first binding",
        measured_s=first_s - free_s,
        goal_s=goal_s,
    )


def median_s(values: list[float]) -> float:
    """Return the median of some seconds."""
    return statistics.median(values)
