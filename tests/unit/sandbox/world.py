"""A simulated cluster whose time stands still, and the few objects that most tests are about."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

from services.sandbox import table
from services.sandbox.cluster import Cluster, ClusterSettings
from services.sandbox.controllers.loop import ControllerLoop
from services.sandbox.controllers.table import controllers
from services.sandbox.deletion import DeleteOptions
from services.sandbox.kinds import Kind
from services.sandbox.objects import Obj, is_terminal, metadata, spec, status
from tests.builders import NAMESPACE, namespace_manifest, pod_manifest, pod_spec
from tests.fakes.clock import FakeClock


class World:
    """A cluster with its controllers running on a clock that a test moves."""

    def __init__(self, cluster: Cluster, clock: FakeClock) -> None:
        self.cluster = cluster
        self.clock = clock

    def create(self, kind: Kind, obj: Obj, *, namespace: str = NAMESPACE) -> Obj:
        """Create an object as a client would; returns it as stored."""
        return self.cluster.writer.create(kind, obj, namespace=namespace).obj

    def get(self, kind: Kind, name: str, *, namespace: str = NAMESPACE) -> Obj | None:
        """One object, None where it is gone."""
        stored = self.cluster.store.get(kind, namespace=namespace, name=name)
        return stored.obj if stored else None

    def found(self, kind: Kind, name: str) -> Obj:
        """One object that must be there."""
        obj = self.get(kind, name)
        assert obj is not None, f"{kind.plural} {name} is gone"
        return obj

    def pods(self) -> list[Obj]:
        """All pods of the tests' namespace."""
        return self.cluster.store.objects("pods", namespace=NAMESPACE)

    def active_pods(self) -> list[Obj]:
        """Pods that have neither finished nor are being deleted."""
        return [pod for pod in self.pods() if not is_terminal(pod) and "deletionTimestamp" not in metadata(pod)]

    def bind(self, pods: Iterable[Obj], node: str = "node-001") -> None:
        """Bind every pod that has no node yet."""
        for pod in pods:
            if not spec(pod).get("nodeName"):
                name = metadata(pod)["name"]
                binding: Obj = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
                self.cluster.subresources.bind(binding, namespace=NAMESPACE, name=name)

    def patch(self, kind: Kind, name: str, **changes: Any) -> Obj:
        """Merge changes into the spec of an object."""
        stored = self.cluster.writer.require(kind, namespace=NAMESPACE, name=name)
        changed = {**stored.full(kind.versions[0])}
        changed["spec"] = {**changed["spec"], **changes}
        return self.cluster.writer.update(stored, changed).obj

    def delete(self, kind: Kind, name: str, **options: Any) -> None:
        """Delete an object with these delete options."""
        stored = self.cluster.writer.require(kind, namespace=NAMESPACE, name=name)
        self.cluster.remover.delete(stored, DeleteOptions(**options))

    async def settle(self) -> None:
        """Let controllers do what is due now."""
        await self.clock.settle()

    async def run_for(self, seconds: float) -> None:
        """Let that much time pass."""
        await self.clock.run_for(seconds)

    def phases(self) -> list[str]:
        """The phases of all pods."""
        return sorted(str(status(pod).get("phase")) for pod in self.pods())


@contextlib.asynccontextmanager
async def world(settings: ClusterSettings | None = None) -> AsyncIterator[World]:
    """A running world; two nodes unless the settings say otherwise."""
    clock = FakeClock()
    cluster = Cluster(settings or ClusterSettings(nodes=2, run_s=30.0), clock=clock)
    cluster.writer.create(table.NAMESPACE, namespace_manifest())
    loop = ControllerLoop(controllers(cluster), clock=clock)
    cluster.follow(loop.on_change)
    task = asyncio.create_task(loop.run())
    try:
        yield World(cluster, clock)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def pod(name: str = "p", *, gpus: int = 0, **fields: Any) -> Obj:
    """A pod without requests; `fields` are those of `pod_manifest`."""
    return pod_manifest(name, gpus=gpus, **fields)


def job(name: str = "j", *, annotations: Obj | None = None, **fields: Any) -> Obj:
    """A Job of pods without requests; `annotations` are those of its pods, `fields` go into its spec."""
    template = {"metadata": {"annotations": annotations or {}}, "spec": pod_spec(gpus=0, restartPolicy="Never")}
    return {"metadata": {"name": name}, "spec": {"template": template, **fields}}
