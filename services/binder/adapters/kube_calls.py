"""Requests to the Kubernetes API, paced, measured, and with readiness kept: one place for all that the binder asks."""

import contextlib
import math
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from services.binder.metrics import BinderMetrics
from services.binder.pacing import Pace
from services.binder.ports import Changed, NoAnswer
from services.core.transaction_answers import ApiAnswer
from services.runtime.clock import Clock
from services.runtime.health import Readiness
from services.runtime.kube import KubeClient, KubeError, KubeUnavailable

if TYPE_CHECKING:
    from prometheus_client import Histogram

CONDITION = "kubernetes api"
REQUEST_TIMEOUT_S = 10.0
SIGN_OF_LIFE_S = 5.0
_BUSY = 429
_ERROR = 400
_SERVER_ERROR = 500


class KubeCalls:
    """One client with a bound on requests in flight."""

    def __init__(
        self,
        client: KubeClient,
        *,
        pace: Pace,
        readiness: Readiness,
        metrics: BinderMetrics,
        clock: Clock,
        may_write: Callable[[], bool],
    ) -> None:
        """Keep the parts; the API counts as not ready until its first answer."""
        self._may_write = may_write
        self._client = client
        self._pace = pace
        self._readiness = readiness
        self._metrics = metrics
        self._clock = clock
        #: Looking a series up by its labels costs more than counting in it.
        self._latencies: dict[tuple[str, str], Histogram] = {}
        readiness.set(CONDITION, ready=False, detail=f"waiting for {client.host}")

    async def write(
        self,
        verb: str,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        wants_object: bool = True,
    ) -> Changed:
        """Send one request and return the answer, whatever it is. A success without `wants_object` is not decoded.

        Raises NoAnswer where there is none, and where this process may not write: it is asked in the last moment, for
        the wait before may have been a long one.
        """
        async with self._pace:
            if method != "GET" and not self._may_write():
                raise NoAnswer(f"{verb}: this binder does not lead")
            started_s = self._clock.monotonic()
            try:
                reply = await self._client.request(
                    method, path, query=query, body=body, content_type=content_type, timeout_s=REQUEST_TIMEOUT_S
                )
            except KubeUnavailable as error:
                self._observe(verb, "none", since_s=started_s)
                self._readiness.set(CONDITION, ready=False, detail=str(error))
                raise NoAnswer(str(error)) from error
        self._observe(verb, str(reply.status), since_s=started_s)
        self._heard(reply.status, path=path)
        if reply.status < _ERROR:
            manifest = _document(reply.body) if wants_object else None
            return Changed(answer=ApiAnswer(status=reply.status), manifest=manifest)
        manifest = _document(reply.body)
        answer = _refusal(reply.status, manifest, body=reply.body, retry_after=reply.headers.get("Retry-After", ""))
        if reply.status == _BUSY:
            self._pace.slow_down(retry_after_s=answer.retry_after_s)
        return Changed(answer=answer)

    async def items(self, path: str, *, query: Mapping[str, str], limit: int) -> AsyncIterator[dict[str, Any]]:
        """Yield the items of a list, page by page. Raises NoAnswer."""
        started_s = self._clock.monotonic()
        try:
            async for page in self._client.list_pages(path, limit=limit, query=query, timeout_s=REQUEST_TIMEOUT_S):
                for item in page.items:
                    yield item
        except KubeUnavailable as error:
            self._observe("list", "none", since_s=started_s)
            self._readiness.set(CONDITION, ready=False, detail=str(error))
            raise NoAnswer(str(error)) from error
        except KubeError as error:
            self._observe("list", str(error.status), since_s=started_s)
            self._heard(error.status, path=path)
            if error.status == _BUSY:
                self._pace.slow_down(retry_after_s=error.retry_after_s)
            raise NoAnswer(str(error)) from error
        self._observe("list", "200", since_s=started_s)
        self._heard(200, path=path)

    async def served_version(self, group: str, *, wanted: tuple[str, ...], resource: str) -> str:
        """Return the first of the wanted versions that serves the resource, or nothing. Raises NoAnswer."""
        try:
            served = await self._client.served_versions(group)
            for version in wanted:
                if version in served and resource in await self._client.resources(group, version):
                    return version
        except (KubeUnavailable, KubeError) as error:
            raise NoAnswer(str(error)) from error
        return ""

    async def keep_in_touch(self) -> None:
        """Ask for a sign of life for ever, so that readiness is right also while nothing is bound."""
        while True:
            with contextlib.suppress(NoAnswer):
                await self.write("version", "GET", "/version")
            await self._clock.sleep(SIGN_OF_LIFE_S)

    def _heard(self, status: int, *, path: str) -> None:
        if status >= _SERVER_ERROR:
            self._readiness.set(CONDITION, ready=False, detail=f"{path} was answered with status {status}")
        else:
            self._readiness.set(CONDITION, ready=True, detail=self._client.host)

    def _observe(self, verb: str, status: str, *, since_s: float) -> None:
        series = self._latencies.get((verb, status))
        if series is None:
            series = self._latencies[verb, status] = self._metrics.latency.labels(verb=verb, status=status)
        series.observe(self._clock.monotonic() - since_s)


def _document(body: bytes) -> dict[str, Any] | None:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def _refusal(status: int, document: dict[str, Any] | None, *, body: bytes, retry_after: str) -> ApiAnswer:
    given = document or {}
    details = given.get("details")
    seconds = retry_after if retry_after.isdigit() else (details or {}).get("retryAfterSeconds", "")
    wait_s = float(seconds) if str(seconds).isdigit() else math.nan
    return ApiAnswer(
        status=status,
        reason=str(given.get("reason") or ""),
        message=str(given.get("message") or body[:300].decode(errors="replace")),
        retry_after_s=None if math.isnan(wait_s) else wait_s,
    )
