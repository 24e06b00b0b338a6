"""HorizontalPodAutoscalers, scale subresources and Events through the shared client."""

import contextlib
import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any

from services.autoscaler.ports import ApiFailed, HistoryGone, HpaEvent, Scale, WriteConflict
from services.core.manifests import FieldError
from services.core.names import CONDITION_SCALED_TO_ZERO, CONDITION_WAKING, FIELD_MANAGER
from services.core.reasons import Reason, ReasonCode
from services.core.reduce_autoscaler import reduce_autoscaler
from services.core.scaling import Autoscaler, TargetRef
from services.core.scaling_reports import Told
from services.runtime.clock import Clock
from services.runtime.kube import Gone, KubeClient, KubeError, KubeFault

HPAS = "/apis/autoscaling/v2/horizontalpodautoscalers"
PAGE_SIZE = 250
WATCH_S = 300.0
REQUEST_TIMEOUT_S = 10.0
_STRATEGIC = "application/strategic-merge-patch+json"
_FORBIDDEN, _NOT_FOUND, _CONFLICT, _INVALID = 403, 404, 409, 422
_SCALE = "/scale"


class KubernetesHpas:
    """Satisfies `services.autoscaler.ports.HpaApi`."""

    def __init__(self, client: KubeClient, *, clock: Clock) -> None:
        """Use an open client. Nothing is asked yet."""
        self._client = client
        self._clock = clock
        #: Plural name of each kind with a scale, by API version: what was found once stays where it is.
        self._plurals: dict[tuple[str, str], str] = {}

    async def listed(self) -> tuple[Sequence[Mapping[str, Any]], str]:
        """Return all HPAs, and the version of the list. Raises ApiFailed."""
        items: list[Mapping[str, Any]] = []
        version = ""
        with _told():
            async with contextlib.aclosing(self._client.list_pages(HPAS, limit=PAGE_SIZE)) as pages:
                async for page in pages:
                    items.extend(page.items)
                    version = page.resource_version
        return items, version

    async def watched(self, version: str) -> AsyncIterator[HpaEvent]:
        """Yield what happened after a version. Raises HistoryGone and ApiFailed."""
        watch = self._client.watch(HPAS, resource_version=version, timeout_s=WATCH_S)
        with _told():
            async with contextlib.aclosing(watch) as events:
                async for event in events:
                    yield HpaEvent(
                        is_deleted=event.type == "DELETED",
                        is_bookmark=event.type == "BOOKMARK",
                        manifest=event.object,
                    )

    async def scale_of(self, namespace: str, target: TargetRef) -> Scale | Reason:
        """Return how many replicas a target is asked to have, or why that cannot be known. Raises ApiFailed."""
        with _told():
            plural = await self._plural(target)
            if not plural:
                message = f"{target} of {target.api_version} has no scale subresource, or is not served"
                return Reason(code=ReasonCode.TARGET_NOT_SCALABLE, message=message, subject=str(target))
            path = f"{_root(target.api_version)}/namespaces/{namespace}/{plural}/{target.name}{_SCALE}"
            try:
                reply = await self._client.request_ok("GET", path, timeout_s=REQUEST_TIMEOUT_S)
            except KubeError as error:
                return self._refusal(error, target=target)
            document = reply.json()
        return Scale(path=path, replicas=int((document.get("spec") or {}).get("replicas") or 0), document=document)

    async def set_replicas(self, scale: Scale, *, replicas: int) -> Reason | None:
        """Ask for replicas, where nothing changed since the scale was read. Raises WriteConflict and ApiFailed."""
        body = {**scale.document, "spec": {"replicas": replicas}}
        with _told():
            try:
                await self._client.request_ok(
                    "PUT", scale.path, body=body, query={"fieldManager": FIELD_MANAGER}, timeout_s=REQUEST_TIMEOUT_S
                )
            except KubeError as error:
                if error.status == _CONFLICT:
                    raise WriteConflict(str(error)) from error
                return self._refusal(error)
        return None

    async def hpa(self, autoscaler: Autoscaler) -> Autoscaler | None:
        """Return the HPA as it is now; None where it is gone or replaced, or cannot be read. Raises ApiFailed."""
        with _told():
            try:
                reply = await self._client.request_ok("GET", _path(autoscaler), timeout_s=REQUEST_TIMEOUT_S)
            except KubeError as error:
                if error.status != _NOT_FOUND:
                    raise
                return None
            manifest = reply.json()
        try:
            found = reduce_autoscaler(manifest)
        except FieldError:
            return None
        return found if found.uid == autoscaler.uid else None

    async def disarm(self, autoscaler: Autoscaler, *, is_fenced: bool) -> None:
        """Write `ScaledToZero` False. Raises WriteConflict and ApiFailed."""
        condition = self._condition(
            CONDITION_SCALED_TO_ZERO, status="False", reason="NotScaledToZero", message="the target has replicas"
        )
        await self._patch(autoscaler, condition=condition, is_fenced=is_fenced)

    async def show(self, autoscaler: Autoscaler, *, told: Told) -> None:
        """Write our condition; nothing where the HPA is gone. Raises ApiFailed."""
        shown = told.condition
        condition = self._condition(CONDITION_WAKING, status=shown.status, reason=shown.reason, message=told.message)
        with contextlib.suppress(WriteConflict):
            await self._patch(autoscaler, condition=condition, is_fenced=False)

    async def tell(self, autoscaler: Autoscaler, *, reason: str, message: str, is_warning: bool) -> None:
        """Create an Event about the HPA. Raises ApiFailed."""
        at = self._now()
        digest = hashlib.sha256(f"{autoscaler.uid} {reason} {message} {at}".encode()).hexdigest()[:16]
        about = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
        body = {
            "metadata": {"name": f"{autoscaler.name[:200]}.{digest}", "namespace": autoscaler.namespace},
            "involvedObject": {
                **about,
                "namespace": autoscaler.namespace,
                "name": autoscaler.name,
                "uid": autoscaler.uid,
            },
            "reason": reason,
            "message": message[:1024],
            "type": "Warning" if is_warning else "Normal",
            "source": {"component": "phalanx-autoscaler"},
            "reportingComponent": "phalanx-autoscaler",
            "reportingInstance": "",
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        with _told():
            try:
                path = f"/api/v1/namespaces/{autoscaler.namespace}/events"
                await self._client.request_ok("POST", path, body=body, timeout_s=REQUEST_TIMEOUT_S)
            except KubeError as error:
                # It was told before, or the namespace is going.
                if error.status not in {_CONFLICT, _NOT_FOUND, _FORBIDDEN}:
                    raise

    async def _patch(self, autoscaler: Autoscaler, *, condition: Mapping[str, str], is_fenced: bool) -> None:
        version = {"resourceVersion": autoscaler.resource_version} if is_fenced else {}
        body = {"metadata": {"uid": autoscaler.uid, **version}, "status": {"conditions": [condition]}}
        path = f"{_path(autoscaler)}/status"
        with _told():
            try:
                await self._client.request_ok(
                    "PATCH",
                    path,
                    body=body,
                    query={"fieldManager": FIELD_MANAGER},
                    content_type=_STRATEGIC,
                    timeout_s=REQUEST_TIMEOUT_S,
                )
            except KubeError as error:
                if error.status in {_CONFLICT, _NOT_FOUND}:
                    raise WriteConflict(str(error)) from error
                raise

    async def _plural(self, target: TargetRef) -> str:
        """Return the plural name of a kind that has a scale; nothing where it has none."""
        known = self._plurals.get((target.api_version, target.kind))
        if known is not None:
            return known
        reply = await self._client.request("GET", _root(target.api_version), timeout_s=REQUEST_TIMEOUT_S)
        if reply.status == _NOT_FOUND:
            return ""
        if reply.status != 200:  # noqa: PLR2004 - OK
            raise ApiFailed(f"GET {_root(target.api_version)} was answered with status {reply.status}")
        resources = reply.json().get("resources") or ()
        scalable = {item["name"].removesuffix(_SCALE) for item in resources if item["name"].endswith(_SCALE)}
        for item in resources:
            if item["kind"] == target.kind and item["name"] in scalable:
                self._plurals[target.api_version, target.kind] = item["name"]
                return str(item["name"])
        return ""

    @staticmethod
    def _refusal(error: KubeError, *, target: TargetRef | None = None) -> Reason:
        """Return an answer that asking again does not change. Raises the others."""
        if error.status == _NOT_FOUND:
            named = "the target" if target is None else str(target)
            message = f"{named} does not exist; create it, or correct spec.scaleTargetRef"
            return Reason(code=ReasonCode.TARGET_NOT_FOUND, message=message, subject=named)
        if error.status in {_FORBIDDEN, _INVALID}:
            code = ReasonCode.FORBIDDEN if error.status == _FORBIDDEN else ReasonCode.MISCONFIGURED
            return Reason(code=code, message=str(error), subject="scale")
        raise error

    def _condition(self, kind: str, *, status: str, reason: str, message: str) -> Mapping[str, str]:
        return {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": self._now(),
        }

    def _now(self) -> str:
        return self._clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _path(autoscaler: Autoscaler) -> str:
    return f"/apis/autoscaling/v2/namespaces/{autoscaler.namespace}/horizontalpodautoscalers/{autoscaler.name}"


def _root(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Turn the client's errors into this port's."""
    try:
        yield
    except Gone as error:
        raise HistoryGone(str(error)) from error
    except KubeFault as error:
        raise ApiFailed(str(error)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ApiFailed(f"an answer of the API server cannot be read: {error!r}") from error
