"""What is written into ResourceClaims (resource.k8s.io/v1), as the API takes it: KEP-4381, KEP-5004, KEP-5075."""

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from services.core.allocations import ClaimAllocation, DeviceResult, DeviceToleration
from services.core.decisions import Assignment
from services.core.names import TRANSACTION_ANNOTATION
from services.core.objects import GangId, TransactionId, namespace_of

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Without it the claim controller does not clear the allocation when the last consumer is gone."""

EXTENDED_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
MAX_CONSUMERS = 256
PODS, POD_GROUPS = "pods", "podgroups"

Manifest = Mapping[str, Any]


def metadata_of(claim: Manifest) -> Mapping[str, Any]:
    """Return the metadata of an object."""
    return claim.get("metadata") or {}


def status_of(claim: Manifest) -> Mapping[str, Any]:
    """Return the status of a claim, empty where it has none."""
    return claim.get("status") or {}


def transaction_of(claim: Manifest) -> TransactionId:
    """Return the transaction that allocated a claim, as its annotation says; empty where it was none of ours."""
    return TransactionId((metadata_of(claim).get("annotations") or {}).get(TRANSACTION_ANNOTATION, ""))


def results_of(claim: Manifest) -> list[Mapping[str, Any]]:
    """Return the devices of a claim, as the API has them; empty where it is not allocated."""
    allocation = status_of(claim).get("allocation") or {}
    return list((allocation.get("devices") or {}).get("results") or ())


def fenced(claim: Manifest) -> dict[str, Any]:
    """Return the metadata of a write that must meet a conflict where the claim is another, or has changed."""
    metadata = metadata_of(claim)
    return {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}


def gives_the_same(claim: Manifest, allocation: ClaimAllocation) -> bool:
    """Tell whether a claim has the devices of an allocation: the API may spell the rest in another way."""
    given = [(one["request"], one["driver"], one["pool"], one["device"]) for one in results_of(claim)]
    return given == [(one.request, one.driver, one.pool, one.device) for one in allocation.results]


def allocation_body(
    claim: Manifest,
    allocation: ClaimAllocation,
    *,
    transaction: TransactionId,
    classes: Mapping[str, Manifest],
    now: str,
) -> dict[str, Any]:
    """Return `status.allocation`. `classes` has the DeviceClasses of the claim's requests by name."""
    uid = metadata_of(claim)["uid"]
    results = [
        _result_body(one, share=_share_id(transaction, uid, number)) for number, one in enumerate(allocation.results)
    ]
    devices: dict[str, Any] = {"results": results}
    config = configs(claim.get("spec") or {}, allocation.results, classes=classes)
    if config:
        devices["config"] = config
    body: dict[str, Any] = {"devices": devices, "allocationTimestamp": now}
    if allocation.node:
        field = {"key": "metadata.name", "operator": "In", "values": [allocation.node]}
        body["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    elif allocation.node_selector_json:
        body["nodeSelector"] = json.loads(allocation.node_selector_json)
    return body


def _share_id(transaction: TransactionId, uid: str, number: int) -> str:
    """Return the id of a share: the same for the same share, so that a repeated write says the same."""
    digest = hashlib.blake2s(f"{transaction} {uid} {number}".encode(), digest_size=16).digest()
    return str(uuid.UUID(bytes=digest, version=4))


def _result_body(result: DeviceResult, *, share: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        "request": result.request,
        "driver": result.driver,
        "pool": result.pool,
        "device": result.device,
    }
    if result.is_admin:
        body["adminAccess"] = True
    if result.is_share:
        body["shareID"] = share
    if result.consumed:
        body["consumedCapacity"] = dict(result.consumed)
    if result.tolerations:
        body["tolerations"] = [_toleration_body(one) for one in result.tolerations]
    if result.binding_conditions:
        body["bindingConditions"] = list(result.binding_conditions)
        body["bindingFailureConditions"] = list(result.binding_failure_conditions)
    return body


def _toleration_body(toleration: DeviceToleration) -> dict[str, Any]:
    texts = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    seconds = {} if toleration.seconds is None else {"tolerationSeconds": toleration.seconds}
    return {name: text for name, text in texts.items() if text} | seconds


def class_names(spec: Manifest) -> tuple[str, ...]:
    """Return the DeviceClasses that a claim's requests name, in order, each once."""
    found: dict[str, None] = {}
    for request in _requests(spec):
        for one in (request.get("exactly") or {}, *(request.get("firstAvailable") or ())):
            if one.get("deviceClassName"):
                found[one["deviceClassName"]] = None
    return tuple(found)


def class_of(spec: Manifest, request: str) -> str:
    """Return the DeviceClass of a request, `main` or `main/sub`; empty where it is not the claim's."""
    main, _, sub = request.partition("/")
    for one in _requests(spec):
        if one.get("name") != main:
            continue
        choices = [each for each in one.get("firstAvailable") or () if each.get("name") == sub]
        return str((choices[0] if choices else one.get("exactly") or {}).get("deviceClassName") or "")
    return ""


def configs(
    spec: Manifest, results: Iterable[DeviceResult], *, classes: Mapping[str, Manifest]
) -> list[dict[str, Any]]:
    """Return `allocation.devices.config`: first what the classes of the requests say, then what the claim does.

    An entry that is for all requests of the claim names none, as the API's "empty means all" has it.
    """
    selected = dict.fromkeys(one.request for one in results)
    found: list[dict[str, Any]] = []
    by_class: dict[str, list[dict[str, Any]]] = {}
    for request in selected:
        name = class_of(spec, request)
        known = by_class.get(name)
        if known is None:
            given = (classes.get(name, {}).get("spec") or {}).get("config") or ()
            known = by_class[name] = [{"source": "FromClass", "requests": [], **_opaque(one)} for one in given]
            found += known
        for entry in known:
            entry["requests"].append(request)
    for one in (spec.get("devices") or {}).get("config") or ():
        wanted = one.get("requests") or ()
        if not wanted or any(_is_named(request, wanted) for request in selected):
            found.append({"source": "FromClaim", "requests": list(wanted), **_opaque(one)})
    for entry in found:
        if all(_is_named(request, entry["requests"]) for request in selected):
            del entry["requests"]
    return found


def _is_named(request: str, names: Iterable[str]) -> bool:
    return request in names or request.partition("/")[0] in names


def _opaque(config: Manifest) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != "requests"}


def _requests(spec: Manifest) -> Iterable[Manifest]:
    return (spec.get("devices") or {}).get("requests") or ()


def reservation(claim: Manifest, consumers: Iterable[Assignment], *, gang: GangId, is_of_group: bool) -> list[Any]:
    """Return `status.reservedFor` with these consumers beside those that are there; a group is one consumer."""
    there = list(status_of(claim).get("reservedFor") or ())
    known = {one.get("uid") for one in there}
    if is_of_group:
        wanted = [_group_entry(claim, gang=gang)]
    else:
        wanted = [{"resource": PODS, "name": one.pod, "uid": one.uid} for one in consumers]
    return there + [one for one in wanted if one["uid"] not in known]


def without(claim: Manifest, leaving: Iterable[Assignment], *, is_of_group: bool) -> list[Any]:
    """Return `status.reservedFor` without these consumers, or without groups."""
    uids = {one.uid for one in leaving}
    return [
        one
        for one in status_of(claim).get("reservedFor") or ()
        if (one.get("resource") != POD_GROUPS if is_of_group else one.get("uid") not in uids)
    ]


def _group_entry(claim: Manifest, *, gang: GangId) -> dict[str, str]:
    """Return the entry of the PodGroup that owns the claim."""
    owner = controller_of(claim) or {}
    return {
        "apiGroup": "scheduling.k8s.io",
        "resource": POD_GROUPS,
        "name": str(owner.get("name") or gang.rpartition("/")[2]),
        "uid": str(owner.get("uid") or ""),
    }


def controller_of(claim: Manifest) -> Manifest | None:
    """Return the owner that controls a claim, or None."""
    owners = metadata_of(claim).get("ownerReferences") or ()
    return next((one for one in owners if one.get("controller")), None)


def extended_name(allocation: ClaimAllocation, *, pod: str, transaction: TransactionId) -> str:
    """Return the name of the claim for a pod's extended resources: the same again after a lost answer."""
    digest = hashlib.blake2s(f"{allocation.ref.pod} {transaction}".encode()).hexdigest()[:10]
    return f"{pod[:220]}-extended-resources-{digest}"


def extended_claim(
    allocation: ClaimAllocation, *, pod: str, gang: GangId, transaction: TransactionId
) -> dict[str, Any]:
    """Return the claim that stands for a pod's extended resources (KEP-5004): one request for each that asks."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": allocation.ref.pod, "controller": True}
    requests = [
        {
            "name": one.name,
            "exactly": {"deviceClassName": one.device_class, "allocationMode": "ExactCount", "count": one.count},
        }
        for one in sorted(allocation.extended, key=lambda each: each.name)
        if one.count
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": extended_name(allocation, pod=pod, transaction=transaction),
            "namespace": namespace_of(gang),
            "annotations": {EXTENDED_ANNOTATION: "true", TRANSACTION_ANNOTATION: transaction},
            "finalizers": [FINALIZER],
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": requests}},
    }


def extended_status(allocation: ClaimAllocation, *, claim: str) -> dict[str, Any]:
    """Return `status.extendedResourceClaimStatus` of the pod: which container uses the devices of which request."""
    mappings = [
        {"containerName": one.container, "resourceName": one.resource, "requestName": one.name}
        for one in allocation.extended
    ]
    return {"resourceClaimName": claim, "requestMappings": mappings}
