"""Whatever stands in objects of resource.k8s.io: books never fail, and other pools and claims are served as before."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.core.allocations import ClaimAllocation
from services.core.devices import DeviceBooks
from services.core.objects import DeviceObject, Kind, Metadata, NodeName
from tests.device_builders import device_class, gpus, template, user

_WORDS = (
    *("driver", "pool", "name", "generation", "resourceSliceCount", "nodeName", "allNodes", "nodeSelector", "devices"),
    *("attributes", "capacity", "value", "requestPolicy", "validRange", "step", "min", "sharedCounters", "counters"),
    *("consumesCounters", "counterSet", "taints", "effect", "perDeviceNodeSelection", "requests", "exactly", "count"),
    *("deviceClassName", "firstAvailable", "selectors", "cel", "expression", "constraints", "matchAttribute", "spec"),
    *("allocation", "results", "reservedFor", "uid", "deviceSelector", "taint", "key", "tolerations", "string", "int"),
)
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(["gpu.example.com", "n1", "n9", "gpu", "d0", "1Gi", "-1", "1e999", "9" * 70, "true", "1 +"])
)
_JSON = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_WORDS), inner, max_size=6),
    max_leaves=25,
)
_VALID: dict[Kind, dict[str, Any]] = {
    Kind.RESOURCE_SLICE: {
        "driver": "gpu.example.com",
        "pool": {"name": "wild", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n9",
        "devices": [{"name": "d0", "attributes": {"model": {"string": "x"}}, "capacity": {"memory": {"value": "1Gi"}}}],
    },
    Kind.RESOURCE_CLAIM: {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
    Kind.RESOURCE_CLAIM_TEMPLATE: {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {}}]}}},
    Kind.DEVICE_CLASS: {"selectors": [{"cel": {"expression": "true"}}]},
    Kind.DEVICE_TAINT_RULE: {"deviceSelector": {"pool": "wild"}, "taint": {"key": "x", "effect": "NoSchedule"}},
}


@st.composite
def objects(draw: st.DrawFn) -> DeviceObject:
    """An object whose spec is valid but for what was put somewhere into it; its status may be anything."""
    kind = draw(st.sampled_from(sorted(_VALID)))
    spec = _with(draw, json.loads(json.dumps(_VALID[kind]))) if draw(st.booleans()) else draw(_JSON)
    status = draw(st.just({}) | st.dictionaries(st.sampled_from(["allocation", "reservedFor"]), _JSON))
    metadata = Metadata(name="wild", namespace="" if kind is not Kind.RESOURCE_CLAIM else "team")
    return DeviceObject(
        metadata=metadata, kind=kind, spec_json=json.dumps(spec).encode(), status_json=json.dumps(status).encode()
    )


def _with(draw: st.DrawFn, value: Any) -> Any:
    """Return the value with something else at one place in it."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: _with(draw, value[key])}
    if isinstance(value, list) and value and draw(st.booleans()):
        return [_with(draw, value[0]), *value[1:]]
    return draw(_JSON)


@given(st.lists(objects(), max_size=4))
def test_nothing_that_stands_in_an_object_breaks_the_books(items: list[DeviceObject]) -> None:
    """Every question has an answer; and what wild objects do not concern is served."""
    books = DeviceBooks()
    for item in (device_class("mine"), gpus("n1", 1), template("good"), *items):
        books.put(item)
    books.put(device_class())
    found = books.snapshot()
    for pod in (user("a", "wild"), user("b", templates=["wild"]), user("c", templates=["good"])):
        demand = found.demand(pod)
        for node in (NodeName("n1"), NodeName("n9")):
            answer = found.fits(node, {demand: 1})
            allocation = found.allocate([(pod, node)])
            assert bool(answer) == all(isinstance(one, ClaimAllocation) for one in allocation)
    for item in items:
        books.remove(item.kind, item.metadata)
    assert books.snapshot().fits(NodeName("n1"), {books.snapshot().demand(user("c", templates=["good"])): 1})
