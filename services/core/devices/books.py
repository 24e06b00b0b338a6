"""The devices of a cluster, folded: slices, classes, claims, templates and taint rules, and what promises hold.

`snapshot()` is what one decision sees. It shares everything that does not change with the books, so that it costs as
much as the pools that changed since the last.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain

from services.core.allocations import ClaimAllocation, ClaimRef, DeviceId
from services.core.devices.claims import ClaimBooks, ClaimName, own_key, salvaged_uses
from services.core.devices.inventory import Devices, Memory
from services.core.devices.judging import Judge
from services.core.devices.pools import NO_USAGE, Pool, PoolState, Usage, build_pool, charged, state_of
from services.core.devices.promises import Holder, holder_of, uses_of_promise
from services.core.devices.reading_claims import Claim
from services.core.devices.reading_slices import read_slice
from services.core.devices.values import DeviceSlice, PoolId, Use
from services.core.manifests import FieldError
from services.core.objects import DeviceObject, Kind, Metadata, Node, NodeName, PodGroup, Uid

_PREPARED_SELECTORS = 256
"""So many expressions are judged when slices come; further ones when a decision asks for them."""


class DeviceBooks:
    """Not safe for use by two threads; snapshots are."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.claims = ClaimBooks()
        self._objects: dict[tuple[Kind, str, str], DeviceObject] = {}
        self._slices: dict[PoolId, dict[str, DeviceSlice]] = {}
        self._pool_of: dict[str, PoolId] = {}
        self._pools: dict[PoolId, Pool] = {}
        self._states: dict[PoolId, PoolState] = {}
        self._uses: dict[PoolId, dict[str, dict[Holder, Use]]] = {}
        self._held: dict[Holder, tuple[Use, ...]] = {}
        self._holds: dict[Holder, ClaimAllocation] = {}
        self._changed: set[PoolId] = set()
        self._by_node: dict[NodeName, tuple[PoolId, ...]] = {}
        self._shared: frozenset[PoolId] = frozenset()
        self._judge = Judge()
        self._expressions: dict[str, None] = {}
        self._memory = Memory()

    def known(self, kind: Kind, metadata: Metadata) -> DeviceObject | None:
        """Return what is known under a name, or None."""
        return self._objects.get((kind, metadata.namespace, metadata.name))

    def put(self, item: DeviceObject) -> bool:
        """Add or replace an object; tell whether anything of it that matters is new."""
        key = (item.kind, item.metadata.namespace, item.metadata.name)
        before = self._objects.get(key)
        self._objects[key] = item
        if item.kind is Kind.RESOURCE_SLICE:
            if before is not None and before.spec_json == item.spec_json:
                return False
            self._put_slice(item)
        else:
            self.claims.put(item)
            self._after(item)
        return True

    def remove(self, kind: Kind, metadata: Metadata) -> bool:
        """Take an object out; tell whether it was known."""
        known = self._objects.pop((kind, metadata.namespace, metadata.name), None)
        if known is None:
            return False
        if kind is Kind.RESOURCE_SLICE:
            self._take_slice(metadata.name)
        else:
            self.claims.remove(kind, known.metadata)
            self._after(known, is_gone=True)
        return True

    def put_group(self, group: PodGroup) -> None:
        """Know which claims belong to a group, so that pods with an equal entry share them."""
        key = (group.metadata.namespace, group.metadata.name)
        if group.claims:
            self.claims.groups[key] = group.claims
        else:
            self.claims.groups.pop(key, None)

    def remove_group(self, metadata: Metadata) -> None:
        """Forget a group."""
        self.claims.groups.pop((metadata.namespace, metadata.name), None)

    def hold(self, allocation: ClaimAllocation) -> None:
        """Let a promise take its devices, until it is released or the stream shows the claim allocated."""
        holder = holder_of(allocation.ref)
        self._holds[holder] = allocation
        self._settle(holder)

    def release(self, ref: ClaimRef) -> None:
        """Let go of what was held for a claim."""
        holder = holder_of(ref)
        self._holds.pop(holder, None)
        self._settle(holder)

    def has(self, allocation: ClaimAllocation) -> bool:
        """Tell whether the stream shows the claim with exactly these devices."""
        claim = self._claim_of(holder_of(allocation.ref))
        if claim is None or claim.allocation is None:
            return False
        promised = sorted((one.driver, one.pool, one.device) for one in allocation.results)
        return promised == sorted(use.device for use in claim.allocation.uses)

    def copy(self) -> "DeviceBooks":
        """Return books that can be changed without changing these. What selectors said is remembered in common."""
        twin = DeviceBooks()
        twin.claims = self.claims.copy()
        twin._objects = dict(self._objects)
        twin._slices = {pool: dict(slices) for pool, slices in self._slices.items()}
        twin._uses = {
            pool: {device: dict(uses) for device, uses in devices.items()} for pool, devices in self._uses.items()
        }
        for name in ("_pool_of", "_pools", "_states", "_held", "_holds", "_by_node", "_expressions"):
            setattr(twin, name, dict(getattr(self, name)))
        twin._changed, twin._shared = set(self._changed), self._shared
        twin._judge, twin._memory = self._judge, self._memory
        return twin

    def snapshot(
        self,
        *,
        nodes: Mapping[NodeName, Node] | None = None,
        without: Collection[Uid] = frozenset(),
        excluded: Iterable[DeviceId] = (),
    ) -> "Devices":
        """Return the devices for one decision.

        `nodes` are needed for pools that select nodes by labels, and for extended resources of device plugins. Promises
        to pods of `without` alone do not count. Devices that are `excluded` are nobody's.
        """
        self._refresh()
        ignored = {holder for holder, one in self._holds.items() if without and set(one.consumers) <= set(without)}
        states = dict(self._states)
        for pool in {use.device[:2] for holder in ignored for use in self._held.get(holder, ())} & states.keys():
            states[pool] = self._state(pool, ignored=ignored)
        for device in excluded:
            pool = (device.driver, device.pool)
            if pool in states:
                states[pool] = charged(states[pool], (Use(device=(*pool, device.device)),))
        return Devices(
            claims=self.claims,
            states=states,
            by_node=self._by_node,
            shared=self._shared,
            holds={holder: one for holder, one in self._holds.items() if holder not in ignored},
            nodes=nodes or {},
            judge=self._judge,
            memory=self._memory,
            prepared=self._expressions,
        )

    def _put_slice(self, item: DeviceObject) -> None:
        self._take_slice(item.metadata.name)
        try:
            known = read_slice(item)
        except FieldError:
            # Of which pool it is cannot be told; that pool lacks a slice, and is not used.
            return
        self._slices.setdefault(known.pool, {})[known.name] = known
        self._pool_of[known.name] = known.pool
        self._changed.add(known.pool)
        self._judge.prepare((known,), self._expressions)

    def _take_slice(self, name: str) -> None:
        pool = self._pool_of.pop(name, None)
        if pool is not None:
            del self._slices[pool][name]
            self._changed.add(pool)

    def _after(self, item: DeviceObject, *, is_gone: bool = False) -> None:
        """Follow what a change of claims, classes or rules means for devices."""
        if item.kind is Kind.DEVICE_TAINT_RULE:
            self._changed.update(self._slices)
        elif item.kind is Kind.RESOURCE_CLAIM:
            name = (item.metadata.namespace, item.metadata.name)
            own = own_key(item.metadata)
            self._set_uses(("claim", *name), () if is_gone else self._uses_of(name, item=item))
            for holder in (("name", *name), *([("own", *own)] if own else [])):
                if holder in self._holds:
                    self._settle(holder)
        self._prepare_new(item)

    def _prepare_new(self, item: DeviceObject) -> None:
        """Judge all slices by selectors of an object that were not known before."""
        named = self.claims.expressions_of(item.kind, item.metadata)
        new = [one for one in named if one not in self._expressions]
        for expression in dict.fromkeys(new):
            if len(self._expressions) < _PREPARED_SELECTORS:
                self._expressions[expression] = None
                self._judge.prepare(chain.from_iterable(one.values() for one in self._slices.values()), (expression,))

    def _uses_of(self, name: ClaimName, *, item: DeviceObject) -> tuple[Use, ...]:
        claim = self.claims.claims[name]
        if isinstance(claim, Claim):
            return claim.allocation.uses if claim.allocation is not None else ()
        return salvaged_uses(item)

    def _claim_of(self, holder: Holder) -> Claim | None:
        name = self._name_of(holder)
        claim = None if name is None else self.claims.claims.get(name)
        return claim if isinstance(claim, Claim) else None

    def _name_of(self, holder: Holder) -> ClaimName | None:
        """Return the claim that a promise is about, None while it does not exist."""
        kind, first, second = holder
        return self.claims.owned.get((first, second)) if kind == "own" else (first, second)

    def _settle(self, holder: Holder) -> None:
        """Let a promise take its devices, unless the claim itself holds some."""
        promise = self._holds.get(holder)
        claim = self._claim_of(holder)
        is_over = promise is None or (claim is not None and claim.allocation is not None)
        self._set_uses(holder, () if promise is None or is_over else uses_of_promise(promise))

    def _set_uses(self, holder: Holder, uses: Iterable[Use]) -> None:
        for use in self._held.pop(holder, ()):
            driver, pool, device = use.device
            self._uses[driver, pool][device].pop(holder, None)
            self._changed.add((driver, pool))
        counted = tuple(use for use in uses if not use.is_admin)
        for use in counted:
            driver, pool, device = use.device
            self._uses.setdefault((driver, pool), {}).setdefault(device, {})[holder] = use
            self._changed.add((driver, pool))
        if counted:
            self._held[holder] = counted

    def _refresh(self) -> None:
        """Bring the pools that changed up to date."""
        if not self._changed:
            return
        # Snapshots keep the index that they were given.
        self._by_node = dict(self._by_node)
        for identity in self._changed:
            slices = self._slices.get(identity)
            before = self._pools.get(identity)
            if not slices:
                self._slices.pop(identity, None)
                self._pools.pop(identity, None)
                self._states.pop(identity, None)
                self._index(before, None)
                continue
            pool = build_pool(identity, slices.values())
            self._pools[identity] = pool
            self._states[identity] = self._state(identity)
            self._index(before, pool)
        self._changed = set()

    def _index(self, before: Pool | None, after: Pool | None) -> None:
        """Know which pools a node has for itself, and which several may use."""
        old = None if before is None else (before.id, before.node)
        new = None if after is None else (after.id, after.node)
        if old == new:
            return
        if before is not None:
            name = NodeName(before.node)
            left = tuple(one for one in self._by_node.pop(name, ()) if one != before.id)
            if left:
                self._by_node[name] = left
            self._shared -= {before.id}
        if after is None:
            return
        if after.node:
            name = NodeName(after.node)
            self._by_node[name] = (*self._by_node.get(name, ()), after.id)
        else:
            self._shared |= {after.id}

    def _state(self, identity: PoolId, *, ignored: Collection[Holder] = frozenset()) -> PoolState:
        uses = self._uses.get(identity)
        usage = NO_USAGE if not uses else usage_of(uses, ignored=ignored)
        return state_of(self._pools[identity], usage=usage, rules=self.claims.rules.values())


def usage_of(uses: Mapping[str, Mapping[Holder, Use]], *, ignored: Collection[Holder]) -> Usage:
    """Return what holders take of a pool's devices."""
    taken: set[str] = set()
    shared: dict[str, dict[str, int]] = {}
    for device, holders in uses.items():
        for holder, use in holders.items():
            if holder in ignored:
                continue
            if use.consumed is None:
                taken.add(device)
                continue
            amounts = shared.setdefault(device, {})
            for name, amount in use.consumed:
                amounts[name] = amounts.get(name, 0) + amount
    return Usage(taken=frozenset(taken), shared=shared)
