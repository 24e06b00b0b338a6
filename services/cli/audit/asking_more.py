"""Carries out dry runs, and reads nodes through the API server: what an audit does only when it is asked to."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from services.cli.audit.checks.proxy import settings_of
from services.cli.audit.evidence import Evidence, Manifest, Reading, State
from services.cli.audit.optional_sources import KUBELETS, PROXY_MODES, NodeSource, Probe
from services.runtime.kube import KubeClient, KubeError, KubeFault

Tell = Callable[[str, int], None]

FORBIDDEN, NOT_FOUND, UNAUTHORIZED, SERVER_ERROR = 403, 404, 401, 500
NODE_TIMEOUT_S = 10.0
NODES_AT_ONCE = 16
FIRST_NODES = 16
"""Where none of so many nodes answers, no other is asked: 5,000 timeouts would take half an hour."""
_LOOPBACK = ("127.", "localhost", "[::1]", "::1")
_DRY_RUN = {"dryRun": "All"}


async def probe(client: KubeClient, source: Probe, *, tell: Tell) -> Reading:
    """Try to create an object without storing it. What the server would store, or why it refuses, is the only item."""
    tell(source.key, 0)
    version = source.versions[0]
    try:
        reply = await client.request_ok("POST", source.path_in(version), body=source.body, query=_DRY_RUN)
    except KubeError as error:
        return _refused(error, source)
    except KubeFault as error:
        return Reading(state=State.FAILED, problem=str(error), fix="check that the API server can be reached")
    return Reading(state=State.READ, items=(reply.json(),), version=version)


def _refused(error: KubeError, source: Probe) -> Reading:
    if error.status == NOT_FOUND:
        return Reading(state=State.ABSENT)
    # Admission answers 403 too; only RBAC begins with the user.
    if error.status == FORBIDDEN and ' is forbidden: User "' in error.message:
        fix = f"grant this rule, or leave --probe out: {source.rule}"
        return Reading(state=State.FAILED, problem=str(error), reason=error.reason, fix=fix)
    if error.status == UNAUTHORIZED or error.status >= SERVER_ERROR:
        return Reading(state=State.FAILED, problem=str(error), reason=error.reason, fix="see the API server's log")
    document = {"kind": "Status", "metadata": {}, "reason": error.reason, "message": error.message}
    return Reading(state=State.READ, items=(document,), version=source.versions[0])


async def read_nodes(client: KubeClient, source: NodeSource, *, evidence: Evidence, tell: Tell) -> Reading:
    """Read one document of every node. An item has the node's name, and what was read or why nothing was."""
    tell(source.key, 0)
    nodes = evidence.reading("nodes")
    if nodes.state is not State.READ:
        return Reading(state=State.FAILED, problem="the list of nodes could not be read", fix=nodes.fix)
    port, problem = _port(source, evidence)
    if problem:
        return Reading(state=State.FAILED, problem=problem, fix=_HOW_TO_REACH[source.key])
    names = [str(node["metadata"]["name"]) for node in nodes.items]
    places = asyncio.Semaphore(NODES_AT_ONCE)

    async def read(name: str) -> Manifest:
        async with places:
            return await _node(client, source.path.format(node=name, port=port), name=name, source=source)

    items = await _all(read, names[:FIRST_NODES])
    failures = [item for item in items if "problem" in item]
    if items and len(failures) == len(items):
        return _unreachable(source, failures)
    items += await _all(read, names[FIRST_NODES:])
    tell(source.key, len(items))
    return _partly(source, items)


async def _all(read: Callable[[str], Any], names: Sequence[str]) -> list[Manifest]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(read(name)) for name in names]
    return [task.result() for task in tasks]


async def _node(client: KubeClient, path: str, *, name: str, source: NodeSource) -> Manifest:
    found: dict[str, Any] = {"metadata": {"name": name}}
    try:
        reply = await client.request_ok("GET", path, timeout_s=NODE_TIMEOUT_S)
        found |= (
            {"mode": reply.body.decode(errors="replace").strip()} if source.key == PROXY_MODES else _gates(reply.body)
        )
    except KubeError as error:
        found |= {"problem": str(error), "status": error.status}
    except (KubeFault, ValueError) as error:
        found |= {"problem": str(error), "status": 0}
    return found


def _gates(body: bytes) -> Mapping[str, Any]:
    """Return the feature gates of a kubelet's /configz; the rest may be large."""
    document = orjson.loads(body)
    settings = document.get("kubeletconfig") or {} if isinstance(document, dict) else {}
    return {"featureGates": settings.get("featureGates") or {}}


def _port(source: NodeSource, evidence: Evidence) -> tuple[int, str]:
    """Return the port of kube-proxy's metrics, and why it cannot be reached where its own configuration says so."""
    if source.key != PROXY_MODES:
        return source.port, ""
    for settings in settings_of(evidence):
        address = str(settings.document.get("metricsBindAddress") or "")
        if settings.document and (not address or address.startswith(_LOOPBACK)):
            shown = address or f"127.0.0.1:{source.port}, the default"
            return source.port, f"kube-proxy's metricsBindAddress is {shown}, which the API server cannot reach"
        port = address.rpartition(":")[2]
        if port.isdigit():
            return int(port), ""
    return source.port, ""


_HOW_TO_REACH = {
    PROXY_MODES: "set metricsBindAddress: 0.0.0.0:10249 in kube-proxy's configuration, or ask each node: "
    "curl localhost:10249/proxyMode",
    KUBELETS: "see whether the API server reaches kubelets (kubectl logs needs it too)",
}


def _unreachable(source: NodeSource, failures: Sequence[Manifest]) -> Reading:
    first = failures[0]
    is_forbidden = first["status"] == FORBIDDEN and ' is forbidden: User "' in first["problem"]
    fix = f"grant this rule, or leave --node-proxy out: {source.rule}" if is_forbidden else _HOW_TO_REACH[source.key]
    return Reading(
        state=State.FAILED,
        problem=f"no node answered, as node {first['metadata']['name']}: {first['problem']}",
        fix=fix,
    )


def _partly(source: NodeSource, items: Sequence[Manifest]) -> Reading:
    """Return what was read; where some nodes did not answer, that is said beside it."""
    failures = [item for item in items if "problem" in item]
    reading = Reading(state=State.READ, items=tuple(item for item in items if "problem" not in item))
    if not failures:
        return reading
    names = ", ".join(str(one["metadata"]["name"]) for one in failures[:3])
    problem = f"{len(failures)} of {len(items)} nodes did not answer ({names}…): {failures[0]['problem']}"
    return replace(reading, problem=problem, fix=_HOW_TO_REACH[source.key])
