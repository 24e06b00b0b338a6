"""Which gangs an event concerns: those that have a new member, and those that wait for the room that came free.

An index of the least that could help each waiting gang answers the second question.

Gangs that wait for the same are one entry, so that of a thousand waiting gangs an event looks at a few amounts. Of many
that wait for the same room the first takes it, and the others are compared with what is left before they are tried.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from services.core.attention import GangRecord
from services.core.cluster import Cluster
from services.core.devices.demands import NO_DEMAND
from services.core.devices.inventory import Devices
from services.core.effects import Effects
from services.core.gangs import MemberState, state_of
from services.core.inventory import Inventory
from services.core.objects import Applied, ClusterChange, GangId, NodeName, Pod
from services.core.quantities import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """The smallest amounts that one open member asks for, and how many members are needed."""

    least: tuple[tuple[str, int], ...]
    needed: int


@dataclass(slots=True, kw_only=True)
class Wants:
    """What gangs wait for, and which gangs have an answer that says why they wait."""

    answered: set[GangId] = field(default_factory=set)
    minding_pods: set[GangId] = field(default_factory=set)
    minding_storage: set[GangId] = field(default_factory=set)
    minding_devices: set[GangId] = field(default_factory=set)
    minding_classes: set[GangId] = field(default_factory=set)
    _gangs: dict[Want, set[GangId]] = field(default_factory=dict)
    _wants: dict[GangId, Want] = field(default_factory=dict)

    def note(self, gang: GangId, record: GangRecord) -> None:
        """Follow what is remembered of a gang; to be called whenever its answer has changed."""
        (self.answered.add if record.answer is not None else self.answered.discard)(gang)
        waits = record.least is not None
        (self.minding_pods.add if waits and record.minds_pods else self.minding_pods.discard)(gang)
        (self.minding_storage.add if waits and record.minds_storage else self.minding_storage.discard)(gang)
        (self.minding_devices.add if waits and record.minds_devices else self.minding_devices.discard)(gang)
        (self.minding_classes.add if waits and record.minds_classes else self.minding_classes.discard)(gang)
        known = self._wants.pop(gang, None)
        if known is not None:
            self._gangs[known].discard(gang)
            if not self._gangs[known]:
                del self._gangs[known]
        if record.least is not None:
            want = Want(least=tuple(sorted(record.least.items())), needed=record.needed)
            self._wants[gang] = want
            self._gangs.setdefault(want, set()).add(gang)

    def of(self, gang: GangId) -> Want | None:
        """Return what a gang waits for, or None where it does not wait for room."""
        return self._wants.get(gang)

    def opened(self, effects: Effects) -> frozenset[GangId]:
        """Return the gangs that wait, and whose rules look at what has changed: pods elsewhere may open a domain."""
        found: set[GangId] = set()
        for moves, minding in (
            (effects.moves_pods, self.minding_pods),
            (effects.moves_storage, self.minding_storage),
            (effects.moves_devices, self.minding_devices),
            (effects.moves_classes, self.minding_classes),
        ):
            if moves:
                found |= minding
        return frozenset(found)

    def helped(self, opening: "Opening") -> Iterator[GangId]:
        """Return the gangs that the room could help."""
        for want, gangs in self._gangs.items():
            if opening.holds(want):
                yield from gangs


@dataclass(slots=True, kw_only=True)
class Opening:
    """Nodes that got room, and the gangs that were woken for nothing but that."""

    nodes: frozenset[NodeName]
    inventory: Inventory
    gangs: set[GangId] = field(default_factory=set)
    _free: list[dict[str, int]] = field(default_factory=list)
    _total: Resources = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look for the first time."""
        self.look()

    def look(self) -> None:
        """Note what is free on the nodes now, and on all nodes together."""
        if self.nodes:
            self._free = [self.inventory.free_on(name) for name in sorted(self.nodes)]
            self._total = self.inventory.total_free()

    def holds(self, want: Want) -> bool:
        """Tell whether one of the nodes could hold one member, and all nodes together the amounts that are needed."""
        if any(self._total.get(name, 0) < amount * want.needed for name, amount in want.least):
            return False
        return any(all(one.get(name, 0) >= amount for name, amount in want.least) for one in self._free)

    def is_over_for(self, want: Want | None) -> bool:
        """Tell whether others have taken what a gang waits for, that was woken by this room alone."""
        return want is None or not self.holds(want)


def least_of(pods: Iterable[Pod]) -> Resources:
    """Return the smallest amount of each resource that every one of the pods asks for."""
    least: dict[str, int] | None = None
    for pod in pods:
        if least is None:
            least = dict(pod.requests)
        else:
            least = {name: min(amount, pod.requests.get(name, 0)) for name, amount in least.items()}
    return {name: amount for name, amount in (least or {}).items() if amount > 0}


def note_refusal(record: GangRecord, pods: Iterable[Pod], *, needed: int, devices: Devices) -> None:
    """Note what of the cluster's changes could help these open members, that could not be placed."""
    members = tuple(pods)
    record.least, record.needed = least_of(members), needed
    record.minds_pods = any(pod.rules.looks_at_pods for pod in members)
    record.minds_storage = any(pod.rules.claims for pod in members)
    record.minds_devices = any(devices.demand(pod) != NO_DEMAND for pod in members)
    record.minds_classes = any(pod.devices.extended for pod in members)


def is_arrival(change: ClusterChange, *, cluster: Cluster) -> bool:
    """Tell whether the change is a new open member, and not news of one that the cluster knows."""
    if not isinstance(change, Applied) or not isinstance(change.object, Pod):
        return False
    pod = change.object
    if state_of(pod) is not MemberState.OPEN:
        return False
    known = cluster.pod(pod.metadata.namespace, pod.metadata.name)
    return known is None or known.metadata.uid != pod.metadata.uid or known.is_gated


def is_complete(cluster: Cluster, gang: GangId, *, record: GangRecord, now: datetime) -> bool:
    """Tell whether a gang need not be waited for, because all are here that its owner asks for.

    Of a PodGroup nothing says how many there will be.
    """
    if gang.startswith("podgroup/") or cluster.crowd(gang) or (record.retry_at is not None and record.retry_at > now):
        return False
    found = cluster.gang(gang)
    return found is not None and found.is_complete
