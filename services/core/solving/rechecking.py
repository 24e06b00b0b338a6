"""Whether the very devices that a placement promised can still be had: the binder's look before it writes.

The API server accepts the same device in two claims, and one that does not exist (measured on 1.37.2): who allocates is
the only guard.
"""

from collections.abc import Iterable, Mapping

from services.core.allocations import ClaimAllocation, DeviceResult
from services.core.claim_promises import key_of
from services.core.devices.demanding import selectors_of
from services.core.devices.demands import PodClaimUse
from services.core.devices.fields import Asked, Wish, asked_of
from services.core.devices.inventory import Devices
from services.core.devices.pools import PoolState
from services.core.devices.values import Ask
from services.core.objects import NodeName, Pod, Uid
from services.core.reasons import Reason, ReasonCode


class _Charges:
    """What the claims that were looked at before take of each pool, in this one look."""

    def __init__(self) -> None:
        self._whole: set[tuple[str, str, str]] = set()
        self._shared: dict[tuple[str, str, str, str], int] = {}
        self._paid: set[tuple[str, str, str]] = set()
        self._counters: dict[tuple[str, str, str, str], int] = {}

    def problem(self, state: PoolState, position: int, *, share: tuple[tuple[str, int], ...] | None) -> str:
        """Charge a device, or a share of it; return what does not suffice, empty where all does."""
        device = state.pool.devices[position]
        identity = (*state.pool.id, device.name)
        if share is None:
            if identity in self._whole:
                return "is promised twice"
            self._whole.add(identity)
        for name, amount in share or ():
            key = (*identity, name)
            self._shared[key] = self._shared.get(key, 0) + amount
            used = state.shares.get(position, {}).get(name, 0)
            if used + self._shared[key] > device.capacity[name].amount:
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


def lost_devices(
    devices: Devices, *, pods: Mapping[Uid, Pod], nodes: Mapping[Uid, NodeName], claims: Iterable[ClaimAllocation]
) -> dict[Uid, Reason]:
    """Return the members whose claims cannot have their promised devices any more, with the reason."""
    charges = _Charges()
    lost: dict[Uid, Reason] = {}
    for claim in claims:
        consumers = [uid for uid in claim.consumers if uid in nodes]
        if not consumers:
            continue
        use = _use_of(devices, pods[consumers[0]], claim)
        problem = _problem(devices, claim, use=use, nodes={nodes[uid] for uid in consumers}, charges=charges)
        if problem:
            name = claim.ref.name or claim.ref.entry or "for extended resources"
            text = f"claim {name}: {problem}"
            reason = Reason(code=ReasonCode.PLACEMENT_STALE, message=text, count=1, subject=nodes[consumers[0]])
            lost |= dict.fromkeys(consumers, reason)
    return lost


def _use_of(devices: Devices, pod: Pod, claim: ClaimAllocation) -> PodClaimUse | None:
    """Return the pod's use of a claim, by what tells claims apart whether or not the object exists yet."""
    return next((one for one in devices.use_of(pod).uses if key_of(one.ref) == key_of(claim.ref)), None)


def _problem(
    devices: Devices,
    claim: ClaimAllocation,
    *,
    use: PodClaimUse | None,
    nodes: Iterable[NodeName],
    charges: _Charges,
) -> str:
    if use is None:
        return "the pod does not use it"
    if use.demand.pinned is not None:
        rule = use.demand.pinned
        return next(
            (f"it is allocated, out of reach of node {one}" for one in nodes if not devices.selects(rule, one)), ""
        )
    if not claim.results and use.demand.spec.requests:
        return "it has no devices any more"
    for result in claim.results:
        problem = _lost(devices, result, use=use, nodes=nodes, charges=charges)
        if problem:
            return f"device {result.driver}/{result.pool}/{result.device} {problem}"
    return ""


def _lost(
    devices: Devices, result: DeviceResult, *, use: PodClaimUse, nodes: Iterable[NodeName], charges: _Charges
) -> str:
    state = devices.states.get((result.driver, result.pool))
    if state is None:
        return "does not exist: its pool is gone"
    if state.pool.problem:
        return f"is in a pool that is not used: {state.pool.problem}"
    names = [one.name for one in state.pool.devices]
    if result.device not in names:
        return "does not exist"
    position = names.index(result.device)
    if not all(devices.reached(node, state.pool.id) >> position & 1 for node in nodes):
        return "is out of reach of its node"
    ask = _ask_of(use, result.request)
    asked = None if ask is None else _asked(devices, state, ask)
    if asked is None:
        return f"is for request {result.request}, which the claim does not have"
    if not asked.usable >> position & 1:
        return "is in use, tainted, or not what is asked for any more"
    if result.is_admin:
        return ""
    return charges.problem(state, position, share=asked.shares.get(position) if result.is_share else None)


def _ask_of(use: PodClaimUse, name: str) -> Ask | None:
    request, _, alternative = name.partition("/")
    return next(
        (
            ask
            for one in use.demand.spec.requests
            if one.name == request
            for ask in one.alternatives
            if not alternative or ask.name == alternative
        ),
        None,
    )


def _asked(devices: Devices, state: PoolState, ask: Ask) -> Asked | None:
    selectors = selectors_of(ask, devices.claims.classes)
    return None if selectors is None else asked_of(state, Wish(ask=ask, selectors=selectors), judge=devices.judge)
