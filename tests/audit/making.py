"""Makes the worlds of `broken.yaml` and `healthy.yaml` on a real API server, and reads what has to be found there."""

import asyncio
import base64
import datetime as dt
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any

import aiohttp
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.audit.behind import ADDRESS, OLD_API, SERVICE_PORT
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.connection import MERGE, Connection, RequestError

HERE = Path(__file__).parent
SERVED_WITHIN_S = 60.0
"""How long the API server may take to find out that an aggregated API answers."""
EXPECT, DELETED = "phalanx.dev/expect", "phalanx.dev/deleted"
BROKEN, HEALTHY = HERE / "broken.yaml", HERE / "healthy.yaml"
_CLUSTER_SCOPED = frozenset(
    {
        "ClusterRole",
        "ClusterTrustBundle",
        "DeviceClass",
        "DeviceTaintRule",
        "Namespace",
        "Node",
        "ResourceSlice",
        "ValidatingWebhookConfiguration",
    }
)
_PLURALS = {"ResourceClass": "resourceclasses", "DeviceClass": "deviceclasses", "PodGroup": "podgroups"}

Expected = frozenset[tuple[str, str]]
"""Check and subject of each finding."""


def manifests(file: Path, *, fill: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the objects of a world. What `fill` lacks stays as it is."""
    yield from yaml.safe_load_all(Template(file.read_text()).safe_substitute(fill))


def expected(file: Path) -> Expected:
    """Return what has to be found in a world."""
    found = set()
    for manifest in manifests(file, fill={"CSR": "", "ANCHOR": '""'}):
        metadata = manifest["metadata"]
        parts = (manifest["kind"].lower(), metadata.get("namespace"), metadata["name"])
        for check in (metadata.get("annotations") or {}).get(EXPECT, "").split(", "):
            if check:
                found.add((check, "/".join(part for part in parts if part)))
    return frozenset(found)


async def make(api: Connection, file: Path, *, anchor_days: int) -> None:
    """Create the objects of a world in their order, with their status."""
    for manifest in manifests(file, fill={"CSR": certificate_request(), "ANCHOR": '""'}):
        if manifest["kind"] == "ClusterTrustBundle":
            manifest["spec"]["trustBundle"] = anchor(days=anchor_days)
        status = manifest.pop("status", None) if manifest["kind"] != "Node" else manifest.get("status")
        for user in (status or {}).get("reservedFor") or ():
            if user["uid"].startswith("$UID_OF_"):
                pod = await api.request("GET", f"/api/v1/namespaces/team/pods/{user['name']}")
                user["uid"] = pod["metadata"]["uid"]
        await api.request("POST", collection(manifest), body=manifest)
        path = f"{collection(manifest)}/{manifest['metadata']['name']}"
        if manifest["kind"] == "Node":
            await api.request("PATCH", path, body={"spec": {"taints": None}}, content_type=MERGE)
        elif status:
            await api.request("PATCH", f"{path}/status", body={"status": status}, content_type=MERGE)
        if (manifest["metadata"].get("annotations") or {}).get(DELETED):
            await api.request("DELETE", path)


def collection(manifest: Mapping[str, Any]) -> str:
    """Return the path under which an object is created."""
    version, kind = manifest["apiVersion"], manifest["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    if kind in _CLUSTER_SCOPED:
        return f"{root}/{plural}"
    return f"{root}/namespaces/{manifest['metadata']['namespace']}/{plural}"


async def leave_old_object(cluster: Cluster, *, name: str) -> None:
    """Put a PodGroup of v1alpha2 into etcd, as an upgrade leaves it behind, through etcd's JSON gateway."""
    stored = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
    }
    text = yaml.safe_dump(stored, default_flow_style=True, width=10_000).strip().encode()
    body = {
        "key": base64.b64encode(f"/registry/podgroups/default/{name}".encode()).decode(),
        "value": base64.b64encode(text).decode(),
    }
    async with aiohttp.ClientSession() as session, session.post(f"{cluster.etcd_url}/v3/kv/put", json=body) as reply:
        assert reply.status == 200, await reply.text()


async def serve_old_version(api: Connection) -> None:
    """Let the API server serve v1alpha2 of scheduling.k8s.io again, as that of 1.36 does.

    1.37 has no code for the version and keeps its groups from CustomResourceDefinitions, so it passes the requests on
    to a server behind it (API aggregation), which knows one PodGroup.
    """
    metadata = {"name": "old-api", "namespace": "default"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": SERVICE_PORT}]}}
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata | {"labels": {"kubernetes.io/service-name": "old-api"}},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": SERVICE_PORT, "protocol": "TCP"}],
        "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": True}}],
    }
    aggregated = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1alpha2.scheduling.k8s.io"},
        "spec": {
            "group": "scheduling.k8s.io",
            "version": "v1alpha2",
            "service": metadata,
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
        },
    }
    await api.request("POST", "/api/v1/namespaces/default/services", body=service)
    await api.request("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", body=endpoints)
    await api.request("POST", "/apis/apiregistration.k8s.io/v1/apiservices", body=aggregated)
    async with asyncio.timeout(SERVED_WITHIN_S):
        while True:
            try:
                await api.request("GET", f"{OLD_API}/podgroups")
            except RequestError:
                # Not found until it is registered, unavailable until the server behind it was asked.
                await asyncio.sleep(0.1)
            else:
                return


def certificate_request() -> str:
    """Return a certificate signing request, DER in base64."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return base64.b64encode(request.public_bytes(serialization.Encoding.DER)).decode()


def anchor(*, days: int) -> str:
    """Return a trust anchor that expires in so many days, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "anchor")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
