"""One kind, followed for ever: find its API, compare list and stream, then watch.

Readers of the stream are told first whenever it may not equal the cluster (LISTING), and again once it does (SYNCED).
A watch that closes goes on from its last version; a version that the server forgot, and a stream that lost messages,
begin with a new list.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Never, TypeVar

from structlog.typing import FilteringBoundLogger
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, retry_if_exception_type, wait_random_exponential

from services.core.objects import Kind, Metadata, WatchPhase, WatchState
from services.core.reduce import MalformedObject
from services.runtime.clock import Clock
from services.runtime.health import Readiness
from services.watcher import observation
from services.watcher.echoes import Echoes
from services.watcher.garbage import CollectorPause
from services.watcher.kinds import WatchedKind
from services.watcher.metrics import Metrics
from services.watcher.ports import ApiFailed, ClusterApi, ClusterStream, HistoryGone, NotServed, StreamUnavailable
from services.watcher.publisher import Publisher
from services.watcher.settings import WatcherSettings

T = TypeVar("T")

LONGEST_WAIT_S = 5.0
LONGEST_RETRY_AFTER_S = 30.0
STEADY_S = 0.5
"""A watch that is open for so long works, even if nothing has happened in it."""
TROUBLING_CLOSES = 4
"""So many watches in a row that are closed at once are a fault; a few are the server's business."""
YIELD_EVERY = 32
"""After so many objects the event loop's other tasks get their turn, also where the next ones have already arrived."""


class _ClosedAtOnce(ApiFailed):
    """A watch ended before anything came."""


class KindWatch:
    """Follows one kind. `resync` makes it list again, and first read the stream again where that lost messages."""

    def __init__(
        self,
        watched: WatchedKind,
        *,
        api: ClusterApi,
        stream: ClusterStream,
        publisher: Publisher,
        readiness: Readiness,
        metrics: Metrics,
        clock: Clock,
        log: FilteringBoundLogger,
        settings: WatcherSettings,
        collector: CollectorPause,
    ) -> None:
        """Keep what is needed; `run` does the work."""
        self._watched = watched
        self._kind = watched.kind
        self._api = api
        self._stream = stream
        self._publisher = publisher
        self._readiness = readiness
        self._metrics = metrics
        self._clock = clock
        self._log = log.bind(kind=watched.kind.value)
        self._settings = settings
        self._collector = collector
        self._echoes = Echoes(watched.kind, stream=stream, publisher=publisher, restarted=self._stream_restarted)
        self._must_load = True
        self._is_listing_due = True
        self._reason = "start"
        self._scope: asyncio.Timeout | None = None
        self._is_troubled = False
        self._revision = 0
        self._show(ready=False, phase="waiting", detail="starting")

    @property
    def kind(self) -> Kind:
        """The kind."""
        return self._kind

    def resync(self, reason: str, *, rereads: bool) -> None:
        """Stop what is being done, and list again. `reason` is one word, for metrics."""
        if self._is_listing_due and (self._must_load or not rereads):
            return
        if rereads and not self._must_load:
            self._must_load = True
            self._echoes.reread()
        self._list_anew(reason)

    def _stream_restarted(self) -> None:
        self._must_load = True
        self._list_anew("stream_restarted")

    def _list_anew(self, reason: str) -> None:
        self._is_listing_due = True
        self._reason = reason
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Follow the kind, and its part of the stream, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._echoes.run(), name=f"echoes-{self._kind.value}")
            group.create_task(self._follow(), name=f"follow-{self._kind.value}")

    async def _follow(self) -> None:
        while True:
            try:
                async with asyncio.timeout(None) as self._scope:
                    self._reason = await self._once()
            except TimeoutError:
                if self._scope is None or not self._scope.expired():
                    raise
                self._log.warning("watch.resync", reason=self._reason)
            finally:
                self._scope = None

    async def _once(self) -> str:
        """Follow until something makes a new list necessary; returns what that is."""
        version = await self._asked(lambda: self._api.version_of(self._watched))
        if version is None:
            await self._absent()
            return "appeared"
        try:
            revision = await self._compared(version)
            await self._watch(version, revision=revision)
        except HistoryGone:
            reason = "gone"
        except NotServed:
            reason = "not_served"
        return reason

    async def _compared(self, version: str) -> int:
        """Make the stream equal to a list, and return the list's revision."""
        self._metrics.relists.labels(self._kind.value, self._reason).inc()
        self._show(ready=False, phase="listing", detail=f"listing {self._watched.resource}")
        await self._announce(WatchPhase.LISTING, version=version)
        self._is_listing_due = False
        await self._loaded()
        revision, object_count = await self._asked(lambda: self._list(version), restarts_on_gone=True)
        await self._publisher.settled(self._kind)
        await self._announce(WatchPhase.SYNCED, version=version, revision=revision, object_count=object_count)
        self._log.info("watch.synced", version=version, revision=revision, objects=object_count)
        self._healthy()
        return revision

    async def _loaded(self) -> None:
        """Learn what the stream holds, where that is not known (any more)."""
        await self._publisher.settled(self._kind)
        if not self._must_load:
            return
        stored = await self._echoes.take()
        self._publisher.publication(self._kind).load(stored)
        self._must_load = False

    async def _list(self, version: str) -> tuple[int, int]:
        """Read a whole list, submitting what it says; returns its revision and how many objects it has."""
        publication = self._publisher.publication(self._kind)
        await self._publisher.settled(self._kind)
        present: set[str] = set()
        revision: int | None = None
        with self._collector.held():
            async with contextlib.aclosing(self._api.pages(self._watched, version=version)) as pages:
                async for page in pages:
                    if revision is None:
                        revision = _revision(page.resource_version)
                        if not publication.begin_list(revision=revision):
                            self._log.warning("watch.history_restarted", revision=revision)
                    await self._take_page(page.items, present=present)
        assert revision is not None, "a list has at least one page"
        await self._bury_missing(present, revision=revision)
        publication.end_list(revision=revision)
        return revision, len(present)

    async def _take_page(self, items: Sequence[Mapping[str, Any]], *, present: set[str]) -> None:
        seen_at_s, seen_at_ns = self._clock.monotonic(), _nanoseconds(self._clock)
        self._metrics.events.labels(self._kind.value, "listed").inc(len(items))
        for number, manifest in enumerate(items):
            try:
                # Also what cannot be understood is there, and must not be buried.
                present.add(observation.subject_of(self._kind, manifest))
                outgoing = observation.applied(self._kind, manifest, seen_at_s=seen_at_s, seen_at_ns=seen_at_ns)
            except MalformedObject as error:
                self._skip(error)
                continue
            await self._publisher.submit(self._kind, outgoing, is_listed=True)
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def _bury_missing(self, present: set[str], *, revision: int | None) -> None:
        """Write a tombstone for each object that is not there (any more); without a list, at its own last revision."""
        publication = self._publisher.publication(self._kind)
        for subject, version in publication.missing(present):
            tombstone = observation.missed(
                self._kind,
                subject=subject,
                uid=version.uid,
                revision=version.revision if revision is None else revision,
                seen_at_s=self._clock.monotonic(),
                seen_at_ns=_nanoseconds(self._clock),
            )
            await self._publisher.submit(self._kind, tombstone, is_listed=True)

    async def _watch(self, version: str, *, revision: int) -> Never:
        """Follow the watch from `revision` until the server forgot our version, or does not serve the kind."""
        self._revision = revision
        while True:
            await self._asked(lambda: self._one_watch(version))

    async def _one_watch(self, version: str) -> None:
        """Follow one watch until it closes. Raises ApiFailed where it closes at once, so that we do not hurry."""
        if self._is_troubled:
            # A watch tells nothing until something happens; this tells whether the server is there.
            await self._api.version_of(self._watched)
        self._metrics.watches.labels(self._kind.value).inc()
        started_s, event_count = self._clock.monotonic(), 0
        steady = asyncio.get_running_loop().call_later(STEADY_S, self._healthy)
        events = self._api.events(
            self._watched,
            version=version,
            resource_version=self._revision,
            timeout_s=self._settings.watch_timeout_s,
        )
        try:
            async with contextlib.aclosing(events):
                async for event in events:
                    event_count += 1
                    await self._take_event(event.type, event.object)
                    if event_count % YIELD_EVERY == 0:
                        await asyncio.sleep(0)
        finally:
            steady.cancel()
        if not event_count and self._clock.monotonic() - started_s < STEADY_S:
            raise _ClosedAtOnce(f"the API server closes each watch of {self._watched.resource} at once")

    async def _take_event(self, event_type: str, manifest: Mapping[str, Any]) -> None:
        self._metrics.events.labels(self._kind.value, event_type.lower()).inc()
        if event_type == "BOOKMARK":
            self._advance(_revision((manifest.get("metadata") or {}).get("resourceVersion")))
            return
        make = observation.deleted if event_type == "DELETED" else observation.applied
        try:
            outgoing = make(
                self._kind,
                manifest,
                seen_at_s=self._clock.monotonic(),
                seen_at_ns=_nanoseconds(self._clock),
                is_traced=True,
            )
        except MalformedObject as error:
            self._skip(error)
            self._advance(observation.revision_of(manifest))
            return
        await self._publisher.submit(self._kind, outgoing, is_listed=False)
        self._advance(outgoing.version.revision)

    def _advance(self, revision: int) -> None:
        # Never back: an event that came late must not make the next watch repeat the past.
        self._revision = max(self._revision, revision)

    async def _absent(self) -> None:
        """Say that the kind is not served, bury what it had, and wait until it appears."""
        if not self._watched.is_required:
            await self._announce(WatchPhase.LISTING, version="")
            self._is_listing_due = False
            await self._loaded()
            await self._bury_missing(set(), revision=None)
            await self._publisher.settled(self._kind)
            await self._announce(WatchPhase.ABSENT, version="")
            self._log.info("watch.absent", resource=self._watched.resource)
        self._show_absent()
        while await self._asked(lambda: self._api.version_of(self._watched)) is None:
            self._is_troubled = False
            self._show_absent()
            await self._clock.sleep(self._settings.discovery_interval_s)

    def _show_absent(self) -> None:
        is_required = self._watched.is_required
        detail = f"absent: the API server does not serve {self._watched.resource}"
        self._show(ready=not is_required, phase="waiting" if is_required else "absent", detail=detail)

    async def _announce(
        self, phase: WatchPhase, *, version: str, revision: int | None = None, object_count: int = 0
    ) -> None:
        state = WatchState(
            metadata=Metadata(name=self._kind.value),
            phase=phase,
            api_version=self._watched.api_version(version) if version else "",
            resource_version="" if revision is None else str(revision),
            object_count=object_count,
        )
        await self._written(lambda: self._stream.publish_state(state))

    async def _written(self, act: Callable[[], Awaitable[T]]) -> T:
        """Do something with the stream, however long the bus is away."""
        async for attempt in AsyncRetrying(
            wait=wait_random_exponential(multiplier=0.1, max=LONGEST_WAIT_S),
            retry=retry_if_exception_type(StreamUnavailable),
            sleep=self._clock.sleep,
        ):
            with attempt:
                return await act()
        raise AssertionError("retried for ever")

    async def _asked(self, act: Callable[[], Awaitable[T]], *, restarts_on_gone: bool = False) -> T:
        """Ask the API, however long it is away; readiness says what is waited for.

        A forgotten version and a kind that is not served are answers: they are raised, unless `restarts_on_gone`.
        """

        def is_temporary(error: BaseException) -> bool:
            if isinstance(error, HistoryGone):
                return restarts_on_gone
            return isinstance(error, ApiFailed) and not isinstance(error, NotServed)

        async for attempt in AsyncRetrying(
            wait=_wait_as_asked,
            retry=retry_if_exception(is_temporary),
            before_sleep=self._tell_trouble,
            sleep=self._clock.sleep,
            reraise=True,
        ):
            with attempt:
                return await act()
        raise AssertionError("retried for ever")

    def _tell_trouble(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, HistoryGone):
            self._metrics.relists.labels(self._kind.value, "gone_in_list").inc()
            return
        if isinstance(error, _ClosedAtOnce) and state.attempt_number < TROUBLING_CLOSES:
            return
        detail = error.detail if isinstance(error, ApiFailed) else str(error)
        if not self._is_troubled:
            self._log.warning("watch.waiting", detail=detail)
        self._is_troubled = True
        self._readiness.set(self._condition, ready=False, detail=detail)

    def _healthy(self) -> None:
        """The stream follows the cluster (again)."""
        if self._is_troubled:
            self._log.info("watch.resumed")
        self._is_troubled = False
        count = self._publisher.publication(self._kind).object_count
        self._show(ready=True, phase="synced", detail=f"synced: {count} {self._watched.resource}")

    def _skip(self, error: MalformedObject) -> None:
        """Leave a version out. What was published before stays: an old form is nearer to the truth than a deletion."""
        self._metrics.malformed.labels(self._kind.value).inc()
        self._log.warning(
            "watch.malformed_object",
            namespace=error.namespace,
            name=error.name,
            field=error.field,
            detail=str(error),
        )

    @property
    def _condition(self) -> str:
        return f"watch:{self._kind.value}"

    def _show(self, *, ready: bool, phase: str, detail: str) -> None:
        self._metrics.show_phase(self._kind.value, phase=phase)
        self._readiness.set(self._condition, ready=ready, detail=detail)


_backoff = wait_random_exponential(multiplier=0.1, max=LONGEST_WAIT_S)


def _wait_as_asked(state: RetryCallState) -> float:
    """Wait at least as long as the server asked for."""
    error = state.outcome.exception() if state.outcome else None
    asked_s = error.retry_after_s if isinstance(error, ApiFailed) else None
    return max(_backoff(state), min(asked_s or 0.0, LONGEST_RETRY_AFTER_S))


def _revision(text: object) -> int:
    """Return the revision of a list or bookmark. Raises ApiFailed."""
    try:
        return int(str(text))
    except ValueError as error:
        raise ApiFailed(f"expected a whole number as resourceVersion, got {text!r}") from error


def _nanoseconds(clock: Clock) -> int:
    return int(clock.now().timestamp() * 1e9)
