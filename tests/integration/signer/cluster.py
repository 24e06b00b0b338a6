"""What the tests of the signer do on a real API server: pods, requests as the kubelet makes them, their answers."""

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from services.cli.processes import LocalProcess
from services.runtime.kube import KubeClient
from tests.e2e.kubernetes import rights
from tests.e2e.waiting import eventually
from tests.kubernetes.cluster import Cluster
from tests.pki import certificate_request

NAMESPACE = "phalanx-system"
SIGNER = "phalanx.dev/mtls"
BUNDLE_PATH = "/apis/certificates.k8s.io/v1/clustertrustbundles/phalanx.dev:mtls:ca"
SECRET_PATH = f"/api/v1/namespaces/{NAMESPACE}/secrets/phalanx-signer-ca"
REQUESTS = "/apis/certificates.k8s.io/v1/namespaces/{}/podcertificaterequests"

POLICY = """\
signer:
  identities:
    - namespace: phalanx-system
      serviceAccount: phalanx-placer
      dnsNames: [phalanx-placer.phalanx-system.svc]
      usages: [clientAuth, serverAuth]
      lifetimeHours: 2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One cluster with the rights of `deploy/`, and a signer of that account."""

    client: KubeClient
    kubeconfig: Path
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    @asynccontextmanager
    async def signing(self, name: str = "signer", **environment: str) -> AsyncIterator[LocalProcess]:
        """A signer as its own process, once it is ready."""
        config = self.folder / "phalanx.yaml"
        if not config.exists():
            config.write_text(POLICY)
        process = LocalProcess(
            name=name,
            module="services.signer",
            folder=self.folder,
            environment={
                "PHALANX_KUBECONFIG": str(self.kubeconfig),
                "PHALANX_HTTP_ADDRESS": "127.0.0.1:0",
                "PHALANX_CONFIG": str(config),
                "PHALANX_CA_SPREAD_S": "1",
                **environment,
            },
        )
        process.start()
        try:
            await process.wait_ready()
            yield process
        finally:
            await process.stop()

    async def pod(self, name: str, *, account: str = "phalanx-placer", namespace: str = NAMESPACE) -> dict[str, Any]:
        """A pod on node n1."""
        spec = {"serviceAccountName": account, "nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
        path = f"/api/v1/namespaces/{namespace}/pods"
        return dict(
            (await self.client.request_ok("POST", path, body={"metadata": {"name": name}, "spec": spec})).json()
        )

    async def ask(self, name: str, *, pod: Mapping[str, Any], key: Any = None, **spec: Any) -> None:
        """Ask for a certificate of a pod, as the kubelet of its node would."""
        namespace = pod["metadata"]["namespace"]
        stub = base64.b64encode(certificate_request(key or ec.generate_private_key(ec.SECP256R1()))).decode()
        body = {
            "metadata": {"name": name},
            "spec": {
                "signerName": SIGNER,
                "podName": pod["metadata"]["name"],
                "podUID": pod["metadata"]["uid"],
                "serviceAccountName": pod["spec"]["serviceAccountName"],
                "serviceAccountUID": "a-1",
                "nodeName": "n1",
                "nodeUID": "n-1",
                "maxExpirationSeconds": 86_400,
                "stubPKCS10Request": stub,
                **spec,
            },
        }
        await self.client.request_ok("POST", REQUESTS.format(namespace), body=body)

    async def answer(self, name: str, *, namespace: str = NAMESPACE) -> dict[str, Any]:
        """The status of a request, once there is one."""

        async def look() -> Any:
            found = (await self.client.request_ok("GET", f"{REQUESTS.format(namespace)}/{name}")).json()
            return found.get("status") if (found.get("status") or {}).get("conditions") else None

        return dict(await eventually(look, what=f"request {name} is answered", timeout_s=60))

    async def bundle(self) -> str:
        """The published certificates."""
        return str((await self.client.request_ok("GET", BUNDLE_PATH)).json()["spec"]["trustBundle"])

    async def rotate(self) -> None:
        """Ask for a new authority, as a person would with `kubectl annotate`."""
        body = {"metadata": {"annotations": {"phalanx.dev/rotate": "now"}}}
        await self.client.request_ok("PATCH", SECRET_PATH, body=body, content_type="application/merge-patch+json")

    async def clean(self) -> None:
        """Remove what a test left."""
        for path in (SECRET_PATH, BUNDLE_PATH):
            await self.client.request("DELETE", path)
        for namespace in (NAMESPACE, "team-a"):
            await self.client.request("DELETE", REQUESTS.format(namespace))
            pods = f"/api/v1/namespaces/{namespace}/pods"
            await self.client.request("DELETE", pods, query={"gracePeriodSeconds": "0"})


async def prepare(client: KubeClient, *, cluster: Cluster, folder: Path) -> Path:
    """Apply the rights, make a namespace of somebody else, and return the kubeconfig of the signer's account."""
    await rights.apply(client)
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "team-a"}})
    return await rights.kubeconfig(client, cluster=cluster, service="signer", folder=folder)
