"""What a pod or PodGroup says about devices, from its JSON."""

from collections.abc import Iterator, Mapping
from typing import Any

from services.core.manifests import amounts_at, mapping_at, numbered, text_at
from services.core.pod_devices import NO_DEVICES, ContainerResource, PodClaim, PodDevices

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Before the name of a DeviceClass: the extended resource that every class is, whether or not it names one."""
_NATIVE_DOMAIN = "kubernetes.io/"
_QUOTA_PREFIX = "requests."


def reduce_devices(spec: Mapping[str, Any], status: Mapping[str, Any]) -> PodDevices:
    """Return what a pod asks for of devices; NO_DEVICES for most pods. Raises FieldError."""
    extended = mapping_at(status, "extendedResourceClaimStatus", at="status.extendedResourceClaimStatus")
    found = PodDevices(
        claims=reduce_claims(spec, status),
        extended=tuple(_extended(spec)),
        extended_claim=text_at(
            extended, "resourceClaimName", at="status.extendedResourceClaimStatus.resourceClaimName"
        ),
    )
    return NO_DEVICES if found == NO_DEVICES else found


def reduce_claims(spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[PodClaim, ...]:
    """Return the entries of spec.resourceClaims, with the claims that were made for them. Raises FieldError."""
    entries = list(numbered(spec, "resourceClaims", at="spec.resourceClaims"))
    if not entries:
        return ()
    made = {
        text_at(item, "name", at=f"{path}.name"): text_at(item, "resourceClaimName", at=f"{path}.resourceClaimName")
        for path, item in numbered(status, "resourceClaimStatuses", at="status.resourceClaimStatuses")
    }
    return tuple(_claim(path, item, made=made) for path, item in entries)


def _claim(path: str, item: Mapping[str, Any], *, made: Mapping[str, str]) -> PodClaim:
    entry = text_at(item, "name", at=f"{path}.name")
    claim = text_at(item, "resourceClaimName", at=f"{path}.resourceClaimName")
    return PodClaim(
        entry=entry,
        claim=claim or made.get(entry, ""),
        template=text_at(item, "resourceClaimTemplateName", at=f"{path}.resourceClaimTemplateName"),
        is_unneeded=not claim and entry in made and not made[entry],
    )


def _extended(spec: Mapping[str, Any]) -> Iterator[ContainerResource]:
    """Yield what containers request that a DeviceClass may stand for, container by container."""
    initial = list(numbered(spec, "initContainers", at="spec.initContainers"))
    ordinary = list(numbered(spec, "containers", at="spec.containers"))
    for index, (path, container) in enumerate([*initial, *ordinary]):
        resources = mapping_at(container, "resources", at=f"{path}.resources")
        requests = amounts_at(resources, "requests", at=f"{path}.resources.requests")
        for position, (resource, amount) in enumerate(sorted(requests.items())):
            if amount and is_extended(resource):
                yield ContainerResource(
                    index=index,
                    position=position,
                    container=text_at(container, "name", at=f"{path}.name"),
                    resource=resource,
                    amount=amount,
                    is_initial=index < len(initial) and container.get("restartPolicy") != "Always",
                )


def is_extended(resource: str) -> bool:
    """Tell whether a resource may stand for devices: one with a domain of its own, or the name of a DeviceClass."""
    if resource.startswith(IMPLICIT_PREFIX):
        return True
    return "/" in resource and _NATIVE_DOMAIN not in resource and not resource.startswith(_QUOTA_PREFIX)
