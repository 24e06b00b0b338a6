"""Decisions about claims of devices: 40,000 of them on 5,000 nodes, each with a uuid and a PCIe root of its own.

Slices are folded as they come from the stream, which is when selectors are judged; it is timed for each slice.
"""

import json
import time
from collections.abc import Mapping
from typing import Any

from services.core.inventory import Inventory
from services.core.objects import DeviceObject, Kind, Metadata, Node, Pod, Uid
from services.core.pod_devices import PodClaim, PodDevices

NODES, DEVICES = 5_000, 8
DRIVER = "gpu.example.com"
NAMESPACE = "team-a"
MODELS = ("a100", "h100", "h200", "b200")
MEMORIES = ("80Gi", "141Gi")
GANG = 512

SELECTORS = tuple(
    f'device.attributes["{DRIVER}"].model == "{model}"'
    f' && device.capacity["{DRIVER}"].memory.compareTo(quantity("100Gi")) {sign} 0'
    for model in MODELS
    for sign in ("<", ">=")
)
"""Eight kinds of claims."""


def device_inventory() -> tuple[Inventory, float]:
    """Return the nodes with their devices, classes and templates, and how many µs a slice took to be folded."""
    inventory = Inventory()
    books = inventory.devices
    books.put(_object(Kind.DEVICE_CLASS, "gpu", {"selectors": [_cel(f'device.driver == "{DRIVER}"')]}))
    for index, selector in enumerate(SELECTORS):
        books.put(_object(Kind.RESOURCE_CLAIM_TEMPLATE, f"kind-{index}", _template(selector), namespace=NAMESPACE))
    slices = [slice_of(index) for index in range(NODES)]
    for index in range(NODES):
        inventory.put_node(plain_node(index))
    started_s = time.perf_counter()
    for item in slices:
        books.put(item)
    return inventory, 1e6 * (time.perf_counter() - started_s) / NODES


def plain_node(index: int) -> Node:
    """A node without device plugins, in one of many racks."""
    labels = {"kubernetes.io/hostname": f"n{index:05}", "example.com/rack": f"r{index // 25:03}"}
    offered = {"cpu": 96_000, "memory": 2**40, "pods": 110}
    return Node(metadata=Metadata(name=f"n{index:05}", uid=Uid(f"uid-{index}"), labels=labels), allocatable=offered)


def slice_of(index: int, *, version: int = 1) -> DeviceObject:
    """The slice of one node: eight devices of one model, four to a NUMA node. Another version has another driver's."""
    model, memory = MODELS[index % 4], MEMORIES[(index // 4) % 2]
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {
                "model": {"string": model},
                "uuid": {"string": f"GPU-{index:05}-{number}"},
                "driverVersion": {"version": f"570.{version}.0"},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci{index:04x}:{number:02x}"},
                "numa": {"int": number // 4},
            },
            "capacity": {"memory": {"value": memory}},
        }
        for number in range(DEVICES)
    ]
    pool = {"name": f"n{index:05}", "generation": version, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": f"n{index:05}", "pool": pool, "devices": devices}
    return _object(Kind.RESOURCE_SLICE, f"n{index:05}-gpu", spec, version=str(version))


def claiming_gang(count: int = GANG) -> tuple[Pod, ...]:
    """Members that each claim two devices of one of eight kinds, on the same NUMA node."""
    return tuple(_claiming(f"c-{index:04}", kind=index % len(SELECTORS)) for index in range(count))


def _claiming(name: str, *, kind: int) -> Pod:
    return Pod(
        metadata=Metadata(name=name, namespace=NAMESPACE, uid=Uid(name)),
        scheduler_name="phalanx",
        requests={"cpu": 1_000, "memory": 2**33, "pods": 1},
        devices=PodDevices(claims=(PodClaim(entry="gpu", template=f"kind-{kind}"),)),
    )


def _template(selector: str) -> Mapping[str, Any]:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2, "selectors": [_cel(selector)]}
    same = {"requests": [], "matchAttribute": f"{DRIVER}/numa"}
    return {"spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}], "constraints": [same]}}}


def _cel(expression: str) -> Mapping[str, Any]:
    return {"cel": {"expression": expression}}


def _object(kind: Kind, name: str, spec: Mapping[str, Any], *, namespace: str = "", version: str = "1") -> DeviceObject:
    metadata = Metadata(name=name, namespace=namespace, uid=Uid(f"uid-{name}"), resource_version=version)
    return DeviceObject(metadata=metadata, kind=kind, spec_json=json.dumps(spec).encode())
