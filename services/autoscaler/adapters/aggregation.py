"""What serving an aggregated API needs of the API server, through the shared client."""

from collections.abc import Mapping
from typing import Any

from services.autoscaler.ports import ApiFailed, WriteConflict
from services.core.front_proxy import CONFIG_MAP, FrontProxy, Requester, read_front_proxy
from services.core.metrics_registration import API_GROUP, API_SERVICE, API_VERSION, Registration
from services.core.names import FIELD_MANAGER
from services.runtime.kube import KubeClient, KubeError, KubeFault

CONFIG_MAP_PATH = f"/api/v1/namespaces/kube-system/configmaps/{CONFIG_MAP}"
REVIEWS_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
API_SERVICE_PATH = f"/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}"
REQUEST_TIMEOUT_S = 5.0
_MERGE = "application/merge-patch+json"
_NOT_FOUND, _CONFLICT = 404, 409


class KubernetesAggregation:
    """Satisfies `AccessApi` and `RegistrationApi` of `services.autoscaler.ports`."""

    def __init__(self, client: KubeClient) -> None:
        """Use an open client."""
        self._client = client

    async def front_proxy(self) -> FrontProxy:
        """Return how the front proxy is known. Raises FrontProxyError and ApiFailed."""
        return read_front_proxy(await self._asked("GET", CONFIG_MAP_PATH))

    async def reviewed(self, requester: Requester, *, namespace: str, metric: str) -> bool:
        """Tell whether somebody may list a metric. Raises ApiFailed."""
        attributes = {
            "namespace": namespace,
            "verb": "list",
            "group": API_GROUP,
            "version": API_VERSION,
            "resource": metric,
        }
        spec = {
            "user": requester.user,
            "uid": requester.uid,
            "groups": list(requester.groups),
            "extra": {key: list(values) for key, values in requester.extra},
            "resourceAttributes": attributes,
        }
        status = (await self._asked("POST", REVIEWS_PATH, body={"spec": spec})).get("status") or {}
        return status.get("allowed") is True and status.get("denied") is not True

    async def registration(self) -> Mapping[str, Any] | None:
        """Return the APIService, None where there is none. Raises ApiFailed."""
        try:
            return await self._asked("GET", API_SERVICE_PATH)
        except ApiFailed as error:
            if isinstance(error.__cause__, KubeError) and error.__cause__.status == _NOT_FOUND:
                return None
            raise

    async def write_ca_bundle(self, registration: Registration) -> None:
        """Write the authority of our certificate. Raises WriteConflict and ApiFailed."""
        metadata = {"resourceVersion": registration.resource_version}
        body = {"metadata": metadata, "spec": {"caBundle": registration.ca_bundle}}
        try:
            await self._asked("PATCH", API_SERVICE_PATH, body=body, content_type=_MERGE)
        except ApiFailed as error:
            if isinstance(error.__cause__, KubeError) and error.__cause__.status == _CONFLICT:
                raise WriteConflict(str(error)) from error
            raise

    async def _asked(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Mapping[str, Any]:
        query = {"fieldManager": FIELD_MANAGER} if method == "PATCH" else {}
        try:
            reply = await self._client.request_ok(
                method, path, body=body, query=query, content_type=content_type, timeout_s=REQUEST_TIMEOUT_S
            )
            document = reply.json()
        except KubeFault as error:
            raise ApiFailed(str(error)) from error
        if not isinstance(document, dict):
            raise ApiFailed(f"the answer to {method} {path} is no object")
        return document
