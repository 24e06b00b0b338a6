"""Plays one row of the contract against an API and reports every difference at once."""

import asyncio
import itertools
import ssl
import string
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import orjson

from tests.contract.kubernetes_api.comparison import answer_differences, at, event_matches, missing_events
from tests.contract.kubernetes_api.rows import Call, Edited, Event, Json, Row, Watch

_DEADLINE_S = 15.0
_POLL_EVERY_S = 0.02
_REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=30)
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None)


ForgetHistory = Callable[[], Awaitable[None]]


class Departure(AssertionError):
    """An API does not do what the row says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """How to reach one side."""

    url: str
    session: aiohttp.ClientSession
    tls: ssl.SSLContext | bool = True
    forget_history: ForgetHistory
    """Makes the side forget its past events."""
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    """Makes the names of namespaces unique."""

    async def request(self, call: Call) -> tuple[int, Json]:
        """Sends a call; returns the HTTP code and the decoded answer."""
        async with self.session.request(
            call.verb,
            self.url + call.path,
            params=call.query,
            data=None if call.body is None else orjson.dumps(call.body),
            headers={"Content-Type": call.content_type},
            ssl=self.tls,
            timeout=_REQUEST_TIMEOUT,
        ) as response:
            text = await response.read()
            return response.status, _decoded(text)


def _decoded(text: bytes) -> Json:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text.decode(errors="replace")


async def play(row: Row, *, api: Api) -> None:
    """Plays a row in a namespace of its own; raises Departure with all that differs."""
    scene = _Scene(api, names={"ns": f"row-{next(api.numbers)}"})
    await scene.run(_namespace())
    for call in row.setup:
        await scene.run(call)
    if row.forgets_history:
        await api.forget_history()
    if row.watch is None:
        for call in row.calls:
            await scene.run(call)
        return
    async with scene.watching(row.watch) as seen:
        for call in row.calls:
            await scene.run(call)
        await seen.finish()


def _namespace() -> Call:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "$ns"}}
    return Call(verb="POST", path="/api/v1/namespaces", body=body, code=201)


class _Scene:
    """The names and saved objects of one row while it is played."""

    def __init__(self, api: Api, *, names: Mapping[str, str]) -> None:
        self._api = api
        self._names: dict[str, str] = dict(names)
        self._saved: dict[str, Json] = {}

    async def run(self, call: Call) -> None:
        filled = self._filled(call)
        code, answer, found = await self._attempt(filled)
        if call.eventually and found:
            try:
                async with asyncio.timeout(_DEADLINE_S):
                    while found:
                        await asyncio.sleep(_POLL_EVERY_S)
                        code, answer, found = await self._attempt(filled)
            except TimeoutError:
                found.insert(0, f"not reached in {_DEADLINE_S:.0f} s")
        if found:
            lines = "\n  ".join(found)
            raise Departure(f"{filled.verb} {filled.path}\n  {lines}\n  answer {code}: {_short(answer)}")
        for name, path in (call.save or {}).items():
            self._saved[name] = at(answer, path)
            self._names[name] = str(self._saved[name])

    async def _attempt(self, call: Call) -> tuple[int, Json, list[str]]:
        code, answer = await self._api.request(call)
        return code, answer, list(answer_differences(call, code=code, answer=answer))

    def _filled(self, call: Call) -> Call:
        return replace(
            call,
            path=self.fill(call.path),
            body=self.fill(call.body),
            query=self.fill(call.query),
            message=self.fill(call.message),
            answer=self.fill(call.answer),
        )

    def fill(self, value: Any) -> Any:
        """The value with `$names` replaced and `Edited` bodies made."""
        match value:
            case str():
                return string.Template(value).safe_substitute(self._names)
            case Edited(saved=saved, changes=changes):
                return _merged(self._saved[saved], self.fill(changes))
            case Mapping():
                return {self.fill(key): self.fill(each) for key, each in value.items()}
            case list():
                return [self.fill(each) for each in value]
            case tuple():
                return type(value)(self.fill(each) for each in value)
        if hasattr(value, "fragment"):
            return replace(value, fragment=self.fill(value.fragment))
        return value

    @asynccontextmanager
    async def watching(self, watch: Watch) -> AsyncIterator["_Seen"]:
        path = self.fill(watch.path)
        query = dict(self.fill(watch.query or {}))
        if "resourceVersion" not in query:
            _, listed = await self._api.request(Call(verb="GET", path=path, code=200))
            query["resourceVersion"] = at(listed, "metadata.resourceVersion")
        async with self._api.session.get(
            self._api.url + path,
            params=query | {"watch": "true"},
            ssl=self._api.tls,
            timeout=_NO_TIMEOUT,
        ) as response:
            if response.status != 200:
                raise Departure(f"watch of {path} answered {response.status}: {await response.text()}")
            yield _Seen(response.content, watch=watch, fill=self.fill)


class _Seen:
    """What a watch has shown so far."""

    def __init__(self, stream: aiohttp.StreamReader, *, watch: Watch, fill: Callable[[Any], Any]) -> None:
        self._stream = stream
        self._watch = watch
        self._fill = fill
        self._expected: tuple[Event, ...] = ()
        self._events: list[Mapping[str, Json]] = []

    async def finish(self) -> None:
        """Reads until the expected events have come (and, where told, the stream has ended)."""
        # Only now: the calls in between saved names that the events may use.
        self._expected = tuple(
            replace(event, name=self._fill(event.name), object=self._fill(event.object)) for event in self._watch.events
        )
        try:
            async with asyncio.timeout(_DEADLINE_S):
                await self._read()
        except TimeoutError:
            pass
        else:
            if not missing_events(self._expected, self._events):
                self._check_exact()
                return
        lacking = missing_events(self._expected, self._events)
        want = f"events {lacking!r}" if lacking else "the end of the stream"
        seen = "\n  ".join(_short(event) for event in self._events) or "nothing"
        raise Departure(f"watch of {self._watch.path} lacks {want}; it showed\n  {seen}")

    async def _read(self) -> None:
        rest = b""
        while missing_events(self._expected, self._events) or self._watch.ends:
            chunk = await self._stream.readany()
            if not chunk:
                return
            *lines, rest = (rest + chunk).split(b"\n")
            self._events.extend(orjson.loads(line) for line in lines if line)

    def _check_exact(self) -> None:
        if not self._watch.is_exact:
            return
        surplus = [
            event
            for event, expected in itertools.zip_longest(self._events, self._expected)
            if event is None or expected is None or not event_matches(expected, event)
        ]
        if surplus:
            raise Departure(f"watch of {self._watch.path} showed more than expected: {_short(surplus)}")


def _merged(base: Json, changes: Json) -> Json:
    """JSON merge patch of plain data."""
    if not isinstance(base, Mapping) or not isinstance(changes, Mapping):
        return changes
    merged = dict(base)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def _short(value: Json) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    return text if len(text) <= 1500 else text[:1500] + "…"
