"""PodCertificateRequests through the shared client (certificates.k8s.io/v1, KEP-4317)."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

from services.core.manifests import mapping_at, text_at
from services.core.names import FIELD_MANAGER
from services.core.signing import CertificateTerms, Denial, PodFacts
from services.runtime.kube import KubeClient, KubeError
from services.signer.adapters.answers import NOT_FOUND, REQUEST_TIMEOUT_S, told, written
from services.signer.ports import Manifest

REQUESTS = "/apis/certificates.k8s.io/v1/podcertificaterequests"
WATCH_S = 60.0
"""After a watch everything is listed again, so that a request which was put off is not forgotten."""

_FINISHED = frozenset({"Succeeded", "Failed"})


class KubernetesRequests:
    """Satisfies `services.signer.ports.RequestApi`."""

    def __init__(self, client: KubeClient, *, signer_name: str) -> None:
        """Use an open client."""
        self._client = client
        self._query = {"fieldSelector": f"spec.signerName={signer_name}"}

    async def listed(self) -> tuple[tuple[Manifest, ...], str]:
        """Return all requests for this signer, and the version of the list. Raises ApiFailed."""
        items: list[Manifest] = []
        version = ""
        with told():
            async with contextlib.aclosing(self._client.list_pages(REQUESTS, query=self._query)) as pages:
                async for page in pages:
                    items.extend(page.items)
                    version = page.resource_version
        return tuple(items), version

    async def watched(self, version: str) -> AsyncIterator[Manifest]:
        """Yield requests that are new or changed, until the watch ends. Raises ApiFailed and HistoryGone."""
        watch = self._client.watch(REQUESTS, resource_version=version, timeout_s=WATCH_S, query=self._query)
        with told():
            async with contextlib.aclosing(watch) as events:
                async for event in events:
                    if event.type in {"ADDED", "MODIFIED"}:
                        yield event.object

    async def pod(self, namespace: str, name: str) -> PodFacts | None:
        """Return what the live pod says, None where there is none. Raises ApiFailed."""
        with told():
            try:
                # Without a resource version: the storage answers, not a cache that may be behind.
                reply = await self._client.request_ok(
                    "GET", f"/api/v1/namespaces/{namespace}/pods/{name}", timeout_s=REQUEST_TIMEOUT_S
                )
            except KubeError as error:
                if error.status == NOT_FOUND:
                    return None
                raise
            pod: Mapping[str, Any] = reply.json()
            spec, status = mapping_at(pod, "spec", at="spec"), mapping_at(pod, "status", at="status")
            return PodFacts(
                uid=text_at(mapping_at(pod, "metadata", at="metadata"), "uid", at="metadata.uid"),
                service_account=text_at(spec, "serviceAccountName", at="spec.serviceAccountName"),
                node_name=text_at(spec, "nodeName", at="spec.nodeName"),
                is_finished=text_at(status, "phase", at="status.phase") in _FINISHED,
            )

    async def deny(self, request: Manifest, *, denial: Denial, now: datetime) -> None:
        """Answer no, for good. Raises ApiFailed, Overtaken and AnswerRefused."""
        condition = _condition("Denied", reason=denial.reason.value, message=denial.message, now=now)
        await self._answer(request, status={"conditions": [condition]})

    async def issue(self, request: Manifest, *, chain: str, terms: CertificateTerms, now: datetime) -> None:
        """Answer with a certificate. Raises ApiFailed, Overtaken and AnswerRefused."""
        message = f"signed for {terms.uri}"
        status = {
            "conditions": [_condition("Issued", reason="Issued", message=message, now=now)],
            "certificateChain": chain,
            "notBefore": _text(terms.not_before),
            "notAfter": _text(terms.not_after),
            "beginRefreshAt": _text(terms.refresh_at),
        }
        await self._answer(request, status=status)

    async def _answer(self, request: Manifest, *, status: Mapping[str, Any]) -> None:
        metadata = request["metadata"]
        root, _, kind = REQUESTS.rpartition("/")
        body = {
            "apiVersion": root.removeprefix("/apis/"),
            "kind": "PodCertificateRequest",
            "metadata": metadata,
            "spec": request["spec"],
            "status": status,
        }
        path = f"{root}/namespaces/{metadata['namespace']}/{kind}/{metadata['name']}/status"
        with written():
            await self._client.request_ok(
                "PUT", path, body=body, query={"fieldManager": FIELD_MANAGER}, timeout_s=REQUEST_TIMEOUT_S
            )


def _condition(kind: str, *, reason: str, message: str, now: datetime) -> Mapping[str, str]:
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": _text(now)}


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
