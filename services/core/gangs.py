"""Which pods make a gang, and whether enough of them are here.

`services.core.membership` tells to which gang a pod belongs. How a member counts follows from its state:

====================  ===========================================================================
open                  ours, not bound, not gated, not terminating, not finished: to be placed
placed                Succeeded; or bound and not terminating, unless it Failed before any container started
gated                 carries scheduling gates
foreign               not bound and of another scheduler: invisible to us
gone                  terminating, or Failed before any container started: counts for nothing
unverified            its owner was not seen yet, or it contradicts its group: counts for nothing
====================  ===========================================================================

A member that Failed at its work counts as long as it is the last word: not where its controller has made another in its
place, and not where none of the gang is left on a node. So a Job that starts again after all of its pods have failed is
a gang again, and its pods are not bound one by one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from services.core.gang_sizes import oldest_of, size_of, stated_count
from services.core.gang_topology import NOTHING_STATED, StatedTopology, topology_of
from services.core.membership import COMPLETION_INDEX_LABEL, Membership, Source, Standing, named_gang
from services.core.names import SCHEDULER_NAME
from services.core.objects import GangId, GroupSource, Job, Pod, PodGroup, Uid, namespace_of

MAX_MEMBERS = 4096
"""Members of one gang; above it the gang waits with GangTooLarge."""
MAX_WAITING = 2 * MAX_MEMBERS
"""Pods that may wait under the name of one gang before it is refused by their number alone, and not put together."""


class MemberState(StrEnum):
    """How a pod counts in its gang."""

    OPEN = "open"
    PLACED = "placed"
    GATED = "gated"
    FOREIGN = "foreign"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """A gang at one moment. `is_declared` is False where pods name a group that does not exist.

    `group` is its PodGroup, `source` the object of another kind that declares it. `whole` is how many pods there are
    when all have come, 0 where nothing says so. `annotations` are those of whatever declares the gang; `trusted` names
    the owners that were taken at their word, `problem` what is wrong with where its size is stated.
    """

    id: GangId
    namespace: str
    min_count: int
    priority: int
    created_at: datetime
    is_declared: bool
    group: PodGroup | None
    open: tuple[Pod, ...] = ()
    placed: tuple[Pod, ...] = ()
    gated: tuple[Pod, ...] = ()
    foreign: tuple[Pod, ...] = ()
    gone: tuple[Pod, ...] = ()
    unverified: tuple[Pod, ...] = ()
    source: Source | None = None
    whole: int = 0
    annotations: Mapping[str, str] = field(default_factory=dict)
    topology: StatedTopology = NOTHING_STATED
    is_suspended: bool = False
    trusted: tuple[str, ...] = ()
    problem: str = ""

    @property
    def is_complete(self) -> bool:
        """True where all pods have come that ever will, so that none has to be waited for."""
        return 0 < self.whole <= self.existing

    @property
    def is_short(self) -> bool:
        """True where members lack for a reason that has to be told, though none is open."""
        return bool(self.gated or self.unverified) and self.existing < self.min_count

    @property
    def existing(self) -> int:
        """Members that count towards `min_count`, or will when they are placed."""
        return len(self.open) + len(self.placed)

    @property
    def needed(self) -> int:
        """Open members that must be placed at once: at least one, where there is anything to place."""
        return max(self.min_count - len(self.placed), 1)

    @property
    def order(self) -> tuple[int, datetime, str]:
        """Sort key of the queue: higher priority, then older, then by name."""
        return (-self.priority, self.created_at, self.id)


def gang_id_of(pod: Pod) -> GangId:
    """Return the gang that a pod names itself, without regard to its owners: `Cluster.gang_id_of` knows these too."""
    named = named_gang(pod)
    return GangId(f"pod/{pod.metadata.namespace}/{pod.metadata.name}") if named is None else named.gang


def group_gang_id(group: PodGroup) -> GangId:
    """Return the gang that a PodGroup declares."""
    return GangId(f"podgroup/{group.metadata.namespace}/{group.metadata.name}")


def state_of(pod: Pod) -> MemberState:
    """Return how a pod counts in its gang."""
    if pod.phase == "Succeeded":
        return MemberState.PLACED
    # Before Failed: a deleted pod of a Job fails, and stays until the Job has counted it, but another will replace it.
    if pod.is_terminating:
        return MemberState.GONE
    if pod.phase == "Failed":
        return MemberState.PLACED if pod.has_started else MemberState.GONE
    if pod.node:
        return MemberState.PLACED
    if pod.scheduler_name != SCHEDULER_NAME:
        return MemberState.FOREIGN
    return MemberState.GATED if pod.is_gated else MemberState.OPEN


def is_ours(pods: Iterable[Pod]) -> bool:
    """Tell whether we place this gang: at least one of its pods names our scheduler."""
    return any(pod.scheduler_name == SCHEDULER_NAME for pod in pods)


def assemble(
    gang: GangId,
    *,
    pods: Iterable[Pod],
    group: PodGroup | None = None,
    source: Source | None = None,
    memberships: Mapping[Uid, Membership] | None = None,
) -> Gang:
    """Return the gang that these pods make now, with the object that declares it. Members are in name order.

    `memberships` say which of the pods are members for certain; without them all are.
    """
    known = memberships or {}
    members: dict[MemberState, list[Pod]] = {state: [] for state in MemberState}
    ordered, unverified = _verified(gang, sorted(pods, key=lambda pod: pod.metadata.name), memberships=known)
    for pod in ordered:
        members[state_of(pod)].append(pod)
    past = _past_failures(members)
    placed = tuple(pod for pod in members[MemberState.PLACED] if pod.metadata.uid not in past)
    living = [*members[MemberState.OPEN], *placed, *members[MemberState.GATED]]
    size = size_of(gang, group=group, source=source, living=living)
    declaration = group or source
    trusted = {
        f"{owner.kind} {owner.name}"
        for pod in ordered
        if (one := known.get(pod.metadata.uid)) and one.standing is Standing.TRUSTED and (owner := one.missing)
    }
    return Gang(
        id=gang,
        namespace=namespace_of(gang),
        min_count=size.needed,
        priority=_priority(group, pods=ordered),
        created_at=_created_at(declaration, pods=(*ordered, *unverified)),
        is_declared=declaration is not None or bool(trusted) or gang.startswith(_UNDECLARED),
        group=group,
        open=tuple(members[MemberState.OPEN]),
        placed=placed,
        gated=tuple(members[MemberState.GATED]),
        foreign=tuple(members[MemberState.FOREIGN]),
        gone=tuple(members[MemberState.GONE]),
        unverified=tuple(unverified),
        source=source,
        whole=size.whole,
        annotations=_annotations(gang, declaration=declaration, pods=ordered),
        topology=topology_of(group=group, source=source, members=living, roles=size.roles),
        is_suspended=isinstance(source, GroupSource | Job) and source.is_suspended,
        trusted=tuple(sorted(trusted)),
        problem=size.problem,
    )


_UNDECLARED = ("pod/", "kueue/")
"""Gangs that no object declares: their pods alone do."""


def _verified(
    gang: GangId, pods: Sequence[Pod], *, memberships: Mapping[Uid, Membership]
) -> tuple[list[Pod], list[Pod]]:
    """Divide pods into members and those that are none yet: their owner was not seen, or they gainsay their group."""
    sure: list[Pod] = []
    unverified: list[Pod] = []
    for pod in pods:
        membership = memberships.get(pod.metadata.uid)
        is_unseen = membership is not None and membership.standing is Standing.UNSEEN
        (unverified if is_unseen else sure).append(pod)
    if gang.startswith("kueue/") and sure:
        # Whoever names the group with another size is mistaken or a stranger, and does not hold it up.
        count = stated_count(oldest_of(sure))
        unverified += [pod for pod in sure if stated_count(pod) != count]
        sure = [pod for pod in sure if stated_count(pod) == count]
    return sure, [pod for pod in unverified if state_of(pod) is not MemberState.GONE]


def _created_at(declaration: PodGroup | Source | None, *, pods: Sequence[Pod]) -> datetime:
    if declaration is not None:
        return declaration.metadata.created_at
    # A gang without pods is never ordered.
    return min((pod.metadata.created_at for pod in pods), default=datetime.min)  # noqa: DTZ901


def _annotations(gang: GangId, *, declaration: PodGroup | Source | None, pods: Sequence[Pod]) -> Mapping[str, str]:
    if declaration is not None:
        return declaration.metadata.annotations
    return oldest_of(pods).metadata.annotations if pods and gang.startswith(_UNDECLARED) else {}


def _past_failures(members: Mapping[MemberState, list[Pod]]) -> frozenset[Uid]:
    """Return the members that Failed at their work, and whose place is that of others by now."""
    failed = [pod for pod in members[MemberState.PLACED] if pod.phase == "Failed"]
    newcomers = (*members[MemberState.OPEN], *members[MemberState.GATED], *members[MemberState.FOREIGN])
    if not failed or not newcomers:
        return frozenset()
    if all(pod.is_finished for pod in members[MemberState.PLACED]):
        return frozenset(pod.metadata.uid for pod in failed)
    failures: dict[_Place, list[Pod]] = {}
    for pod in failed:
        if (place := _place_of(pod)) is not None:
            failures.setdefault(place, []).append(pod)
    living = (*newcomers, *(pod for pod in members[MemberState.PLACED] if pod.phase != "Failed"))
    arrivals: dict[_Place | None, list[datetime]] = {}
    for pod in living:
        arrivals.setdefault(_place_of(pod), []).append(pod.metadata.created_at)
    past: set[Uid] = set()
    for place, pods in failures.items():
        pods.sort(key=lambda pod: (pod.metadata.created_at, pod.metadata.name))
        # The same index is one place, of which the last pod counts; without indexes, each later pod may be a successor.
        later = sum(moment >= pods[0].metadata.created_at for moment in arrivals.get(place, ()))
        kept = max((1 if place[1] else len(pods)) - later, 0)
        past.update(pod.metadata.uid for pod in pods[: len(pods) - kept])
    return frozenset(past)


_Place = tuple[Uid, str]
"""Controller and index of a pod; the index is empty where its controller gives none."""


def _place_of(pod: Pod) -> _Place | None:
    controller = next((owner.uid for owner in pod.metadata.owners if owner.is_controller), None)
    return None if controller is None else (controller, pod.metadata.labels.get(COMPLETION_INDEX_LABEL, ""))


def _priority(group: PodGroup | None, *, pods: Iterable[Pod]) -> int:
    """Return the group's priority; its pods' where it states none, as where the API server does not know that field."""
    if group is not None and (group.priority or group.priority_class):
        return group.priority
    return max((pod.priority for pod in pods), default=0)
