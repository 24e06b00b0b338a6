"""One claim, one step at a time: what has to be written next, judged by the claim as it was read last.

Every write carries uid and resourceVersion. So a lost answer is resolved by looking again and going on from there, and
a late copy of an earlier write meets a conflict: freeing a claim of ours always changes its metadata last.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from services.core.allocations import DeviceId
from services.core.claim_bodies import (
    FINALIZER,
    MAX_CONSUMERS,
    Manifest,
    allocation_body,
    class_of,
    controller_of,
    fenced,
    gives_the_same,
    metadata_of,
    reservation,
    results_of,
    status_of,
    transaction_of,
    without,
)
from services.core.names import FENCE_ANNOTATION, TRANSACTION_ANNOTATION
from services.core.objects import GangId, TransactionId
from services.core.reasons import Reason, ReasonCode
from services.core.transaction_values import ClaimAnswer, ClaimTarget, ClaimVerdict, FreeTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Patch the metadata: finalizer and annotation, put on before a claim is allocated, and taken off at the end."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatus:
    """Patch the status: allocation and consumers in one write."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete a claim that the binder made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Await:
    """The claim is not there yet, and its controller may be about to make it."""

    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Nothing is left to do."""

    answer: ClaimAnswer


HELD = Done(answer=ClaimAnswer(verdict=ClaimVerdict.HELD))

ClaimStep = Mark | WriteStatus | Delete | Await | Done


@dataclass(frozen=True, slots=True, kw_only=True)
class Deal:
    """What all claims of one transaction share."""

    transaction: TransactionId
    gang: GangId
    classes: Mapping[str, Manifest]
    now: str


def next_to_hold(claim: Manifest | None, *, target: ClaimTarget, name: str, deal: Deal) -> ClaimStep:
    """Return the next step towards a claim that is allocated as promised, with its consumers reserved."""
    if claim is None:
        what = f"claim {name} does not exist yet" if name else f"no claim was made yet for {_user(target)}"
        return Await(reason=Reason(code=ReasonCode.CLAIM_NOT_READY, message=what, count=1, subject=name))
    problem = _other_than_promised(claim, target=target)
    if problem:
        return _changed(name, problem)
    if status_of(claim).get("allocation"):
        return _next_of_allocated(claim, target=target, name=name, deal=deal)
    if not target.allocation.results:
        return _changed(name, "is not allocated any more")
    metadata = metadata_of(claim)
    if FINALIZER not in (metadata.get("finalizers") or ()) or transaction_of(claim) != deal.transaction:
        finalizers = list(dict.fromkeys([*(metadata.get("finalizers") or ()), FINALIZER]))
        marked = {"finalizers": finalizers, "annotations": {TRANSACTION_ANNOTATION: deal.transaction}}
        return Mark(body={"metadata": fenced(claim) | marked})
    allocation = allocation_body(
        claim, target.allocation, transaction=deal.transaction, classes=deal.classes, now=deal.now
    )
    return _reserve(claim, target=target, name=name, deal=deal, status={"allocation": allocation})


def _next_of_allocated(claim: Manifest, *, target: ClaimTarget, name: str, deal: Deal) -> ClaimStep:
    is_ours = transaction_of(claim) == deal.transaction
    if not target.allocation.results or (is_ours and gives_the_same(claim, target.allocation)):
        return _reserve(claim, target=target, name=name, deal=deal, status={})
    if not is_ours:
        return _changed(name, "was allocated by somebody else")
    strangers = without(claim, target.consumers, is_of_group=target.allocation.is_of_group)
    if strangers or not target.is_movable:
        return _changed(name, "is in use on other devices")
    # Devices cannot be exchanged: an allocation is written once, and may only be cleared, with its consumers.
    return WriteStatus(body={"metadata": fenced(claim), "status": {"allocation": None, "reservedFor": None}})


def _reserve(claim: Manifest, *, target: ClaimTarget, name: str, deal: Deal, status: Mapping[str, Any]) -> ClaimStep:
    there = list(status_of(claim).get("reservedFor") or ())
    wanted = reservation(claim, target.consumers, gang=deal.gang, is_of_group=target.allocation.is_of_group)
    if len(wanted) > MAX_CONSUMERS:
        text = f"claim {name} would have {len(wanted)} consumers, and may have {MAX_CONSUMERS}"
        return _refused(Reason(code=ReasonCode.CLAIM_REFUSED, message=text, count=1, subject=name))
    if not status and wanted == there:
        return HELD if _is_noticed(claim, deal=deal) else _notice(claim, deal=deal)
    return WriteStatus(body={"metadata": fenced(claim), "status": {**status, "reservedFor": wanted}})


def _is_noticed(claim: Manifest, *, deal: Deal) -> bool:
    """Tell whether whoever would free the claim, as left over by another transaction, meets a conflict by now."""
    marks = metadata_of(claim).get("annotations") or {}
    return transaction_of(claim) in {"", deal.transaction} or marks.get(FENCE_ANNOTATION) == deal.transaction


def _notice(claim: Manifest, *, deal: Deal) -> Mark:
    """Change a claim of another transaction that is used as it is."""
    return Mark(body={"metadata": fenced(claim) | {"annotations": {FENCE_ANNOTATION: deal.transaction}}})


def _other_than_promised(claim: Manifest, *, target: ClaimTarget) -> str:
    """Return in what a claim is another than the promise was about; empty where it is the same."""
    ref, metadata = target.allocation.ref, metadata_of(claim)
    if ref.uid and metadata.get("uid") != ref.uid:
        return "was deleted, and another one has its name"
    if metadata.get("deletionTimestamp"):
        return "is being deleted"
    owner = controller_of(claim)
    if ref.pod and owner is not None and owner.get("kind") == "Pod" and owner.get("uid") != ref.pod:
        return f"belongs to pod {owner.get('name')}, another one"
    if ref.pod and not ref.name and owner is None:
        return f"has the name of a claim made for {_user(target)}, and no owner"
    if target.allocation.is_of_group and (owner is None or owner.get("kind") != "PodGroup"):
        return "belongs to no PodGroup"
    return ""


def _user(target: ClaimTarget) -> str:
    ref = target.allocation.ref
    pod = next((one.pod for one in target.consumers if one.uid == ref.pod), ref.pod)
    return f"pod {pod}, entry {ref.entry}" if ref.entry else f"the extended resources of pod {pod}"


def _changed(name: str, what: str) -> Done:
    reason = Reason(code=ReasonCode.CLAIM_CHANGED, message=f"claim {name} {what}", count=1, subject=name)
    return _refused(reason)


def _refused(reason: Reason) -> Done:
    return Done(answer=ClaimAnswer(verdict=ClaimVerdict.REFUSED, reason=reason))


def next_to_free(claim: Manifest | None, *, target: FreeTarget, transaction: TransactionId) -> ClaimStep:
    """Return the next step towards a claim that holds nothing for members that were never bound.

    Reservations of theirs are taken off. Without other consumers, what this transaction allocated is cleared, and at
    last its marks are taken off, so that a write of before which arrives later meets a conflict.
    """
    ref = target.allocation.ref
    if claim is None or (ref.uid and metadata_of(claim).get("uid") != ref.uid):
        return HELD
    is_ours = transaction_of(claim) == transaction
    there = list(status_of(claim).get("reservedFor") or ())
    left = without(claim, target.leaving, is_of_group=target.allocation.is_of_group)
    if status_of(claim).get("allocation"):
        if is_ours and not left:
            return WriteStatus(body={"metadata": fenced(claim), "status": {"allocation": None, "reservedFor": None}})
        if left != there:
            return WriteStatus(body={"metadata": fenced(claim), "status": {"reservedFor": left or None}})
        return HELD
    if not is_ours:
        return HELD
    finalizers = [one for one in metadata_of(claim).get("finalizers") or () if one != FINALIZER]
    is_marked = len(finalizers) < len(metadata_of(claim).get("finalizers") or ())
    if target.allocation.extended:
        marks: dict[str, Any] = {"finalizers": finalizers or None}
        return Mark(body={"metadata": fenced(claim) | marks}) if is_marked else Delete()
    marks = {"finalizers": finalizers or None, "annotations": {TRANSACTION_ANNOTATION: None}}
    return Mark(body={"metadata": fenced(claim) | marks})


def shared_devices(claim: Manifest, *, is_owned: "frozenset[str]") -> frozenset[DeviceId]:
    """Return the devices of a claim whose classes other schedulers use too; `is_owned` has the classes that only we do.

    A share of a device and administrative access leave room for others, so they collide with nobody.
    """
    spec = claim.get("spec") or {}
    return frozenset(
        _device(one)
        for one in results_of(claim)
        if class_of(spec, str(one.get("request"))) not in is_owned and not _leaves_room(one)
    )


def collisions(
    ours: Mapping[str, frozenset[DeviceId]], *, uids: Mapping[str, str], everyone: Iterable[Manifest]
) -> dict[str, tuple[DeviceId, ...]]:
    """Return which of our claims, by key, share a device with another claim, and have to give way.

    `uids` are those of our claims. Somebody else's allocation is never taken back, so ours gives way to it. Of two that
    Phalanx wrote, the one with the greater uid does.
    """
    users: dict[DeviceId, list[str]] = {}
    for key, devices in ours.items():
        for device in devices:
            users.setdefault(device, []).append(key)
    found: dict[str, set[DeviceId]] = {}
    for claim in everyone:
        uid, is_phalanx = str(metadata_of(claim).get("uid")), bool(transaction_of(claim))
        for one in results_of(claim):
            for key in () if _leaves_room(one) else users.get(_device(one), ()):
                if uids[key] != uid and (not is_phalanx or uids[key] > uid):
                    found.setdefault(key, set()).add(_device(one))
    return {key: tuple(sorted(devices)) for key, devices in found.items()}


def _leaves_room(result: Manifest) -> bool:
    return bool(result.get("adminAccess") or result.get("shareID"))


def _device(result: Manifest) -> DeviceId:
    return DeviceId(driver=str(result["driver"]), pool=str(result["pool"]), device=str(result["device"]))


def device_states(claim: Manifest, *, target: ClaimTarget) -> tuple[frozenset[DeviceId], frozenset[DeviceId]]:
    """Return the devices of a claim that are not ready yet, and those that will not be, by their conditions."""
    conditions: dict[DeviceId, dict[str, str]] = {}
    for one in status_of(claim).get("devices") or ():
        known = conditions.setdefault(_device(one), {})
        known |= {str(each.get("type")): str(each.get("status")) for each in one.get("conditions") or ()}
    waiting, failed = set(), set()
    for result in target.allocation.results:
        said = conditions.get(result.id, {})
        if any(said.get(name) == "True" for name in result.binding_failure_conditions):
            failed.add(result.id)
        elif any(said.get(name) != "True" for name in result.binding_conditions):
            waiting.add(result.id)
    return frozenset(waiting), frozenset(failed)
