"""The words in which a row of the contract is written: plain data, no behaviour.

A row is: some calls that must simply work (`setup`), then calls with their expected answers, and optionally what an
open watch must have seen of them. Texts may hold `$ns` (the row's own namespace) and every name that an earlier call
saved. Expected JSON is a subset: what is not named does not matter.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Json = Any

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"

Side = Literal["sandbox", "kubernetes"]
SIDES: tuple[Side, ...] = ("sandbox", "kubernetes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A request body: an object saved earlier with changes merged in (null removes a field)."""

    saved: str
    changes: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Text:
    """In expected JSON: a string that contains this fragment."""

    fragment: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """In expected JSON: a string that this regular expression matches in full."""

    regex: str


class Contains(tuple[Json, ...]):
    """In expected JSON: a list with at least these items, in any order."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Count:
    """In expected JSON: a list of this length."""

    length: int


ANY = Pattern(r"(?s).+")
"""In expected JSON: any string that is not empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request and its answer."""

    verb: str
    path: str
    code: int
    body: Json = None
    content_type: str = JSON
    query: Mapping[str, str] | None = None
    reason: str = ""
    """`reason` of the Status answered."""
    causes: tuple[tuple[str, str], ...] = ()
    """(field, reason) pairs that must be among details.causes."""
    message: str = ""
    """A fragment of the Status' message."""
    answer: Mapping[str, Json] | None = None
    absent: tuple[str, ...] = ()
    """Dotted paths that the answer must not have."""
    save: Mapping[str, str] | None = None
    """Name -> dotted path in the answer (empty: all of it), for `$name` and `Edited` in later calls."""
    eventually: bool = False
    """Repeat until the expectation holds: for what controllers do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One watch event."""

    kind: str
    """ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""
    name: str = ""
    object: Mapping[str, Json] | None = None
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A watch that is opened after the set-up and what it must show, in this order."""

    path: str
    events: tuple[Event, ...]
    query: Mapping[str, str] | None = None
    """Without a resourceVersion the watch starts at the state after the set-up."""
    is_exact: bool = False
    """Nothing else may come up to the last event; otherwise further events may lie between."""
    ends: bool = False
    """The server closes the stream by itself after the events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the contract."""

    name: str
    calls: tuple[Call, ...]
    setup: tuple[Call, ...] = ()
    watch: Watch | None = None
    forgets_history: bool = False
    """After the set-up the server forgets all events so far, as by compaction of its storage."""
    only: Side | None = None
    because: str = ""
    """Why a row is true on one side only."""


def get(path: str, **expected: Any) -> Call:
    """GET, 200 unless told otherwise."""
    return Call(verb="GET", path=path, **({"code": 200} | expected))


def post(path: str, body: Json, **expected: Any) -> Call:
    """POST, 201 unless told otherwise."""
    return Call(verb="POST", path=path, body=body, **({"code": 201} | expected))


def put(path: str, body: Json, **expected: Any) -> Call:
    """PUT, 200 unless told otherwise."""
    return Call(verb="PUT", path=path, body=body, **({"code": 200} | expected))


def delete(path: str, body: Json = None, **expected: Any) -> Call:
    """DELETE, 200 unless told otherwise."""
    return Call(verb="DELETE", path=path, body=body, **({"code": 200} | expected))


def merge(path: str, body: Json, **expected: Any) -> Call:
    """JSON merge patch, 200 unless told otherwise."""
    return Call(verb="PATCH", path=path, body=body, content_type=MERGE, **({"code": 200} | expected))


def strategic(path: str, body: Json, **expected: Any) -> Call:
    """Strategic merge patch, 200 unless told otherwise."""
    return Call(verb="PATCH", path=path, body=body, content_type=STRATEGIC, **({"code": 200} | expected))


def json_patch(path: str, body: Json, **expected: Any) -> Call:
    """JSON patch, 200 unless told otherwise."""
    return Call(verb="PATCH", path=path, body=body, content_type=JSON_PATCH, **({"code": 200} | expected))
