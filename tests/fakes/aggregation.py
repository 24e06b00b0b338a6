"""The API server, as an aggregated API sees it, in memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from services.autoscaler.ports import ApiFailed, WriteConflict
from services.core.front_proxy import FrontProxy, FrontProxyError, Requester
from services.core.metrics_registration import Registration


@dataclass(slots=True, kw_only=True)
class FakeAggregation:
    """Satisfies `AccessApi` and `RegistrationApi` of `services.autoscaler.ports`; `is_away` is an outage."""

    proxy: FrontProxy | None = None
    allowed: set[tuple[str, str, str]] = field(default_factory=set)
    api_service: dict[str, Any] | None = None
    is_away: bool = False
    is_conflicting: bool = False
    reviews: int = 0

    async def front_proxy(self) -> FrontProxy:
        """Return what the ConfigMap says."""
        self._asked()
        if self.proxy is None:
            raise FrontProxyError("ConfigMap kube-system/x: requestheader-client-ca-file is missing")
        return self.proxy

    async def reviewed(self, requester: Requester, *, namespace: str, metric: str) -> bool:
        """Tell whether user, namespace and metric are among the allowed."""
        self.reviews += 1
        self._asked()
        return (requester.user, namespace, metric) in self.allowed

    async def registration(self) -> Mapping[str, Any] | None:
        """Return the APIService."""
        self._asked()
        return self.api_service

    async def write_ca_bundle(self, registration: Registration) -> None:
        """Write it, where the version is the one that was read."""
        self._asked()
        assert self.api_service is not None
        if self.is_conflicting or self.api_service["metadata"]["resourceVersion"] != registration.resource_version:
            raise WriteConflict("another version")
        self.api_service["spec"]["caBundle"] = registration.ca_bundle

    def _asked(self) -> None:
        if self.is_away:
            raise ApiFailed("no answer")
