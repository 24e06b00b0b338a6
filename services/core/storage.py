"""What storage demands of nodes for a pod: the rules of VolumeBinding, VolumeZone, VolumeRestrictions and CSI limits.

Only bound claims are placed by. A claim that waits for its first consumer would have to be bound together with the
pod, which Phalanx does not do yet: such a pod is refused with its own reason, and never bound blindly.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.core.constraints import Claim, NodeSelectorTerm
from services.core.objects import CsiNode, Kind, Metadata, Pod, StorageClass, StorageObject, Volume, VolumeClaim
from services.core.reasons import Reason, ReasonCode

ZONE_LABELS: Mapping[str, str] = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels of volumes that restrict nodes, with the label that replaced each (VolumeZone)."""

_ZONES_SEPARATOR = "__"
_LATE = "WaitForFirstConsumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeDemand:
    """What one bound volume demands of a node; hashable, as a part of what a pod demands.

    `zones` are label and allowed values; they matter only on nodes that have any label of zones.
    """

    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    zones: tuple[tuple[str, frozenset[str]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStorage:
    """What storage means for a pod: demands on nodes, what it may not share, what it attaches, or why it cannot run.

    `singles` are claims that one pod of the cluster may use, `attached` pairs of CSI driver and volume handle.
    """

    demands: tuple[VolumeDemand, ...] = ()
    singles: tuple[str, ...] = ()
    attached: tuple[tuple[str, str], ...] = ()
    refusals: tuple[Reason, ...] = ()


NO_STORAGE = PodStorage()


@dataclass(slots=True, kw_only=True)
class Storage:
    """Claims, volumes, classes and attach limits, as the cluster stream shows them."""

    claims: dict[tuple[str, str], VolumeClaim] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    classes: dict[str, StorageClass] = field(default_factory=dict)
    nodes: dict[str, CsiNode] = field(default_factory=dict)

    def known(self, kind: Kind, metadata: Metadata) -> StorageObject | None:
        """Return what is known under a name, or None."""
        match kind:
            case Kind.PERSISTENT_VOLUME_CLAIM:
                return self.claims.get((metadata.namespace, metadata.name))
            case Kind.PERSISTENT_VOLUME:
                return self.volumes.get(metadata.name)
            case Kind.STORAGE_CLASS:
                return self.classes.get(metadata.name)
            case _:
                return self.nodes.get(metadata.name)

    def put(self, item: StorageObject) -> None:
        """Add or replace an object."""
        name = item.metadata.name
        match item:
            case VolumeClaim():
                self.claims[item.metadata.namespace, name] = item
            case Volume():
                self.volumes[name] = item
            case StorageClass():
                self.classes[name] = item
            case CsiNode():
                self.nodes[name] = item

    def remove(self, kind: Kind, metadata: Metadata) -> None:
        """Take an object out."""
        match kind:
            case Kind.PERSISTENT_VOLUME_CLAIM:
                self.claims.pop((metadata.namespace, metadata.name), None)
            case Kind.PERSISTENT_VOLUME:
                self.volumes.pop(metadata.name, None)
            case Kind.STORAGE_CLASS:
                self.classes.pop(metadata.name, None)
            case _:
                self.nodes.pop(metadata.name, None)

    def copy(self) -> "Storage":
        """Return storage that can be changed without changing this."""
        return Storage(
            claims=dict(self.claims), volumes=dict(self.volumes), classes=dict(self.classes), nodes=dict(self.nodes)
        )

    def of_pod(self, pod: Pod) -> PodStorage:
        """Return what storage means for a pod that is to be placed."""
        if not pod.rules.claims:
            return NO_STORAGE
        demands: list[VolumeDemand] = []
        singles: list[str] = []
        attached: list[tuple[str, str]] = []
        refusals: list[Reason] = []
        for one in pod.rules.claims:
            found = self._bound(pod, one)
            if isinstance(found, Reason):
                refusals.append(found)
                continue
            claim, volume = found
            demand = _demand(volume)
            if demand != VolumeDemand():
                demands.append(demand)
            if claim.is_single_pod and not one.is_ephemeral:
                singles.append(claim.metadata.name)
            if volume.driver and volume.handle:
                attached.append((volume.driver, volume.handle))
        return PodStorage(
            demands=tuple(demands),
            singles=tuple(sorted(set(singles))),
            attached=tuple(sorted(set(attached))),
            refusals=tuple(refusals),
        )

    def attached_by(self, pod: Pod) -> frozenset[tuple[str, str]]:
        """Return driver and handle of the volumes that a pod on a node has attached, as far as they are known."""
        found = set()
        for one in pod.rules.claims:
            claim = self.claims.get((pod.metadata.namespace, one.name))
            volume = None if claim is None else self.volumes.get(claim.volume)
            if volume is not None and volume.driver and volume.handle:
                found.add((volume.driver, volume.handle))
        return frozenset(found)

    def _bound(self, pod: Pod, one: Claim) -> tuple[VolumeClaim, Volume] | Reason:
        claim = self.claims.get((pod.metadata.namespace, one.name))
        name = f"PersistentVolumeClaim {pod.metadata.namespace}/{one.name}"
        if claim is None:
            waits = "; the ephemeral volume controller has to create it" if one.is_ephemeral else "; create it"
            return _refusal(ReasonCode.VOLUME_NOT_FOUND, f"{name} does not exist{waits}", one)
        if one.is_ephemeral and not any(
            owner.is_controller and owner.uid == pod.metadata.uid for owner in claim.metadata.owners
        ):
            text = (
                f"{name} belongs to something else than pod {pod.metadata.name}, whose ephemeral volume has that name"
            )
            return _refusal(ReasonCode.VOLUME_NOT_FOUND, text, one)
        if claim.phase == "Lost":
            return _refusal(ReasonCode.VOLUME_NOT_FOUND, f"{name} has lost its volume {claim.volume}", one)
        if claim.metadata.deleted_at is not None:
            return _refusal(ReasonCode.VOLUME_NOT_FOUND, f"{name} is being deleted", one)
        if not claim.is_bound:
            return self._unbound(claim, name=name, one=one)
        volume = self.volumes.get(claim.volume)
        if volume is None:
            text = f"{name} is bound to PersistentVolume {claim.volume}, which does not exist"
            return _refusal(ReasonCode.VOLUME_NOT_FOUND, text, one)
        return claim, volume

    def _unbound(self, claim: VolumeClaim, *, name: str, one: Claim) -> Reason:
        known = self.classes.get(claim.storage_class)
        if known is not None and known.binding_mode == _LATE and not claim.volume:
            text = (
                f"{name} waits for its first consumer (StorageClass {claim.storage_class}); such claims are "
                "not bound by this release, so use a class with volumeBindingMode Immediate, or a claim that is bound"
            )
            return _refusal(ReasonCode.VOLUME_WAITS_FOR_CONSUMER, text, one)
        missing = claim.storage_class and known is None
        why = f": StorageClass {claim.storage_class} does not exist" if missing else ""
        return _refusal(ReasonCode.VOLUME_NOT_BOUND, f"{name} is not bound yet{why}", one)


def _refusal(code: ReasonCode, text: str, claim: Claim) -> Reason:
    return Reason(code=code, message=text, count=1, subject=claim.name)


def _demand(volume: Volume) -> VolumeDemand:
    zones = []
    for label in ZONE_LABELS:
        values = [value.strip() for value in volume.metadata.labels.get(label, "").split(_ZONES_SEPARATOR)]
        # A list with an empty zone in it is no list of zones: kube-scheduler passes it over.
        if all(values):
            zones.append((label, frozenset(values)))
    return VolumeDemand(node_affinity=volume.node_affinity, zones=tuple(zones))
