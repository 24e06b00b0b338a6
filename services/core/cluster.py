"""The cluster as a fold of the cluster stream: pods, groups, nodes, and what is promised but not yet seen.

`apply` takes one change and says what it may have altered, so that only the gangs that can be helped are tried again.
Applying a change twice equals applying it once; an older version of an object never replaces a newer one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from services.core.claim_promises import ClaimPromises
from services.core.effects import NOTHING, Effects, Promise, asks_less, may_help, placement_view
from services.core.gangs import MAX_WAITING, Gang, assemble, group_gang_id, is_ours
from services.core.grouping import SOURCE_KINDS, Grouping, Moved, ObjectKey, source_key
from services.core.inventory import Inventory, Snapshot
from services.core.membership import Source, SourceKey, nowhere
from services.core.objects import (
    ClusterChange,
    CsiNode,
    Deleted,
    DeviceObject,
    GangId,
    GroupSource,
    Job,
    Kind,
    Metadata,
    Namespace,
    Node,
    NodeName,
    Pod,
    PodGroup,
    StorageClass,
    StorageObject,
    Uid,
    Volume,
    VolumeClaim,
    WatchPhase,
    WatchState,
    kind_of,
)
from services.core.versions import is_end_of, is_older

NEEDED_KINDS = (Kind.NODE, Kind.POD)
"""Kinds that must be followed before anything is decided."""
DEVICE_KINDS = (
    Kind.RESOURCE_SLICE,
    Kind.RESOURCE_CLAIM,
    Kind.RESOURCE_CLAIM_TEMPLATE,
    Kind.DEVICE_CLASS,
    Kind.DEVICE_TAINT_RULE,
)
OPTIONAL_KINDS = (
    Kind.POD_GROUP,
    Kind.NAMESPACE,
    Kind.PERSISTENT_VOLUME_CLAIM,
    Kind.PERSISTENT_VOLUME,
    Kind.STORAGE_CLASS,
    Kind.CSI_NODE,
    *DEVICE_KINDS,
)
"""Kinds that must be followed, or known to be absent, before anything is decided."""
_KIND_NAMES = frozenset(kind.value for kind in Kind)


@dataclass(slots=True, kw_only=True)
class Cluster:
    """What is known of the cluster. `revision` is the stream sequence up to which it has been folded."""

    inventory: Inventory = field(default_factory=Inventory)
    revision: int = 0
    _pods: dict[ObjectKey, Pod] = field(default_factory=dict)
    _groups: dict[ObjectKey, PodGroup] = field(default_factory=dict)
    _watches: dict[Kind, WatchState] = field(default_factory=dict)
    _promises: dict[Uid, Promise] = field(default_factory=dict)
    #: An owner that is not known is taken at its word, as in a plan of files.
    trusts_unseen: bool = False
    #: Declarations and owners that are not in these books, as those of the live cluster for an imagined one.
    find_elsewhere: Callable[[SourceKey], PodGroup | Source | None] = nowhere
    #: Devices that are promised and not seen in their claims yet.
    claims: ClaimPromises = field(init=False)
    _grouping: Grouping = field(init=False)

    def __post_init__(self) -> None:
        """Let the books of gangs read those of pods."""
        books = self.inventory.devices
        self.claims = ClaimPromises(charge=books.hold, release=books.release, is_allocated=books.has)
        self._grouping = Grouping(
            find_pod=self._pods.get, trusts_unseen=self.trusts_unseen, find_elsewhere=self._owner_elsewhere
        )

    _namespaces: dict[str, Namespace] = field(default_factory=dict)

    def apply(self, change: ClusterChange, *, revision: int) -> Effects:
        """Fold one change. Kinds that placement does not read yet have no effect."""
        self.revision = max(self.revision, revision)
        if isinstance(change, Deleted):
            if change.kind in SOURCE_KINDS:
                return self._delete_source(change.kind, change.metadata)
            delete = _DELETIONS.get(change.kind)
            return NOTHING if delete is None else delete(self, change.metadata)
        put = _APPLICATIONS.get(type(change.object))
        return NOTHING if put is None else put(self, change.object)

    def unsynced(self) -> tuple[str, ...]:
        """Return the kinds that are not followed to the end; nothing is decided while there are any."""
        phases = {kind: state.phase for kind, state in self._watches.items()}
        missing = [kind for kind in NEEDED_KINDS if phases.get(kind) is not WatchPhase.SYNCED]
        missing += [kind for kind in OPTIONAL_KINDS if phases.get(kind) not in {WatchPhase.SYNCED, WatchPhase.ABSENT}]
        return tuple(kind.value for kind in missing)

    def api_version(self, kind: Kind) -> str:
        """Return the API version in which a kind is followed, or nothing."""
        state = self._watches.get(kind)
        return "" if state is None else state.api_version

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, or None."""
        return self._pods.get((namespace, name))

    def pods(self) -> Iterable[Pod]:
        """Return all pods."""
        return self._pods.values()

    def job(self, namespace: str, name: str) -> Job | None:
        """Return a batch Job, or None."""
        job = self._grouping.source((Kind.JOB, namespace, name))
        return job if isinstance(job, Job) else None

    def gang_id_of(self, pod: Pod) -> GangId:
        """Return the gang that a pod belongs to, as far as its owners are known."""
        return self._grouping.membership(pod).gang

    def gang_ids(self) -> frozenset[GangId]:
        """Return the gangs that we place."""
        return frozenset(gang for gang in self._grouping.gangs() if is_ours(self.members(gang)))

    def gang(self, gang: GangId, *, is_crowd: bool = False) -> Gang | None:
        """Return a gang as it stands, a crowd as its first pod that waits; None where no pod is of our scheduler."""
        pods = [self._pods[min(self._grouping.waiting(gang))]] if is_crowd else self.members(gang)
        if not is_ours(pods):
            return None
        first = self._grouping.membership(pods[0])
        # Where the first pod's place rests on no owner, that of no member does.
        memberships = {one.metadata.uid: self._grouping.membership(one) for one in pods} if first.consulted else {}
        found = None if first.source is None else self.declaration(first.source)
        group, source = (found, None) if isinstance(found, PodGroup) else (None, found)
        return assemble(gang, pods=pods, group=group, source=source, memberships=memberships)

    def crowd(self, gang: GangId) -> int:
        """Return how many pods wait under the name of a gang where they are too many to be looked at, else 0."""
        count = len(self._grouping.waiting(gang))
        return count if count > MAX_WAITING else 0

    def members(self, gang: GangId) -> list[Pod]:
        """Return the pods of a gang, whoever places them."""
        return [self._pods[key] for key in self._grouping.members(gang)]

    def imagined(self) -> "Cluster":
        """Return a cluster with these nodes and groups and without these pods, in which anything may be imagined.

        What runs and is promised is in the way there as here; owners that are not known are taken at their word.
        """
        return Cluster(
            inventory=self.inventory.copy(), revision=self.revision, trusts_unseen=True, find_elsewhere=self.declaration
        )

    def declaration(self, key: SourceKey) -> PodGroup | Source | None:
        """Return the object that declares a gang or owns pods, or None."""
        if key[0] is Kind.POD_GROUP:
            own = self._groups.get(key[1:])
            return self.find_elsewhere(key) if own is None else own
        return self._grouping.source(key)

    def promises(self) -> Mapping[Uid, Promise]:
        """Return what is promised and not yet seen, by pod."""
        return self._promises

    def promise(self, promise: Promise) -> None:
        """Hold a node's resources for a member until the stream shows it bound or gone."""
        self.withdraw(promise.uid)
        self._promises[promise.uid] = promise
        self.inventory.place(promise.pod, on=promise.node)

    def withdraw(self, uid: Uid) -> NodeName | None:
        """Give a promise up, and return its node."""
        promise = self._promises.pop(uid, None)
        if promise is None:
            return None
        self.inventory.leave(uid)
        return promise.node

    def snapshot(self, pods: Iterable[Pod] = (), *, without: Iterable[Uid] = ()) -> Snapshot:
        """Return the nodes with what is free beside bound and promised pods, judged for `pods`.

        The places of those in `without` count as free.
        """
        return self.inventory.snapshot(pods, without=frozenset(without))

    def _owner_elsewhere(self, key: SourceKey) -> Source | None:
        found = self.find_elsewhere(key)
        return None if isinstance(found, PodGroup) else found

    def _apply_node(self, node: Node) -> Effects:
        name = NodeName(node.metadata.name)
        known = self.inventory.node(name)
        if known is not None and is_older(node.metadata, than=known.metadata):
            return NOTHING
        if known == node:
            return NOTHING
        self.inventory.put_node(node)
        return Effects(roomier_nodes=frozenset({name}), moves_pods=True)

    def _delete_node(self, metadata: Metadata) -> Effects:
        known = self.inventory.node(NodeName(metadata.name))
        if known is not None and is_end_of(known.metadata, tombstone=metadata):
            self.inventory.remove_node(NodeName(metadata.name))
            # An empty domain less, or one with pods: both may open others.
            return Effects(moves_pods=True)
        return NOTHING

    def _apply_pod(self, pod: Pod) -> Effects:
        key = (pod.metadata.namespace, pod.metadata.name)
        known = self._pods.get(key)
        if known is not None and is_older(pod.metadata, than=known.metadata):
            return NOTHING
        if known == pod:
            return NOTHING
        freed = self._forget(key) if known is not None else set()
        is_freeing = (pod.is_finished or (pod.is_terminating and not pod.node)) and self.claims.leave(
            [pod.metadata.uid]
        )
        if known is not None and known.metadata.uid != pod.metadata.uid:
            freed |= self._withdrawn(known.metadata.uid)
            is_freeing |= self.claims.leave([known.metadata.uid])
        if pod.node or pod.is_terminating or pod.is_finished:
            freed |= self._withdrawn(pod.metadata.uid)
        self._pods[key] = pod
        self.inventory.mix.add_pod(pod)
        if pod.node and not pod.is_finished:
            self.inventory.place(pod, on=pod.node)
        moved = self._grouping.put_pod(pod)
        if pod.node and not pod.is_finished and (known is None or not asks_less(pod, than=known)):
            freed.discard(pod.node)
        return Effects(
            gangs=moved.gangs,
            roomier_nodes=frozenset(freed),
            moved=moved.pods,
            moves_pods=bool(pod.node) or (known is not None and bool(known.node)) or bool(freed),
            moves_devices=is_freeing,
        )

    def _delete_pod(self, metadata: Metadata) -> Effects:
        key = (metadata.namespace, metadata.name)
        known = self._pods.get(key)
        if known is None or not is_end_of(known.metadata, tombstone=metadata):
            return NOTHING
        freed = self._forget(key) | self._withdrawn(known.metadata.uid)
        moved = self._grouping.remove_pod(metadata)
        return Effects(
            gangs=moved.gangs,
            roomier_nodes=frozenset(freed),
            moved=moved.pods,
            moves_pods=bool(freed),
            moves_devices=self.claims.leave([known.metadata.uid]),
        )

    def _withdrawn(self, uid: Uid) -> set[NodeName]:
        """Give a promise up, and return its node as a set."""
        node = self.withdraw(uid)
        return set() if node is None else {node}

    def _forget(self, key: ObjectKey) -> set[NodeName]:
        """Take a pod off its node, and return the node that it left."""
        self.inventory.mix.remove_pod(pod := self._pods.pop(key))
        if not pod.node or pod.is_finished:
            return set()
        self.inventory.leave(pod.metadata.uid)
        return {pod.node}

    def _apply_group(self, group: PodGroup) -> Effects:
        key = (group.metadata.namespace, group.metadata.name)
        known = self._groups.get(key)
        if known is not None and is_older(group.metadata, than=known.metadata):
            return NOTHING
        self._groups[key] = group
        self.inventory.devices.put_group(group)
        # Our own status writes come back here; they change nothing that placement reads.
        same = known is not None and placement_view(known) == placement_view(group)
        return NOTHING if same else Effects(gangs=frozenset({group_gang_id(group)}))

    def _delete_group(self, metadata: Metadata) -> Effects:
        key = (metadata.namespace, metadata.name)
        known = self._groups.get(key)
        if known is None or not is_end_of(known.metadata, tombstone=metadata):
            return NOTHING
        del self._groups[key]
        self.inventory.devices.remove_group(metadata)
        return Effects(gangs=frozenset({group_gang_id(known)}))

    def _apply_source(self, item: GroupSource | Job) -> Effects:
        known = self._grouping.own_source(source_key(item))
        if known is not None and is_older(item.metadata, than=known.metadata):
            return NOTHING
        return _effects(self._grouping.put_source(item))

    def _delete_source(self, kind: Kind, metadata: Metadata) -> Effects:
        known = self._grouping.own_source((kind, metadata.namespace, metadata.name))
        if known is None or not is_end_of(known.metadata, tombstone=metadata):
            return NOTHING
        return _effects(self._grouping.remove_source(kind, metadata))

    def _apply_namespace(self, namespace: Namespace) -> Effects:
        name = namespace.metadata.name
        known = self._namespaces.get(name)
        if known is not None and is_older(namespace.metadata, than=known.metadata):
            return NOTHING
        self._namespaces[name] = namespace
        self.inventory.namespaces[name] = namespace.metadata.labels
        same = known is not None and known.metadata.labels == namespace.metadata.labels
        return NOTHING if same else Effects(moves_pods=True)

    def _delete_namespace(self, metadata: Metadata) -> Effects:
        known = self._namespaces.get(metadata.name)
        if known is None or not is_end_of(known.metadata, tombstone=metadata):
            return NOTHING
        del self._namespaces[metadata.name]
        self.inventory.namespaces.pop(metadata.name, None)
        return Effects(moves_pods=True)

    def _apply_storage(self, item: StorageObject) -> Effects:
        known = self.inventory.storage.known(kind_of(item), item.metadata)
        if known is not None and (known == item or is_older(item.metadata, than=known.metadata)):
            return NOTHING
        self.inventory.storage.put(item)
        return Effects(moves_storage=True)

    def _delete_storage(self, metadata: Metadata, *, kind: Kind) -> Effects:
        known = self.inventory.storage.known(kind, metadata)
        if known is None or not is_end_of(known.metadata, tombstone=metadata):
            return NOTHING
        self.inventory.storage.remove(kind, metadata)
        return Effects(moves_storage=True)

    def _apply_device(self, item: DeviceObject) -> Effects:
        known = self.inventory.devices.known(item.kind, item.metadata)
        if known is not None and (known == item or is_older(item.metadata, than=known.metadata)):
            return NOTHING
        is_news = self.inventory.devices.put(item) and may_help(item, known)
        if item.kind is Kind.RESOURCE_CLAIM:
            self.claims.seen(item.metadata)
        return Effects(moves_devices=is_news, moves_classes=item.kind is Kind.DEVICE_CLASS)

    def _delete_device(self, metadata: Metadata, *, kind: Kind) -> Effects:
        known = self.inventory.devices.known(kind, metadata)
        if known is None or not is_end_of(known.metadata, tombstone=metadata):
            return NOTHING
        is_news = self.inventory.devices.remove(kind, metadata)
        if kind is Kind.RESOURCE_CLAIM:
            is_news |= self.claims.gone(known.metadata)
        return Effects(moves_devices=is_news)

    def _apply_watch(self, state: WatchState) -> Effects:
        # A watcher of a later release follows kinds that this one does not know, and does not need.
        if state.metadata.name not in _KIND_NAMES:
            return NOTHING
        kind = Kind(state.metadata.name)
        self._watches[kind] = state
        return _effects(self._grouping.put_watch(kind, state.phase)) if kind in SOURCE_KINDS else NOTHING


def _effects(moved: Moved) -> Effects:
    return Effects(gangs=moved.gangs, moved=moved.pods)


_APPLICATIONS: Mapping[type, Callable[[Cluster, Any], Effects]] = {
    Node: Cluster._apply_node,  # noqa: SLF001 - the class's own table, which cannot stand inside it
    Pod: Cluster._apply_pod,  # noqa: SLF001
    PodGroup: Cluster._apply_group,  # noqa: SLF001
    Job: Cluster._apply_source,  # noqa: SLF001
    GroupSource: Cluster._apply_source,  # noqa: SLF001
    Namespace: Cluster._apply_namespace,  # noqa: SLF001
    VolumeClaim: Cluster._apply_storage,  # noqa: SLF001
    Volume: Cluster._apply_storage,  # noqa: SLF001
    StorageClass: Cluster._apply_storage,  # noqa: SLF001
    CsiNode: Cluster._apply_storage,  # noqa: SLF001
    DeviceObject: Cluster._apply_device,  # noqa: SLF001
    WatchState: Cluster._apply_watch,  # noqa: SLF001
}
_DELETIONS: Mapping[Kind, Callable[[Cluster, Metadata], Effects]] = {
    Kind.NODE: Cluster._delete_node,  # noqa: SLF001
    Kind.POD: Cluster._delete_pod,  # noqa: SLF001
    Kind.POD_GROUP: Cluster._delete_group,  # noqa: SLF001
    Kind.NAMESPACE: Cluster._delete_namespace,  # noqa: SLF001
    **{
        kind: partial(Cluster._delete_storage, kind=kind)  # noqa: SLF001
        for kind in (Kind.PERSISTENT_VOLUME_CLAIM, Kind.PERSISTENT_VOLUME, Kind.STORAGE_CLASS, Kind.CSI_NODE)
    },
    **{kind: partial(Cluster._delete_device, kind=kind) for kind in DEVICE_KINDS},  # noqa: SLF001
}
