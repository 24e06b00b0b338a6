"""Bugs on purpose: our answer to the same question with one of its facts overlooked."""

from collections import Counter
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from tests.differential.devices.comparison import Ours, ours
from tests.differential.devices.drawing import Question

Json = dict[str, Any]


def _devices(question: Question, change: Callable[[Json], None]) -> Question:
    slices = deepcopy(question.slices)
    for one in slices:
        for device in one["spec"].get("devices", ()):
            change(device)
    return replace(question, slices=slices)


def _slices(question: Question, change: Callable[[Json], None]) -> Question:
    slices = deepcopy(question.slices)
    for one in slices:
        change(one["spec"])
    return replace(question, slices=slices)


def _asks(question: Question, change: Callable[[Json], None]) -> Question:
    claims = deepcopy(question.claims)
    for claim in claims:
        for request in claim["spec"]["devices"]["requests"]:
            for ask in request.get("firstAvailable", ()) or [request["exactly"]]:
                change(ask)
    return replace(question, claims=claims)


def _claims(question: Question, change: Callable[[Json], None]) -> Question:
    claims = deepcopy(question.claims)
    for claim in claims:
        change(claim["spec"]["devices"])
    return replace(question, claims=claims)


def _without(*names: str) -> Callable[[Json], None]:
    def change(item: Json) -> None:
        for name in names:
            item.pop(name, None)

    return change


def _held(question: Question, change: Callable[[list[Json]], list[Json]]) -> Question:
    allocated = deepcopy(question.allocated)
    for claim in allocated:
        devices = claim["status"]["allocation"]["devices"]
        devices["results"] = change(devices["results"])
    return replace(question, allocated=allocated)


def _everywhere(spec: Json) -> None:
    _without("nodeName", "nodeSelector")(spec)
    if "perDeviceNodeSelection" not in spec:
        spec["allNodes"] = True


def _everywhere_each(spec: Json) -> None:
    if spec.pop("perDeviceNodeSelection", False):
        spec["allNodes"] = True


def _as_complete(question: Question) -> Question:
    found = deepcopy(question.slices)
    counts = Counter((one["spec"]["pool"]["name"], one["spec"]["pool"]["generation"]) for one in found)
    for one in found:
        pool = one["spec"]["pool"]
        pool["resourceSliceCount"] = counts[pool["name"], pool["generation"]]
    return replace(question, slices=found)


def _as_distinct(devices: Json) -> None:
    for constraint in devices.get("constraints", ()):
        if "matchAttribute" in constraint:
            constraint["distinctAttribute"] = constraint.pop("matchAttribute")


def _one_of_all(ask: Json) -> None:
    if ask.get("allocationMode") == "All":
        ask |= {"allocationMode": "ExactCount", "count": 1}


def _first_only(devices: Json) -> None:
    for request in devices["requests"]:
        if "firstAvailable" in request:
            request["firstAvailable"] = request["firstAvailable"][:1]


def _without_policy(device: Json) -> None:
    _without("requestPolicy")(device.get("capacity", {}).get("memory", {}))


def _as_ordinary(results: list[Json]) -> list[Json]:
    return [{key: value for key, value in one.items() if key != "adminAccess"} for one in results]


def _once(spec: Json) -> None:
    if "devices" in spec:
        spec["devices"] = list({device["name"]: device for device in spec["devices"]}.values())


_PLANTED: Mapping[str, Callable[[Question], Question]] = {
    "taints are ignored": lambda q: _devices(q, _without("taints")),
    "tolerations are ignored": lambda q: _asks(q, _without("tolerations")),
    "counters are ignored": lambda q: _devices(q, _without("consumesCounters")),
    "capacity is whole": lambda q: _devices(q, _without("allowMultipleAllocations")),
    "request policies are ignored": lambda q: _devices(q, _without_policy),
    "capacity requests are ignored": lambda q: _asks(q, _without("capacity")),
    "devices in use are free": lambda q: _held(q, lambda _: []),
    "shares in use are free": lambda q: _held(q, lambda results: [one for one in results if "shareID" not in one]),
    "admin access takes devices": lambda q: _held(q, _as_ordinary),
    "constraints are ignored": lambda q: _claims(q, _without("constraints")),
    "match means distinct": lambda q: _claims(q, _as_distinct),
    "all means one": lambda q: _asks(q, _one_of_all),
    "only the first alternative counts": lambda q: _claims(q, _first_only),
    "selectors of requests are ignored": lambda q: _asks(q, _without("selectors")),
    "classes select everything": lambda q: replace(q, classes=tuple({**one, "spec": {}} for one in q.classes)),
    "devices are everywhere": lambda q: _slices(q, _everywhere),
    "node rules of devices are ignored": lambda q: _slices(q, _everywhere_each),
    "incomplete pools are used": _as_complete,
    "a device listed twice is one": lambda q: _slices(q, _once),
    "a generation is as good as another": lambda q: _slices(q, lambda spec: spec["pool"].update(generation=1)),
}


def _answer(bug: str) -> Callable[[Question], Ours]:
    return lambda question: ours(_PLANTED[bug](question))


PLANTED: Mapping[str, Callable[[Question], Ours]] = {bug: _answer(bug) for bug in _PLANTED}
"""Answers with one bug each, by what the bug is."""
