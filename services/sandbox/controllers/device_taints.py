"""Eviction of pods whose devices are tainted NoExecute, by a DeviceTaintRule or by their driver (KEP-5055).

As the real controller does it: only pods that are on a node and in the claim's `reservedFor`; what they tolerate is
read from the allocation; then a plain deletion, which asks neither disruption budgets nor gangs.
"""

from collections.abc import Iterable, Iterator

from services.core.blast import NO_EXECUTE, allocated, device_of, is_selected, published, taint_of, tolerated_s
from services.sandbox import table
from services.sandbox.cluster import Cluster
from services.sandbox.controllers.owned import split
from services.sandbox.controllers.taints import evict
from services.sandbox.objects import Obj, is_deleting, is_terminal, namespace_of, spec, status, uid_of
from services.sandbox.watching import Change

_KINDS = frozenset({"DeviceTaintRule", "ResourceSlice"})


class DeviceTaintEviction:
    """Its keys are `namespace/name` of allocated claims."""

    name = "device-taint-eviction"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        #: When a pod first stood under a taint that it tolerates for a while, on the monotonic clock.
        self._since: dict[str, float] = {}

    def observe(self, change: Change) -> Iterable[str]:
        """Allocated claims, and all of them when rules or slices change."""
        kind, obj = change.stored.kind, change.stored.obj
        if kind is table.RESOURCE_CLAIM and change.type != "DELETED" and status(obj).get("allocation"):
            yield change.stored.key
        elif kind.kind in _KINDS and kind.group == table.RESOURCE:
            for claim in self._cluster.store.objects("resourceclaims", group=table.RESOURCE):
                if status(claim).get("allocation"):
                    yield f"{namespace_of(claim)}/{claim['metadata']['name']}"

    def reconcile(self, key: str) -> float | None:
        """Evict the consumers that may not stay any longer; returns when the next one may not."""
        namespace, name = split(key)
        claim = self._cluster.store.get(table.RESOURCE_CLAIM, namespace=namespace, name=name)
        if claim is None:
            return None
        limits = list(self._limits(claim.obj))
        waits = [
            self._evicted(consumer, namespace=namespace, limit_s=min(limits) if limits else None)
            for consumer in status(claim.obj).get("reservedFor") or ()
            if consumer.get("resource") == "pods"
        ]
        return min((wait for wait in waits if wait is not None), default=None)

    def _limits(self, claim: Obj) -> Iterator[float]:
        """How long each NoExecute taint of a claim's devices leaves its consumers; nothing for what is tolerated."""
        store = self._cluster.store
        rules = [
            rule
            for rule in store.objects("devicetaintrules", group=table.RESOURCE)
            if taint_of(rule).get("effect") == NO_EXECUTE
        ]
        of_slices = {
            device: definition.get("taints") or ()
            for _, device, definition in published(store.objects("resourceslices", group=table.RESOURCE))
        }
        for result in allocated(claim):
            device = device_of(result)
            taints = [taint_of(rule) for rule in rules if is_selected(rule, device)]
            taints += [one for one in of_slices.get(device, ()) if one.get("effect") == NO_EXECUTE]
            for taint in taints:
                limit_s = tolerated_s(result, taint)
                if limit_s is not None:
                    yield float(limit_s)

    def _evicted(self, consumer: Obj, *, namespace: str, limit_s: float | None) -> float | None:
        """Evict a pod whose time is over; returns how long it may stay, None for ever."""
        uid = str(consumer.get("uid"))
        stored = self._cluster.store.get(table.POD, namespace=namespace, name=str(consumer.get("name")))
        is_there = stored is not None and uid_of(stored.obj) == uid and spec(stored.obj).get("nodeName")
        if stored is None or not is_there or is_deleting(stored.obj) or is_terminal(stored.obj) or limit_s is None:
            self._since.pop(uid, None)
            return None
        now = self._cluster.clock.monotonic()
        left_s = self._since.setdefault(uid, now) + limit_s - now
        if left_s > 0:
            return left_s
        evict(
            self._cluster,
            stored,
            reason="DeletionByDeviceTaintManager",
            message="Device Taint manager: deleting due to NoExecute taint",
        )
        return None
