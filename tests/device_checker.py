"""An independent judge of devices: it sees only what the API server has, and imports nothing of what it judges.

The API server accepts the same device in two claims, so that nobody but the schedulers keeps them apart.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

Manifest = Mapping[str, Any]
Device = tuple[str, str, str]


def problems(*, claims: Iterable[Manifest], pods: Iterable[Manifest], slices: Iterable[Manifest] = ()) -> list[str]:
    """Return what is wrong: devices in two allocations, bound pods without their devices, devices that nobody uses.

    `slices` are asked for devices that do not exist, where there are any.
    """
    claims, pods = list(claims), list(pods)
    return [*_shared(claims), *_unknown(claims, slices), *_without(pods, claims), *_idle(claims, pods)]


def results_of(claim: Manifest) -> list[Manifest]:
    """Return the devices that a claim has."""
    allocation = claim.get("status", {}).get("allocation") or {}
    return list(allocation.get("devices", {}).get("results", ()))


def _shared(claims: Iterable[Manifest]) -> list[str]:
    users: dict[Device, list[str]] = defaultdict(list)
    for claim in claims:
        for one in results_of(claim):
            if not one.get("adminAccess") and not one.get("shareID"):
                users[one["driver"], one["pool"], one["device"]].append(_name(claim))
    return [f"device {'/'.join(device)} is in {names}" for device, names in users.items() if len(names) > 1]


def _unknown(claims: Iterable[Manifest], slices: Iterable[Manifest]) -> list[str]:
    known: set[Device] = set()
    for one in slices:
        spec = one["spec"]
        known |= {(spec["driver"], spec["pool"]["name"], device["name"]) for device in spec.get("devices", ())}
    named = [(one["driver"], one["pool"], one["device"]) for claim in claims for one in results_of(claim)]
    return [f"device {'/'.join(one)} does not exist" for one in named if known and one not in known]


def _without(pods: Iterable[Manifest], claims: Iterable[Manifest]) -> list[str]:
    """Return bound pods whose claims are not allocated and reserved for them, or only for another node."""
    by_name = {_name(one): one for one in claims}
    found = []
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if not node or pod["metadata"].get("deletionTimestamp") or pod.get("status", {}).get("phase") in ENDED:
            continue
        for name in _claim_names(pod):
            claim = by_name.get(f"{pod['metadata']['namespace']}/{name}")
            if claim is None or not results_of(claim):
                found.append(f"pod {pod['metadata']['name']} runs, and its claim {name} is not allocated")
            elif not _is_reserved(claim, pod):
                found.append(f"pod {pod['metadata']['name']} runs, and its claim {name} is not reserved for it")
            elif _nodes(claim) not in ([], [node]):
                found.append(f"pod {pod['metadata']['name']} runs on {node}, its claim {name} on {_nodes(claim)}")
    return found


def _idle(claims: Iterable[Manifest], pods: Iterable[Manifest]) -> list[str]:
    """Return claims that Phalanx allocated, and that are held for pods which are on no node."""
    placed = {one["metadata"]["uid"]: bool(one["spec"].get("nodeName")) for one in pods}
    found = []
    for claim in claims:
        is_ours = "phalanx.dev/transaction" in (claim["metadata"].get("annotations") or {})
        users = claim.get("status", {}).get("reservedFor") or ()
        waiting = [one["name"] for one in users if one.get("resource") == "pods" and not placed.get(one["uid"], True)]
        if is_ours and results_of(claim) and (waiting or not users):
            found.append(f"claim {_name(claim)} is allocated for {waiting or 'nobody'}, on no node")
    return found


ENDED = ("Succeeded", "Failed")


def _claim_names(pod: Manifest) -> list[str]:
    status = pod.get("status", {})
    made = {one["name"]: one.get("resourceClaimName") for one in status.get("resourceClaimStatuses", ())}
    names = [one.get("resourceClaimName") or made.get(one["name"]) for one in pod["spec"].get("resourceClaims", ())]
    names.append((status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
    return [name for name in names if name]


def _is_reserved(claim: Manifest, pod: Manifest) -> bool:
    users = claim.get("status", {}).get("reservedFor") or ()
    return any(one["uid"] == pod["metadata"]["uid"] or one.get("resource") == "podgroups" for one in users)


def _nodes(claim: Manifest) -> list[str]:
    """Return the nodes that a claim's node selector names one by one; empty where it names none."""
    terms = (claim["status"]["allocation"].get("nodeSelector") or {}).get("nodeSelectorTerms", ())
    fields = [field for term in terms for field in term.get("matchFields", ())]
    return [name for field in fields if field["key"] == "metadata.name" for name in field["values"]]


def _name(claim: Manifest) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
