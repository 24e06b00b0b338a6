"""Answers certificate requests, each once, whoever else is answering too.

An answer is written on the version of the request that was judged, and the API server takes only the first. A denial is
final for the pod, so that only what is certain is denied: while the API server or the authority is away, a request
waits.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tenacity import RetryCallState

from services.core.manifests import FieldError, integer_at, mapping_at, objects_at, text_at
from services.core.signer_policy import SignerPolicy
from services.core.signing import CertificateRequest, Denial, DenialReason, judge
from services.runtime.backoff import following, repeating
from services.runtime.clock import Clock
from services.runtime.health import Readiness
from services.runtime.log import get
from services.signer.certificates import UnusableRequest, key_type_of, sign
from services.signer.metrics import SignerMetrics
from services.signer.ports import (
    AnswerRefused,
    ApiFailed,
    CannotSign,
    HistoryGone,
    Manifest,
    Overtaken,
    RequestApi,
    SigningSource,
)

CONDITION = "requests"
"""Name of the condition of readiness."""
WORKERS = 8
QUEUE_SIZE = 1024
"""Requests that wait for their turn; when it is full, the watch waits."""
PATIENCE_S = 30.0
"""For so long one request is tried; after that it is met again with the next list."""
DEFAULT_LIFETIME_S = 86_400
"""`maxExpirationSeconds` where a request does not say it (certificates.k8s.io/v1)."""
STEADY_S = 1.0

_log = get("signer.answering")


class Answerer:
    """Follows the requests and answers them."""

    def __init__(
        self,
        api: RequestApi,
        *,
        source: SigningSource,
        policy: Callable[[], SignerPolicy],
        readiness: Readiness,
        metrics: SignerMetrics,
        clock: Clock,
    ) -> None:
        """Keep the parts; `run` does the work. `policy` is asked anew for each request."""
        self._api = api
        self._source = source
        self._policy = policy
        self._readiness = readiness
        self._metrics = metrics
        self._clock = clock
        self._queue: asyncio.Queue[Manifest] = asyncio.Queue(maxsize=QUEUE_SIZE)
        #: Requests that are queued or being answered, by uid.
        self._taken: set[str] = set()

    async def run(self) -> None:
        """Follow and answer for ever."""
        self._readiness.set(CONDITION, ready=False, detail="listing podcertificaterequests")
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"answering-{number}")
            group.create_task(self._follow_for_ever(), name="following requests")

    async def _follow_for_ever(self) -> None:
        while True:
            async for attempt in following(retry_on=ApiFailed, tell=self._tell, clock=self._clock):
                with attempt:
                    await self._follow()

    async def _follow(self) -> None:
        """List, and watch once. Raises ApiFailed."""
        begun_s = self._clock.monotonic()
        items, version = await self._api.listed()
        self._readiness.set(CONDITION, ready=True, detail="following podcertificaterequests")
        for item in items:
            await self._take(item)
        try:
            async for item in self._api.watched(version):
                await self._take(item)
        except HistoryGone:
            return
        if self._clock.monotonic() - begun_s < STEADY_S:
            await self._clock.sleep(STEADY_S)

    async def _take(self, request: Manifest) -> None:
        if not _is_open(request) or (uid := str(request["metadata"].get("uid"))) in self._taken:
            return
        self._taken.add(uid)
        await self._queue.put(request)

    async def _work(self) -> None:
        while True:
            request = await self._queue.get()
            try:
                await self._answer_patiently(request)
            finally:
                self._taken.discard(str(request["metadata"].get("uid")))

    async def _answer_patiently(self, request: Manifest) -> None:
        """Answer one request, as long as that may still come to something."""
        metadata = request["metadata"]
        named = {"namespace": metadata.get("namespace"), "request": metadata.get("name")}
        try:
            async for attempt in repeating(limit_s=PATIENCE_S, retry_on=(ApiFailed, CannotSign), clock=self._clock):
                with attempt:
                    result = await self.answer(request)
        except (ApiFailed, CannotSign) as error:
            result = "put_off"
            _log.warning("request.put_off", **named, detail=str(error))
        except Overtaken:
            result = "overtaken"
        except AnswerRefused as error:
            result = "refused"
            _log.error("request.refused", **named, detail=str(error))
        except FieldError as error:
            result = "unreadable"
            _log.error("request.unreadable", **named, detail=str(error))
        self._metrics.requests.labels(result=result).inc()

    async def answer(self, request: Manifest) -> str:
        """Judge a request, write the answer and return which it was. Raises what the ports raise, and FieldError."""
        policy = self._policy()
        # Certificates have whole seconds.
        now = self._clock.now().astimezone(UTC).replace(microsecond=0)
        spec = mapping_at(request, "spec", at="spec")
        encoded = text_at(spec, "stubPKCS10Request", at="spec.stubPKCS10Request")
        try:
            stub = base64.b64decode(encoded, validate=True)
            asked = _read(request, key_type=key_type_of(stub))
        except (UnusableRequest, binascii.Error) as error:
            denial = Denial(reason=DenialReason.MALFORMED_REQUEST, message=str(error))
            return await self._deny(request, denial=denial, now=now)
        # Whoever is in no policy costs no request about a pod.
        is_named = policy.identity_of(namespace=asked.namespace, service_account=asked.service_account) is not None
        pod = await self._api.pod(asked.namespace, asked.pod_name) if is_named else None
        verdict = judge(asked, pod=pod, policy=policy, now=now)
        if isinstance(verdict, Denial):
            return await self._deny(request, denial=verdict, now=now)
        authority = await self._source.signing(until=verdict.not_after)
        chain = await asyncio.to_thread(sign, stub, terms=verdict, by=authority)
        await self._api.issue(request, chain=chain, terms=verdict, now=now)
        _log.info(
            "certificate.issued",
            identity=verdict.uri,
            pod=asked.pod_name,
            node=asked.node_name,
            until=verdict.not_after.isoformat(),
            authority=authority.authority.id,
        )
        return "issued"

    async def _deny(self, request: Manifest, *, denial: Denial, now: datetime) -> str:
        await self._api.deny(request, denial=denial, now=now)
        self._metrics.denials.labels(reason=denial.reason.value).inc()
        spec = request["spec"]
        _log.warning(
            "certificate.denied",
            reason=denial.reason.value,
            detail=denial.message,
            namespace=request["metadata"].get("namespace"),
            pod=spec.get("podName"),
            service_account=spec.get("serviceAccountName"),
            node=spec.get("nodeName"),
        )
        return "denied"

    def _tell(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        self._readiness.set(CONDITION, ready=False, detail=f"waiting for the API server: {error}")


def _is_open(request: Manifest) -> bool:
    """Tell whether nobody has answered yet."""
    return not objects_at(request.get("status") or {}, "conditions", at="status.conditions")


def _read(request: Manifest, *, key_type: str) -> CertificateRequest:
    """Return what a request says. Raises FieldError."""
    spec = mapping_at(request, "spec", at="spec")
    metadata = mapping_at(request, "metadata", at="metadata")
    seconds = integer_at(spec, "maxExpirationSeconds", at="spec.maxExpirationSeconds", default=DEFAULT_LIFETIME_S)
    return CertificateRequest(
        namespace=text_at(metadata, "namespace", at="metadata.namespace"),
        pod_name=text_at(spec, "podName", at="spec.podName"),
        pod_uid=text_at(spec, "podUID", at="spec.podUID"),
        service_account=text_at(spec, "serviceAccountName", at="spec.serviceAccountName"),
        node_name=text_at(spec, "nodeName", at="spec.nodeName"),
        longest_lifetime=timedelta(seconds=seconds),
        key_type=key_type,
    )
