"""The metrics API over real TLS: who is let in, what is answered, and how a certificate is renewed."""

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from services.autoscaler.access import DENIED_S
from services.autoscaler.adapters.forwarding import MARK, Forwarder
from services.autoscaler.adapters.metrics_server import CHECK_INTERVAL_S, CONDITION, RETRY_S, MetricsServer, TlsFiles
from services.autoscaler.metrics import REQUEST_RESULTS, WakingMetrics
from services.autoscaler.serving import MetricDesk
from services.core.front_proxy import FrontProxy
from services.core.metric_readings import Known, MetricKey, SourceState
from services.runtime.health import Readiness
from tests.builders import START
from tests.e2e.waiting import until
from tests.fakes.aggregation import FakeAggregation
from tests.fakes.clock import FakeClock
from tests.integration.autoscaler.connections import until_closed
from tests.kubernetes.certificates import Authority, create_authority, issue

ROOT = "/apis/external.metrics.k8s.io/v1beta1"
DEPTH = f"{ROOT}/namespaces/team-a/depth"
HPA = {"X-Remote-User": "hpa", "X-Remote-Group": "system:serviceaccounts"}
KEY = MetricKey(name="depth", selector=(("queue", "a"),))

Answer = tuple[int, dict[str, Any]]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True, kw_only=True)
class Scene:
    """A server, with the authorities of both sides."""

    folder: Path
    front: Authority
    api: FakeAggregation
    clock: FakeClock
    desk: MetricDesk
    readiness: Readiness
    registry: CollectorRegistry
    server: MetricsServer

    @property
    def detail(self) -> str:
        """What readiness says."""
        return next((one.detail for one in self.readiness.conditions if one.name == CONDITION), "")

    @property
    def port(self) -> int:
        """Where it serves."""
        found = re.search(r"port (\d+)", self.detail)
        assert found is not None
        return int(found[1])

    @property
    def results(self) -> dict[str, float]:
        """What was counted."""
        name = "phalanx_autoscaler_external_metrics_requests_total"
        counted = {result: self.registry.get_sample_value(name, {"result": result}) or 0 for result in REQUEST_RESULTS}
        return {result: count for result, count in counted.items() if count}

    async def begin(self) -> None:
        """Give it a certificate, and wait until it serves."""
        self.renew("first")
        await until(lambda: self.clock.sleeper_count, what="it looks for its certificate")
        await self.later(RETRY_S)
        await until(lambda: self.detail.startswith("serving"), what="it serves")

    def renew(self, name: str) -> None:
        """Write a certificate of an authority of that name, with the authority."""
        authority = create_authority(self.folder, name=name)
        (self.folder / "ca.crt").write_bytes(authority.certificate_file.read_bytes())
        issue(authority, folder=self.folder, name="tls")

    def client(self, *, certificate: str = "", authority: Authority | None = None) -> ssl.SSLContext:
        """A client that trusts the server's present authority, with a certificate of that name or without one."""
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        if certificate:
            files = issue(
                authority or self.front, folder=self.folder, name=f"client-{certificate}", common_name=certificate
            )
            context.load_cert_chain(*files)
        return context

    async def get(
        self, path: str, *, headers: Mapping[str, str] = HPA, tls: ssl.SSLContext | None = None, method: str = "GET"
    ) -> Answer:
        """Ask on a connection of its own."""
        async with session() as client:
            return await self.ask(
                client, path, headers=headers, tls=tls or self.client(certificate="front"), method=method
            )

    async def ask(
        self,
        client: aiohttp.ClientSession,
        path: str,
        *,
        tls: ssl.SSLContext,
        headers: Mapping[str, str] = HPA,
        method: str = "GET",
    ) -> Answer:
        """Ask."""
        url = f"https://localhost:{self.port}{path}"
        async with client.request(method, url, headers=headers, ssl=tls) as answer:
            return answer.status, await answer.json()

    async def later(self, seconds: float) -> None:
        """Let time pass; what reads files does so in this task's turns."""
        await self.clock.run_for(seconds)


def session() -> aiohttp.ClientSession:
    """A client."""
    return aiohttp.ClientSession()


@contextlib.asynccontextmanager
async def answering(handler: Handler) -> AsyncIterator[str]:
    """Another adapter, and its address."""
    application = web.Application()
    application.router.add_get("/{path:.*}", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def trusting(authority: Authority, *names: str) -> FrontProxy:
    """A front proxy whose certificates this authority signs."""
    return FrontProxy(
        authority_pem=authority.certificate_file.read_text(),
        allowed_names=names,
        user_headers=("X-Remote-User",),
        group_headers=("X-Remote-Group",),
    )


def known(value: float) -> Mapping[MetricKey, SourceState | None]:
    """One source with a number."""
    return {KEY: SourceState(reading=Known(value=value, taken_at=START))}


@contextlib.asynccontextmanager
async def staged(folder: Path, *, forwarder: Forwarder | None = None) -> AsyncIterator[Scene]:
    """A server that runs, and has no certificate yet."""
    front = create_authority(folder, name="front-ca")
    clock = FakeClock(start=START)
    api = FakeAggregation(proxy=trusting(front, "front"), allowed={("hpa", "team-a", "depth")})
    registry, readiness, desk = CollectorRegistry(), Readiness(clock=clock), MetricDesk(clock=clock)
    desk.open(lambda: known(3))
    server = MetricsServer(
        address="127.0.0.1:0",
        files=TlsFiles.of(folder),
        desk=desk,
        access=api,
        forwarder=forwarder,
        readiness=readiness,
        metrics=WakingMetrics(registry),
        clock=clock,
    )
    scene = Scene(
        folder=folder,
        front=front,
        api=api,
        clock=clock,
        desk=desk,
        readiness=readiness,
        registry=registry,
        server=server,
    )
    running = asyncio.create_task(server.run())
    try:
        yield scene
    finally:
        port = scene.port
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        await until_closed(port)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """A server that serves."""
    async with staged(tmp_path) as made:
        await made.begin()
        yield made


async def test_the_front_proxy_gets_numbers(scene: Scene) -> None:
    """In the form that the HPA's controller reads."""
    status, document = await scene.get(f"{DEPTH}?labelSelector=queue%3Da")
    assert status == 200
    assert document == {
        "kind": "ExternalMetricValueList",
        "apiVersion": "external.metrics.k8s.io/v1beta1",
        "metadata": {},
        "items": [
            {
                "metricName": "depth",
                "metricLabels": {"queue": "a"},
                "timestamp": START.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "value": "3",
            }
        ],
    }
    assert scene.results == {"answered": 1}


async def test_discovery_names_the_metrics(scene: Scene) -> None:
    """Without asking for rights: everybody who is authenticated may discover."""
    headers = {"X-Remote-User": "system:kube-aggregator"}
    status, resources = await scene.get(ROOT, headers=headers)
    assert (status, [one["name"] for one in resources["resources"]]) == (200, ["depth"])
    status, group = await scene.get("/apis/external.metrics.k8s.io", headers=headers)
    assert (status, group["preferredVersion"]["version"]) == (200, "v1beta1")
    assert scene.api.reviews == 0


async def test_who_has_no_certificate_of_the_front_proxy_is_nobody(scene: Scene) -> None:
    """Whatever the headers say; the certificate of another authority does not even come through the handshake."""
    for tls in (scene.client(), scene.client(certificate="somebody")):
        status, document = await scene.get(DEPTH, tls=tls)
        assert (status, document["kind"], document["reason"]) == (401, "Status", "Unauthorized")
    other = create_authority(scene.folder, name="other")
    with pytest.raises(aiohttp.ClientError):
        await scene.get(DEPTH, tls=scene.client(certificate="front", authority=other))
    status, document = await scene.get(DEPTH, headers={"X-Remote-Group": "system:masters"})
    assert (status, document["message"]) == (401, "the front proxy named nobody")
    assert scene.results == {"unauthenticated": 3}
    assert scene.api.reviews == 0


async def test_rights_are_asked_for(scene: Scene) -> None:
    """Where there is none it is refused, and where nobody answers it is no right."""
    status, document = await scene.get(DEPTH, headers={"X-Remote-User": "eve"})
    assert (status, document["reason"]) == (403, "Forbidden")
    assert "'eve' may not list resource 'depth'" in document["message"]
    scene.api.is_away = True
    status, document = await scene.get(DEPTH)
    assert (status, document["reason"]) == (503, "ServiceUnavailable")
    assert scene.results == {"forbidden": 1, "unavailable": 1}


async def test_what_is_not_known_is_an_error(scene: Scene) -> None:
    """With a reason that the HPA shows; never a number, and never an empty list."""
    scene.api.allowed |= {("hpa", "team-a", "other")}
    for path, expected in (
        (f"{ROOT}/namespaces/team-a/other", (404, "NotFound")),
        (f"{DEPTH}?labelSelector=queue%3Db", (404, "NotFound")),
        (f"{DEPTH}?labelSelector=queue%3D%3D%3D", (400, "BadRequest")),
        ("/apis/other", (404, "NotFound")),
    ):
        status, document = await scene.get(path)
        assert (status, document["reason"]) == expected, path
    status, document = await scene.get(DEPTH, method="DELETE")
    assert (status, document["reason"]) == (405, "MethodNotAllowed")
    scene.desk.close()
    status, document = await scene.get(DEPTH)
    assert (status, document["reason"]) == (503, "ServiceUnavailable")
    assert scene.results == {"not_found": 2, "invalid": 1, "unavailable": 1}


async def test_a_new_certificate_is_taken_without_a_request_lost(scene: Scene) -> None:
    """Connections that are open get one more answer and are closed; new ones get the new certificate."""
    first = scene.client(certificate="front")
    async with session() as client:
        assert (await scene.ask(client, DEPTH, tls=first))[0] == 200
        scene.renew("second")
        await scene.later(CHECK_INTERVAL_S)
        assert (await scene.ask(client, DEPTH, tls=first))[0] == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await scene.ask(client, DEPTH, tls=first)
    assert (await scene.get(DEPTH))[0] == 200


async def test_half_a_certificate_is_not_taken(scene: Scene) -> None:
    """The one before stays until certificate and key match."""
    kept = (scene.folder / "tls.key").read_bytes()
    issue(create_authority(scene.folder, name="third"), folder=scene.folder, name="tls")
    (scene.folder / "tls.key").write_bytes(kept)
    await scene.later(CHECK_INTERVAL_S)
    assert (await scene.get(DEPTH))[0] == 200


async def test_a_front_proxy_of_another_authority_replaces_the_one_before(scene: Scene) -> None:
    """What came in under the old authority is nobody from then on, also on a connection that is open."""
    old = scene.client(certificate="front")
    async with session() as client:
        assert (await scene.ask(client, DEPTH, tls=old))[0] == 200
        renewed = create_authority(scene.folder, name="renewed")
        scene.api.proxy = trusting(renewed, "front")
        await scene.later(CHECK_INTERVAL_S)
        assert (await scene.ask(client, DEPTH, tls=old))[0] == 401
    assert (await scene.get(DEPTH, tls=scene.client(certificate="front", authority=renewed)))[0] == 200


async def test_what_is_not_ours_is_asked_elsewhere(tmp_path: Path) -> None:
    """As ourselves, and only once whoever asks may read it; what comes back from there is not sent there again."""
    elsewhere = {"kind": "ExternalMetricValueList", "items": [{"metricName": "other", "value": "4"}]}
    asked: list[tuple[str, str | None]] = []
    status = 200

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.append((str(request.rel_url), request.headers.get("Authorization")))
        return web.json_response(elsewhere, status=status)

    async def ourselves() -> str:
        return "Bearer ours"

    other = f"{ROOT}/namespaces/team-a/other?labelSelector=a%3Db"
    async with (
        answering(handler) as url,
        Forwarder(url=url, ca_file=None, authorization=ourselves) as forwarder,
        staged(tmp_path, forwarder=forwarder) as scene,
    ):
        await scene.begin()
        assert (await scene.get(other))[0] == 403
        assert asked == []
        scene.api.allowed.add(("hpa", "team-a", "other"))
        scene.clock.advance(DENIED_S)
        assert await scene.get(other) == (200, elsewhere)
        assert asked == [(other, "Bearer ours")]
        assert (await scene.get(DEPTH))[1]["items"][0]["value"] == "3"
        assert (await scene.get(other, headers={**HPA, MARK: "true"}))[0] == 404
        status = 403
        refused = await scene.get(other)
        assert (refused[0], len(asked)) == (503, 2)
        assert "answered with status 403" in refused[1]["message"]
        assert scene.results == {"answered": 1, "forwarded": 1, "forbidden": 1, "not_found": 1, "unavailable": 1}


async def test_what_is_missing_at_the_start_is_said(tmp_path: Path) -> None:
    """It is not ready, says what it waits for, and serves when it is there."""
    async with staged(tmp_path) as scene:
        await until(lambda: "tls.crt" in scene.detail, what="the certificate is missed")
        assert not scene.readiness.is_ready
        scene.renew("first")
        proxy, scene.api.proxy = scene.api.proxy, None
        await scene.later(RETRY_S)
        await until(lambda: "client-ca-file is missing" in scene.detail, what="the front proxy is missed")
        scene.api.proxy = proxy
        await scene.later(RETRY_S)
        await until(lambda: scene.readiness.is_ready, what="it serves")
