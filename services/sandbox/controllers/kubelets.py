"""The kubelets of all nodes: they admit, run, finish and stop the pods that are bound to existing nodes.

Containers are not real, so pods say by annotation how they behave:
`sandbox.phalanx.dev/run-seconds`  how long the pod runs before it succeeds; `0` means until it is deleted.
    Without it only pods of Jobs finish, after the sandbox's default.
`sandbox.phalanx.dev/start-seconds`  how long it stays Pending on its node (default 0).
`sandbox.phalanx.dev/stop-seconds`  how long its containers take to stop (default 0, at most the grace period).
`sandbox.phalanx.dev/exit-code`  what its containers exit with; anything but 0 makes the pod Failed.
`sandbox.phalanx.dev/reject`  a reason (such as `OutOfcpu`) with which the kubelet refuses it.
On a node, `sandbox.phalanx.dev/kubelet: stopped` is a kubelet that has died: its pods neither start nor stop.
A kubelet also refuses pods that its node has no room for, and waits for claims that are not allocated and reserved.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from services.core.quantities import QuantityError, parse_quantity
from services.sandbox import quota, table
from services.sandbox.cluster import Cluster
from services.sandbox.controllers.owned import split
from services.sandbox.objects import (
    Obj,
    controller_of,
    is_deleting,
    is_terminal,
    metadata,
    spec,
    status,
    uid_of,
    with_condition,
    with_status,
)
from services.sandbox.watching import Change, Stored

ANNOTATION_PREFIX = "sandbox.phalanx.dev/"
RUN_SECONDS = ANNOTATION_PREFIX + "run-seconds"
START_SECONDS = ANNOTATION_PREFIX + "start-seconds"
STOP_SECONDS = ANNOTATION_PREFIX + "stop-seconds"
EXIT_CODE = ANNOTATION_PREFIX + "exit-code"
REJECT = ANNOTATION_PREFIX + "reject"
KUBELET = ANNOTATION_PREFIX + "kubelet"

_READY_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
_KILLED = 137


@dataclass(slots=True)
class _Seen:
    """When the kubelet first saw a pod in the states that take time, on the monotonic clock."""

    uid: str
    bound_at: float | None = None
    running_at: float | None = None
    stopping_at: float | None = None


class Kubelets:
    """All kubelets as one controller over pods."""

    name = "kubelets"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._store = cluster.store
        self._writer = cluster.writer
        self._seen: dict[str, _Seen] = {}
        #: What each admitted pod uses, and the sum of them by node.
        self._used: dict[str, tuple[str, Mapping[str, int]]] = {}
        self._totals: defaultdict[str, Counter[str]] = defaultdict(Counter)
        #: Pods that wait for a node or a claim to appear or change.
        self._waiting: dict[str, None] = {}
        self._addresses = itertools.count(1)

    def observe(self, change: Change) -> Iterable[str]:
        """Bound pods, and everything that a pod may wait for."""
        if change.stored.kind is table.POD:
            self._account(change)
            if spec(change.stored.obj).get("nodeName"):
                yield change.stored.key
        elif change.stored.kind in {table.NODE, table.RESOURCE_CLAIM} and self._waiting:
            waiting, self._waiting = self._waiting, {}
            yield from waiting

    def _account(self, change: Change) -> None:
        """Free the room of pods that have ended; it is taken at admission."""
        pod, key = change.stored.obj, change.stored.key
        if change.type == "DELETED" or is_terminal(pod):
            node_name, usage = self._used.pop(key, ("", {}))
            if usage:
                self._totals[node_name].subtract(usage)
        if change.type == "DELETED":
            self._seen.pop(key, None)
            self._waiting.pop(key, None)

    def reconcile(self, key: str) -> float | None:
        """Take one pod a step further in its life."""
        namespace, name = split(key)
        stored = self._store.get(table.POD, namespace=namespace, name=name)
        if stored is None or not spec(stored.obj).get("nodeName"):
            return None
        pod = stored.obj
        if not self._is_served(spec(pod)["nodeName"]):
            self._waiting[key] = None
            return None
        seen = self._seen.get(key)
        if seen is None or seen.uid != uid_of(pod):
            seen = self._seen[key] = _Seen(uid_of(pod))
        if is_deleting(pod):
            return self._stop(stored, seen)
        if is_terminal(pod):
            return None
        if status(pod).get("phase") == "Running":
            return self._finish(stored, seen)
        return self._start(stored, seen)

    def _is_served(self, node_name: str) -> bool:
        """Whether the node exists and its kubelet runs."""
        node = self._store.get(table.NODE, namespace="", name=node_name)
        return node is not None and (metadata(node.obj).get("annotations") or {}).get(KUBELET) != "stopped"

    def _left_s(self, since: float, duration_s: float) -> float:
        return since + duration_s - self._cluster.clock.monotonic()

    def _start(self, stored: Stored, seen: _Seen) -> float | None:
        pod = stored.obj
        if seen.bound_at is None:
            if (refusal := self._refusal(pod)) is not None:
                reason, message = refusal
                self._writer.commit(stored, with_status(pod, phase="Failed", reason=reason, message=message))
                return None
            seen.bound_at = self._cluster.clock.monotonic()
            usage = quota.usage_of(pod)
            self._used[stored.key] = (spec(pod)["nodeName"], usage)
            self._totals[spec(pod)["nodeName"]].update(usage)
        if not self._claims_are_usable(pod):
            self._waiting[stored.key] = None
            return None
        left_s = self._left_s(seen.bound_at, _seconds(pod, START_SECONDS, default=0.0))
        if left_s > 0:
            return left_s
        seen.running_at = self._cluster.clock.monotonic()
        self._writer.commit(stored, self._running(pod))
        return None

    def _refusal(self, pod: Obj) -> tuple[str, str] | None:
        """Why the kubelet does not admit the pod: reason and message."""
        wanted = (metadata(pod).get("annotations") or {}).get(REJECT)
        if wanted:
            return str(wanted), f"Pod was rejected: the annotation {REJECT} asks for it"
        node = self._store.get(table.NODE, namespace="", name=spec(pod)["nodeName"])
        room = status(node.obj).get("allocatable") or {} if node else {}
        used = self._totals[spec(pod)["nodeName"]]
        try:
            needed = quota.usage_of(pod)
        except QuantityError as error:
            return "UnexpectedAdmissionError", f"Pod was rejected: {error}"
        for counted, amount in needed.items():
            name = counted.removeprefix("requests.")
            if counted.startswith("limits.") or not amount:
                continue
            limit = parse_quantity(room.get(name, "0"), resource=name)
            if used[counted] + amount > limit:
                numbers = f"requested: {amount}, used: {used[counted]}, capacity: {limit}"
                return f"OutOf{name}", f"Pod was rejected: Node didn't have enough resource: {name}, {numbers}"
        return None

    def _claims_are_usable(self, pod: Obj) -> bool:
        """Whether every claim of the pod is allocated and reserved for it, without which no kubelet starts it."""
        generated = {
            entry.get("name"): entry.get("resourceClaimName")
            for entry in status(pod).get("resourceClaimStatuses") or ()
        }
        for entry in spec(pod).get("resourceClaims") or ():
            if entry.get("name") in generated and generated[entry["name"]] is None:
                continue  # the claim controller has decided that none is needed
            name = entry.get("resourceClaimName") or generated.get(entry.get("name"))
            namespace = metadata(pod)["namespace"]
            claim = self._store.get(table.RESOURCE_CLAIM, namespace=namespace, name=name) if name else None
            if claim is None or not status(claim.obj).get("allocation"):
                return False
            holders = {holder.get("uid") for holder in status(claim.obj).get("reservedFor") or ()}
            if uid_of(pod) not in holders:
                return False
        return True

    def _running(self, pod: Obj) -> Obj:
        now = self._writer.now()
        number = next(self._addresses)
        address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        containers = [
            {
                "name": container["name"],
                "image": container.get("image", ""),
                "imageID": "",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
                "lastState": {},
            }
            for container in spec(pod).get("containers") or ()
        ]
        changed = with_status(
            pod,
            phase="Running",
            startTime=now,
            hostIP="127.0.0.1",
            podIP=address,
            podIPs=[{"ip": address}],
            containerStatuses=containers,
        )
        for type_ in _READY_CONDITIONS:
            changed = with_condition(changed, now=now, type=type_, status="True")
        return changed

    def _finish(self, stored: Stored, seen: _Seen) -> float | None:
        pod = stored.obj
        if seen.running_at is None:
            seen.running_at = self._cluster.clock.monotonic()
        owner = controller_of(pod) or {}
        default_s = self._cluster.settings.run_s if owner.get("kind") == "Job" else 0.0
        run_s = _seconds(pod, RUN_SECONDS, default=default_s)
        if run_s <= 0:
            return None
        left_s = self._left_s(seen.running_at, run_s)
        if left_s > 0:
            return left_s
        code = int(_seconds(pod, EXIT_CODE, default=0.0))
        self._writer.commit(stored, self._ended(pod, code=code))
        return None

    def _ended(self, pod: Obj, *, code: int) -> Obj:
        now = self._writer.now()
        reason = "Error" if code else "Completed"
        containers = []
        for container in status(pod).get("containerStatuses") or ():
            started = ((container.get("state") or {}).get("running") or {}).get("startedAt")
            ended = {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now}
            containers.append({**container, "ready": False, "started": False, "state": {"terminated": ended}})
        phase = "Failed" if code else "Succeeded"
        changed = with_status(pod, phase=phase, containerStatuses=containers or None)
        condition_reason = "PodFailed" if code else "PodCompleted"
        for type_ in ("Ready", "ContainersReady"):
            changed = with_condition(changed, now=now, type=type_, status="False", reason=condition_reason)
        return changed

    def _stop(self, stored: Stored, seen: _Seen) -> float | None:
        pod = stored.obj
        if seen.stopping_at is None:
            seen.stopping_at = self._cluster.clock.monotonic()
        grace_s = float(metadata(pod).get("deletionGracePeriodSeconds") or 0)
        stop_s = min(_seconds(pod, STOP_SECONDS, default=0.0), grace_s)
        left_s = self._left_s(seen.stopping_at, stop_s)
        if left_s > 0:
            return left_s
        if not is_terminal(pod):
            # A kubelet reports the end of a pod before it lets the object go.
            stored = self._writer.commit(stored, self._ended(pod, code=_KILLED))
        self._cluster.remover.force(stored)
        return None


def _seconds(pod: Obj, annotation: str, *, default: float) -> float:
    """A number from an annotation; one that is not a number counts as absent."""
    text = (metadata(pod).get("annotations") or {}).get(annotation)
    try:
        return default if text is None else float(text)
    except ValueError:
        return default
