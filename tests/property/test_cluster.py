"""The fold of the cluster stream: repetition, order and compaction change nothing, and no amount is lost."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.core.cluster import Cluster
from services.core.effects import Promise
from services.core.objects import (
    Applied,
    ClusterChange,
    Deleted,
    GangId,
    Kind,
    Node,
    NodeName,
    Pod,
    TransactionId,
)
from tests import builders

Key = tuple[Kind, str]

_PODS = [f"p{index}" for index in range(4)]
_NODES = [f"n{index}" for index in range(3)]
_PHASES = ["Pending", "Running", "Succeeded", "Failed"]


@dataclass(slots=True, kw_only=True)
class World:
    """Makes changes as an API server would: versions grow, and who is made again has a new uid."""

    version: int = 0
    uids: dict[Key, str] = field(default_factory=dict)
    last: dict[Key, Applied] = field(default_factory=dict)

    def applied(self, kind: Kind, name: str, *, draw: Callable[..., Any]) -> Applied:
        """Create or change an object."""
        self.version += 1
        uid = self.uids.setdefault((kind, name), f"uid-{name}-{self.version}")
        made: Any
        if kind is Kind.NODE:
            made = builders.node(
                name, gpus=draw(st.integers(0, 8)), uid=uid, version=str(self.version), is_ready=draw(st.booleans())
            )
        elif kind is Kind.POD:
            made = builders.pod(
                name,
                group=draw(st.sampled_from(["", "g0"])),
                gpus=draw(st.integers(0, 4)),
                node=draw(st.sampled_from(["", *_NODES, "unseen"])),
                phase=draw(st.sampled_from(_PHASES)),
                scheduler=draw(st.sampled_from(["phalanx", "phalanx", "other"])),
                deleted_at=draw(st.sampled_from([None, None, builders.START])),
                uid=uid,
                version=str(self.version),
            )
        else:
            made = builders.pod_group(name, min_count=draw(st.integers(1, 3)), uid=uid, version=str(self.version))
        self.last[kind, name] = Applied(object=made)
        return self.last[kind, name]

    def deleted(self, kind: Kind, name: str) -> Deleted | None:
        """Delete an object, where it exists."""
        known = self.last.pop((kind, name), None)
        self.uids.pop((kind, name), None)
        return None if known is None else Deleted(kind=kind, metadata=known.metadata)


@st.composite
def histories(draw: Callable[..., Any]) -> list[ClusterChange]:
    """What a few objects go through."""
    world = World()
    choices = [(Kind.POD, name) for name in _PODS] + [(Kind.NODE, name) for name in _NODES] + [(Kind.POD_GROUP, "g0")]
    changes: list[ClusterChange] = []
    for kind, name in draw(st.lists(st.sampled_from(choices), min_size=1, max_size=25)):
        change = world.deleted(kind, name) if draw(st.integers(0, 4)) == 0 else None
        changes.append(change or world.applied(kind, name, draw=draw))
    return changes


def folded(changes: list[ClusterChange]) -> Cluster:
    """The cluster after these changes."""
    cluster = Cluster()
    for revision, change in enumerate(changes, start=1):
        cluster.apply(change, revision=revision)
    return cluster


def known(cluster: Cluster) -> dict[str, Any]:
    """Everything that decisions rest on; amounts of nothing are left out, as they depend on what was seen before."""
    return {
        "free": {
            node.metadata.name: {
                resource: amount
                for resource, amount in cluster.inventory.free_on(NodeName(node.metadata.name)).items()
                if amount
            }
            for node in cluster.inventory.nodes()
        },
        "nodes": {node.metadata.name: node for node in cluster.inventory.nodes()},
        "pods": {pod.metadata.name: pod for pod in cluster.pods()},
        "gangs": {gang: cluster.gang(gang) for gang in cluster.gang_ids()},
        "mix": list(cluster.inventory.mix.coarse().items()),
    }


def key_of(change: ClusterChange) -> Key:
    """The object that a change is about."""
    return change.kind, change.metadata.name


def holds(pod: Pod) -> bool:
    """Whether the pod uses its node."""
    return bool(pod.node) and pod.phase not in {"Succeeded", "Failed"}


def free_by_hand(nodes: list[Node], pods: list[Pod], promises: list[Promise]) -> dict[str, dict[str, int]]:
    """What is free, counted anew from the objects alone."""
    free = {node.metadata.name: dict(node.allocatable) for node in nodes}
    holders = [(pod.node, pod.requests) for pod in pods if holds(pod)]
    for name, requests in [*holders, *((promise.node, promise.pod.requests) for promise in promises)]:
        if name in free:
            for resource, amount in requests.items():
                free[name][resource] = free[name].get(resource, 0) - amount
    return {name: {key: amount for key, amount in amounts.items() if amount} for name, amounts in free.items()}


@given(changes=histories())
def test_applying_twice_equals_once(changes: list[ClusterChange]) -> None:
    """At every point of a history, a repeated change changes nothing and wakes nobody."""
    once, twice = Cluster(), Cluster()
    for revision, change in enumerate(changes, start=1):
        once.apply(change, revision=revision)
        twice.apply(change, revision=revision)
        repeated = twice.apply(change, revision=revision)
        assert not repeated.roomier_nodes
        assert known(once) == known(twice)


@given(changes=histories(), seed=st.integers(0, 2**16))
def test_the_order_among_objects_does_not_matter(changes: list[ClusterChange], seed: int) -> None:
    """Only the order of the changes of one object does, and the stream keeps it."""
    turns = [key_of(change) for change in changes]
    random.Random(seed).shuffle(turns)
    queues: dict[Key, list[ClusterChange]] = {}
    for change in changes:
        queues.setdefault(key_of(change), []).append(change)
    shuffled = [queues[key].pop(0) for key in turns]
    assert known(folded(shuffled)) == known(folded(changes))


@given(changes=histories(), seed=st.integers(0, 2**16))
def test_rebuilt_equals_followed(changes: list[ClusterChange], seed: int) -> None:
    """The stream keeps the last message of each object: reading only those, in any order, gives the same cluster."""
    last = {key_of(change): change for change in changes}
    compacted = list(last.values())
    random.Random(seed).shuffle(compacted)
    assert known(folded(compacted)) == known(folded(changes))


@given(changes=histories(), data=st.data())
def test_no_amount_is_lost_or_counted_twice(changes: list[ClusterChange], data: st.DataObject) -> None:
    """After every change, what is free is what nodes offer without what bound and promised pods hold."""
    cluster = Cluster()
    for revision, change in enumerate(changes, start=1):
        cluster.apply(change, revision=revision)
        _promise_or_withdraw(cluster, data)
        pods, promises = list(cluster.pods()), list(cluster.promises().values())
        assert known(cluster)["free"] == free_by_hand(list(cluster.inventory.nodes()), pods, promises)
        by_uid = {pod.metadata.uid: pod for pod in pods}
        assert not [uid for uid in cluster.promises() if by_uid[uid].node or by_uid[uid].is_terminating]


@given(changes=histories())
def test_freed_room_is_told(changes: list[ClusterChange]) -> None:
    """A pod that leaves its node names it among those that may have room: a waiting gang is woken by that alone."""
    cluster = Cluster()
    for revision, change in enumerate(changes, start=1):
        before = {pod.metadata.name: pod for pod in cluster.pods()}
        effects = cluster.apply(change, revision=revision)
        after = {pod.metadata.name: pod for pod in cluster.pods()}
        left = {
            pod.node
            for name, pod in before.items()
            if holds(pod) and (name not in after or not holds(after[name]) or after[name].node != pod.node)
        }
        assert left <= effects.roomier_nodes


def _promise_or_withdraw(cluster: Cluster, data: st.DataObject) -> None:
    """Do what the placer does between two changes."""
    waiting = [pod for pod in cluster.pods() if not pod.node and not pod.is_terminating and not pod.is_finished]
    if not waiting or not data.draw(st.booleans()):
        return
    pod = data.draw(st.sampled_from(waiting))
    if data.draw(st.booleans()):
        cluster.withdraw(pod.metadata.uid)
        return
    cluster.promise(
        Promise(
            uid=pod.metadata.uid,
            gang=GangId("podgroup/team-a/g0"),
            transaction=TransactionId("t1"),
            node=NodeName(data.draw(st.sampled_from(_NODES))),
            pod=pod,
        )
    )
