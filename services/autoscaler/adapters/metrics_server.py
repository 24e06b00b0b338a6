"""`external.metrics.k8s.io` over TLS, for the API server's front proxy and nobody else.

Whoever has no certificate of the front proxy's authority is nobody, whatever its headers say. The certificate, and what
is known of the front proxy, are looked at regularly; where either is another, new connections get the new one without a
port ever being closed.
"""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from socket import AF_INET, AF_INET6, create_server, socket
from typing import Any, NamedTuple

import orjson
from aiohttp import web

from services.autoscaler.access import AccessDesk, MetricAccess
from services.autoscaler.adapters.forwarding import MARK, Forwarder
from services.autoscaler.adapters.metrics_documents import (
    GROUP_VERSION,
    group_document,
    resources_document,
    status_document,
    values_document,
)
from services.autoscaler.metrics import WakingMetrics
from services.autoscaler.ports import AccessApi, ApiFailed, SourceFailed
from services.autoscaler.serving import MetricDesk
from services.core.front_proxy import FrontProxy, FrontProxyError, Requester, requester_of
from services.core.metric_selectors import SelectorError, parse_selector
from services.core.metrics_registration import API_GROUP
from services.core.served_metrics import MetricNotFound, MetricQuery, MetricUnavailable
from services.runtime.addresses import announce_port, parse_address
from services.runtime.clock import Clock
from services.runtime.health import Readiness
from services.runtime.log import get

CONDITION = "external metrics"
CHECK_INTERVAL_S = 5.0
RETRY_S = 0.5
KEEP_ALIVE_S = 180.0
"""Longer than the API server keeps idle connections: so it is the one that closes them, and no request is lost."""
BACKLOG = 128

_GROUP_PATH = f"/apis/{API_GROUP}"
_VERSION_PATH = f"/apis/{GROUP_VERSION}"
_log = get("autoscaler.metrics_server")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class TlsFiles(NamedTuple):
    """Where certificate, key and authority are, in the layout of cert-manager."""

    certificate: Path
    key: Path
    authority: Path

    @classmethod
    def of(cls, folder: Path) -> "TlsFiles":
        """Return the files of a folder."""
        return cls(certificate=folder / "tls.crt", key=folder / "tls.key", authority=folder / "ca.crt")


class _Trusting(ssl.SSLContext):
    """A server's context that knows by which front proxy its clients are judged."""

    proxy: FrontProxy


@dataclass(frozen=True, slots=True, kw_only=True)
class _Material:
    """All that a context is made of."""

    proxy: FrontProxy
    certificate: bytes
    key: bytes


class _Refused(Exception):
    """The request has an error for an answer."""

    def __init__(self, code: int, *, reason: str, message: str, result: str) -> None:
        super().__init__(message)
        self.document = status_document(code, reason=reason, message=message)
        self.code = code
        self.result = result


class MetricsServer:
    """Serves the API on one address; `run` ends when it is cancelled."""

    def __init__(
        self,
        *,
        address: str,
        files: TlsFiles,
        desk: MetricDesk,
        access: AccessApi,
        forwarder: Forwarder | None = None,
        readiness: Readiness,
        metrics: WakingMetrics,
        clock: Clock,
    ) -> None:
        """Keep the parts. `forwarder` is asked for metrics that are not ours."""
        self._address = address
        self._forwarder = forwarder
        self._files = files
        self._desk = desk
        self._api = access
        self._access = AccessDesk(access, clock=clock)
        self._readiness = readiness
        self._metrics = metrics
        self._clock = clock
        self._material: _Material | None = None
        self._context: ssl.SSLContext | None = None

    async def run(self) -> None:
        """Serve for ever. Raises OSError where the address cannot be taken."""
        self._readiness.set(CONDITION, ready=False, detail="reading certificates")
        host, port = parse_address(self._address)
        listener = _listening(host, port=port)
        runner = web.AppRunner(
            self._application(), access_log=None, shutdown_timeout=1.0, keepalive_timeout=KEEP_ALIVE_S
        )
        await runner.setup()
        try:
            await self._serve(runner, listener=listener)
        finally:
            await runner.cleanup()
            listener.close()
            self._readiness.remove(CONDITION)

    async def _serve(self, runner: web.AppRunner, *, listener: socket) -> None:
        site: web.SockSite | None = None
        port = int(listener.getsockname()[1])
        announce_port("external_metrics", port=port)
        while True:
            renewed = await self._renewed()
            if renewed is not None:
                # Both listen for a moment on the one socket, so that no connection is refused.
                following = web.SockSite(runner, listener.dup(), ssl_context=renewed, backlog=BACKLOG)
                await following.start()
                if site is not None:
                    await site.stop()
                site = following
                self._readiness.set(CONDITION, ready=True, detail=f"serving {GROUP_VERSION} on port {port}")
                _log.info("metrics_server.certificate", path=str(self._files.certificate))
            await self._clock.sleep(RETRY_S if site is None else CHECK_INTERVAL_S)

    async def _renewed(self) -> ssl.SSLContext | None:
        """Return a context where there is another certificate or front proxy; None where the one in force stays."""
        try:
            material = _Material(
                proxy=await self._api.front_proxy(),
                certificate=self._files.certificate.read_bytes(),
                key=self._files.key.read_bytes(),
            )
            if material == self._material:
                return None
            context = _context(material.proxy, files=self._files)
        except (ApiFailed, FrontProxyError, OSError) as error:
            # A certificate and a key that do not match are an SSLError, an OSError: one of them is being written.
            if self._material is None:
                self._readiness.set(CONDITION, ready=False, detail=str(error))
            else:
                _log.warning("metrics_server.not_renewed", detail=str(error))
            return None
        self._material, self._context = material, context
        return context

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._answering])
        application.add_routes(
            [
                web.get(_GROUP_PATH, self._group),
                web.get(_VERSION_PATH, self._resources),
                web.get(f"{_VERSION_PATH}/namespaces/{{namespace}}/{{metric}}", self._values),
            ]
        )
        return application

    @web.middleware
    async def _answering(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let the front proxy in, turn refusals into Status documents, and end what a renewed certificate outdates."""
        try:
            # Nobody gets anything else, not even what does not exist.
            self._requester(request)
            response = await handler(request)
        except _Refused as refused:
            self._metrics.requests.labels(result=refused.result).inc()
            response = _json(refused.document, status=refused.code)
        except web.HTTPException as error:
            message = f"{request.method} {request.path}: {error.reason}"
            document = status_document(error.status, reason=error.reason.replace(" ", ""), message=message)
            response = _json(document, status=error.status)
        if not self._is_current(request):
            response.force_close()
        return response

    def _requester(self, request: web.Request) -> Requester:
        """Return who asks. Raises _Refused."""
        proxy = self._proxy_of(request)
        name = _common_name(request)
        if proxy is None or name is None:
            raise _unauthenticated("expected the client certificate of the API server's front proxy")
        if not proxy.allows(name):
            raise _unauthenticated(f"the client certificate is of {name!r}, which is no front proxy")
        requester = requester_of(request.headers.items(), proxy=proxy)
        if requester is None:
            raise _unauthenticated("the front proxy named nobody")
        return requester

    def _proxy_of(self, request: web.Request) -> FrontProxy | None:
        """Return by what the connection's certificate was judged; None where that authority is not trusted any more."""
        context = _of_connection(request, "sslcontext")
        if not isinstance(context, _Trusting) or self._material is None:
            return None
        return context.proxy if context.proxy.authority_pem == self._material.proxy.authority_pem else None

    def _is_current(self, request: web.Request) -> bool:
        return _of_connection(request, "sslcontext") is self._context

    async def _group(self, _request: web.Request) -> web.StreamResponse:
        return _json(group_document())

    async def _resources(self, _request: web.Request) -> web.StreamResponse:
        # Discovery names metrics, which everybody may know who is authenticated: as everywhere in Kubernetes.
        return _json(resources_document(self._desk.metrics))

    async def _values(self, request: web.Request) -> web.StreamResponse:
        namespace, metric = request.match_info["namespace"], request.match_info["metric"]
        await self._check(MetricAccess(requester=self._requester(request), namespace=namespace, metric=metric))
        try:
            selector = parse_selector(request.query.get("labelSelector", ""))
        except SelectorError as error:
            message = f"labelSelector {error}"
            raise _Refused(400, reason="BadRequest", message=message, result="invalid") from error
        answer = self._desk.answer(MetricQuery(namespace=namespace, name=metric, selector=selector))
        match answer:
            case MetricNotFound(message=message):
                return await self._elsewhere(request, message=message)
            case MetricUnavailable(message=message):
                raise _Refused(503, reason="ServiceUnavailable", message=message, result="unavailable")
        self._metrics.requests.labels(result="answered").inc()
        return _json(values_document(metric, items=answer))

    async def _elsewhere(self, request: web.Request, *, message: str) -> web.StreamResponse:
        """Return what another adapter says of a metric that is not ours. Raises _Refused."""
        if self._forwarder is None or MARK in request.headers:
            raise _Refused(404, reason="NotFound", message=message, result="not_found")
        try:
            answer = await self._forwarder.answer(request.path, query=request.query)
        except SourceFailed as error:
            said = f"{message}; the adapter that is asked for others {error}"
            raise _Refused(503, reason="ServiceUnavailable", message=said, result="unavailable") from error
        self._metrics.requests.labels(result="forwarded").inc()
        return _json(answer.document, status=answer.status)

    async def _check(self, access: MetricAccess) -> None:
        """Return where it is allowed. Raises _Refused."""
        try:
            is_allowed = await self._access.is_allowed(access)
        except ApiFailed as error:
            message = f"whether {access.requester.user!r} may read it cannot be known: {error}"
            raise _Refused(503, reason="ServiceUnavailable", message=message, result="unavailable") from error
        if not is_allowed:
            message = (
                f"{access.requester.user!r} may not list resource {access.metric!r} of {API_GROUP} in namespace "
                f"{access.namespace!r}"
            )
            raise _Refused(403, reason="Forbidden", message=message, result="forbidden")


def _context(proxy: FrontProxy, *, files: TlsFiles) -> ssl.SSLContext:
    """Return a context that verifies client certificates; who has none is told so over HTTP. Raises OSError."""
    context = _Trusting(ssl.PROTOCOL_TLS_SERVER)
    context.proxy = proxy
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(files.certificate, files.key)
    context.load_verify_locations(cadata=proxy.authority_pem)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _common_name(request: web.Request) -> str | None:
    """Return the common name of the verified client certificate; None where there is none."""
    certificate: Mapping[str, Any] = _of_connection(request, "peercert") or {}
    if not certificate:
        return None
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return names[0] if names else ""


def _of_connection(request: web.Request, name: str) -> Any:
    return None if request.transport is None else request.transport.get_extra_info(name)


def _unauthenticated(message: str) -> _Refused:
    return _Refused(401, reason="Unauthorized", message=message, result="unauthenticated")


def _json(document: Mapping[str, Any], *, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(document), status=status, content_type="application/json")


def _listening(host: str, *, port: int) -> socket:
    """Return a bound socket, which outlives the servers on it."""
    listener = create_server((host, port), family=AF_INET6 if ":" in host else AF_INET, backlog=BACKLOG)
    listener.setblocking(False)
    return listener
