"""DeviceClasses, ResourceClaims, their templates and DeviceTaintRules from their JSON. All raise FieldError."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from services.core.allocations import DeviceToleration
from services.core.devices.reading import decoded
from services.core.devices.reading_slices import read_selector, read_taint
from services.core.devices.values import (
    Allocation,
    Ask,
    AttributeConstraint,
    ClaimSpec,
    DeviceClassSpec,
    DeviceTaint,
    NodeRule,
    Request,
    Use,
)
from services.core.exact_amounts import amount_at
from services.core.manifests import FieldError, flag_at, integer_at, mapping_at, numbered, text_at, texts_at
from services.core.objects import DeviceObject, Metadata, Uid

_EVERYWHERE = NodeRule(is_all=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A ResourceClaim. `consumers` are the uids of status.reservedFor; `allocation` is None until it is allocated."""

    metadata: Metadata
    spec: ClaimSpec
    allocation: Allocation | None = None
    consumers: tuple[Uid, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintRule:
    """A DeviceTaintRule. Empty `driver`, `pool` and `device` select every one; one that `is_idle` has no selector."""

    taint: DeviceTaint
    driver: str = ""
    pool: str = ""
    device: str = ""
    is_idle: bool = False


def read_class(item: DeviceObject) -> DeviceClassSpec:
    """Return what a DeviceClass says."""
    spec = decoded(item.spec_json, at="spec")
    return DeviceClassSpec(
        selectors=tuple(_selectors(spec, at="spec")),
        extended_resource=text_at(spec, "extendedResourceName", at="spec.extendedResourceName"),
    )


def read_template(item: DeviceObject) -> ClaimSpec:
    """Return what the claims of a template ask for."""
    spec = mapping_at(decoded(item.spec_json, at="spec"), "spec", at="spec.spec")
    return _claim_spec(spec, at="spec.spec")


def read_claim(item: DeviceObject) -> Claim:
    """Return a claim with what it holds."""
    status = decoded(item.status_json, at="status")
    allocation = mapping_at(status, "allocation", at="status.allocation")
    is_allocated = status.get("allocation") is not None
    return Claim(
        metadata=item.metadata,
        spec=read_claim_spec(item.spec_json),
        allocation=_allocation(allocation) if is_allocated else None,
        consumers=tuple(
            Uid(text_at(one, "uid", at=f"{path}.uid"))
            for path, one in numbered(status, "reservedFor", at="status.reservedFor")
        ),
    )


@lru_cache(maxsize=4096)
def read_claim_spec(text: bytes) -> ClaimSpec:
    """Return what a claim asks for; the claims of one template are read once."""
    return _claim_spec(decoded(text, at="spec"), at="spec")


def read_rule(item: DeviceObject) -> TaintRule:
    """Return a taint rule. A missing selector selects nothing, an empty one everything."""
    spec = decoded(item.spec_json, at="spec")
    selector = mapping_at(spec, "deviceSelector", at="spec.deviceSelector")
    return TaintRule(
        taint=read_taint(mapping_at(spec, "taint", at="spec.taint"), at="spec.taint"),
        driver=text_at(selector, "driver", at="spec.deviceSelector.driver"),
        pool=text_at(selector, "pool", at="spec.deviceSelector.pool"),
        device=text_at(selector, "device", at="spec.deviceSelector.device"),
        is_idle=spec.get("deviceSelector") is None,
    )


def _claim_spec(spec: Mapping[str, Any], *, at: str) -> ClaimSpec:
    at = f"{at}.devices"
    devices = mapping_at(spec, "devices", at=at)
    return ClaimSpec(
        requests=tuple(_request(item, at=path) for path, item in numbered(devices, "requests", at=f"{at}.requests")),
        constraints=tuple(
            _constraint(item, at=path) for path, item in numbered(devices, "constraints", at=f"{at}.constraints")
        ),
    )


def _request(item: Mapping[str, Any], *, at: str) -> Request:
    name = text_at(item, "name", at=f"{at}.name")
    exactly = item.get("exactly")
    listed = tuple(
        _ask(one, at=path, name=text_at(one, "name", at=f"{path}.name"))
        for path, one in numbered(item, "firstAvailable", at=f"{at}.firstAvailable")
    )
    if (exactly is None) == (not listed):
        raise FieldError(field=at, expected="one of exactly and firstAvailable", got=sorted(item))
    return Request(
        name=name, alternatives=listed or (_ask(mapping_at(item, "exactly", at=f"{at}.exactly"), at=f"{at}.exactly"),)
    )


def _ask(item: Mapping[str, Any], *, at: str, name: str = "") -> Ask:
    mode = text_at(item, "allocationMode", at=f"{at}.allocationMode", default="ExactCount")
    if mode not in {"ExactCount", "All"}:
        raise FieldError(field=f"{at}.allocationMode", expected="ExactCount or All", got=mode)
    count = item.get("count", 1) or 1
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise FieldError(field=f"{at}.count", expected="a whole number of at least 1", got=count)
    capacity = mapping_at(mapping_at(item, "capacity", at=f"{at}.capacity"), "requests", at=f"{at}.capacity.requests")
    return Ask(
        name=name,
        device_class=text_at(item, "deviceClassName", at=f"{at}.deviceClassName"),
        selectors=tuple(_selectors(item, at=at)),
        count=count if mode == "ExactCount" else None,
        is_admin=flag_at(item, "adminAccess", at=f"{at}.adminAccess"),
        tolerations=tuple(
            _toleration(one, at=path) for path, one in numbered(item, "tolerations", at=f"{at}.tolerations")
        ),
        capacity=tuple(
            (key, amount_at(capacity, key, at=f"{at}.capacity.requests[{key}]")) for key in sorted(capacity)
        ),
    )


def _selectors(item: Mapping[str, Any], *, at: str) -> Iterator[str]:
    for path, selector in numbered(item, "selectors", at=f"{at}.selectors"):
        expression = text_at(mapping_at(selector, "cel", at=f"{path}.cel"), "expression", at=f"{path}.cel.expression")
        if not expression:
            raise FieldError(field=f"{path}.cel.expression", expected="a CEL expression", got=selector)
        yield expression


def _toleration(item: Mapping[str, Any], *, at: str) -> DeviceToleration:
    seconds = item.get("tolerationSeconds")
    return DeviceToleration(
        key=text_at(item, "key", at=f"{at}.key"),
        operator=text_at(item, "operator", at=f"{at}.operator", default="Equal"),
        value=text_at(item, "value", at=f"{at}.value"),
        effect=text_at(item, "effect", at=f"{at}.effect"),
        seconds=None if seconds is None else integer_at(item, "tolerationSeconds", at=f"{at}.tolerationSeconds"),
    )


def _constraint(item: Mapping[str, Any], *, at: str) -> AttributeConstraint:
    """Return a constraint. Of one with both attributes only matchAttribute counts, as for kube-scheduler."""
    match = text_at(item, "matchAttribute", at=f"{at}.matchAttribute")
    distinct = text_at(item, "distinctAttribute", at=f"{at}.distinctAttribute")
    domain, slash, name = (match or distinct).partition("/")
    if not slash:
        raise FieldError(
            field=at, expected="matchAttribute or distinctAttribute with a domain, as gpu.example.com/model", got=item
        )
    return AttributeConstraint(
        attribute=(domain, name),
        requests=texts_at(item, "requests", at=f"{at}.requests"),
        is_distinct=not match,
    )


def _allocation(allocation: Mapping[str, Any]) -> Allocation:
    at = "status.allocation"
    selector = mapping_at(allocation, "nodeSelector", at=f"{at}.nodeSelector")
    devices = mapping_at(allocation, "devices", at=f"{at}.devices")
    return Allocation(
        node=_where(read_selector(selector, at=f"{at}.nodeSelector")) if selector else _EVERYWHERE,
        uses=tuple(_use(item, at=path) for path, item in numbered(devices, "results", at=f"{at}.devices.results")),
    )


def _where(rule: NodeRule) -> NodeRule:
    """Return the rule by the node's name where it names one node, as nearly all allocations do."""
    if len(rule.terms) != 1 or rule.terms[0].expressions or len(rule.terms[0].fields) != 1:
        return rule
    (field,) = rule.terms[0].fields
    is_name = field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1
    return NodeRule(name=field.values[0]) if is_name else rule


def _use(item: Mapping[str, Any], *, at: str) -> Use:
    consumed = mapping_at(item, "consumedCapacity", at=f"{at}.consumedCapacity")
    is_share = bool(text_at(item, "shareID", at=f"{at}.shareID"))
    return Use(
        device=(
            text_at(item, "driver", at=f"{at}.driver"),
            text_at(item, "pool", at=f"{at}.pool"),
            text_at(item, "device", at=f"{at}.device"),
        ),
        is_admin=flag_at(item, "adminAccess", at=f"{at}.adminAccess"),
        consumed=tuple((key, amount_at(consumed, key, at=f"{at}.consumedCapacity[{key}]")) for key in sorted(consumed))
        if is_share
        else None,
    )
