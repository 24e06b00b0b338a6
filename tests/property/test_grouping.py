"""The same pods and owners make the same gangs, in whatever order they were seen and whatever was seen in between."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.core.cluster import Cluster
from services.core.objects import Applied, ClusterChange, Deleted, Kind, WatchPhase, kind_of
from tests import groups
from tests.builders import members, pod, pod_group, watch
from tests.groups import owner

_JOBS, _SET_PODS = groups.job_set_parts()
_STATEFUL, _LWS_PODS = groups.lws_parts()
_SPOOFER = pod("x", labels=_SET_PODS[0].metadata.labels, owners=(owner("Job", "set-driver-0", uid="stolen"),))

OBJECTS: tuple[Any, ...] = (
    groups.job_set(),
    *_JOBS,
    *_SET_PODS,
    groups.lws(),
    *_STATEFUL,
    *_LWS_PODS,
    groups.ray_cluster(),
    *groups.ray_pods(),
    groups.job(parallelism=2, is_gang=True),
    *groups.job_pods(),
    groups.source(Kind.COSCHEDULING_GROUP, "PodGroup", "c", min_count=2),
    *(pod(f"c-{index}", labels={"scheduling.x-k8s.io/pod-group": "c"}) for index in range(2)),
    *groups.kueue_pods(count=2, total=3),
    pod_group("g", min_count=2),
    *members("g", count=2),
    _SPOOFER,
)
"""Everything of one small cluster, a pod that lies about its owner included."""

Gangs = dict[str, Any]


def gangs_of(cluster: Cluster) -> Gangs:
    """What a cluster knows of its gangs."""
    found: Gangs = {}
    for gang_id in cluster.gang_ids():
        gang = cluster.gang(gang_id)
        assert gang is not None
        parts = (gang.open, gang.placed, gang.gated, gang.unverified)
        names = tuple(tuple(sorted(one.metadata.name for one in part)) for part in parts)
        found[gang_id] = (gang.min_count, gang.whole, gang.is_declared, gang.is_suspended, gang.trusted, *names)
    return found


def versioned(item: Any, version: int) -> Any:
    """The object in another version."""
    return replace(item, metadata=replace(item.metadata, resource_version=str(version)))


def earlier(item: Any) -> list[ClusterChange]:
    """Earlier versions that somebody may have seen of an object: another one of the same name, and its end."""
    other = versioned(replace(item, metadata=replace(item.metadata, uid=f"{item.metadata.uid}-before")), 1)
    return [Applied(object=other), Deleted(kind=kind_of(item), metadata=other.metadata)]


@st.composite
def histories(draw: Callable[..., Any]) -> tuple[tuple[Any, ...], list[ClusterChange]]:
    """Some of the objects, and an order in which they were seen, each after what there was of its name before."""
    kept = tuple(item for item in OBJECTS if draw(st.integers(0, 9)))
    streams: list[list[ClusterChange]] = [
        [*(earlier(item)[: draw(st.integers(0, 2))]), Applied(object=versioned(item, 2))] for item in kept
    ]
    history: list[ClusterChange] = []
    while any(streams):
        stream = draw(st.sampled_from([one for one in streams if one]))
        history.append(stream.pop(0))
        if draw(st.integers(0, 9)) == 0:
            # A stream may bring what it brought before.
            history.append(draw(st.sampled_from(history)))
    return kept, history


def folded(changes: list[ClusterChange], *, absent: frozenset[Kind]) -> Cluster:
    """A cluster that saw these changes, and that some kinds are not served before half of them."""
    cluster = Cluster()
    for number, change in enumerate(changes):
        if number == len(changes) // 2:
            for kind in sorted(absent):
                cluster.apply(Applied(object=watch(kind, phase=WatchPhase.ABSENT)), revision=0)
        cluster.apply(change, revision=number)
    return cluster


@given(history=histories(), absent=st.frozensets(st.sampled_from([Kind.JOB_SET, Kind.RAY_CLUSTER, Kind.STATEFUL_SET])))
def test_order_of_arrival_makes_no_difference(
    history: tuple[tuple[Any, ...], list[ClusterChange]], absent: frozenset[Kind]
) -> None:
    """Owners before pods or after them, replaced, deleted and told twice: the gangs are those of what there is."""
    kept, changes = history
    plain = folded([Applied(object=versioned(item, 2)) for item in kept], absent=absent)
    assert gangs_of(folded(changes, absent=absent)) == gangs_of(plain)


@given(history=histories())
def test_every_change_tells_the_gangs_that_it_alters(history: tuple[tuple[Any, ...], list[ClusterChange]]) -> None:
    """Whoever looks only at what it was told of knows all that there is to know."""
    cluster = Cluster()
    known: Gangs = {}
    for number, change in enumerate(history[1]):
        effects = cluster.apply(change, revision=number)
        now = gangs_of(cluster)
        altered = {gang for gang in known.keys() | now.keys() if known.get(gang) != now.get(gang)}
        assert altered <= effects.gangs
        known = now


@given(history=histories())
def test_liar_is_in_nobodys_way(history: tuple[tuple[Any, ...], list[ClusterChange]]) -> None:
    """Without the pod that names an owner of another uid every gang is what it is with it."""
    with_it = gangs_of(folded(history[1], absent=frozenset()))
    without = [change for change in history[1] if change.metadata.name != _SPOOFER.metadata.name]
    assert {gang: one[:-1] for gang, one in with_it.items() if any(one[5:8])} == {
        gang: one[:-1] for gang, one in gangs_of(folded(without, absent=frozenset())).items() if any(one[5:8])
    }
