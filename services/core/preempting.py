"""Room for a gang that was refused: which pods of lower priority would have to go, and whether that would be enough.

Nobody is evicted in vain: victims are named only with a whole placement of the gang that rests on their going, and the
binder evicts them in the gang's transaction. Of the priorities the lowest that suffices is taken, and of its pods only
those whose places are needed. A gang goes whole where it would be left with fewer members than it needs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from services.core.decisions import Victim
from services.core.devices.demands import NO_DEMAND
from services.core.gangs import Gang
from services.core.inventory import Snapshot
from services.core.kin import Kin, KinOf
from services.core.objects import GangId, NodeName, Uid
from services.core.occupants import Occupant
from services.core.policy import TopologyPolicy
from services.core.quantities import MAX_AMOUNT
from services.core.reasons import Reason, ReasonCode
from services.core.solver import Placement, check, estimate, solve


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """Pods that go together, or not at all."""

    occupants: tuple[Occupant, ...]
    gang: GangId = GangId("")

    @property
    def priority(self) -> int:
        """The highest of its pods."""
        return max(one.pod.priority for one in self.occupants)


def make_room(
    gang: Gang,
    snapshot: Snapshot,
    *,
    kin_of: KinOf | None,
    excluded_nodes: Mapping[Uid, frozenset[NodeName]] | None,
    topology: TopologyPolicy,
) -> Placement | tuple[Reason, ...]:
    """Return a placement with its victims, or how many members could be placed were all pods of lower priority gone.

    Nothing is said where there are none, or where a member's `preemptionPolicy` is Never, or where members claim
    devices: whose claims would be freed is not followed by priority. The snapshot is changed only where the answer is a
    Placement: its members are on it beside the victims. Without `kin_of` nobody is evicted.
    """
    if any(pod.never_preempts for pod in gang.open):
        return ()
    if any(snapshot.devices.demand(pod) is not NO_DEMAND for pod in gang.open):
        return ()
    roomier = snapshot.without_lower_than(gang.priority)
    if roomier is None:
        return ()
    without, count = roomier
    answer = estimate(
        without,
        members=gang.open,
        needed=gang.needed,
        excluded_nodes=excluded_nodes,
        wish=gang.topology.wish,
        levels=topology.levels,
        placed=gang.placed,
    )
    victims = f"the {count} pods of lower priority" if count > 1 else "the one pod of lower priority"
    if answer.found >= gang.needed:
        if kin_of is not None:
            found = _placed_over(gang, snapshot, kin_of=kin_of, excluded_nodes=excluded_nodes, topology=topology)
            if found is not None:
                return found
        text = f"all {gang.needed} needed pods could be placed after pre-emption of {victims}; nobody is evicted"
        return (Reason(code=ReasonCode.PREEMPTION_WOULD_HELP, message=text, count=answer.found),)
    if answer.most is None:
        text = (
            f"{answer.found} of the {gang.needed} needed pods were found a place even after pre-emption of {victims}, "
            "without a search for more"
        )
    else:
        text = f"at most {answer.most} of the {gang.needed} needed pods placeable even after pre-emption of {victims}"
    return (Reason(code=ReasonCode.PREEMPTION_NOT_ENOUGH, message=text, count=answer.most or answer.found),)


def _placed_over(
    gang: Gang,
    snapshot: Snapshot,
    *,
    kin_of: KinOf,
    excluded_nodes: Mapping[Uid, frozenset[NodeName]] | None,
    topology: TopologyPolicy,
) -> Placement | None:
    """Place the gang where pods of the lowest priority that suffices are, and name those that have to go."""
    found = None
    priorities = snapshot.occupants.priorities_below(gang.priority)
    low, high = 0, len(priorities) - 1
    while low <= high:
        middle = (low + high) // 2
        roomier = snapshot.without_lower_than(priorities[middle] + 1)
        answer = None
        if roomier is not None:
            answer = solve(
                roomier[0],
                members=gang.open,
                needed=gang.needed,
                excluded_nodes=excluded_nodes,
                wish=gang.topology.wish,
                levels=topology.levels,
                placed=gang.placed,
            )
        if isinstance(answer, Placement):
            found, high = (priorities[middle], answer), middle - 1
        else:
            low = middle + 1
    if found is None:
        return None
    highest, placement = found
    units = _units(snapshot, nodes=frozenset(placement.nodes.values()), highest=highest, kin_of=kin_of)
    if units is None:
        return None
    needed = _needed(units, snapshot, gang=gang, placement=placement)
    for victims in (needed, units):
        if _holds(gang, snapshot, placement=placement, victims=victims):
            _take(gang, snapshot, placement)
            return replace(placement, victims=tuple(one for unit in victims for one in _victims(unit)))
    return None


def _victims(unit: _Unit) -> Iterable[Victim]:
    for one in unit.occupants:
        metadata = one.pod.metadata
        yield Victim(
            namespace=metadata.namespace,
            pod=metadata.name,
            uid=metadata.uid,
            node=one.node,
            priority=one.pod.priority,
            gang=unit.gang,
        )


def _units(snapshot: Snapshot, *, nodes: frozenset[NodeName], highest: int, kin_of: KinOf) -> tuple[_Unit, ...] | None:
    """Return the pods up to a priority on these nodes, with those that go with them, in the order of their going.

    None where somebody would have to go who must not, or who has a higher priority.
    """
    on_nodes: dict[GangId, list[Occupant]] = {}
    kin: dict[GangId, Kin] = {}
    for one in snapshot.occupants.below(highest + 1):
        if one.node in nodes and one.pod.metadata.uid not in snapshot.ignored:
            its = kin_of(one.pod)
            if its is None:
                return None
            kin.setdefault(its.gang, its)
            on_nodes.setdefault(its.gang, []).append(one)
    units: list[_Unit] = []
    for gang_id, here in on_nodes.items():
        if len(here) <= kin[gang_id].spare:
            units += [_Unit(occupants=(one,)) for one in here]
            continue
        found = [
            snapshot.occupants.get(uid)
            for pod in kin[gang_id].pods
            if (uid := pod.metadata.uid) not in snapshot.ignored
        ]
        whole = [one for one in found if one is not None]
        if any(one.pod.priority > highest for one in whole):
            return None
        ordered = sorted(whole, key=lambda one: (one.pod.metadata.namespace, one.pod.metadata.name))
        units.append(_Unit(occupants=tuple(ordered), gang=gang_id))
    # Low priorities go first, and of equal ones those that are the fewest pods, then the youngest.
    return tuple(sorted(units, key=_order_of_going))


def _order_of_going(unit: _Unit) -> tuple[int, int, float, str, str]:
    first = unit.occupants[0].pod.metadata
    youngest = max(one.pod.metadata.created_at.timestamp() for one in unit.occupants)
    return (unit.priority, len(unit.occupants), -youngest, first.namespace, first.name)


def _needed(units: tuple[_Unit, ...], snapshot: Snapshot, *, gang: Gang, placement: Placement) -> tuple[_Unit, ...]:
    """Return the units without those whose amounts fit beside the gang: the last to go are let stay first."""
    without = snapshot.without(_uids(units))
    requests = {pod.metadata.uid: pod.requests for pod in gang.open}
    left = without.free.copy()
    for uid, node in placement.nodes.items():
        for resource, amount in requests[uid].items():
            left[without.rows[node], without.columns[resource]] -= min(amount, MAX_AMOUNT)
    going: list[_Unit] = []
    for unit in reversed(units):
        asked: dict[tuple[int, int], int] = {}
        for one in unit.occupants:
            row = without.rows.get(one.node)
            if row is None:
                continue
            for resource, amount in one.pod.requests.items():
                place = (row, without.columns[resource])
                asked[place] = asked.get(place, 0) + min(amount, MAX_AMOUNT)
        if all(left[place] >= amount for place, amount in asked.items() if amount):
            for place, amount in asked.items():
                left[place] -= amount
        else:
            going.append(unit)
    return tuple(reversed(going))


def _holds(gang: Gang, snapshot: Snapshot, *, placement: Placement, victims: tuple[_Unit, ...]) -> bool:
    """Tell whether every rule holds for the members without these pods, and without these alone."""
    pods = {pod.metadata.uid: pod for pod in gang.open if pod.metadata.uid in placement.nodes}
    found = check(
        snapshot.without(_uids(victims)),
        pods=pods,
        nodes=placement.nodes,
        wish=gang.topology.wish,
        placed=gang.placed,
    )
    return not found


def _take(gang: Gang, snapshot: Snapshot, placement: Placement) -> None:
    """Take the members' amounts off the snapshot, where the victims still are: nobody else gets these places."""
    for pod in gang.open:
        node = placement.nodes.get(pod.metadata.uid)
        if node is None:
            continue
        for resource, amount in pod.requests.items():
            snapshot.free[snapshot.rows[node], snapshot.columns[resource]] -= min(amount, MAX_AMOUNT)
        snapshot.placed[pod.metadata.uid] = Occupant(pod=pod, node=node)


def _uids(units: Iterable[_Unit]) -> frozenset[Uid]:
    return frozenset(one.pod.metadata.uid for unit in units for one in unit.occupants)
