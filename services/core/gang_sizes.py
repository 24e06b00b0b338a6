"""How many pods a gang needs at once, and how many there will be: from whatever object, label or annotation says so."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.core.membership import Source, role_of
from services.core.objects import GangId, GroupSource, Job, Pod, PodGroup, Uid

KUEUE_COUNT_ANNOTATION = "kueue.x-k8s.io/pod-group-total-count"
LWS_SIZE_ANNOTATION = "leaderworkerset.sigs.k8s.io/size"

_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GangSize:
    """What a gang needs. `whole` is how many pods there are when all have come, 0 where nothing says that.

    `roles` is the role of each member that has one. `problem` is what is wrong with where the size is stated.
    """

    needed: int
    whole: int = 0
    roles: Mapping[Uid, str]
    problem: str = ""


def size_of(gang: GangId, *, group: PodGroup | None, source: Source | None, living: Sequence[Pod]) -> GangSize:
    """Return the size of a gang whose `living` pods are those that run or may run."""
    roles = {pod.metadata.uid: role for pod in living if (role := role_of(pod, source=source))}
    if group is not None:
        # The basic policy asks for no quorum: each member runs as soon as it can.
        return GangSize(needed=group.min_count if group.is_gang else 1, roles=roles)
    match source:
        case Job():
            count = max(least_pods(source), 1)
            return GangSize(needed=count, whole=count, roles=roles)
        case GroupSource():
            needed = _needed_of(source, present=set(roles.values()))
            return GangSize(needed=max(needed, 1), whole=source.size, roles=roles)
        case _:
            return _size_by_pods(gang, living=living, roles=roles)


def least_pods(job: Job) -> int:
    """Return how many pods of a batch Job run at once."""
    return job.parallelism if job.completions is None else min(job.parallelism, job.completions)


def stated_count(pod: Pod) -> str:
    """Return what a pod of a Kueue group says of its size, as it is written."""
    return pod.metadata.annotations.get(KUEUE_COUNT_ANNOTATION, "")


def oldest_of(pods: Sequence[Pod]) -> Pod:
    """Return the pod that came first: what it says of its group counts."""
    return min(pods, key=lambda pod: (pod.metadata.created_at, pod.metadata.name))


def _needed_of(source: GroupSource, *, present: set[str]) -> int:
    if source.min_count is not None:
        return source.min_count
    return sum(role.count for role in source.roles if not role.is_late or role.name in present)


def _size_by_pods(gang: GangId, *, living: Sequence[Pod], roles: Mapping[Uid, str]) -> GangSize:
    """Return the size where no object states it: the pods do, or those that exist are all."""
    word = gang.partition("/")[0]
    if word == "pod" or not living:
        return GangSize(needed=1, whole=1, roles=roles)
    first = oldest_of(living)
    match word:
        case "kueue":
            return _size_by_text(stated_count(first), annotation=KUEUE_COUNT_ANNOTATION, of=first, roles=roles)
        case "lws" if LWS_SIZE_ANNOTATION in first.metadata.annotations:
            text = first.metadata.annotations[LWS_SIZE_ANNOTATION]
            return _size_by_text(text, annotation=LWS_SIZE_ANNOTATION, of=first, roles=roles)
        case _:
            return GangSize(needed=len(living), whole=len(living), roles=roles)


def _size_by_text(text: str, *, annotation: str, of: Pod, roles: Mapping[Uid, str]) -> GangSize:
    if text.isascii() and text.isdecimal() and len(text) < len(str(_MOST)) + 1 and 1 <= int(text) <= _MOST:
        return GangSize(needed=int(text), whole=int(text), roles=roles)
    shown = text[:40]
    problem = f"pod {of.metadata.name}: annotation {annotation}: expected a count of pods, such as 8, got {shown!r}"
    return GangSize(needed=1, roles=roles, problem=problem)
