"""One question asked of both, and what may differ.

Three things differ by intent, and only so that we place more, or say more: docs/devices.md has them. Admin access
consumes nothing here; where a request for all devices meets a constraint, the choice before it is tried again; and a
selector that fails on any device that could be had is told before a device is chosen that it matches.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from services.core.allocations import ClaimAllocation
from services.core.devices import DeviceBooks, Devices
from services.core.objects import DeviceObject, Kind, Metadata, Node, NodeName, Pod, Uid
from services.core.pod_devices import PodClaim, PodDevices
from services.core.reasons import ReasonCode
from services.core.reduce import reduce
from tests.differential.devices.drawing import NODE, Question
from tests.differential.devices.oracle import Answer, Oracle

_CONSTRAINT = "because a claim constraint would not be satisfied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """What we say: whether it fits, whether a selector failed, and the devices by claim."""

    fits: bool | None
    has_failed: bool
    devices: tuple[tuple[str, ...], ...] = ()


def ours(question: Question) -> Ours:
    """Return our answer."""
    found = devices_of(question)
    pod = _pod(question)
    demand = found.demand(pod)
    fits = found.fits(NodeName(NODE), {demand: 1})
    allocation = found.allocate([(pod, NodeName(NODE))])
    is_allocated = all(isinstance(one, ClaimAllocation) for one in allocation)
    assert is_allocated == bool(fits), "fits and allocate disagree"
    return Ours(
        fits=fits,
        has_failed=any(one.code is ReasonCode.SELECTOR_FAILED for one in demand.problems),
        devices=tuple(
            tuple(f"{one.driver}/{one.pool}/{one.device}" for one in claim.results)
            for claim in allocation
            if isinstance(claim, ClaimAllocation)
        ),
    )


def difference(question: Question, theirs: Answer, *, oracle: Oracle, answer: Callable[[Question], Ours] = ours) -> str:
    """Return in words how the answers differ, empty where they do not or may."""
    mine = answer(question)
    if mine.fits is None:
        return "we gave up"
    if mine.fits and theirs.fits:
        return _unfounded(question, mine, oracle=oracle)
    if mine.fits == theirs.fits:
        return ""
    if theirs.fits:
        return "" if mine.has_failed else "kube-scheduler alone finds devices"
    if "admin access" in question.features or _CONSTRAINT in theirs.error:
        return ""
    return f"we alone find devices: {mine.devices} ({theirs.error})"


def _unfounded(question: Question, mine: Ours, *, oracle: Oracle) -> str:
    """Return whether our choice is none, which is so where the allocator finds nothing among just those devices."""
    held = [one for claim in question.allocated for one in claim["status"]["allocation"]["devices"]["results"]]
    kept = {f"{one['driver']}/{one['pool']}/{one['device']}" for one in held}
    kept |= {device for claim in mine.devices for device in claim}
    slices = deepcopy(question.slices)
    for spec in (one["spec"] for one in slices):
        begin = f"{spec['driver']}/{spec['pool']['name']}/"
        if "devices" in spec:
            spec["devices"] = [device for device in spec["devices"] if begin + device["name"] in kept]
    if "admin access" in question.features or oracle.ask(replace(question, slices=slices)).fits:
        return ""
    return f"our devices are no solution: {mine.devices}"


def devices_of(question: Question) -> Devices:
    """Return the devices of a question as one decision sees them."""
    books = DeviceBooks()
    kinds = (
        (Kind.DEVICE_CLASS, question.classes),
        (Kind.RESOURCE_SLICE, question.slices),
        (Kind.RESOURCE_CLAIM, (*question.allocated, *question.claims)),
    )
    for kind, manifests in kinds:
        for manifest in manifests:
            books.put(_object(kind, manifest))
    labels = question.node["metadata"]["labels"]
    node = Node(metadata=Metadata(name=NODE, labels=labels))
    return books.snapshot(nodes={NodeName(NODE): node})


def _object(kind: Kind, manifest: Mapping[str, Any]) -> DeviceObject:
    metadata = {"uid": manifest["metadata"]["name"], "resourceVersion": "1", **manifest["metadata"]}
    found = reduce(kind, {**manifest, "metadata": metadata})
    assert isinstance(found, DeviceObject)
    return found


def _pod(question: Question) -> Pod:
    names = [claim["metadata"]["name"] for claim in question.claims]
    return Pod(
        metadata=Metadata(name="p", namespace="team", uid=Uid("p")),
        devices=PodDevices(claims=tuple(PodClaim(entry=name, claim=name) for name in names)),
    )
