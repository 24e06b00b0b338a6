"""The devices of a whole placement: every claim of every member, shared ones and pools of several nodes included.

Nodes whose claims can be served by their own devices alone are solved one by one; the others all together, because they
draw on the same devices. The same placement gets the same devices, in whatever order its members are named.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from services.core.allocations import ClaimAllocation, ClaimRef, DeviceResult
from services.core.devices.asking import Asking
from services.core.devices.capacity import consumption
from services.core.devices.claims import ClaimBooks
from services.core.devices.demanding import MAX_CONSUMERS, consumers_exceeded, without_served
from services.core.devices.demands import ClaimDemand, DeviceDemand, PodUse, SharedKey
from services.core.devices.fields import FieldDraft, asked_of, draft_field
from services.core.devices.judging import Judge
from services.core.devices.pools import PoolState
from services.core.devices.searching import MAX_STEPS, GaveUp, Picks, search
from services.core.devices.selecting import merged_selector
from services.core.devices.values import Ask, Device, NodeRule, PoolId
from services.core.exact_amounts import shown_amount
from services.core.objects import NodeName, Pod, Uid
from services.core.reasons import Reason, ReasonCode

_STEPS_PER_CLAIM = 200

Placement = Iterable[tuple[Pod, NodeName]]


class Ground(Protocol):
    """What an allocation needs to know: `inventory.Devices`."""

    claims: ClaimBooks
    judge: Judge
    states: dict[PoolId, PoolState]

    def use_of(self, pod: Pod) -> PodUse:
        """Return the claims of a pod."""
        ...

    def demand(self, pod: Pod) -> DeviceDemand:
        """Return what a pod demands, with what keeps it from being placed at all."""
        ...

    def reach(self, node: NodeName) -> tuple[PoolState, ...]:
        """Return the pools of which a node can use anything."""
        ...

    def reached(self, node: NodeName, identity: PoolId) -> int:
        """Return the bits of the devices of a pool that a node can use."""
        ...

    def selects(self, rule: NodeRule, name: NodeName) -> bool:
        """Tell whether a rule admits a node."""
        ...

    def served(self, node: NodeName, resources: Iterable[str]) -> frozenset[str]:
        """Return the extended resources that a device plugin of the node serves."""
        ...


@dataclass(slots=True, kw_only=True)
class _Claim:
    """One claim of the placement, with those who use it and the nodes where they are."""

    ref: ClaimRef
    demand: ClaimDemand
    order: tuple[str, ...]
    is_of_group: bool = False
    known_consumers: tuple[Uid, ...] = ()
    nodes: dict[NodeName, None] = field(default_factory=dict)
    consumers: dict[Uid, None] = field(default_factory=dict)


def allocate(ground: Ground, placement: Placement) -> tuple[ClaimAllocation, ...] | tuple[Reason, ...]:
    """Return what every claim gets, or why the devices do not suffice."""
    gathered = _gathered(ground, placement)
    if isinstance(gathered, tuple):
        return gathered
    ready: list[tuple[tuple[str, ...], ClaimAllocation]] = []
    problems: list[Reason] = []
    open_claims: list[_Claim] = []
    for claim in gathered:
        problem = _problem(ground, claim)
        if problem is not None:
            problems.append(problem)
        elif claim.demand.pinned is None:
            open_claims.append(claim)
        else:
            ready.append((claim.order, _reserved(claim)))
    if problems:
        return tuple(problems)
    for together in _groups(ground, open_claims):
        found = _served(ground, together)
        if isinstance(found, Reason):
            return (found,)
        ready.extend(found)
    return tuple(allocation for _, allocation in sorted(ready, key=lambda pair: pair[0]))


def _gathered(ground: Ground, placement: Placement) -> list[_Claim] | tuple[Reason, ...]:
    shared: dict[SharedKey, _Claim] = {}
    claims: list[_Claim] = []
    problems: list[Reason] = []
    for pod, node in sorted(placement, key=lambda pair: (pair[0].metadata.namespace, pair[0].metadata.name)):
        use = ground.use_of(pod)
        problems.extend(ground.demand(pod).problems)
        served = ground.served(node, use.extended)
        for index, one in enumerate(use.uses):
            demand = without_served(one.demand, served=served)
            if one.demand.extended and not demand.extended and demand.pinned is None:
                continue
            key = demand.shared
            claim = None if key is None else shared.get(key)
            if claim is None:
                claim = _Claim(
                    ref=one.ref,
                    demand=demand,
                    order=(pod.metadata.namespace, pod.metadata.name, f"{index:03}"),
                    is_of_group=one.is_of_group,
                    known_consumers=one.consumers,
                )
                claims.append(claim)
                if key is not None:
                    shared[key] = claim
            claim.nodes[node] = None
            claim.consumers[pod.metadata.uid] = None
    return tuple(problems) if problems else claims


def _problem(ground: Ground, claim: _Claim) -> Reason | None:
    """Return what keeps a claim from being used by all its users where they are."""
    pinned = claim.demand.pinned
    if pinned is not None:
        for node in claim.nodes:
            if not ground.selects(pinned, node):
                text = f"the devices of claim {claim.ref.name or claim.ref.entry} cannot be used on node {node}"
                return Reason(code=ReasonCode.CLAIM_NODE_MISMATCH, message=text, count=1, subject=node)
    if claim.is_of_group:
        return None
    count = len(set(claim.known_consumers) | set(claim.consumers))
    return consumers_exceeded(f"claim {claim.ref.name}", count) if count > MAX_CONSUMERS else None


def _reserved(claim: _Claim) -> ClaimAllocation:
    new = tuple(uid for uid in claim.consumers if uid not in claim.known_consumers)
    return ClaimAllocation(ref=claim.ref, consumers=new or tuple(claim.consumers), is_of_group=claim.is_of_group)


def _groups(ground: Ground, claims: Sequence[_Claim]) -> Iterator[list[_Claim]]:
    """Yield claims that may want the same devices: node by node, but together where pools of several nodes are used."""
    wide = {node for claim in claims if len(claim.nodes) > 1 or _draws_on_shared(ground, claim) for node in claim.nodes}
    apart: dict[NodeName, list[_Claim]] = {}
    together: list[_Claim] = []
    for claim in claims:
        if wide.isdisjoint(claim.nodes):
            apart.setdefault(next(iter(claim.nodes)), []).append(claim)
        else:
            together.append(claim)
    yield from apart.values()
    if together:
        yield together


def _draws_on_shared(ground: Ground, claim: _Claim) -> bool:
    asking = Asking(ground.claims)
    asking.task(claim.demand.spec)
    return any(
        asked_of(state, wish, judge=ground.judge).usable
        for node in claim.nodes
        for state in ground.reach(node)
        if not state.pool.node
        for wish in asking.wishes
    )


def _served(ground: Ground, claims: Sequence[_Claim]) -> list[tuple[tuple[str, ...], ClaimAllocation]] | Reason:
    """Return the devices of claims that are solved together, or why they do not suffice."""
    nodes = tuple(dict.fromkeys(node for claim in claims for node in claim.nodes))
    found = {state.pool.id: state for node in nodes for state in ground.reach(node)}
    states = tuple(sorted(found.values(), key=lambda one: (one.pool.binds, one.pool.id)))
    asking = Asking(ground.claims)
    ordered = sorted(claims, key=lambda one: (tuple(sorted(one.nodes)), one.order))
    rows: dict[tuple[NodeName, ...], tuple[int, ...]] = {}
    tasks = []
    for claim in ordered:
        where = tuple(sorted(claim.nodes))
        if where not in rows:
            rows[where] = tuple(_common(ground, where, state) for state in states)
        tasks.append(asking.task(claim.demand.spec, reach=rows[where]))
    drafted = draft_field(
        states, wishes=asking.wishes, reach=asking.reaches, attributes=asking.attributes, judge=ground.judge
    )
    shown = f"node {nodes[0]}" if len(nodes) == 1 else f"{len(nodes)} nodes"
    try:
        picks = search(drafted.field, tasks, max_steps=MAX_STEPS + _STEPS_PER_CLAIM * len(tasks))
    except GaveUp:
        text = f"the search for devices of {len(tasks)} claims on {shown} gave up"
        return Reason(code=ReasonCode.SEARCH_BUDGET_EXHAUSTED, message=text, count=len(tasks), subject="devices")
    if picks is None:
        text = f"the devices left do not suffice for {len(tasks)} claims on {shown}"
        return Reason(
            code=ReasonCode.DEVICES_INSUFFICIENT,
            message=text,
            count=len(tasks),
            subject=nodes[0] if len(nodes) == 1 else "",
        )
    return [(claim.order, _allocated(claim, one, drafted)) for claim, one in zip(ordered, picks, strict=True)]


def _common(ground: Ground, nodes: Iterable[NodeName], state: PoolState) -> int:
    mask = -1
    for node in nodes:
        mask &= ground.reached(node, state.pool.id)
    return mask


def _allocated(claim: _Claim, picks: Picks, drafted: FieldDraft) -> ClaimAllocation:
    results: list[DeviceResult] = []
    rules: list[NodeRule] = []
    is_local = False
    for request, (chosen, devices) in zip(claim.demand.spec.requests, picks, strict=True):
        ask = request.alternatives[chosen]
        name = f"{request.name}/{ask.name}" if ask.name else request.name
        for position in devices:
            state, index = drafted.origins[position]
            device = state.pool.devices[index]
            results.append(_result(state, device, ask=ask, request=name))
            is_local |= device.binds_to_node or bool(device.node.name)
            rules.append(device.node)
    return ClaimAllocation(
        ref=claim.ref,
        consumers=tuple(claim.consumers),
        results=tuple(results),
        node=next(iter(claim.nodes)) if is_local else NodeName(""),
        node_selector_json=b"" if is_local else merged_selector(rules),
        is_of_group=claim.is_of_group,
        extended=claim.demand.extended,
    )


def _result(state: PoolState, device: Device, *, ask: Ask, request: str) -> DeviceResult:
    consumed = consumption(device.capacity, requested=ask.capacity) if device.is_shareable else None
    return DeviceResult(
        request=request,
        driver=state.pool.id[0],
        pool=state.pool.id[1],
        device=device.name,
        is_admin=ask.is_admin,
        is_share=device.is_shareable,
        consumed=tuple((name, shown_amount(amount)) for name, amount in consumed or ()),
        tolerations=ask.tolerations,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
    )
