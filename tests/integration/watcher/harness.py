"""A watcher between a sandbox and a NATS server, all in the test's event loop, and the comparison of both ends."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import orjson
from opentelemetry.trace import NoOpTracer, Tracer
from prometheus_client import CollectorRegistry

from services.contracts.cluster_codec import decode_change
from services.contracts.streams import CLUSTER_STREAM
from services.contracts.subjects import CLUSTER, cluster_subject
from services.core.objects import Applied, ClusterChange, Kind, KubernetesObject, WatchPhase, WatchState
from services.core.reduce import MalformedObject, reduce_leniently
from services.runtime import log
from services.runtime.bus import Batch, Bus, Message
from services.runtime.clock import SystemClock
from services.runtime.health import Readiness
from services.runtime.lifecycle import Runtime
from services.sandbox import kubeconfig
from services.sandbox.app import RunningSandbox
from services.watcher import app
from services.watcher.kinds import WATCHED_KINDS
from services.watcher.settings import WatcherSettings

DEADLINE_S = 20.0
POLL_S = 0.02

Manifest = dict[str, Any]


async def until(condition: Callable[[], bool], *, what: str) -> None:
    """Wait for something that can be observed, with a deadline."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # noqa: ASYNC110 - what is observed has no event of its own
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise AssertionError(f"not within {DEADLINE_S:g} s: {what}") from None


@dataclass(slots=True, kw_only=True)
class StreamReader:
    """Everything that the cluster stream held, message by message, and what it holds now."""

    current: dict[str, ClusterChange] = field(default_factory=dict)
    headers: dict[str, Mapping[str, str]] = field(default_factory=dict)
    history: list[tuple[str, ClusterChange]] = field(default_factory=list)

    def take(self, message: Message) -> None:
        """Fold one message."""
        kind = Kind(message.subject.removeprefix(f"{CLUSTER}.").split(".")[0])
        change = decode_change(kind, message.data)
        self.current[message.subject] = change
        self.headers[message.subject] = message.headers
        self.history.append((message.subject, change))

    async def follow(self, bus: Bus) -> None:
        """Read for ever."""
        async for batch in bus.follow(CLUSTER_STREAM.name, subjects=f"{CLUSTER}.>"):
            if batch.restarted:
                self.current.clear()
            for message in batch.messages:
                self.take(message)

    def state(self, kind: Kind) -> WatchState | None:
        """The last state of a kind's watch."""
        change = self.current.get(f"{CLUSTER}.watch._.{kind.value}")
        return change.object if isinstance(change, Applied) and isinstance(change.object, WatchState) else None

    def phases(self, kind: Kind) -> list[WatchPhase]:
        """All states of a kind's watch so far."""
        subject = f"{CLUSTER}.watch._.{kind.value}"
        return [
            change.object.phase
            for one, change in self.history
            if one == subject and isinstance(change, Applied) and isinstance(change.object, WatchState)
        ]

    def writes(self, kind: Kind) -> list[ClusterChange]:
        """All changes of a kind so far."""
        return [change for subject, change in self.history if subject.startswith(f"{CLUSTER}.{kind.value}.")]


async def read_stream(bus: Bus) -> StreamReader:
    """Read what the stream holds at this moment."""
    reader = StreamReader()
    batches = cast("AsyncGenerator[Batch, None]", bus.follow(CLUSTER_STREAM.name, subjects=f"{CLUSTER}.>"))
    async with contextlib.aclosing(batches):
        async for batch in batches:
            if batch.restarted:
                reader = StreamReader()
            for message in batch.messages:
                reader.take(message)
            if not batch.pending:
                break
    return reader


def cluster_objects(sandbox: RunningSandbox) -> dict[str, KubernetesObject]:
    """What a watcher of all served kinds should publish."""
    expected: dict[str, KubernetesObject] = {}
    kinds = {(kind.group, kind.plural): kind for kind in sandbox.store.kinds}
    for watched in WATCHED_KINDS:
        kind = kinds.get((watched.group, watched.plural))
        # What the sandbox does not have, the watcher calls absent.
        if kind is None or not sandbox.cluster.served.is_served(kind):
            continue
        for stored in sandbox.store.collection(kind).objects.values():
            manifest = orjson.loads(orjson.dumps(stored.obj))
            with contextlib.suppress(MalformedObject):
                item = reduce_leniently(watched.kind, manifest)
                expected[cluster_subject(watched.kind, item.metadata)] = without_version(item)
    return expected


def stream_objects(reader: StreamReader) -> dict[str, KubernetesObject]:
    """What the stream says exists."""
    return {
        subject: without_version(change.object)
        for subject, change in reader.current.items()
        if isinstance(change, Applied) and not isinstance(change.object, WatchState)
    }


def without_version(item: KubernetesObject) -> KubernetesObject:
    """The object as far as it is news."""
    return replace(item, metadata=replace(item.metadata, resource_version=""))


@dataclass(slots=True, kw_only=True)
class RunningWatcher:
    """A watcher in a task of its own."""

    task: asyncio.Task[None]
    runtime: Runtime

    @property
    def readiness(self) -> Readiness:
        """What it waits for."""
        return self.runtime.readiness

    def detail(self, kind: Kind) -> str:
        """What it says about a kind."""
        details = {item.name: item.detail for item in self.readiness.conditions}
        return details.get(f"watch:{kind.value}", "")

    def metric(self, name: str, **labels: str) -> float:
        """One sample of its metrics."""
        return self.runtime.registry.get_sample_value(name, labels) or 0.0

    async def stop(self) -> None:
        """Ask it to end, as SIGTERM does."""
        self.runtime.stopping.set()
        await asyncio.wait_for(self.task, timeout=DEADLINE_S)

    async def kill(self) -> None:
        """End it in the middle of everything."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


@contextlib.asynccontextmanager
async def watcher(
    *, nats_url: str, api_url: str, directory: Path, name: str = "watcher", tracer: Tracer | None = None
) -> AsyncIterator[RunningWatcher]:
    """A watcher of that API, publishing to that server."""
    path = directory / f"{name}.kubeconfig"
    kubeconfig.write(path, url=api_url)
    settings = WatcherSettings(
        nats_url=nats_url, kubeconfig=path, instance=name, discovery_interval_s=0.1, watch_timeout_s=60
    )
    runtime = Runtime(
        service="watcher",
        instance=name,
        readiness=Readiness(),
        registry=CollectorRegistry(),
        tracer=tracer or NoOpTracer(),
        log=log.get("watcher"),
        clock=SystemClock(),
        stopping=asyncio.Event(),
    )
    running = RunningWatcher(task=asyncio.create_task(app.run(settings, runtime), name=name), runtime=runtime)
    try:
        yield running
    finally:
        await running.kill()


@dataclass(slots=True, kw_only=True)
class Scene:
    """Both ends, and the reader between them."""

    sandbox: RunningSandbox
    bus: Bus
    reader: StreamReader

    def put(self, plural: str, manifest: Manifest, *, group: str = "") -> None:
        """Create or replace an object in the store itself, so that no validation stands in the way."""
        kind = self.sandbox.store.kind(plural, group=group)
        metadata = manifest["metadata"]
        held = self.sandbox.store.get(kind, namespace=metadata.get("namespace", ""), name=metadata["name"])
        own = held.obj["metadata"] if held else {"uid": str(uuid.uuid4()), "creationTimestamp": "2026-07-01T12:00:00Z"}
        kept = {key: own[key] for key in ("uid", "creationTimestamp")}
        given = manifest | {"metadata": kept | metadata}
        if held is None:
            self.sandbox.store.insert(kind, given)
        else:
            self.sandbox.store.replace(held, given)

    def delete(self, plural: str, name: str, *, namespace: str = "", group: str = "") -> Manifest:
        """Remove an object from the store at once, and return its last version."""
        kind = self.sandbox.store.kind(plural, group=group)
        held = self.sandbox.store.get(kind, namespace=namespace, name=name)
        assert held is not None, f"{plural} {namespace}/{name} exists"
        self.sandbox.store.remove(held)
        return held.obj

    async def equal(self) -> None:
        """Wait until the stream equals the cluster and every kind is settled; compares with a fresh reading, too."""
        settled = {WatchPhase.SYNCED, WatchPhase.ABSENT}

        def is_equal() -> bool:
            states = [self.reader.state(watched.kind) for watched in WATCHED_KINDS]
            if not all(state is not None and state.phase in settled for state in states):
                return False
            return stream_objects(self.reader) == cluster_objects(self.sandbox)

        try:
            await until(is_equal, what="the stream equals the cluster")
        except AssertionError:
            assert stream_objects(self.reader) == cluster_objects(self.sandbox)
            raise
        assert stream_objects(await read_stream(self.bus)) == cluster_objects(self.sandbox)

    async def synced(self, kind: Kind, *, times: int) -> None:
        """Wait until a kind was synced so often."""
        await until(
            lambda: self.reader.phases(kind).count(WatchPhase.SYNCED) >= times, what=f"{kind} synced {times} times"
        )
