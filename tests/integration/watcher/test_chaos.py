"""Everything at once, from a seed: in the end the stream equals the cluster."""

import asyncio
import random
from pathlib import Path

import pytest

from services.core.objects import Kind
from services.runtime.embedded_nats import EmbeddedNats
from services.sandbox.faults import Action, Answer, Match
from tests.builders import NAMESPACE, node_manifest, pod_group_manifest, pod_manifest
from tests.integration.watcher.harness import Manifest, Scene, StreamReader, until, watcher

GROUP = "scheduling.k8s.io"
STEPS = 120
SEEDS = (1, 2, 3)


class Chaos:
    """What may happen to a cluster, its API server and its NATS server, drawn from a seed."""

    def __init__(self, scene: Scene, *, nats_server: EmbeddedNats, seed: int) -> None:
        """Keep the parts."""
        self._scene = scene
        self._nats = nats_server
        self._draw = random.Random(seed)
        self._old: list[tuple[str, Manifest]] = []

    async def step(self) -> None:
        """Let one thing happen; changes are the most frequent."""
        troubles = (
            self._break_watches,
            self._compact,
            self._refuse,
            self._stale_event,
            self._restart_nats,
            self._switch_api,
        )
        happens = self._draw.choices([self._change, self._delete, *troubles], weights=[60, 20, 5, 4, 4, 4, 1, 2], k=1)[
            0
        ]
        await happens()
        # Not to wait for anything: so that things fall at different moments of what the watcher is doing.
        await asyncio.sleep(self._draw.uniform(0, 0.01))

    async def _change(self) -> None:
        name = f"o-{self._draw.randrange(12)}"
        number = self._draw.randrange(1, 4)
        plural, manifest, group = self._draw.choice(
            (
                ("pods", pod_manifest(name, labels={"n": str(number)}), ""),
                ("nodes", node_manifest(name, gpus=number), ""),
                ("podgroups", pod_group_manifest(name, min_count=number), GROUP),
            )
        )
        self._scene.put(plural, manifest, group=group)

    async def _delete(self) -> None:
        plural, group = self._draw.choice((("pods", ""), ("nodes", ""), ("podgroups", GROUP)))
        names = sorted(item["metadata"]["name"] for item in self._scene.sandbox.store.objects(plural, group=group))
        if names:
            namespace = "" if plural == "nodes" else NAMESPACE
            gone = self._scene.delete(plural, self._draw.choice(names), namespace=namespace, group=group)
            self._old.append((plural, gone))

    async def _break_watches(self) -> None:
        self._scene.sandbox.watches.break_open()

    async def _compact(self) -> None:
        self._scene.sandbox.watches.compact()
        self._scene.sandbox.watches.break_open()

    async def _refuse(self) -> None:
        code = self._draw.choice((403, 429, 500, 503))
        self._scene.sandbox.faults.add(
            Match(method="GET"), Action(answer=Answer(code=code, reason="Chaos")), times=self._draw.randrange(1, 6)
        )

    async def _stale_event(self) -> None:
        if self._old:
            plural, manifest = self._draw.choice(self._old)
            self._scene.sandbox.watches.send(plural, type_="MODIFIED", obj=manifest)

    async def _restart_nats(self) -> None:
        await self._nats.kill()
        await self._nats.start()

    async def _switch_api(self) -> None:
        versions = self._draw.choice((["v1"], ["v1", "v1alpha3"], ["v1", "v1beta1", "v1alpha3"]))
        self._scene.sandbox.cluster.serve(GROUP, versions=versions)


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_stream_equals_the_cluster_after_chaos(
    scene: Scene, nats_server: EmbeddedNats, tmp_path: Path, seed: int
) -> None:
    """Changes, broken watches, refusals, stale events, crashes of NATS and of the watcher."""
    chaos = Chaos(scene, nats_server=nats_server, seed=seed)
    for turn in range(3):
        async with watcher(nats_url=nats_server.url, api_url=scene.sandbox.url, directory=tmp_path) as running:
            await until(lambda: _is_some_way(scene.reader), what="the watcher has begun")
            for _ in range(STEPS // 3):
                await chaos.step()
            if turn < 2:
                await running.kill()
                continue
            await scene.equal()


def _is_some_way(reader: StreamReader) -> bool:
    return reader.state(Kind.NODE) is not None
