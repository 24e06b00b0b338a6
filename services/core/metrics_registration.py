"""Whose `external.metrics.k8s.io` is: there is one APIService for it in a cluster, and nobody takes it from another."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

API_GROUP = "external.metrics.k8s.io"
API_VERSION = "v1beta1"
API_SERVICE = f"{API_VERSION}.{API_GROUP}"
"""Name of the APIService."""


class Owner(StrEnum):
    """Who answers for the API."""

    OURS = "ours"
    FOREIGN = "foreign"
    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What was found. `ca_bundle` is to be written onto version `resource_version`, where it is not None."""

    owner: Owner
    detail: str
    ca_bundle: str | None = None
    resource_version: str = ""


def registration_of(manifest: Mapping[str, Any] | None, *, service: str, ca_bundle: str) -> Registration:
    """Return what an APIService means for us. `service` is `namespace/name` of ours, `ca_bundle` base64 of its CA.

    Ours is what names our service. That of somebody else is left alone, whatever its state.
    """
    if manifest is None:
        detail = f"APIService {API_SERVICE} does not exist: targets are woken, and nothing is served to the HPA"
        return Registration(owner=Owner.ABSENT, detail=detail)
    spec = manifest.get("spec") or {}
    named = spec.get("service") or {}
    found = f"{named.get('namespace', '')}/{named.get('name', '')}" if named else "the API server itself"
    if found != service:
        detail = f"APIService {API_SERVICE} belongs to {found}: it is left alone, and targets are only woken"
        return Registration(owner=Owner.FOREIGN, detail=detail)
    is_current = spec.get("insecureSkipTLSVerify") or spec.get("caBundle") == ca_bundle
    return Registration(
        owner=Owner.OURS,
        detail=_availability(manifest),
        ca_bundle=None if is_current else ca_bundle,
        resource_version=str((manifest.get("metadata") or {}).get("resourceVersion") or ""),
    )


def _availability(manifest: Mapping[str, Any]) -> str:
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    available: Mapping[str, Any] = next((one for one in conditions if one.get("type") == "Available"), {})
    if available.get("status") == "True":
        return f"served to the HPA as {API_SERVICE}"
    return f"APIService {API_SERVICE} is not available yet: {available.get('message') or 'nobody has looked'}"
