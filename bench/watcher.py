"""How fast the watcher is: the first list of a large cluster, a restart, a relist, and a steady stream of changes.

    python -m bench.watcher [--pods 50000] [--nodes 5000] [--rate 1000] [--seconds 20]

The API server is the sandbox in a process of its own, with objects of realistic size put straight into its store; the
stream is a real nats-server that syncs every write; the watcher is the process that is installed. Latency is taken
from the moment before a change is stored to its arrival at a reader of the stream, so it contains the API server's and
the reader's own delay. Results are printed beside their goals and written to `build/bench-watcher.json`.
"""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from bench.cluster_process import ClusterServer
from bench.cluster_server import SENT_ANNOTATION
from bench.measures import Measure, show, write
from services.contracts.cluster_codec import decode_change
from services.contracts.streams import CLUSTER_STREAM
from services.contracts.subjects import CLUSTER
from services.core.objects import Applied, Kind, WatchPhase, WatchState
from services.runtime.bus import Bus
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness

RESULT = Path("build/bench-watcher.json")
TIMEOUT_S = 300.0

FIRST_LIST_GOAL_S = 30.0
MEMORY_GOAL_MIB = 700.0
RATE_GOAL = 1000.0
LATENCY_GOAL_S = 0.1


@click.command(help=__doc__)
@click.option("--pods", default=50_000, show_default=True)
@click.option("--nodes", default=5_000, show_default=True)
@click.option("--rate", default=1_000, show_default=True, help="changes per second of the steady part")
@click.option("--seconds", default=20, show_default=True, help="length of the steady part")
@click.option("--burst", default=8_000, show_default=True, help="changes made as fast as the API server can")
def main(pods: int, nodes: int, rate: int, seconds: int, burst: int) -> None:
    """Measure, print and write."""
    if max(rate * seconds, burst) > pods:
        # Two changes of one pod may coalesce, and the second would stand for both.
        raise click.UsageError("--pods must be at least --rate times --seconds, and at least --burst")
    measures = asyncio.run(_measured(pods=pods, nodes=nodes, rate=rate, seconds=seconds, burst=burst))
    show(measures, title="watcher")
    inputs = {"pods": pods, "nodes": nodes, "rate": rate, "seconds": seconds, "burst": burst}
    write(measures, inputs=inputs, path=RESULT)


async def _measured(*, pods: int, nodes: int, rate: int, seconds: int, burst: int) -> list[Measure]:
    with tempfile.TemporaryDirectory(prefix="phalanx-bench-") as name:
        directory = Path(name)
        async with (
            EmbeddedNats() as nats,
            ClusterServer.started(directory, pods=pods, nodes=nodes) as cluster,
            Bus(url=nats.url, name="bench", readiness=Readiness()) as bus,
        ):
            await bus.ensure_streams([CLUSTER_STREAM])
            async with _watcher(directory, nats_url=nats.url) as first:
                measures = await _first_list(bus, watcher=first, expected=pods + nodes)
            async with _watcher(directory, nats_url=nats.url) as watcher:
                measures += await _restart(bus, watcher=watcher)
                measures += await _relist(bus, cluster=cluster)
                measures += await _steady(bus, cluster=cluster, watcher=watcher, rate=rate, seconds=seconds)
                measures += await _burst(bus, cluster=cluster, count=burst)
    return measures


async def _first_list(bus: Bus, *, watcher: "_Process", expected: int) -> list[Measure]:
    await _synced(bus, after=0)
    took_s = time.monotonic() - watcher.started_s
    published = await _metric(watcher, "phalanx_watcher_writes_total", result="stored")
    return [
        Measure(name="first list, process start to SYNCED", value=took_s, unit="s", goal=FIRST_LIST_GOAL_S),
        Measure(name="objects published by it", value=published, unit="objects", goal=expected, is_floor=True),
        Measure(name="peak memory of it", value=watcher.peak_memory_mib(), unit="MiB", goal=MEMORY_GOAL_MIB),
        Measure(name="processor time of it", value=watcher.processor_s(), unit="s"),
    ]


async def _restart(bus: Bus, *, watcher: "_Process") -> list[Measure]:
    await _synced(bus, after=1)
    took_s = time.monotonic() - watcher.started_s
    return [
        Measure(name="restart with a filled stream to SYNCED", value=took_s, unit="s", goal=FIRST_LIST_GOAL_S),
        Measure(
            name="objects published by it",
            value=await _metric(watcher, "phalanx_watcher_writes_total", result="stored"),
            unit="objects",
            goal=0,
        ),
        Measure(name="peak memory of it", value=watcher.peak_memory_mib(), unit="MiB", goal=MEMORY_GOAL_MIB),
    ]


async def _relist(bus: Bus, *, cluster: ClusterServer) -> list[Measure]:
    started_s = time.monotonic()
    await cluster.ask({"do": "compact"})
    await _synced(bus, after=2, kinds=(Kind.POD,))
    return [Measure(name="410 to SYNCED again, nothing changed", value=time.monotonic() - started_s, unit="s")]


async def _steady(bus: Bus, *, cluster: ClusterServer, watcher: "_Process", rate: int, seconds: int) -> list[Measure]:
    before_s = watcher.processor_s()
    latencies_s, took_s = await _changed(
        bus, cluster=cluster, command={"do": "change", "rate": rate, "count": rate * seconds}
    )
    processor = (watcher.processor_s() - before_s) / took_s
    p50, p99 = np.percentile(latencies_s, [50, 99])
    return [
        Measure(
            name=f"{rate}/s: changes that arrived per second",
            value=len(latencies_s) / took_s,
            unit="changes/s",
            goal=0.98 * min(rate, RATE_GOAL),
            is_floor=True,
        ),
        Measure(name=f"{rate}/s: API change to reader, p50", value=1000 * p50, unit="ms"),
        Measure(name=f"{rate}/s: API change to reader, p99", value=1000 * p99, unit="ms", goal=1000 * LATENCY_GOAL_S),
        Measure(name=f"{rate}/s: API change to reader, worst", value=1000 * float(max(latencies_s)), unit="ms"),
        Measure(name=f"{rate}/s: processor of the watcher", value=processor, unit="cores"),
        Measure(name="peak memory in the end", value=watcher.peak_memory_mib(), unit="MiB", goal=MEMORY_GOAL_MIB),
    ]


async def _burst(bus: Bus, *, cluster: ClusterServer, count: int) -> list[Measure]:
    latencies_s, took_s = await _changed(bus, cluster=cluster, command={"do": "change", "rate": 0, "count": count})
    return [
        Measure(name=f"burst of {count}: changes per second", value=len(latencies_s) / took_s, unit="changes/s"),
        Measure(name=f"burst of {count}: until the last arrived", value=took_s, unit="s"),
    ]


async def _changed(bus: Bus, *, cluster: ClusterServer, command: dict[str, object]) -> tuple[list[float], float]:
    """Have pods changed, and read each change from the stream; returns latencies and how long it all took."""
    ready, latencies_s = asyncio.Event(), list[float]()
    batch_id = str(time.monotonic_ns())

    async def read() -> None:
        async for batch in bus.follow(CLUSTER_STREAM.name, subjects=f"{CLUSTER}.{Kind.POD.value}.>"):
            now_ns = time.monotonic_ns()
            for message in batch.messages:
                change = decode_change(Kind.POD, message.data)
                sent = change.metadata.annotations.get(SENT_ANNOTATION, "").split("/")
                if sent[0] == batch_id:
                    latencies_s.append((now_ns - int(sent[1])) / 1e9)
            if not batch.pending:
                ready.set()
            if len(latencies_s) == command["count"]:
                return

    reading = asyncio.create_task(read())
    await ready.wait()
    started_s = time.monotonic()
    await cluster.ask(command | {"batch": batch_id})
    async with asyncio.timeout(TIMEOUT_S):
        await reading
    return latencies_s, time.monotonic() - started_s


async def _synced(bus: Bus, *, after: int, kinds: tuple[Kind, ...] = (Kind.POD, Kind.NODE)) -> None:
    """Wait until the kinds are SYNCED by a state that is newer than the ones seen `after` rounds ago."""
    waiting = {kind.value for kind in kinds}
    seen: dict[str, int] = {}
    async with asyncio.timeout(TIMEOUT_S):
        async for batch in bus.follow(CLUSTER_STREAM.name, subjects=f"{CLUSTER}.{Kind.WATCH.value}.>"):
            for message in batch.messages:
                change = decode_change(Kind.WATCH, message.data)
                assert isinstance(change, Applied)
                assert isinstance(change.object, WatchState)
                name, phase = change.metadata.name, change.object.phase
                if phase is WatchPhase.LISTING:
                    seen[name] = seen.get(name, 0) + 1
                elif phase is WatchPhase.SYNCED and (after == 0 or seen.get(name)):
                    waiting.discard(name)
            if not waiting:
                return


@dataclass(slots=True, kw_only=True)
class _Process:
    """A watcher of its own."""

    process: asyncio.subprocess.Process
    started_s: float
    port_file: Path

    def peak_memory_mib(self) -> float:
        """Return the largest resident size so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024

    def processor_s(self) -> float:
        """Return the processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.asynccontextmanager
async def _watcher(directory: Path, *, nats_url: str) -> AsyncIterator[_Process]:
    port_file = directory / "ports.json"
    port_file.unlink(missing_ok=True)
    environ = os.environ | {
        "PHALANX_NATS_URL": nats_url,
        "PHALANX_KUBECONFIG": str(directory / "kubeconfig"),
        "PHALANX_HTTP_ADDRESS": "127.0.0.1:0",
        "PHALANX_PORT_FILE": str(port_file),
        "PHALANX_LOG_LEVEL": "warning",
    }
    started_s = time.monotonic()
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "services.watcher", env=environ)
    try:
        yield _Process(process=process, started_s=started_s, port_file=port_file)
    finally:
        process.terminate()
        await process.wait()


async def _metric(watcher: _Process, name: str, **labels: str) -> float:
    """Return a metric of the watcher, summed over kinds."""
    port = json.loads(watcher.port_file.read_text())["http"]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.0\r\nHost: bench\r\n\r\n")
    text = (await reader.read()).decode().split("\r\n\r\n", 1)[1]
    writer.close()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items() and sample.labels["kind"] in {"pod", "node"}
    )


if __name__ == "__main__":
    main()
