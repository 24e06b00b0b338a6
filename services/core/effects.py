"""What a change of the cluster may have altered, and what is promised in it."""

from dataclasses import dataclass

from services.core.objects import DeviceObject, GangId, Kind, NodeName, Pod, PodGroup, TransactionId, Uid


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A member that is promised to a node, and not yet seen there."""

    uid: Uid
    gang: GangId
    transaction: TransactionId
    node: NodeName
    pod: Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What a change may have altered: gangs by themselves, nodes that may have room now, and what rules look at.

    `moved` are pods that came into another gang, or became certain members, by the change of another object.
    `moves_pods` is true where pods came, left, or look different to affinity and spread; `moves_storage` where claims,
    volumes or what can be attached changed; `moves_devices` where devices may have come free, or claims can be judged
    differently; `moves_classes` where an extended resource may stand for other devices.
    """

    gangs: frozenset[GangId] = frozenset()
    roomier_nodes: frozenset[NodeName] = frozenset()
    moved: tuple[Pod, ...] = ()
    moves_pods: bool = False
    moves_storage: bool = False
    moves_devices: bool = False
    moves_classes: bool = False


NOTHING = Effects()


def asks_less(pod: Pod, *, than: Pod) -> bool:
    """Tell whether a pod asks for less of anything than it did, as after a resize in place."""
    return any(pod.requests.get(resource, 0) < amount for resource, amount in than.requests.items())


def may_help(item: DeviceObject, known: DeviceObject | None) -> bool:
    """Tell whether a device object that came or changed may let somebody be placed.

    The own claim of a pod only takes devices when it is allocated: hundreds come with each gang, and help nobody.
    """
    is_own = any(owner.kind == "Pod" and owner.is_controller for owner in item.metadata.owners)
    if item.kind is not Kind.RESOURCE_CLAIM or not is_own:
        return True
    return known is not None and b'"allocation"' in known.status_json


def placement_view(group: PodGroup) -> tuple[object, ...]:
    """Return what placement reads of a group: our own status writes change nothing of it."""
    meta = group.metadata
    return (
        meta.uid,
        group.min_count,
        group.is_gang,
        group.priority,
        group.topology_keys,
        group.claims,
        meta.deleted_at,
        meta.annotations,
    )
