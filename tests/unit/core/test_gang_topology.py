"""What a gang asks of its topology: who states it, for whom, and which levels there are."""

from dataclasses import replace
from typing import Any

import pytest

from services.core.attention import DecisionPolicy
from services.core.cluster import Cluster
from services.core.decisions import Proposed, Waiting
from services.core.gangs import Gang
from services.core.objects import Applied, Kind, Pod, Role
from services.core.policy import TopologyLevel, TopologyPolicy
from services.core.reasons import ReasonCode
from services.core.topology import TopologyRequest
from tests import groups
from tests.builders import members, node, pod_group
from tests.unit.core.test_decider import Desk, only
from tests.unit.core.test_decider_elastic import proposed, settle

RACK, ZONE = "example.com/rack", "example.com/zone"
LEVELS = TopologyPolicy(levels=(TopologyLevel(node_label=ZONE), TopologyLevel(node_label=RACK, name="rack")))


def gang_of(*items: Any) -> Gang:
    """The one gang of these objects."""
    cluster = Cluster()
    for item in items:
        cluster.apply(Applied(object=item), revision=0)
    (gang_id,) = cluster.gang_ids()
    found = cluster.gang(gang_id)
    assert found is not None
    return found


def annotated(pod: Pod, **annotations: str) -> Pod:
    """The pod with annotations of Kueue."""
    found = {f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return replace(pod, metadata=replace(pod.metadata, annotations={**pod.metadata.annotations, **found}))


def subgroups(gang: Gang) -> dict[str, str]:
    """Subgroup by name of the member."""
    pods = (*gang.open, *gang.placed, *gang.gated)
    found = gang.topology.wish.subgroups
    return {one.metadata.name: found[one.metadata.uid] for one in pods if one.metadata.uid in found}


def test_pod_group() -> None:
    """All members in one domain."""
    gang = gang_of(pod_group("g", min_count=2, topology_keys=(RACK,)), *members("g", count=2))
    assert gang.topology.wish.requests == (TopologyRequest(level_label=RACK),)
    assert subgroups(gang) == {}


def test_nothing_is_asked() -> None:
    """As of most gangs; `unconstrained` asks for nothing either."""
    assert gang_of(*members("g", count=2), pod_group("g", min_count=2)).topology.wish.requests == ()
    free = [annotated(one, podset_unconstrained_topology="true") for one in groups.kueue_pods()]
    assert gang_of(*free).topology.wish.requests == ()


@pytest.mark.parametrize(
    ("annotation", "is_required"), [("podset_required_topology", True), ("podset_preferred_topology", False)]
)
def test_kueue(annotation: str, *, is_required: bool) -> None:
    """Its annotations stand on the pods; where there are no roles they are about the whole gang."""
    gang = gang_of(*(annotated(one, **{annotation: RACK}) for one in groups.kueue_pods()))
    assert gang.topology.wish.requests == (TopologyRequest(level_label=RACK, is_required=is_required),)


def test_kueue_asks_for_each_role() -> None:
    """The driver may be elsewhere; roles that name one podset group belong together."""
    jobs, (driver, *workers) = groups.job_set_parts()
    together = [annotated(one, podset_required_topology=RACK) for one in workers]
    gang = gang_of(groups.job_set(), *jobs, driver, *together)
    assert gang.topology.wish.requests == (TopologyRequest(level_label=RACK, subgroup="workers"),)
    assert subgroups(gang) == {"set-workers-0-0": "workers", "set-workers-0-1": "workers"}
    joined = [annotated(one, podset_required_topology=RACK, podset_group_name="all") for one in (driver, *workers)]
    assert set(subgroups(gang_of(groups.job_set(), *jobs, *joined)).values()) == {"all"}


def test_leader_worker_set() -> None:
    """A group in one zone, and each of its subgroups in one rack."""
    key = "leaderworkerset.sigs.k8s.io"
    sets, pods = groups.lws_parts(size=4)
    parts = [
        replace(
            one, metadata=replace(one.metadata, labels={**one.metadata.labels, f"{key}/subgroup-index": str(i // 2)})
        )
        for i, one in enumerate(pods)
    ]
    stated = {f"{key}/exclusive-topology": ZONE, f"{key}/subgroup-exclusive-topology": RACK}
    gang = gang_of(groups.lws(size=4, meta={"annotations": stated}), *sets, *parts)
    assert gang.topology.wish.requests == (
        TopologyRequest(level_label=ZONE),
        TopologyRequest(level_label=RACK, subgroup="0"),
        TopologyRequest(level_label=RACK, subgroup="1"),
    )
    assert subgroups(gang) == {"serve-0": "0", "serve-0-1": "0", "serve-0-2": "1", "serve-0-3": "1"}


def test_job_set_with_exclusive_domains() -> None:
    """Each of its Jobs in one."""
    stated = {"alpha.jobset.sigs.k8s.io/exclusive-topology": RACK}
    roles = (Role(name="driver", count=1), Role(name="workers", count=1))
    jobs, pods = groups.job_set_parts()
    job_set = groups.source(Kind.JOB_SET, "JobSet", "set", roles=roles, meta={"annotations": stated})
    gang = gang_of(job_set, *jobs, *pods)
    assert {one.subgroup for one in gang.topology.wish.requests} == {"set-driver-0", "set-workers-0"}


def racked(gpus: int = 4) -> Desk:
    """Two racks of two nodes, and a node without a rack."""
    desk = Desk(nodes=0)
    desk.decider.adopt(DecisionPolicy(topology=LEVELS))
    for index, rack in enumerate(("r1", "r1", "r2", "r2")):
        desk.see(node(f"n{index}", gpus=gpus, labels={RACK: rack, ZONE: "z"}))
    desk.see(node("bare", gpus=64))
    return desk


def test_gang_stays_in_its_domain_and_its_growth_joins_it() -> None:
    """Also where another rack, or a node that is in none, has more room by then."""
    desk = racked()
    racks = {"n0": "r1", "n1": "r1", "n2": "r2", "n3": "r2"}
    pods = members("g", count=7)
    desk.see(pod_group("g", min_count=6, topology_keys=(RACK,)), *pods[:6])
    decision = only(desk.decide())
    first = settle(desk, decision, pods[:6])
    domain = {racks[one.node] for one in first.assignments}
    assert len(domain) == 1
    desk.see(pods[6])
    late = proposed(only(desk.decide()))
    assert {racks[one.node] for one in late.assignments} == domain


def test_gang_that_fits_no_domain_waits() -> None:
    """Nine pods do not fit in eight GPUs of a rack, however many there are elsewhere."""
    desk = racked()
    desk.see(pod_group("g", min_count=9, topology_keys=(RACK,)), *members("g", count=9))
    assert isinstance(only(desk.decide()).event, Waiting)


def test_label_that_is_no_level_is_told() -> None:
    """The reason names the field and the levels that exist; once it is one, the gang is tried at once."""
    desk = racked()
    desk.see(pod_group("g", min_count=1, topology_keys=("example.com/row",)), *members("g", count=1))
    told = only(desk.decide()).event
    assert isinstance(told, Waiting)
    assert told.reasons[0].code is ReasonCode.MISCONFIGURED
    assert told.reasons[0].message == (
        "spec.schedulingConstraints.topology[0].key: expected the node label of a configured topology level "
        "(example.com/zone, example.com/rack (rack)), got 'example.com/row'"
    )
    desk.see(node("n9", labels={"example.com/row": "1"}))
    desk.decide()
    desk.decider.adopt(DecisionPolicy(topology=TopologyPolicy(levels=(TopologyLevel(node_label="example.com/row"),))))
    assert isinstance(only(desk.decide()).event, Proposed)
