"""Disturbing watches on request: breaking them, refusing new ones, forgetting history, sending stray events."""

from collections.abc import Collection as Names
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from services.sandbox.failures import ApiError, expired
from services.sandbox.kinds import Kind
from services.sandbox.objects import Obj
from services.sandbox.store import Store
from services.sandbox.watching import Scope, Watch, event_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """How new watches of a kind are turned away: 410 comes as an ERROR event, everything else as the answer."""

    code: int
    message: str = "scripted fault"


class WatchInterference:
    """Power over the open and future watches of a store; kinds are given by plural, none means all."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._refusals: dict[Kind, Refusal] = {}

    def _kinds(self, plurals: Names[str]) -> Iterable[Kind]:
        known = {kind.plural for kind in self._store.kinds}
        if strange := sorted(set(plurals) - known):
            raise ValueError(f"kinds: {strange} are not in the sandbox; expected some of {sorted(known)}")
        return [kind for kind in self._store.kinds if not plurals or kind.plural in plurals]

    def open(self, plurals: Names[str] = ()) -> list[Watch]:
        """The open watches."""
        watches = (watch for kind in self._kinds(plurals) for watch in self._store.collection(kind).watches)
        return [watch for watch in watches if watch.is_open]

    def break_open(self, plurals: Names[str] = ()) -> int:
        """End the open watches abruptly; returns how many."""
        found = self.open(plurals)
        for watch in found:
            watch.break_off()
        return len(found)

    def refuse(self, plurals: Names[str] = (), *, code: int = 410, message: str = "scripted fault") -> None:
        """Turn new watches away until `release`."""
        for kind in self._kinds(plurals):
            self._refusals[kind] = Refusal(code=code, message=message)

    def release(self, plurals: Names[str] = ()) -> None:
        """Take new watches again."""
        for kind in self._kinds(plurals):
            self._refusals.pop(kind, None)

    def compact(self, plurals: Names[str] = ()) -> None:
        """Forget the history of these kinds: the next resume from an older revision gets 410."""
        for kind in self._kinds(plurals):
            self._store.compact(kind)

    def check(self, scope: Scope) -> None:
        """Raise what a new watch of this scope is refused with, if anything."""
        refusal = self._refusals.get(scope.kind)
        if refusal is None:
            return
        gone = 410
        if refusal.code == gone:
            raise expired(f"too old resource version: {refusal.message}")
        raise ApiError(refusal.code, reason="ServiceUnavailable", message=refusal.message)

    def send(self, plural: str, *, type_: str, obj: Obj) -> int:
        """Send one raw event to the open watches of a kind without touching the store; returns how many got it."""
        found = self.open((plural,))
        for watch in found:
            head = {"kind": watch.scope.kind.kind, "apiVersion": watch.scope.kind.api_version(watch.scope.version)}
            watch.offer_line(event_line(type_, orjson.dumps({**head, **obj})))
        return len(found)
