"""The autoscaler against its goals: `python -m bench.autoscaler [--part NAME …]`.

`latency`  message published → replicas set, from zero: with the hint of a plain subscription, and polled once a second.
`gang`     message published → all 64 members bound, with all services on the sandbox's eight nodes of eight GPUs.
`idle`     what 1,000 HPAs cost while nothing happens.
`lost`     wakes lost in 1,000, while the autoscaler, NATS (which is the source too) and the API server are killed.

The autoscaler is the installed process with a real nats-server that syncs every write. `lost` runs on a real etcd and
kube-apiserver, the others on the sandbox in a process of its own: their times are the autoscaler's, and no rivals of
those on a real API server. All is timed from outside, by reading the API. Results are printed beside their goals, and
written to `build/bench-autoscaler.json`.
"""

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import click
import yaml
from nats.aio.client import Client
from nats.js import api

from bench.autoscaler_targets import NAMESPACE, Targets
from bench.measures import Measure, show, write
from services.cli.coldstart.summary import percentile
from services.cli.demo.clusters import sandbox
from services.cli.processes import ANY_PORT, LocalProcess, LocalServices
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.kube import KubeClient
from tests.kubernetes.cluster import Cluster, ClusterConfig

RESULT = Path("build/bench-autoscaler.json")
STREAM, COPY, POLLED = "ORDERS", "COPY", "polled"
MEMBERS = 64
IDLE_HPAS = 1000
SETTLE_S, IDLE_S = 20.0, 45.0
WAKE_TIMEOUT_S = 60.0

Part = Callable[[Path, int], Awaitable[list[Measure]]]


def configuration(consumers: Mapping[str, str]) -> str:
    """Return a source for each consumer, by its stream."""
    sources = [
        {"metric": "queue_depth", "selector": {"queue": name}, "jetstream": {"stream": stream, "consumer": name}}
        for name, stream in consumers.items()
    ]
    return yaml.safe_dump({"metricSources": sources})


def autoscaler(folder: Path, *, nats_url: str, kubeconfig: Path, **settings: str) -> LocalProcess:
    """Return the process; it is not started yet."""
    environment = {
        "PHALANX_NATS_URL": nats_url,
        "PHALANX_HTTP_ADDRESS": ANY_PORT,
        "PHALANX_KUBECONFIG": str(kubeconfig),
        "PHALANX_CONFIG": str(folder / "phalanx.yaml"),
        "PHALANX_LEADER_ELECTION": "false",
        "PHALANX_LOG_LEVEL": "warning",
    }
    return LocalProcess(name="autoscaler", folder=folder, environment=environment | settings)


@contextlib.asynccontextmanager
async def queues(nats_url: str, *names: str) -> AsyncIterator[Client]:
    """Make a stream with a consumer for each name, and a copy of it that no plain subscription hears of."""
    client = Client()
    await client.connect(nats_url, max_reconnect_attempts=-1, reconnect_time_wait=1)
    try:
        stream = client.jetstream()
        await stream.add_stream(name=STREAM, subjects=["orders.>"])
        copied = api.StreamSource(name=STREAM, filter_subject=f"orders.{POLLED}")
        await stream.add_stream(name=COPY, sources=[copied])
        for name in names:
            # Without a filter, and on a stream without subjects, there is nothing that a hint could come by.
            subject = None if name == POLLED else f"orders.{name}"
            config = api.ConsumerConfig(durable_name=name, filter_subject=subject, ack_policy=api.AckPolicy.EXPLICIT)
            await stream.add_consumer(COPY if name == POLLED else STREAM, config)
        yield client
    finally:
        await client.close()


async def latency(folder: Path, rounds: int) -> list[Measure]:
    """Wake one target again and again, by a hint and by readings alone."""
    names = {"hinted": STREAM, POLLED: COPY}
    (folder / "phalanx.yaml").write_text(configuration(names))
    measures = []
    async with (
        EmbeddedNats() as nats,
        sandbox(folder) as cluster,
        queues(nats.url, *names) as client,
        await KubeClient.open(cluster.kubeconfig) as kube,
    ):
        targets = Targets(kube=kube, nats=client)
        await targets.namespace()
        for name in names:
            await targets.add(name)
        for name, interval_s, goal_s in (("hinted", "15", 0.3), (POLLED, "1", 1.5)):
            process = autoscaler(
                folder, nats_url=nats.url, kubeconfig=cluster.kubeconfig, PHALANX_SOURCE_INTERVAL_S=interval_s
            )
            process.start()
            try:
                await process.wait_ready()
                took = [await targets.wake(name, stream=names[name]) for _ in range(rounds)]
            finally:
                await process.stop()
            text = f"message → replicas set, {name}, {rounds} wakes"
            measures += [
                Measure(name=f"{text}, p95", value=percentile(took, 0.95), unit="s", goal=goal_s),
                Measure(name=f"{text}, median", value=percentile(took, 0.5), unit="s"),
            ]
    return measures


async def gang(folder: Path, rounds: int) -> list[Measure]:
    """Wake 64 one-GPU pods by one message, until all are bound."""
    (folder / "phalanx.yaml").write_text(configuration({"gang": STREAM}))
    async with (
        EmbeddedNats() as nats,
        sandbox(folder) as cluster,
        queues(nats.url, "gang") as client,
        LocalServices(
            folder=folder,
            nats_url=nats.url,
            kubeconfig=cluster.kubeconfig,
            environment={"PHALANX_CONFIG": str(folder / "phalanx.yaml"), "PHALANX_LOG_LEVEL": "warning"},
        ),
        await KubeClient.open(cluster.kubeconfig) as kube,
    ):
        targets = Targets(kube=kube, nats=client)
        await targets.namespace()
        await targets.add("gang", members=MEMBERS)
        took = [await targets.wake("gang", stream=STREAM, members=MEMBERS) for _ in range(rounds)]
    text = f"message → all {MEMBERS} members bound, {rounds} wakes"
    return [
        Measure(name=f"{text}, p95", value=percentile(took, 0.95), unit="s", goal=2.0),
        Measure(name=f"{text}, median", value=percentile(took, 0.5), unit="s"),
    ]


async def idle(folder: Path, _rounds: int) -> list[Measure]:
    """Let a thousand HPAs sleep, and look at what that costs."""
    names = [f"q{number}" for number in range(IDLE_HPAS)]
    (folder / "phalanx.yaml").write_text(configuration(dict.fromkeys(names, STREAM)))
    async with (
        EmbeddedNats() as nats,
        sandbox(folder) as cluster,
        queues(nats.url, *names) as client,
        await KubeClient.open(cluster.kubeconfig) as kube,
    ):
        targets = Targets(kube=kube, nats=client)
        await targets.namespace()
        for name in names:
            await targets.add(name)
        process = autoscaler(folder, nats_url=nats.url, kubeconfig=cluster.kubeconfig)
        process.start()
        try:
            await process.wait_ready()
            await asyncio.sleep(SETTLE_S)
            began_s, before_s = time.monotonic(), _processor_s(process)
            await asyncio.sleep(IDLE_S)
            share = (_processor_s(process) - before_s) / (time.monotonic() - began_s)
            memory_mib = _memory_mib(process)
        finally:
            await process.stop()
    return [
        Measure(name=f"{IDLE_HPAS} idle HPAs, of one core", value=100 * share, unit="%", goal=10.0),
        Measure(name=f"{IDLE_HPAS} idle HPAs, resident memory", value=memory_mib, unit="MiB", goal=250.0),
    ]


async def lost(folder: Path, wakes: int) -> list[Measure]:
    """Wake twenty targets at once, again and again, while something is killed; a wake that does not come is lost."""
    names = [f"t{number}" for number in range(20)]
    (folder / "phalanx.yaml").write_text(configuration(dict.fromkeys(names, STREAM)))
    missing = done = 0
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(Cluster(ClusterConfig(controller_manager=False)))
        nats = await stack.enter_async_context(EmbeddedNats())
        client = await stack.enter_async_context(queues(nats.url, *names))
        kube = await stack.enter_async_context(await KubeClient.open(cluster.kubeconfig))
        targets = Targets(kube=kube, nats=client)
        await targets.namespace()
        for name in names:
            await targets.add(name)
        process = autoscaler(folder, nats_url=nats.url, kubeconfig=cluster.kubeconfig)
        process.start()
        stack.push_async_callback(process.stop)
        await process.wait_ready()

        async def nothing() -> None:
            """Nothing is killed."""

        async def autoscaler_dies() -> None:
            process.kill()
            process.start()

        async def nats_dies() -> None:
            await nats.kill()
            await nats.start()

        async def api_server_dies() -> None:
            cluster.kill_apiserver()
            await cluster.start_apiserver()

        faults = (autoscaler_dies, nats_dies, nothing, api_server_dies)
        while done < wakes:
            fault = faults[done // len(names) % len(faults)]
            # At the same time: some messages come before the death, and most while something is away.
            await asyncio.gather(targets.send_all(names), fault())
            missing += await targets.still_asleep(names, timeout_s=WAKE_TIMEOUT_S)
            done += len(names)
            await targets.sleep_again(names, stream=STREAM)
            click.echo(f"{done} wakes, {missing} lost", err=True)
    return [Measure(name=f"wakes lost in {done}, with kills in between", value=missing, unit="wakes", goal=0.0)]


def _processor_s(process: LocalProcess) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_mib(process: LocalProcess) -> float:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


PARTS: Mapping[str, tuple[Part, int]] = {
    "latency": (latency, 40),
    "gang": (gang, 20),
    "idle": (idle, 1),
    "lost": (lost, 1000),
}


@click.command()
@click.option("--part", "parts", type=click.Choice(list(PARTS)), multiple=True, help="Only this; several are possible.")
@click.option("--rounds", type=click.IntRange(min=1), help="Wakes of each part, instead of its own number.")
def main(parts: tuple[str, ...], rounds: int | None) -> None:
    """Measure, print a table, and exit with 1 where a goal is missed."""
    measures = []
    for name in parts or PARTS:
        part, usual = PARTS[name]
        with tempfile.TemporaryDirectory() as directory:
            measures += asyncio.run(_measured(part, Path(directory), rounds=rounds or usual))
    show(measures, title="The autoscaler")
    inputs = {"parts": list(parts or PARTS), "rounds": rounds, "namespace": NAMESPACE}
    write(measures, inputs=inputs, path=RESULT)
    raise SystemExit(any(measure.is_met is False for measure in measures))


async def _measured(part: Part, folder: Path, *, rounds: int) -> list[Measure]:
    return await part(folder, rounds)


if __name__ == "__main__":
    main()
