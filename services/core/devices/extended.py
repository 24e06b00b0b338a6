"""Extended resources that DeviceClasses stand for (KEP-5004): the requests of the claim that is made for them.

Containers that run together have requests of their own. An init container that ends before them uses their devices
first, and asks only for what is missing; of several such init containers one request is enough, the largest.
"""

from collections.abc import Callable, Iterable, Iterator

from services.core.allocations import ExtendedRequest
from services.core.devices.values import Ask, ClaimSpec, Request
from services.core.pod_devices import ContainerResource


def extended_requests(
    asked: Iterable[ContainerResource], *, class_for: Callable[[str], str]
) -> tuple[ExtendedRequest, ...]:
    """Return the requests, and with a count of 0 who uses the devices of another container's request."""
    by_resource: dict[str, list[ContainerResource]] = {}
    for one in asked:
        by_resource.setdefault(one.resource, []).append(one)
    found: list[ExtendedRequest] = []
    for resource, uses in sorted(by_resource.items()):
        found.extend(_of_resource(sorted(uses, key=lambda one: one.index), device_class=class_for(resource)))
    return tuple(found)


def claim_spec_of(extended: Iterable[ExtendedRequest]) -> ClaimSpec:
    """Return the spec of the claim that stands for extended resources."""
    counted = sorted((one for one in extended if one.count), key=lambda one: one.name)
    return ClaimSpec(
        requests=tuple(
            Request(name=one.name, alternatives=(Ask(device_class=one.device_class, count=one.count),))
            for one in counted
        )
    )


def _of_resource(uses: list[ContainerResource], *, device_class: str) -> Iterator[ExtendedRequest]:
    lasting = [_request(one, device_class=device_class) for one in uses if not one.is_initial]
    yield from lasting
    indexes = [one.index for one in uses if not one.is_initial]
    missing: list[tuple[ContainerResource, int]] = []
    for one in uses:
        if not one.is_initial:
            continue
        had = 0
        for index, request in zip(indexes, lasting, strict=True):
            if index >= one.index and had < one.amount:
                had += request.count
                yield _user(one, request=request.name, device_class=device_class)
        if had < one.amount:
            missing.append((one, one.amount - had))
    if not missing:
        return
    largest, count = max(missing, key=lambda pair: pair[1])
    yield _request(largest, device_class=device_class, count=count)
    for one, _ in missing:
        if one is not largest:
            yield _user(one, request=_name(largest), device_class=device_class)


def _request(one: ContainerResource, *, device_class: str, count: int | None = None) -> ExtendedRequest:
    return ExtendedRequest(
        name=_name(one),
        container=one.container,
        resource=one.resource,
        device_class=device_class,
        count=one.amount if count is None else count,
    )


def _user(one: ContainerResource, *, request: str, device_class: str) -> ExtendedRequest:
    return ExtendedRequest(
        name=request, container=one.container, resource=one.resource, device_class=device_class, count=0
    )


def _name(one: ContainerResource) -> str:
    return f"container-{one.index}-request-{one.position}"
