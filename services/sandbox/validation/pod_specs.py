"""Rules for the specs of new pods, which also hold for the templates that pods are made from."""

from collections.abc import Iterator, Sequence

from services.core.quantities import parse_quantity
from services.sandbox.failures import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
)
from services.sandbox.objects import Obj
from services.sandbox.validation import fields


def _containers(path: str, *, containers: Sequence[Obj]) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        name = container.get("name") or ""
        if not name:
            yield required(f"{here}.name")
        else:
            yield from fields.dns_label(f"{here}.name", value=name)
        if name and name in seen:
            yield duplicate(f"{here}.name", value=name)
        seen.add(name)
        if not container.get("image"):
            yield required(f"{here}.image")
        yield from _resources(f"{here}.resources", resources=container.get("resources") or {})


def _amounts(resources: Obj, side: str) -> dict[str, int]:
    return {name: parse_quantity(amount, resource=name) for name, amount in (resources.get(side) or {}).items()}


def _resources(path: str, *, resources: Obj) -> Iterator[Cause]:
    """Requests stay within limits, and for extended resources equal them."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    upper, wanted = _amounts(resources, "limits"), _amounts(resources, "requests")
    for name, amount in requests.items():
        if "/" not in name and name in upper and wanted[name] > upper[name]:
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            yield invalid_value(f"{path}.requests", value=str(amount), detail=detail)
        if "/" in name and name not in limits:
            yield required(f"{path}.limits", detail="Limit must be set for non overcommitable resources")
        elif "/" in name and wanted[name] != upper[name]:
            detail = f"must be equal to {name} limit of {limits[name]}"
            yield invalid_value(f"{path}.requests", value=str(amount), detail=detail)


def _gates(prefix: str, *, gates: Sequence[Obj]) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        here = f"{prefix}.schedulingGates[{index}]"
        name = gate.get("name") or ""
        if not name:
            yield required(f"{here}.name")
        else:
            yield from fields.qualified_key(here, key=name)
        if name in seen:
            yield duplicate(here, value=name)
        seen.add(name)


def _claims(prefix: str, *, claims: Sequence[Obj]) -> Iterator[Cause]:
    seen: set[str] = set()
    members = ("resourceClaimName", "resourceClaimTemplateName")
    for index, claim in enumerate(claims):
        here = f"{prefix}.resourceClaims[{index}]"
        name = claim.get("name") or ""
        if not name:
            yield required(f"{here}.name")
        if name in seen:
            yield duplicate(f"{here}.name", value=name)
        seen.add(name)
        given = [member for member in members if claim.get(member)]
        if len(given) != 1:
            detail = "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`"
            detail = detail if given else detail.replace("exactly one", "one")
            yield invalid_value(here, value=claim, detail=detail)


def creation(prefix: str, *, holder: Obj) -> Iterator[Cause]:
    """The rules for a new pod spec, in a pod or in a template."""
    containers = holder.get("containers") or ()
    if not containers:
        yield required(f"{prefix}.containers")
    yield from _containers(f"{prefix}.containers", containers=containers)
    yield from _containers(f"{prefix}.initContainers", containers=holder.get("initContainers") or ())
    yield from _gates(prefix, gates=holder.get("schedulingGates") or ())
    yield from _claims(prefix, claims=holder.get("resourceClaims") or ())
    if holder.get("nodeName"):
        if holder.get("schedulingGates"):
            detail = "cannot be set until all schedulingGates have been cleared"
            yield forbidden_field(f"{prefix}.nodeName", detail=detail)
        yield from fields.dns_subdomain(f"{prefix}.nodeName", value=holder["nodeName"])
    yield from fields.at_least_zero(prefix, holder=holder, names=("terminationGracePeriodSeconds",))
    yield from _group_link(f"{prefix}.schedulingGroup", holder=holder)


def _group_link(path: str, *, holder: Obj) -> Iterator[Cause]:
    link = holder.get("schedulingGroup")
    if link is None:
        return
    yield from fields.union(f"{path}.podGroupName", holder=link, members=("podGroupName",))
    if link.get("podGroupName"):
        yield from fields.dns_subdomain(f"{path}.podGroupName", value=link["podGroupName"])
