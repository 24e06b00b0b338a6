"""Devices that are promised to claims: held from the proposal until the stream shows the claim allocated, or released.

A promise of devices outlives that of its members' nodes: pods and claims are followed side by side, and a member may be
seen bound before its claim is seen allocated.
"""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field

from services.core.allocations import ClaimAllocation, ClaimRef
from services.core.objects import Metadata, TransactionId, Uid

POD_CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
"""On a claim made from a template: the entry of its pod's spec.resourceClaims."""
EXTENDED_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
"""On a claim made for the extended resources of the pod that owns it."""

ClaimKey = tuple[str, str]
"""Uid of the pod and its entry, or namespace and name of a claim that is no pod's own."""


@dataclass(slots=True, kw_only=True)
class _Held:
    allocation: ClaimAllocation
    transaction: TransactionId
    consumers: set[Uid]


@dataclass(slots=True, kw_only=True)
class ClaimPromises:
    """What is held, by claim. `hold` and `release` charge the books of devices with it."""

    charge: Callable[[ClaimAllocation], None]
    release: Callable[[ClaimRef], None]
    #: Whether the stream shows the claim with these devices.
    is_allocated: Callable[[ClaimAllocation], bool]
    _held: dict[ClaimKey, _Held] = field(default_factory=dict)

    def hold(self, allocation: ClaimAllocation, *, transaction: TransactionId) -> None:
        """Hold the devices of a claim; what was held for it before is given up."""
        key = key_of(allocation.ref)
        if not allocation.results:
            # Allocated before: its devices are in nobody else's way.
            return
        self._drop(key)
        if self.is_allocated(allocation):
            return
        self.charge(allocation)
        self._held[key] = _Held(allocation=allocation, transaction=transaction, consumers=set(allocation.consumers))

    def seen(self, metadata: Metadata) -> None:
        """Give up what is held for a claim that the stream shows allocated so."""
        for key in keys_of(metadata):
            held = self._held.get(key)
            if held is not None and self.is_allocated(held.allocation):
                self._drop(key)

    def gone(self, metadata: Metadata) -> bool:
        """Give up what is held for a claim that is gone; tell whether that was anything."""
        dropped = [self._drop(key) for key in keys_of(metadata)]
        return any(dropped)

    def leave(self, uids: Iterable[Uid]) -> bool:
        """Let consumers go; tell whether devices are free by that, because they were the last of a claim."""
        going = set(uids)
        is_free = False
        for key, held in list(self._held.items()):
            if held.consumers & going:
                held.consumers -= going
                is_free |= not held.consumers and self._drop(key)
        return is_free

    def end(self, transaction: TransactionId, *, kept: Container[Uid] = ()) -> bool:
        """Let all consumers of a transaction go but those that stay bound; tell whether devices are free by that."""
        going = [
            uid
            for held in self._held.values()
            if held.transaction == transaction
            for uid in held.consumers
            if uid not in kept
        ]
        return bool(going) and self.leave(going)

    def held(self) -> tuple[ClaimAllocation, ...]:
        """Return what is held."""
        return tuple(one.allocation for one in self._held.values())

    def _drop(self, key: ClaimKey) -> bool:
        held = self._held.pop(key, None)
        if held is not None:
            self.release(held.allocation.ref)
        return held is not None


def key_of(ref: ClaimRef) -> ClaimKey:
    """Return what tells claims apart, whether or not the object exists yet."""
    return (ref.pod, ref.entry) if ref.pod else (ref.namespace, ref.name)


def keys_of(metadata: Metadata) -> tuple[ClaimKey, ...]:
    """Return the keys under which a ResourceClaim may be held: by name, and as the own claim of its pod."""
    keys: list[ClaimKey] = [(metadata.namespace, metadata.name)]
    owner = next((one for one in metadata.owners if one.kind == "Pod" and one.is_controller), None)
    if owner is not None:
        is_extended = metadata.annotations.get(EXTENDED_ANNOTATION) == "true"
        keys.append((owner.uid, "" if is_extended else metadata.annotations.get(POD_CLAIM_ANNOTATION, "")))
    return tuple(keys)


def claims_of(claims: Iterable[ClaimAllocation], *, members: Container[Uid]) -> tuple[ClaimAllocation, ...]:
    """Return the claims that any of the members uses."""
    return tuple(one for one in claims if any(uid in members for uid in one.consumers))
