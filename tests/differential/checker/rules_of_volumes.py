"""Rules about the volumes of a pod: bound claims only, as the repository's pages say."""

from collections.abc import Iterable, Iterator

from tests.differential.checker.selectors import matches_terms
from tests.differential.checker.view import Manifest, Placed, View, labels_of, name_of, namespace_of

_ZONES = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}


def _claim_names(pod: Manifest) -> Iterator[str]:
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            yield volume["persistentVolumeClaim"]["claimName"]


def _volumes(view: View, pod: Manifest) -> Iterator[Manifest]:
    """The volumes that the pod's claims are bound to."""
    for name in _claim_names(pod):
        claim = view.claims.get((namespace_of(pod), name))
        volume = view.volumes.get(claim["spec"].get("volumeName") or "") if claim is not None else None
        if volume is not None:
            yield volume


def unbound(view: View, pod: Manifest, _node: Manifest, _others: Iterable[Placed]) -> str | None:
    """Every claim is there, stays, and is bound to a volume that is there."""
    for name in _claim_names(pod):
        claim = view.claims.get((namespace_of(pod), name))
        if claim is None:
            return f"claim {name} does not exist"
        if claim["metadata"].get("deletionTimestamp"):
            return f"claim {name} is being deleted"
        if (claim["spec"].get("volumeName") or "") not in view.volumes:
            return f"claim {name} is not bound to a volume that is there"
    return None


def volume_elsewhere(view: View, pod: Manifest, node: Manifest, _others: Iterable[Placed]) -> str | None:
    """A volume says on which nodes it can be used, by its node affinity and by labels of zone and region."""
    labels = labels_of(node)
    has_zone = any(key in labels for key in _ZONES)
    for volume in _volumes(view, pod):
        required = (volume["spec"].get("nodeAffinity") or {}).get("required")
        if required is not None and not matches_terms(required["nodeSelectorTerms"], node):
            return f"volume {name_of(volume)} cannot be used there"
        for key, newer in _ZONES.items():
            zone = labels_of(volume).get(key)
            if zone is not None and has_zone and labels.get(key, labels.get(newer)) not in zone.split("__"):
                return f"volume {name_of(volume)} is in {zone}"
    return None


def used_by_another(view: View, pod: Manifest, _node: Manifest, others: Iterable[Placed]) -> str | None:
    """A ReadWriteOncePod claim is for one pod in the whole cluster."""
    once = {
        name
        for name in _claim_names(pod)
        if "ReadWriteOncePod"
        in (view.claims.get((namespace_of(pod), name), {}).get("spec") or {}).get("accessModes", ())
    }
    for other in others:
        shared = once & set(_claim_names(other.pod)) if namespace_of(other.pod) == namespace_of(pod) else set()
        if shared:
            return f"claim {min(shared)} is used by {name_of(other.pod)}"
    return None


def too_many_attached(view: View, pod: Manifest, node: Manifest, others: Iterable[Placed]) -> str | None:
    """A node attaches so many volumes of a driver as its CSINode says; one that several pods use counts once."""
    drivers = (view.csi_nodes.get(name_of(node)) or {"spec": {"drivers": []}})["spec"].get("drivers") or ()
    limits = {
        driver["name"]: driver["allocatable"]["count"]
        for driver in drivers
        if (driver.get("allocatable") or {}).get("count") is not None
    }
    attached = {handle for one in others if one.node == name_of(node) for handle in _handles(view, one.pod)}
    wanted = _handles(view, pod) - attached
    for driver in {driver for driver, _ in wanted}:
        count = sum(one == driver for one, _ in attached | wanted)
        if driver in limits and count > limits[driver]:
            return f"{count} volumes of {driver}, where {limits[driver]} can be attached"
    return None


def _handles(view: View, pod: Manifest) -> set[tuple[str, str]]:
    return {
        (volume["spec"]["csi"]["driver"], volume["spec"]["csi"]["volumeHandle"])
        for volume in _volumes(view, pod)
        if volume["spec"].get("csi")
    }
