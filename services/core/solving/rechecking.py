"""Whether the very devices that a placement promised can still be had: the binder's look before it writes.

The API server accepts the same device in two claims, and one that does not exist (measured on 1.37.2): who allocates is
the only guard. What is judged is the devices; the claims themselves are read live when they are written.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from services.core.allocations import ClaimAllocation, DeviceResult
from services.core.devices.inventory import Devices
from services.core.devices.pools import PoolState
from services.core.devices.reading_claims import Claim
from services.core.devices.taints import are_tolerated
from services.core.exact_amounts import parse_amount
from services.core.objects import NodeName, Pod, Uid
from services.core.reasons import Reason, ReasonCode


class _Charges:
    """What the claims that were looked at before take of each pool, in this one look."""

    def __init__(self) -> None:
        self._whole: set[tuple[str, str, str]] = set()
        self._shared: dict[tuple[str, str, str, str], int] = {}
        self._paid: set[tuple[str, str, str]] = set()
        self._counters: dict[tuple[str, str, str, str], int] = {}

    def problem(self, state: PoolState, position: int, result: DeviceResult) -> str:
        """Charge a device, or a share of it; return what does not suffice, empty where all does."""
        device = state.pool.devices[position]
        identity = (*state.pool.id, device.name)
        if not result.is_share:
            if identity in self._whole:
                return "is promised twice"
            self._whole.add(identity)
        for name, text in result.consumed:
            key = (*identity, name)
            self._shared[key] = self._shared.get(key, 0) + parse_amount(text)
            known = device.capacity.get(name)
            if known is None or state.shares.get(position, {}).get(name, 0) + self._shared[key] > known.amount:
                return f"has not enough {name} left"
        if identity in self._paid or position in state.shares:
            return ""
        self._paid.add(identity)
        for group, counter, amount in device.counters:
            counted = (*state.pool.id, group, counter)
            self._counters[counted] = self._counters.get(counted, 0) + amount
            if self._counters[counted] > state.left[group, counter]:
                return f"needs more of counter {counter} than is left"
        return ""


def without_claims(pod: Pod) -> Pod:
    """Return a pod that is judged by nodes and amounts alone; of extended resources it says still what they are."""
    if not pod.devices.claims and not pod.devices.extended_claim:
        return pod
    return replace(pod, devices=replace(pod.devices, claims=(), extended_claim=""))


def lost_devices(
    devices: Devices, *, nodes: Mapping[Uid, NodeName], claims: Iterable[ClaimAllocation]
) -> dict[Uid, Reason]:
    """Return the members whose claims cannot have their promised devices any more, with the reason."""
    charges = _Charges()
    lost: dict[Uid, Reason] = {}
    for claim in claims:
        consumers = [uid for uid in claim.consumers if uid in nodes]
        if not consumers:
            continue
        problem = _problem(devices, claim, nodes={nodes[uid] for uid in consumers}, charges=charges)
        if problem:
            name = claim.ref.name or claim.ref.entry or "for extended resources"
            text = f"claim {name}: {problem}"
            reason = Reason(code=ReasonCode.PLACEMENT_STALE, message=text, count=1, subject=nodes[consumers[0]])
            lost |= dict.fromkeys(consumers, reason)
    return lost


def _problem(devices: Devices, claim: ClaimAllocation, *, nodes: Collection[NodeName], charges: _Charges) -> str:
    known = _known(devices, claim)
    if known is not None and known.allocation is not None:
        # As after a crash between writing and binding: what it has is not in its own way.
        rule = known.allocation.node
        return next(
            (f"it is allocated, out of reach of node {one}" for one in nodes if not devices.selects(rule, one)), ""
        )
    for result in claim.results:
        problem = _lost(devices, result, nodes=nodes, charges=charges)
        if problem:
            return f"device {result.driver}/{result.pool}/{result.device} {problem}"
    return ""


def _known(devices: Devices, claim: ClaimAllocation) -> Claim | None:
    """Return the claim as it is followed, None where it is not made or not seen yet."""
    ref = claim.ref
    name = (ref.namespace, ref.name) if ref.name else devices.claims.owned.get((ref.pod, ref.entry))
    found = None if name is None else devices.claims.claims.get(name)
    return found if isinstance(found, Claim) else None


def _lost(devices: Devices, result: DeviceResult, *, nodes: Collection[NodeName], charges: _Charges) -> str:
    state = devices.states.get((result.driver, result.pool))
    if state is None:
        # Where no slice at all is followed, nothing is known about any device.
        return "does not exist: its pool is gone" if devices.states else ""
    if state.pool.problem:
        return f"is in a pool that is not used: {state.pool.problem}"
    names = [one.name for one in state.pool.devices]
    if result.device not in names:
        return "does not exist"
    position = names.index(result.device)
    if not all(devices.reached(node, state.pool.id) >> position & 1 for node in nodes):
        return "is out of reach of its node"
    taints = state.taints.get(position)
    if taints and not are_tolerated(taints, result.tolerations):
        return "is tainted"
    if result.is_admin:
        return ""
    if not state.free >> position & 1:
        return "is in use"
    return charges.problem(state, position, result)
