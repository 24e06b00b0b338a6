"""Faults by script: which request is hit, the how manieth of its sort, and what happens to it.

A test (or a demo) that wants a lost answer, a slow API server or a 410 in the middle of a list adds a fault and then
runs the real client against it. Faults act on HTTP requests only, never on the sandbox's own controllers.
"""

import asyncio
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from services.sandbox.objects import Obj

Cut: TypeAlias = Literal["before", "after"]

_FIELDS = frozenset({"match", "nth", "times", "action"})
_MATCH_FIELDS = frozenset({"method", "path", "query", "lacks", "body"})
_ACTION_FIELDS = frozenset({"answer", "delay_s", "hold", "cut", "when"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which requests a fault is about; what is left open matches everything."""

    #: HTTP method, upper case; empty for all.
    method: str = ""
    #: Regular expression searched for in the path.
    path: str = ""
    #: Text that the raw query must contain.
    query: str = ""
    #: Text that the raw query must not contain, such as `dryRun`; empty for none.
    lacks: str = ""
    #: JSON that the body must contain: objects by field, everything else by equality.
    body: Obj | None = None

    def hits(self, *, method: str, path: str, query: str, body: Callable[[], Any]) -> bool:
        """Whether the request is meant; `body` is only called where this match looks at it."""
        if self.method and self.method != method:
            return False
        if self.path and not re.search(self.path, path):
            return False
        if (self.query and self.query not in query) or (self.lacks and self.lacks in query):
            return False
        return self.body is None or contains(body(), self.body)


def contains(found: Any, wanted: Any) -> bool:
    """Whether `found` has everything that `wanted` names."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(contains(found.get(key), value) for key, value in wanted.items())
    return bool(found == wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A refusal that the request gets as its answer."""

    code: int
    reason: str = ""
    message: str = "scripted fault"
    #: Seconds for a Retry-After header; none where 0.
    retry_after_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What happens to a request that is hit; the parts combine, waiting comes first."""

    answer: Answer | None = None
    delay_s: float = 0.0
    #: Wait until the fault is released or removed.
    hold: bool = False
    #: Cut the connection without an answer: before the request has any effect, or after it is stored.
    cut: Cut | None = None
    #: Whether answer, delay and hold come before the request has its effect or after it.
    when: Cut = "before"


@dataclass(slots=True, eq=False, kw_only=True)
class Fault:
    """One scripted fault and how often it has acted."""

    id: str
    match: Match
    action: Action
    #: The first matching request that is hit, counted from 1.
    nth: int = 1
    #: How many requests are hit from there on; None for all.
    times: int | None = 1
    seen_count: int = 0
    used_count: int = 0
    held_count: int = 0
    _used: asyncio.Event = field(default_factory=asyncio.Event)
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    def strikes(self) -> bool:
        """Count one matching request; whether this one is hit."""
        self.seen_count += 1
        if self.seen_count < self.nth or (self.times is not None and self.used_count >= self.times):
            return False
        self.used_count += 1
        self._used.set()
        return True

    def release(self) -> None:
        """Let every held request go on, also those that come later."""
        self._released.set()

    async def wait_used(self) -> None:
        """Return once a request was hit (and, for holds, stands waiting)."""
        await self._used.wait()

    async def wait_released(self) -> None:
        """Hold the calling request until the release."""
        self.held_count += 1
        try:
            await self._released.wait()
        finally:
            self.held_count -= 1

    def shown(self) -> Obj:
        """The fault as JSON for `GET /_sandbox/faults`."""
        counts = {"seen": self.seen_count, "used": self.used_count, "held": self.held_count}
        match = {
            "method": self.match.method,
            "path": self.match.path,
            "query": self.match.query,
            "lacks": self.match.lacks,
            "body": self.match.body,
        }
        return {"id": self.id, "match": match, "nth": self.nth, "times": self.times, **counts}


class Faults:
    """The faults in force, in the order in which they were added."""

    def __init__(self) -> None:
        self._faults: dict[str, Fault] = {}
        self._ids = itertools.count(1)

    def __bool__(self) -> bool:
        return bool(self._faults)

    def add(self, match: Match, action: Action, *, nth: int = 1, times: int | None = 1) -> Fault:
        """Put a fault in force."""
        fault = Fault(id=f"f{next(self._ids)}", match=match, action=action, nth=nth, times=times)
        self._faults[fault.id] = fault
        return fault

    def all(self) -> Sequence[Fault]:
        """Every fault in force, used up or not."""
        return tuple(self._faults.values())

    def remove(self, fault_id: str) -> bool:
        """Take one fault back and release what it holds; False where there is no such fault."""
        fault = self._faults.pop(fault_id, None)
        if fault is not None:
            fault.release()
        return fault is not None

    def clear(self) -> None:
        """Take all faults back and release what they hold."""
        for fault_id in tuple(self._faults):
            self.remove(fault_id)

    def struck(self, *, method: str, path: str, query: str, body: Callable[[], Any]) -> list[Fault]:
        """The faults that hit this request; each one counts it."""
        return [
            fault
            for fault in self.all()
            if fault.match.hits(method=method, path=path, query=query, body=body) and fault.strikes()
        ]


def _known(part: Any, allowed: frozenset[str], *, where: str) -> Obj:
    if part is None:
        return {}
    if not isinstance(part, dict):
        raise TypeError(f"{where}: expected an object, got {part!r}")
    if strange := sorted(set(part) - allowed):
        raise ValueError(f"{where}: unknown fields {strange}; expected some of {sorted(allowed)}")
    return part


def parse(document: Any) -> tuple[Match, Action, int, int | None]:
    """A fault as JSON describes it; raises ValueError or TypeError that names the wrong field."""
    whole: Mapping[str, Any] = _known(document, _FIELDS, where="fault")
    match = _known(whole.get("match"), _MATCH_FIELDS, where="match")
    action = _known(whole.get("action"), _ACTION_FIELDS, where="action")
    for name in ("cut", "when"):
        if action.get(name) not in {None, "before", "after"}:
            raise ValueError(f"action.{name}: expected before or after, got {action[name]!r}")
    try:
        re.compile(match.get("path", ""))
        answer = Answer(**action["answer"]) if action.get("answer") else None
    except (re.error, TypeError) as error:
        raise ValueError(f"fault: {error}") from error
    rest = {name: action[name] for name in ("delay_s", "hold", "cut", "when") if action.get(name) is not None}
    return Match(**match), Action(answer=answer, **rest), int(whole.get("nth", 1)), whole.get("times", 1)
