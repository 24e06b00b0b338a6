"""The `/_sandbox/…` paths: scripting faults, disturbing watches, switching APIs and reading what was asked.

They are for tests and demonstrations; no Kubernetes client knows them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from services.sandbox import faults
from services.sandbox.cluster import Cluster
from services.sandbox.objects import Obj

Answer = tuple[int, Any]


class Control:
    """Answers control requests over one sandbox."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._routes: Mapping[tuple[str, str], Callable[[Sequence[str], Any], Answer]] = {
            ("GET", "faults"): self._list_faults,
            ("POST", "faults"): self._add_fault,
            ("DELETE", "faults"): self._remove_faults,
            ("GET", "watches"): self._list_watches,
            ("POST", "watches"): self._disturb_watches,
            ("POST", "events"): self._send_event,
            ("GET", "requests"): self._list_requests,
            ("DELETE", "requests"): self._reset_requests,
            ("GET", "apis"): self._list_apis,
            ("POST", "apis"): self._switch_apis,
        }

    def answer(self, method: str, parts: Sequence[str], body: bytes) -> Answer:
        """Code and JSON for one control request; 400 names what was wrong with it."""
        route = self._routes.get((method, parts[0] if parts else ""))
        if route is None:
            known = sorted({f"{one_method} /_sandbox/{path}" for one_method, path in self._routes})
            return 404, {"error": f"no such control path: {method} {'/'.join(parts)}", "expected": known}
        try:
            return route(parts[1:], orjson.loads(body) if body else {})
        except (ValueError, TypeError, KeyError) as error:
            return 400, {"error": f"{type(error).__name__}: {error}"}

    def _list_faults(self, _rest: Sequence[str], _document: Any) -> Answer:
        return 200, [fault.shown() for fault in self._cluster.faults.all()]

    def _add_fault(self, rest: Sequence[str], document: Any) -> Answer:
        if rest:
            return self._release_fault(rest)
        match, action, nth, times = faults.parse(document)
        return 201, self._cluster.faults.add(match, action, nth=nth, times=times).shown()

    def _release_fault(self, rest: Sequence[str]) -> Answer:
        for fault in self._cluster.faults.all():
            if list(rest) == [fault.id, "release"]:
                fault.release()
                return 200, fault.shown()
        return 404, {"error": f"no such fault: {'/'.join(rest)}; expected ID/release"}

    def _remove_faults(self, rest: Sequence[str], _document: Any) -> Answer:
        if not rest:
            self._cluster.faults.clear()
            return 200, []
        if not self._cluster.faults.remove(rest[0]):
            return 404, {"error": f"no fault {rest[0]}"}
        return 200, []

    def _list_watches(self, _rest: Sequence[str], _document: Any) -> Answer:
        return 200, [
            {
                "kind": watch.scope.kind.plural,
                "version": watch.scope.version,
                "namespace": watch.scope.namespace,
                "queued": watch.queued,
                "sent": watch.sent_count,
            }
            for watch in self._cluster.watches.open()
        ]

    def _disturb_watches(self, _rest: Sequence[str], document: Obj) -> Answer:
        watches, kinds = self._cluster.watches, tuple(document.get("kinds") or ())
        action = document.get("action")
        if action == "break":
            return 200, {"broken": watches.break_open(kinds)}
        if action == "refuse":
            watches.refuse(kinds, code=int(document.get("code", 410)))
        elif action == "release":
            watches.release(kinds)
        elif action == "compact":
            watches.compact(kinds)
        else:
            raise ValueError(f"action: expected break, refuse, release or compact, got {action!r}")
        return 200, {}

    def _send_event(self, _rest: Sequence[str], document: Obj) -> Answer:
        sent = self._cluster.watches.send(document["kind"], type_=document["type"], obj=document["object"])
        return 200, {"watches": sent}

    def _list_requests(self, _rest: Sequence[str], _document: Any) -> Answer:
        traffic = self._cluster.traffic
        return 200, {"counts": traffic.shown(), "writes": [write.shown() for write in traffic.writes]}

    def _reset_requests(self, _rest: Sequence[str], _document: Any) -> Answer:
        self._cluster.traffic.reset()
        return 200, {}

    def _list_apis(self, _rest: Sequence[str], _document: Any) -> Answer:
        return 200, self._cluster.served.current()

    def _switch_apis(self, _rest: Sequence[str], document: Mapping[str, Sequence[str]]) -> Answer:
        for group, versions in document.items():
            self._cluster.serve(group, versions=versions)
        return 200, self._cluster.served.current()
