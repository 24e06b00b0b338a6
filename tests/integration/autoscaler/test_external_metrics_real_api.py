"""The metrics API behind a real API server, with the rights of deploy/, and the native HPA controller that reads it."""

import asyncio
import base64
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.core.metrics_registration import API_SERVICE
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.kube import KubeClient
from tests.e2e.kubernetes import rights
from tests.e2e.waiting import until
from tests.hpas import external
from tests.integration.autoscaler.connections import until_closed
from tests.integration.autoscaler.waking_scene import NAMESPACE, Scene, staged
from tests.kubernetes.certificates import create_authority, issue
from tests.kubernetes.cluster import Cluster, ClusterConfig
from tests.kubernetes.fixtures import require_binaries
from tests.kubernetes.front_proxy import FrontProxyFiles

pytest_plugins = ("tests.nats_server",)
pytestmark = pytest.mark.kubernetes

DEPLOY = Path(__file__).parents[3] / "deploy"
SERVICE = "phalanx-external-metrics"
SERVER_NAME = f"{SERVICE}.{rights.NAMESPACE}.svc"
APIS = "/apis/apiregistration.k8s.io/v1/apiservices"
METRICS = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{NAMESPACE}"
AT_ONCE = {
    "scaleDown": {"stabilizationWindowSeconds": 0},
    "scaleUp": {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]},
}
"""The native controller waits five minutes before it scales down, and goes up by four; here it need not."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """API server with a front proxy, and controller manager, whose HPA loop looks every second."""
    require_binaries()
    files = FrontProxyFiles.create(tmp_path_factory.mktemp("front-proxy"))
    sync = ("--horizontal-pod-autoscaler-sync-period=1s",)
    with Cluster(ClusterConfig(apiserver_args=files.apiserver_args, controller_manager_args=sync)) as running:
        yield running


@pytest.fixture
async def administrator(cluster: Cluster) -> AsyncIterator[KubeClient]:
    """Whoever installs Phalanx: its rights are there, and afterwards neither HPAs nor an APIService."""
    async with await KubeClient.open(cluster.kubeconfig) as client:
        await rights.apply(client)
        await _install(client)
        yield client
        for path in (
            f"{APIS}/{API_SERVICE}",
            f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers",
            f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
            f"/api/v1/namespaces/{NAMESPACE}/events",
        ):
            await client.request("DELETE", path)


@dataclass(slots=True, kw_only=True)
class Served:
    """An autoscaler that serves metrics, and the API server in front of it."""

    scene: Scene
    administrator: KubeClient

    async def register(self) -> None:
        """Create the APIService of deploy/, with the port of this test; wait until the API server sees us."""
        document = yaml.safe_load((DEPLOY / "external-metrics" / "apiservice.yaml").read_text())
        document["spec"]["service"]["port"] = self.port
        await self.administrator.request_ok("POST", APIS, body=document)
        await self.scene.until(self.availability, "True Passed", what="Available")

    async def api_service(self) -> dict[str, Any]:
        """The APIService as it is."""
        return dict((await self.administrator.request_ok("GET", f"{APIS}/{API_SERVICE}")).json())

    async def availability(self) -> str:
        """Status and reason of its condition Available."""
        conditions = (await self.api_service()).get("status", {}).get("conditions", [])
        return " ".join(f"{one['status']} {one['reason']}" for one in conditions if one["type"] == "Available")

    async def values(self, metric: str = "queue_depth", *, selector: str = "queue=infer") -> list[str]:
        """What the API server answers about a metric, as the HPA would ask."""
        reply = await self.administrator.request("GET", f"{METRICS}/{metric}", query={"labelSelector": selector})
        document = reply.json()
        if reply.status != 200:
            return [f"{reply.status} {document['reason']}"]
        return [item["value"] for item in document["items"]]

    def detail(self, name: str) -> str:
        """What readiness says under a name."""
        return next((one.detail for one in self.scene.readiness.conditions if one.name == name), "")

    def is_serving(self) -> bool:
        """Whether it has its certificate."""
        return self.detail("external metrics").startswith("serving")

    @property
    def port(self) -> int:
        """Where it serves."""
        found = re.search(r"port (\d+)", self.detail("external metrics"))
        assert found is not None
        return int(found[1])


@contextlib.asynccontextmanager
async def serving(cluster: Cluster, administrator: KubeClient, *, nats_url: str, folder: Path) -> AsyncIterator[Served]:
    """An autoscaler with the rights of deploy/ that reads its sources twice a second, and serves them."""
    tls = folder / "tls"
    tls.mkdir()
    renew_certificate(tls)
    own = await rights.kubeconfig(administrator, cluster=cluster, service="autoscaler", folder=folder)
    async with staged(
        cluster.kubeconfig,
        nats_url=nats_url,
        directory=folder,
        interval_s=0.5,
        own_kubeconfig=own,
        external_metrics_tls=tls,
        external_metrics_address="127.0.0.1:0",
    ) as scene:
        made = Served(scene=scene, administrator=administrator)
        await until(made.is_serving, what="the metrics API is served")
        port = made.port
        yield made
    await until_closed(port)


@pytest.fixture
async def served(
    cluster: Cluster, administrator: KubeClient, nats_server: EmbeddedNats, tmp_path: Path
) -> AsyncIterator[Served]:
    """An autoscaler that serves, and is not registered yet."""
    async with serving(cluster, administrator, nats_url=nats_server.url, folder=tmp_path) as made:
        yield made


async def test_a_target_falls_asleep_and_is_woken(served: Served) -> None:
    """The native controller takes it to zero on our explicit 0, we wake it, and it goes on from there."""
    await served.register()
    scene = served.scene
    await scene.until(served.values, ["0"], what="what is served")
    await scene.deployment(replicas=1)
    await scene.hpa(behavior=AT_ONCE)
    await scene.until_replicas(0)
    await scene.until_condition("ScaledToZero", "True ScaledToZero")
    await scene.send(25)
    await scene.until_replicas(3)
    await scene.until_condition("ScaledToZero", "False NotScaledToZero")
    await scene.until(scene.events, ["Normal Woken infer"], what="events")
    # From here on the native controller scales, also beyond what it was woken to.
    await scene.send(30)
    await scene.until_replicas(6)
    # A queue that is not there is no empty queue: nothing is scaled on it.
    await scene.jetstream.delete_consumer("ORDERS", "infer")
    await scene.until_condition("ScalingActive", "False FailedGetExternalMetric")
    assert await served.values() == ["503 ServiceUnavailable"]
    assert await scene.replicas() == 6
    await scene.queue("infer")
    await scene.until_condition("ScalingActive", "True ValidMetricFound")
    await scene.jetstream.purge_stream("ORDERS")
    await scene.until_replicas(0)
    await scene.until_condition("ScaledToZero", "True ScaledToZero")


async def test_the_native_controller_lands_on_whole_groups(served: Served) -> None:
    """Up from one group, down to none, and up again by us: never a part of a group is asked for."""
    await served.register()
    scene = served.scene
    seen = []
    await scene.send(5)
    await scene.deployment(replicas=4)
    metrics = (external(each="1", labels={"queue": "infer"}),)
    groups = {"phalanx.dev/group-size": "4"}
    await scene.hpa(metrics=metrics, annotations=groups, most=14, behavior=AT_ONCE)

    async def follow() -> None:
        while True:
            seen.append(await scene.replicas())
            await asyncio.sleep(0.02)

    following = asyncio.create_task(follow())
    try:
        await scene.until(served.values, ["8"], what="what is served")
        await scene.until_replicas(8)
        await scene.jetstream.purge_stream("ORDERS")
        await scene.until_replicas(0)
        await scene.send(13)
        await scene.until_replicas(12)
        await scene.until(served.values, ["12"], what="what is served")
    finally:
        following.cancel()
    assert set(seen) <= {0, 4, 8, 12}


async def test_what_cannot_be_known_is_an_error(served: Served) -> None:
    """Neither zero nor an empty list; and several sources are several items."""
    await served.register()
    await served.scene.until(served.values, ["0"], what="what is served")
    assert await served.values("nothing") == ["404 NotFound"]
    assert await served.values(selector="queue=other") == ["404 NotFound"]
    assert await served.values(selector="queue in (infer,other)") == ["0"]
    assert await served.values(selector="") == ["0"]
    listed = (await served.administrator.request_ok("GET", METRICS.partition("/namespaces/")[0])).json()
    assert [one["name"] for one in listed["resources"]] == ["queue_depth"]


async def test_somebody_elses_api_is_left_alone(
    cluster: Cluster, administrator: KubeClient, nats_server: EmbeddedNats, tmp_path: Path
) -> None:
    """It keeps its service and its authority, we say so, and wake all the same."""
    document = yaml.safe_load((DEPLOY / "external-metrics" / "apiservice.yaml").read_text())
    document["spec"]["service"] = {"namespace": "keda", "name": "keda-operator-metrics-apiserver", "port": 443}
    created = (await administrator.request_ok("POST", APIS, body=document)).json()
    async with serving(cluster, administrator, nats_url=nats_server.url, folder=tmp_path) as served:
        belongs = "belongs to keda/keda-operator-metrics-apiserver"
        await until(lambda: belongs in served.detail("external metrics api"), what="it is told")
        owner = {"owner": "foreign"}
        gauge = served.scene.registry.get_sample_value("phalanx_autoscaler_external_metrics_api", owner)
        assert gauge == 1
        await served.scene.deployment()
        await served.scene.hpa(scaled_to_zero="True")
        await served.scene.send()
        await served.scene.until_replicas(1)
        assert (await served.api_service())["spec"] == created["spec"]


async def test_another_authority_reaches_the_api_server(served: Served, tmp_path: Path) -> None:
    """The certificate is renewed by another authority: the API server is told, and goes on reading."""
    await served.register()
    before = (await served.api_service())["spec"]["caBundle"]
    renew_certificate(tmp_path / "tls")
    after = base64.b64encode((tmp_path / "tls" / "ca.crt").read_bytes()).decode()
    assert before != after

    async def is_written() -> bool:
        return bool((await served.api_service())["spec"]["caBundle"] == after)

    await served.scene.until(is_written, True, what="the new authority is written")
    await served.scene.until(served.values, ["0"], what="what is served")


def renew_certificate(folder: Path) -> None:
    """Write certificate, key and authority, all of them new, as a mounted Secret has them."""
    authority = create_authority(folder, name="ca")
    certificate, key = issue(authority, folder=folder, name="tls", dns_names=(SERVER_NAME,))
    assert {certificate.name, key.name, authority.certificate_file.name} == {"tls.crt", "tls.key", "ca.crt"}


async def _install(client: KubeClient) -> None:
    """Create what deploy/base has for the metrics API; its Service leads to this machine."""
    for one in yaml.safe_load_all((DEPLOY / "base" / "external-metrics.yaml").read_text()):
        if one["kind"] == "Service":
            one["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        await client.request("POST", _root(one), body=one)


def _root(manifest: dict[str, Any]) -> str:
    version = manifest["apiVersion"]
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = manifest["metadata"].get("namespace")
    middle = f"/namespaces/{namespace}" if namespace else ""
    return f"{group}{middle}/{manifest['kind'].lower()}s"
