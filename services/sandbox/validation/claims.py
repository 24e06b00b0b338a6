"""ResourceClaims (resource.k8s.io): a frozen spec and the write-once allocation."""

from collections.abc import Iterator, Sequence

from services.sandbox.failures import (
    Cause,
    duplicate,
    forbidden_field,
    immutable,
    invalid_value,
    required,
    too_many,
)
from services.sandbox.objects import Obj, is_deleting, spec, status
from services.sandbox.validation import fields

_CONSUMER_LIMIT = 256
_REQUEST_LIMIT = 32
_DEVICE_LIMIT = 32


def _default_requests(holder: Obj) -> Obj:
    devices = dict(holder.get("devices") or {})
    requests = []
    for request in devices.get("requests") or ():
        exactly = request.get("exactly")
        if isinstance(exactly, dict):
            mode = exactly.get("allocationMode") or "ExactCount"
            filled = {**exactly, "allocationMode": mode}
            if mode == "ExactCount":
                filled["count"] = filled.get("count") or 1
            requests.append({**request, "exactly": filled})
        else:
            requests.append(request)
    return {**holder, "devices": {**devices, "requests": requests}} if requests else holder


def default_claim(new: Obj, old: Obj | None) -> None:
    """Allocation mode and count; a new claim starts unallocated."""
    new["spec"] = _default_requests(spec(new))
    if old is None:
        new["status"] = {}


def drop_freed_devices(new: Obj, old: Obj | None) -> None:
    """What drivers say of devices goes when a claim has these no more; an update that is wrong itself is refused."""
    holder = status(new)
    before, after = _allocated(old), _allocated(new)
    if holder.get("devices") and before and not before <= after:
        freed = before - after
        kept = [one for one in holder["devices"] if _device(one) not in freed]
        new["status"] = {name: value for name, value in holder.items() if name != "devices"}
        new["status"] |= {"devices": kept} if kept else {}


def _allocated(claim: Obj | None) -> set[tuple[object, ...]]:
    allocation = status(claim or {}).get("allocation") or {}
    return {_device(one) for one in (allocation.get("devices") or {}).get("results") or ()}


def _device(holder: Obj) -> tuple[object, ...]:
    return tuple(holder.get(name) for name in ("driver", "pool", "device", "shareID"))


def default_template(new: Obj, _old: Obj | None) -> None:
    """The same defaults inside the template."""
    holder = spec(new)
    new["spec"] = {**holder, "spec": _default_requests(dict(holder.get("spec") or {}))}


def _requests(path: str, *, holder: Obj) -> Iterator[Cause]:
    requests = (holder.get("devices") or {}).get("requests") or ()
    if len(requests) > _REQUEST_LIMIT:
        yield too_many(f"{path}.devices.requests", count=len(requests), limit=_REQUEST_LIMIT)
    seen: set[str] = set()
    for index, request in enumerate(requests):
        here = f"{path}.devices.requests[{index}]"
        name = request.get("name") or ""
        if not name:
            yield required(f"{here}.name")
        elif name in seen:
            yield duplicate(f"{here}.name", value=name)
        else:
            yield from fields.dns_label(f"{here}.name", value=name)
        seen.add(name)
        exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
        if exactly is None and not alternatives:
            detail = "exactly one of `exactly` or `firstAvailable` is required"
            yield required(here, detail=detail)
        elif exactly is not None and not exactly.get("deviceClassName"):
            yield required(f"{here}.exactly.deviceClassName")


def validate_claim(new: Obj, old: Obj | None) -> Sequence[Cause]:
    """Device requests at creation; nothing of the spec changes afterwards."""
    if old is None:
        return list(_requests("spec", holder=spec(new)))
    return [immutable("spec", value=spec(new))] if spec(new) != spec(old) else []


def validate_template(new: Obj, old: Obj | None) -> Sequence[Cause]:
    """As for claims, one level deeper."""
    if old is None:
        return list(_requests("spec.spec", holder=spec(new).get("spec") or {}))
    return [immutable("spec", value=spec(new))] if spec(new) != spec(old) else []


def _request_names(claim: Obj) -> set[str]:
    names: set[str] = set()
    for request in (spec(claim).get("devices") or {}).get("requests") or ():
        names.add(request.get("name", ""))
        names.update(f"{request.get('name')}/{sub.get('name')}" for sub in request.get("firstAvailable") or ())
    return names


def _results(claim: Obj, allocation: Obj) -> Iterator[Cause]:
    path = "status.allocation.devices.results"
    results = (allocation.get("devices") or {}).get("results") or ()
    if len(results) > _DEVICE_LIMIT:
        yield too_many(path, count=len(results), limit=_DEVICE_LIMIT)
    names = _request_names(claim)
    for index, result in enumerate(results):
        here = f"{path}[{index}]"
        if result.get("request") not in names:
            detail = "must be the name of a request in the claim or '<main request>/<subrequest>'"
            yield invalid_value(f"{here}.request", value=result.get("request"), detail=detail)
        yield from fields.present(here, holder=result, names=("driver", "pool", "device"))


def _reservations(new: Obj, old: Obj) -> Iterator[Cause]:
    path = "status.reservedFor"
    entries = status(new).get("reservedFor") or ()
    before = {entry.get("uid") for entry in status(old).get("reservedFor") or ()}
    if len(entries) > _CONSUMER_LIMIT:
        yield too_many(path, count=len(entries), limit=_CONSUMER_LIMIT)
    if entries and not status(new).get("allocation"):
        yield forbidden_field(path, detail="may not be specified when `allocated` is not set")
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        here = f"{path}[{index}]"
        yield from fields.present(here, holder=entry, names=("resource", "name", "uid"))
        uid = entry.get("uid") or ""
        if uid in seen:
            yield duplicate(f"{here}.uid" if uid else here, value=uid)
        seen.add(uid)
    if is_deleting(old) and seen - before:
        yield forbidden_field(path, detail="new entries may not be added while `deletionTimestamp` is set")


def validate_claim_status(new: Obj, old: Obj | None) -> Sequence[Cause]:
    """The allocation is written once and may only be cleared, together with its reservations."""
    assert old is not None
    after, before = status(new).get("allocation"), status(old).get("allocation")
    causes = list(_reservations(new, old))
    if after and before and after != before:
        detail = "field cannot be modified once set"
        causes.append(invalid_value("status.allocation", value=after, detail=detail))
    elif after and not before:
        causes.extend(_results(new, after))
    return causes
