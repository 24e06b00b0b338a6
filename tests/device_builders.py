"""Objects of resource.k8s.io with valid defaults, and pods that use claims: a test states only what it is about."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from services.core.objects import DeviceObject, Kind, Metadata, Node, NodeName, Owner, Pod, Uid
from services.core.pod_devices import ContainerResource, PodClaim, PodDevices

DRIVER = "gpu.example.com"
CLASS = "gpu"

Json = Mapping[str, Any]


def attribute(value: str | int | bool) -> Json:  # noqa: FBT001 - the value of an attribute
    """Return a value as the API writes it; a text that begins with v is a version."""
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    return {"version": value[1:]} if value[:1] == "v" and value[1:2].isdigit() else {"string": value}


def device(name: str, *, attributes: Mapping[str, str | int | bool] | None = None, **fields: Any) -> dict[str, Any]:
    """Return one device of a slice; further fields as the API names them."""
    known = {key: attribute(value) for key, value in (attributes or {}).items()}
    return {"name": name, **({"attributes": known} if known else {}), **fields}


def resource_slice(
    name: str,
    devices: Sequence[Json] = (),
    *,
    node: str = "",
    pool: str = "",
    driver: str = DRIVER,
    generation: int = 1,
    count: int = 1,
    version: int = 1,
    **spec: Any,
) -> DeviceObject:
    """Return a ResourceSlice, of a pool with the name of its node where none is stated."""
    where = {"nodeName": node} if node else {}
    content = {
        "driver": driver,
        "pool": {"name": pool or node or name, "generation": generation, "resourceSliceCount": count},
        **where,
        **({"devices": list(devices)} if devices else {}),
        **spec,
    }
    return _object(Kind.RESOURCE_SLICE, name, content, version=version)


def gpus(node: str, count: int, **fields: Any) -> DeviceObject:
    """Return a slice with GPUs gpu-0, gpu-1 … of a node, all alike."""
    return resource_slice(f"{node}-gpus", [device(f"gpu-{index}", **fields) for index in range(count)], node=node)


def device_class(name: str = CLASS, *expressions: str, version: int = 1, **spec: Any) -> DeviceObject:
    """Return a DeviceClass, of all devices of the driver where no expression is stated."""
    chosen = expressions or (f'device.driver == "{DRIVER}"',)
    content = {"selectors": [{"cel": {"expression": one}} for one in chosen], **spec}
    return _object(Kind.DEVICE_CLASS, name, content, version=version)


def request(
    name: str = "gpu",
    *expressions: str,
    device_class_name: str = CLASS,
    alternatives: Sequence[Json] = (),
    **fields: Any,
) -> Json:
    """Return a request of a claim; `alternatives` are those of a prioritized list."""
    if alternatives:
        return {"name": name, "firstAvailable": list(alternatives)}
    return {"name": name, "exactly": ask(*expressions, device_class_name=device_class_name, **fields)}


def ask(*expressions: str, device_class_name: str = CLASS, **fields: Any) -> dict[str, Any]:
    """Return what a request or an alternative asks for."""
    selectors = {"selectors": [{"cel": {"expression": one}} for one in expressions]} if expressions else {}
    return {"deviceClassName": device_class_name, **selectors, **fields}


def claim(
    name: str,
    *requests: Json,
    constraints: Sequence[Json] = (),
    results: Sequence[Json] | None = None,
    node: str = "",
    consumers: Sequence[str] = (),
    namespace: str = "team",
    owner: str = "",
    version: int = 1,
    annotations: Mapping[str, str] | None = None,
    **metadata: Any,
) -> DeviceObject:
    """Return a ResourceClaim; `results` are its devices if it is allocated, usable on `node` alone if one is named."""
    status: dict[str, Any] = {}
    if results is not None:
        allocation: dict[str, Any] = {"devices": {"results": list(results)}}
        if node:
            fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": fields}]}
        status = {"allocation": allocation, "reservedFor": [{"resource": "pods", "uid": one} for one in consumers]}
    owners = (Owner(kind="Pod", name=owner, uid=Uid(owner), is_controller=True),) if owner else ()
    return DeviceObject(
        metadata=Metadata(
            name=name,
            namespace=namespace,
            uid=Uid(f"claim-{name}"),
            resource_version=str(version),
            owners=owners,
            annotations=annotations or {},
            **metadata,
        ),
        kind=Kind.RESOURCE_CLAIM,
        spec_json=_json(claim_spec(*requests, constraints=constraints)),
        status_json=_json(status),
    )


def claim_spec(*requests: Json, constraints: Sequence[Json] = ()) -> Json:
    """Return the spec of a claim, for one GPU where no request is stated."""
    devices = {
        "requests": list(requests or (request(),)),
        **({"constraints": list(constraints)} if constraints else {}),
    }
    return {"devices": devices}


def template(name: str, *requests: Json, constraints: Sequence[Json] = (), namespace: str = "team") -> DeviceObject:
    """Return a ResourceClaimTemplate."""
    content = {"spec": claim_spec(*requests, constraints=constraints)}
    return _object(Kind.RESOURCE_CLAIM_TEMPLATE, name, content, namespace=namespace)


def taint_rule(name: str, selector: Json | None, *, effect: str = "NoSchedule", key: str = "broken") -> DeviceObject:
    """Return a DeviceTaintRule; `selector` None for a rule without one."""
    content: dict[str, Any] = {"taint": {"key": key, "effect": effect}}
    if selector is not None:
        content["deviceSelector"] = selector
    return _object(Kind.DEVICE_TAINT_RULE, name, content)


def result(name: str, *, pool: str, request_name: str = "gpu", driver: str = DRIVER, **fields: Any) -> Json:
    """Return one device of an allocation."""
    return {"request": request_name, "driver": driver, "pool": pool, "device": name, **fields}


def user(
    name: str,
    *claims: str,
    templates: Sequence[str] = (),
    extended: Sequence[ContainerResource] = (),
    namespace: str = "team",
    group: str = "",
) -> Pod:
    """Return a pod that uses claims by name, and own claims of templates."""
    entries = [PodClaim(entry=one, claim=one) for one in claims]
    entries += [PodClaim(entry=one, template=one) for one in templates]
    return Pod(
        metadata=Metadata(name=name, namespace=namespace, uid=Uid(name)),
        group=group,
        devices=PodDevices(claims=tuple(entries), extended=tuple(extended)),
    )


def labelled(name: str, **labels: str) -> tuple[NodeName, Node]:
    """Return a node by its name."""
    return NodeName(name), Node(metadata=Metadata(name=name, labels=labels))


def _object(kind: Kind, name: str, spec: Json, *, namespace: str = "", version: int = 1) -> DeviceObject:
    metadata = Metadata(name=name, namespace=namespace, uid=Uid(f"{kind.value}-{name}"), resource_version=str(version))
    return DeviceObject(metadata=metadata, kind=kind, spec_json=_json(spec))


def _json(value: Json) -> bytes:
    return json.dumps(value).encode()
