"""Node taints by condition and by cordon, and the eviction of pods that do not tolerate a NoExecute taint.

As in Kubernetes: a node that is not Ready (or unreachable, or under pressure, or unschedulable) carries a taint that
says so, and pods leave a NoExecute taint at once, or when the `tolerationSeconds` of their toleration are over.
"""

from collections.abc import Iterable, Mapping

from services.sandbox import table
from services.sandbox.cluster import Cluster
from services.sandbox.controllers.owned import split
from services.sandbox.deletion import DeleteOptions
from services.sandbox.objects import (
    Obj,
    condition_status,
    is_deleting,
    is_terminal,
    name_of,
    spec,
    uid_of,
    with_condition,
)
from services.sandbox.watching import Change, Stored

_PREFIX = "node.kubernetes.io/"
_BY_READY: Mapping[str, str] = {"False": "not-ready", "Unknown": "unreachable"}
_BY_PRESSURE: Mapping[str, str] = {
    "MemoryPressure": "memory-pressure",
    "DiskPressure": "disk-pressure",
    "PIDPressure": "pid-pressure",
    "NetworkUnavailable": "network-unavailable",
}
_OWN_KEYS = frozenset(_PREFIX + name for name in (*_BY_READY.values(), *_BY_PRESSURE.values(), "unschedulable"))


def wanted_taints(node: Obj) -> list[tuple[str, str]]:
    """Key and effect of the taints that the node's conditions and cordon ask for."""
    found = []
    unready = _BY_READY.get(condition_status(node, "Ready") or "True")
    if unready:
        found += [(_PREFIX + unready, "NoSchedule"), (_PREFIX + unready, "NoExecute")]
    for condition, name in _BY_PRESSURE.items():
        if condition_status(node, condition) == "True":
            found.append((_PREFIX + name, "NoSchedule"))
    if spec(node).get("unschedulable"):
        found.append((_PREFIX + "unschedulable", "NoSchedule"))
    return found


class NodeTaints:
    """Its keys are names of nodes."""

    name = "node-taints"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def observe(self, change: Change) -> Iterable[str]:
        """Every change of a node."""
        if change.stored.kind is table.NODE and change.type != "DELETED":
            yield name_of(change.stored.obj)

    def reconcile(self, key: str) -> float | None:
        """Add and remove the taints that are the node controller's own; leave all others."""
        stored = self._cluster.store.get(table.NODE, namespace="", name=key)
        if stored is None:
            return None
        taints = list(spec(stored.obj).get("taints") or ())
        wanted = wanted_taints(stored.obj)
        kept = [taint for taint in taints if taint["key"] not in _OWN_KEYS or (taint["key"], taint["effect"]) in wanted]
        known = {(taint["key"], taint["effect"]) for taint in kept}
        now = self._cluster.writer.now()
        for taint_key, effect in wanted:
            if (taint_key, effect) not in known:
                kept.append({"key": taint_key, "effect": effect, "timeAdded": now})
        holder = {name: value for name, value in spec(stored.obj).items() if name != "taints"}
        if kept:
            holder["taints"] = kept
        self._cluster.writer.commit(stored, {**stored.obj, "spec": holder})
        return None


def tolerates(toleration: Obj, taint: Obj) -> bool:
    """Whether one toleration covers one taint."""
    if toleration.get("effect") not in {None, "", taint["effect"]}:
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in {None, "", taint["key"]}
    return toleration.get("key") == taint["key"] and (toleration.get("value") or "") == (taint.get("value") or "")


def stay_s(pod: Obj, taints: Iterable[Obj]) -> float | None:
    """How long the pod may stay under these NoExecute taints; None for ever, 0 not at all."""
    shortest: float | None = None
    for taint in taints:
        covering = [one for one in spec(pod).get("tolerations") or () if tolerates(one, taint)]
        if not covering:
            return 0.0
        limits = [float(one["tolerationSeconds"]) for one in covering if one.get("tolerationSeconds") is not None]
        if limits:
            limit = max(0.0, min(limits))
            shortest = limit if shortest is None else min(shortest, limit)
    return shortest


class TaintEviction:
    """Its keys are `namespace/name` of bound pods."""

    name = "taint-eviction"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pods: dict[str, set[str]] = {}
        #: When the pod first stood under NoExecute taints, on the monotonic clock.
        self._since: dict[str, float] = {}

    def observe(self, change: Change) -> Iterable[str]:
        """Pods on nodes with NoExecute taints, and those of nodes that lose them."""
        obj, key = change.stored.obj, change.stored.key
        if change.stored.kind is table.NODE:
            before = no_execute(change.previous.obj) if change.previous else []
            if before != no_execute(obj):
                yield from tuple(self._pods.get(name_of(obj), ()))
        elif change.stored.kind is table.POD and spec(obj).get("nodeName"):
            bound = self._pods.setdefault(spec(obj)["nodeName"], set())
            if change.type == "DELETED":
                bound.discard(key)
                self._since.pop(key, None)
            elif key not in bound:
                bound.add(key)
                yield key

    def reconcile(self, key: str) -> float | None:
        """Evict the pod when it may not stay any longer."""
        namespace, name = split(key)
        stored = self._cluster.store.get(table.POD, namespace=namespace, name=name)
        if stored is None or is_deleting(stored.obj) or is_terminal(stored.obj):
            return None
        node = self._cluster.store.get(table.NODE, namespace="", name=spec(stored.obj).get("nodeName", ""))
        taints = no_execute(node.obj) if node else []
        limit_s = stay_s(stored.obj, taints)
        if not taints or limit_s is None:
            self._since.pop(key, None)
            return None
        now = self._cluster.clock.monotonic()
        left_s = self._since.setdefault(key, now) + limit_s - now
        if left_s > 0:
            return left_s
        evict(
            self._cluster,
            stored,
            reason="DeletionByTaintManager",
            message="Taint manager: deleting due to NoExecute taint",
        )
        return None


def evict(cluster: Cluster, stored: Stored, *, reason: str, message: str) -> None:
    """Delete a pod as the eviction controllers do: announced by its condition, and without asking its budgets."""
    marked = with_condition(
        stored.obj, now=cluster.writer.now(), type="DisruptionTarget", status="True", reason=reason, message=message
    )
    announced = cluster.writer.commit(stored, marked)
    cluster.remover.delete(announced, DeleteOptions(uid=uid_of(announced.obj)))


def no_execute(node: Obj) -> list[Obj]:
    """The NoExecute taints of a node."""
    return [taint for taint in spec(node).get("taints") or () if taint.get("effect") == "NoExecute"]
