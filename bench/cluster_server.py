"""The API server of the watcher's benchmark: a sandbox filled with many objects of realistic size.

    python -m bench.cluster_server KUBECONFIG PODS NODES

It takes commands as JSON lines on standard input and answers `done` to each: `change` gives pods a new annotation with
the time, at a rate or as fast as it can; `compact` breaks the watches and makes them list again.
"""

import asyncio
import gc
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import click
import orjson
import uvloop

from services.sandbox import kubeconfig
from services.sandbox.app import RunningSandbox, running
from services.sandbox.cluster import ClusterSettings
from services.sandbox.store import Limits

SENT_ANNOTATION = "phalanx.dev/bench-sent"
NAMESPACE_COUNT = 20
TICK_S = 0.01

Manifest = dict[str, Any]


@click.command(help=__doc__)
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("pods", type=int)
@click.argument("nodes", type=int)
def main(path: Path, pods: int, nodes: int) -> None:
    """Serve until the parent ends."""
    uvloop.run(_serve(path, pods=pods, nodes=nodes))


async def _serve(path: Path, *, pods: int, nodes: int) -> None:
    limits = Limits(history_events=100_000, watch_queue_events=100_000)
    async with running(ClusterSettings(has_controllers=False, limits=limits)) as sandbox:
        for number in range(nodes):
            sandbox.store.insert(sandbox.store.kind("nodes"), node_manifest(number))
        for number in range(pods):
            sandbox.store.insert(sandbox.store.kind("pods"), pod_manifest(number, node_count=nodes))
        # A real API server does not stop for Python's cycle collector to visit all of this.
        gc.freeze()
        kubeconfig.write(path, url=sandbox.url)
        _say_done()
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            await _obey(sandbox, command=orjson.loads(line))
            _say_done()


def _say_done() -> None:
    print("done", flush=True)


async def _obey(sandbox: RunningSandbox, *, command: Manifest) -> None:
    if command["do"] == "compact":
        sandbox.watches.compact(["pods"])
        sandbox.watches.break_open(["pods"])
        return
    rate, count = command["rate"], command["count"]
    held = list(sandbox.store.collection(sandbox.store.kind("pods")).objects)
    started_s, made = time.monotonic(), 0
    while made < count:
        due = count if not rate else min(count, int((time.monotonic() - started_s) * rate) + 1)
        for number in range(made, due):
            _change(sandbox, key=held[number * 7919 % len(held)], batch=command["batch"])
            if number % 200 == 0:
                await asyncio.sleep(0)
        made = due
        await asyncio.sleep(TICK_S if rate else 0)


def _change(sandbox: RunningSandbox, *, key: str, batch: str) -> None:
    stored = sandbox.store.collection(sandbox.store.kind("pods")).objects[key]
    annotations = {SENT_ANNOTATION: f"{batch}/{time.monotonic_ns()}"}
    metadata = stored.obj["metadata"] | {"annotations": annotations}
    sandbox.store.replace(stored, stored.obj | {"metadata": metadata})


def node_manifest(number: int) -> Manifest:
    """A node as a cloud provider's kubelet reports it."""
    name = f"node-{number:05d}"
    capacity = {"cpu": "96", "memory": "1056764Mi", "pods": "110", "ephemeral-storage": "1Ti", "nvidia.com/gpu": "8"}
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "reason": f"Kubelet{kind}",
            "message": "kubelet has no trouble with this",
            "lastHeartbeatTime": "2026-07-01T12:00:00Z",
            "lastTransitionTime": "2026-07-01T12:00:00Z",
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    images = [{"names": [f"registry.example/image-{n}@sha256:{n:064d}"], "sizeBytes": 10**8 + n} for n in range(30)]
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "topology.kubernetes.io/region": "region-1",
        "node.kubernetes.io/instance-type": "gpu.8x",
    }
    return {
        "metadata": _metadata(name, namespace="", labels=labels),
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"cloud:///{name}"},
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "conditions": conditions,
            "images": images,
            "nodeInfo": {"kubeletVersion": "v1.37.2", "osImage": "Debian GNU/Linux 12", "architecture": "amd64"},
        },
    }


def pod_manifest(number: int, *, node_count: int) -> Manifest:
    """A running member of a training job, with what admission and kubelet add to it."""
    name = f"train-{number // 64:05d}-{number % 64}"
    labels = {
        "app.kubernetes.io/name": "train",
        "batch.kubernetes.io/job-name": f"train-{number // 64:05d}",
        "batch.kubernetes.io/job-completion-index": str(number % 64),
    }
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": f"train-{number // 64:05d}",
        "uid": str(uuid.UUID(int=number // 64)),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    resources = {"requests": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    mounts = [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}]
    environment = [{"name": f"SETTING_{n}", "value": f"value of the setting number {n}"} for n in range(12)]
    main = {
        "name": "main",
        "image": "registry.example/train@sha256:" + "0" * 64,
        "command": ["python", "-m", "train"],
        "env": environment,
        "resources": resources,
        "volumeMounts": mounts,
    }
    toleration = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    running_state = {"running": {"startedAt": "2026-07-01T12:00:00Z"}}
    return {
        "metadata": _metadata(name, namespace=f"team-{number % NAMESPACE_COUNT}", labels=labels)
        | {"ownerReferences": [owner]},
        "spec": {
            "schedulerName": "phalanx",
            "schedulingGroup": {"podGroupName": f"train-{number // 64:05d}"},
            "nodeName": f"node-{number % node_count:05d}" if node_count else "",
            "priority": 1000,
            "serviceAccountName": "default",
            "containers": [main],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready"} | toleration,
                {"key": "node.kubernetes.io/unreachable"} | toleration,
            ],
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-07-01T12:00:00Z"}
                for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
            ],
            "containerStatuses": [{"name": "main", "ready": True, "started": True, "state": running_state}],
        },
    }


def _metadata(name: str, *, namespace: str, labels: dict[str, str]) -> Manifest:
    """Metadata with the managed fields that make up a third of a real object."""
    fields: Manifest = {f"f:field-{n}": {"f:inner": {}, "f:other": {}} for n in range(20)}
    managed = [
        {"manager": manager, "operation": "Update", "time": "2026-07-01T12:00:00Z", "fieldsV1": fields}
        for manager in ("kube-controller-manager", "kubelet")
    ]
    placed = {"namespace": namespace} if namespace else {}
    own = {"name": name, "uid": str(uuid.uuid4()), "creationTimestamp": "2026-07-01T12:00:00Z", "labels": labels}
    return own | placed | {"managedFields": managed}


if __name__ == "__main__":
    main()
