"""What stands behind an API server, reached by a tunnel of our own: a node that answers, and an old API.

The API server dials nodes and services through an HTTP CONNECT proxy (its egress selector), so they may have addresses
that exist nowhere (RFC 5737), and their real ports.
"""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from tests.kubernetes.certificates import create_authority, issue

NAME = "talking-node"
ADDRESS = "192.0.2.10"
KUBELET_PORT, PROXY_PORT, SERVICE_PORT = 10250, 10249, 443
OLD_API = "/apis/scheduling.k8s.io/v1alpha2"
OLD_GROUP = "old"
"""Name of the PodGroup of v1alpha2, in namespace default."""
_CHUNK = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnswers:
    """What the node says: the mode of its kube-proxy, and the feature gates of its kubelet."""

    mode: str
    gates: Mapping[str, bool] = field(default_factory=dict)


def node_manifest() -> dict[str, Any]:
    """Return the node, with nothing wrong in what it reports."""
    info = {
        "kernelVersion": "6.1.0",
        "kubeletVersion": "v1.37.2",
        "containerRuntimeVersion": "containerd://2.1.0",
        "osImage": "Debian",
        "architecture": "amd64",
        "operatingSystem": "linux",
        "machineID": "1",
        "systemUUID": "1",
        "bootID": "1",
        "kubeProxyVersion": "v1.37.2",
    }
    status = {
        "addresses": [{"type": "InternalIP", "address": ADDRESS}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": KUBELET_PORT}},
        "nodeInfo": info,
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}, "status": status}


@contextlib.asynccontextmanager
async def answering(folder: Path, answers: NodeAnswers) -> AsyncIterator[tuple[str, ...]]:
    """Serve the node and the old API, and yield the flags by which an API server reaches it."""
    certificate, key = issue(create_authority(folder, name="node-ca"), folder=folder, name="kubelet")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    configuration = {"kubeletconfig": {"kind": "KubeletConfiguration", "featureGates": dict(answers.gates)}}
    async with (
        _served({"/configz": json.dumps(configuration)}, tls=tls) as kubelet,
        _served({"/proxyMode": answers.mode}, tls=None) as proxy,
        _served(_old_api(), tls=tls) as old,
    ):
        socket = folder / "egress.sock"
        ports = {KUBELET_PORT: kubelet, PROXY_PORT: proxy, SERVICE_PORT: old}
        tunnel = await asyncio.start_unix_server(_Tunnel(ports).connect, socket)
        async with tunnel:
            yield (f"--egress-selector-config-file={_egress_configuration(folder, socket)}",)
            tunnel.close()


def _egress_configuration(folder: Path, socket: Path) -> Path:
    connection = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": str(socket)}}}
    document = {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    }
    path = folder / "egress.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def _old_api() -> Mapping[str, str]:
    """Return what a server of 1.36 answers of v1alpha2, with one group that was left."""
    version = "scheduling.k8s.io/v1alpha2"
    verbs = ["get", "list", "delete"]
    kinds = {"podgroups": "PodGroup", "workloads": "Workload"}
    resources = [
        {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": verbs}
        for name, kind in kinds.items()
    ]
    left = {"metadata": {"name": OLD_GROUP, "namespace": "default"}}
    documents: dict[str, Any] = {
        OLD_API: {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}
    }
    for name, kind in kinds.items():
        items = [left] if name == "podgroups" else []
        documents[f"{OLD_API}/{name}"] = {
            "kind": f"{kind}List",
            "apiVersion": version,
            "metadata": {"resourceVersion": "1"},
            "items": items,
        }
    return {path: json.dumps(document) for path, document in documents.items()}


@contextlib.asynccontextmanager
async def _served(answers: Mapping[str, str], *, tls: ssl.SSLContext | None) -> AsyncIterator[int]:
    """Serve answers by path on a free port, and yield the port."""

    async def answer(request: web.Request) -> web.Response:
        text = answers.get(request.path)
        if text is None:
            raise web.HTTPNotFound
        is_json = text.startswith("{")
        return web.Response(text=text, content_type="application/json" if is_json else "text/plain")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


class _Tunnel:
    """Connects what is asked for, by its port alone, with where that is served here."""

    def __init__(self, ports: Mapping[int, int]) -> None:
        self._ports = ports

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one CONNECT, and carry bytes both ways until one side has no more."""
        with contextlib.closing(writer):
            head = await reader.readuntil(b"\r\n\r\n")
            target = head.split(b" ", 2)[1].decode()
            port = target.rpartition(":")[2]
            if int(port) not in self._ports:
                writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
                await writer.drain()
                return
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._ports[int(port)])
            with contextlib.closing(inner_writer):
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                ways = [asyncio.create_task(_carry(*way)) for way in ((reader, inner_writer), (inner_reader, writer))]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in ways:
                    way.cancel()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
