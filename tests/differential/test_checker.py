"""The checker's rules, with values from the Kubernetes documentation. It never sees the solver."""

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.differential import checker
from tests.differential.checker import violations

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}

Manifest = dict[str, Any]


def node(name: str, *, zone: str = "a", cpu: str = "4", pods: str = "10", **more: Any) -> Manifest:
    """A node with its host and zone."""
    labels = {HOST: name, ZONE: zone, **more.pop("labels", {})}
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": pods}
    status = {"allocatable": allocatable, **more.pop("status", {})}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": more, "status": status}


def pod(name: str = "p", *, on: str = "", cpu: str = "1", app: str = "web", **spec: Any) -> Manifest:
    """A pod of one container; `on` is where it runs already."""
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}, **spec.pop("container", {})}
    metadata = {"name": name, "namespace": "ns", "labels": {"app": app, **spec.pop("labels", {})}}
    metadata |= spec.pop("metadata", {})
    if on:
        spec["nodeName"] = on
    status = spec.pop("status", {})
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}, "status": status}


def broken(*objects: Manifest, members: list[Manifest], on: list[str], wanted: int | None = None) -> set[str]:
    """The rules that the placement breaks."""
    nodes = {one["metadata"]["name"]: where for one, where in zip(members, on, strict=False)}
    wanted = len(members) if wanted is None else wanted
    return {one.rule for one in violations(objects, members=members, nodes=nodes, wanted=wanted)}


def affine(kind: str, *, key: str = ZONE, **more: Any) -> Manifest:
    """A required term about the pods labelled web."""
    return {kind: {REQUIRED: [{"topologyKey": key, **WEB, **more}]}}


def spread(**more: Any) -> list[Manifest]:
    """A hard constraint over hosts about the pods labelled web."""
    return [{"topologyKey": HOST, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **WEB, **more}]


def test_it_shares_nothing_with_the_solver() -> None:
    """It imports the standard library and itself: a mistake that both make would not be seen."""
    folder = Path(checker.__file__).parent
    imported = set()
    for path in folder.glob("*.py"):
        for statement in ast.walk(ast.parse(path.read_text())):
            if isinstance(statement, ast.ImportFrom):
                imported.add(f"{statement.module}")
            elif isinstance(statement, ast.Import):
                imported.update(alias.name for alias in statement.names)
    own = checker.__name__
    foreign = {name for name in imported if not name.startswith(own)}
    assert {name for name in foreign if name.partition(".")[0] not in sys.stdlib_module_names} == set()


TAINT: Manifest = {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}

ONE_POD = [
    pytest.param(node("n"), pod(), set(), id="plain"),
    pytest.param(node("n", unschedulable=True), pod(), {"NodeUnschedulable"}, id="cordoned"),
    pytest.param(
        node("n", unschedulable=True), pod(tolerations=[{"operator": "Exists"}]), set(), id="cordon-tolerated"
    ),
    pytest.param(node("n", **TAINT), pod(), {"TaintToleration"}, id="tainted"),
    pytest.param(node("n", **TAINT), pod(tolerations=[{"key": "k", "value": "v"}]), set(), id="tolerated"),
    pytest.param(node("n", **TAINT), pod(tolerations=[{"key": "k"}]), {"TaintToleration"}, id="other-value"),
    pytest.param(
        node("n", **TAINT),
        pod(tolerations=[{"key": "k", "operator": "Exists", "effect": "NoExecute"}]),
        {"TaintToleration"},
        id="other-effect",
    ),
    pytest.param(node("n"), pod(nodeSelector={"disk": "ssd"}), {"NodeAffinity"}, id="selector"),
    pytest.param(node("n"), pod(cpu="4001m"), {"NodeResourcesFit"}, id="cpu"),
    pytest.param(node("n"), pod(overhead={"cpu": "3500m"}), {"NodeResourcesFit"}, id="overhead"),
    pytest.param(node("n", pods="0"), pod(), {"NodeResourcesFit"}, id="slots"),
    pytest.param(node("n"), pod(schedulingGates=[{"name": "g"}]), {"SchedulingGates"}, id="gated"),
    pytest.param(node("n"), pod(hostNetwork=True, hostUsers=False), {"NodeDeclaredFeatures"}, id="undeclared"),
    pytest.param(
        node("n"),
        pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
        {"VolumeBinding"},
        id="claim-missing",
    ),
    pytest.param(node("n"), pod(resources={"requests": {"cpu": "5"}}), {"NodeResourcesFit"}, id="pod-level"),
    pytest.param(node("n"), pod(cpu="9", resources={"requests": {"cpu": "4"}}), set(), id="pod-level-instead"),
]


@pytest.mark.parametrize(("where", "what", "rules"), ONE_POD)
def test_one_pod_on_one_node(where: Manifest, what: Manifest, rules: set[str]) -> None:
    """Rules about nothing but the two."""
    assert broken(where, members=[what], on=["n"]) == rules


@pytest.mark.parametrize(
    ("operator", "values", "fits"),
    [
        ("In", ["5"], True),
        ("In", ["6"], False),
        ("NotIn", ["6"], True),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["4"], True),
        ("Gt", ["5"], False),
        ("Lt", ["6"], True),
        ("Lt", ["no number"], False),
    ],
)
def test_node_affinity(operator: str, values: list[str], *, fits: bool) -> None:
    """The operators of the API, against a label with the value 5."""
    terms = [{"matchExpressions": [{"key": "size", "operator": operator, "values": values}]}]
    choosy = pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})
    assert broken(node("n", labels={"size": "5"}), members=[choosy], on=["n"]) == (set() if fits else {"NodeAffinity"})


def test_containers_of_the_start() -> None:
    """A sidecar stays; other init containers come and go beside the sidecars that were started before them."""
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    first = {"name": "i", "resources": {"requests": {"cpu": "3"}}}
    assert broken(node("n", cpu="3"), members=[pod(initContainers=[first, sidecar])], on=["n"]) == set()
    assert broken(node("n", cpu="3"), members=[pod(initContainers=[sidecar, first])], on=["n"]) == {"NodeResourcesFit"}


def test_terminating_pods_hold_and_finished_ones_do_not() -> None:
    """What was asked to end has not ended."""
    leaving = pod("old", on="n", cpu="4", metadata={"deletionTimestamp": "2026-07-01T12:00:00Z"})
    over = pod("old", on="n", cpu="4", status={"phase": "Succeeded"})
    assert broken(node("n"), leaving, members=[pod()], on=["n"]) == {"NodeResourcesFit"}
    assert broken(node("n"), over, members=[pod()], on=["n"]) == set()


def test_a_pod_that_is_being_resized_holds_the_most() -> None:
    """Asked for 1, allocated 2, in effect 3: it holds 3."""
    status = {"name": "main", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "3"}}}
    resized = pod("old", on="n", status={"containerStatuses": [status]})
    assert broken(node("n"), resized, members=[pod(cpu="1")], on=["n"]) == set()
    assert broken(node("n"), resized, members=[pod(cpu="1001m")], on=["n"]) == {"NodeResourcesFit"}


def test_siblings_take_room_from_one_another() -> None:
    """Each fits, both do not."""
    members = [pod("p", cpu="3"), pod("q", cpu="3")]
    assert broken(node("n"), members=members, on=["n", "n"]) == {"NodeResourcesFit"}


@pytest.mark.parametrize(
    ("mine", "theirs", "clash"),
    [
        ({"hostPort": 80}, {"hostPort": 80, "hostIP": "127.0.0.1"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "127.0.0.1"}, False),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, False),
        ({"hostPort": 80}, {"hostPort": 81}, False),
    ],
)
def test_host_ports(mine: Manifest, theirs: Manifest, *, clash: bool) -> None:
    """No address means all addresses, no protocol means TCP."""
    other = pod("old", on="n", container={"ports": [theirs]})
    found = broken(node("n"), other, members=[pod(container={"ports": [mine]})], on=["n"])
    assert found == ({"NodePorts"} if clash else set())


def test_anti_affinity_holds_both_ways() -> None:
    """That of the newcomer, and that of who is there."""
    choosy = affine("podAntiAffinity", key=HOST)
    far = [node("n"), node("m")]
    assert broken(*far, pod("old", on="n"), members=[pod(affinity=choosy)], on=["n"]) == {"InterPodAffinity"}
    assert broken(*far, pod("old", on="n", affinity=choosy), members=[pod()], on=["n"]) == {"InterPodAffinity"}
    assert broken(*far, pod("old", on="n", affinity=choosy), members=[pod()], on=["m"]) == set()


def test_affinity_needs_somebody() -> None:
    """In the same zone; and on a node that has a zone."""
    nodes = [node("n"), node("m", zone="b")]
    choosy = pod(app="db", affinity=affine("podAffinity"))
    assert broken(*nodes, pod("old", on="n"), members=[choosy], on=["n"]) == set()
    assert broken(*nodes, pod("old", on="n"), members=[choosy], on=["m"]) == {"InterPodAffinity"}


def test_the_first_of_its_kind() -> None:
    """Pods that want to be together are together, wherever the first one goes."""
    nodes = [node("n"), node("m", zone="b")]
    members = [pod(name, affinity=affine("podAffinity")) for name in "pq"]
    assert broken(*nodes, members=members, on=["m", "m"]) == set()
    assert broken(*nodes, members=members, on=["n", "m"]) == {"InterPodAffinity"}


def test_affinity_reaches_into_other_namespaces_by_their_labels() -> None:
    """Without a selector only the own namespace counts."""
    near = {"kind": "Namespace", "metadata": {"name": "other", "labels": {"team": "blue"}}}
    old = pod("old", on="n", metadata={"namespace": "other"})
    blue: Manifest = {"namespaceSelector": {"matchLabels": {"team": "blue"}}}
    assert broken(node("n"), near, old, members=[pod(affinity=affine("podAntiAffinity"))], on=["n"]) == set()
    found = broken(node("n"), near, old, members=[pod(affinity=affine("podAntiAffinity", **blue))], on=["n"])
    assert found == {"InterPodAffinity"}


def test_label_keys_of_affinity() -> None:
    """With matchLabelKeys only pods of the same version keep away; with mismatchLabelKeys only those of others."""
    old = pod("old", on="n", labels={"version": "1"})

    def newcomer(key: str, version: str) -> list[Manifest]:
        keys: Manifest = {key: ["version"]}
        return [pod(labels={"version": version}, affinity=affine("podAntiAffinity", **keys))]

    apart = {"InterPodAffinity"}
    assert broken(node("n"), old, members=newcomer("matchLabelKeys", "1"), on=["n"]) == apart
    assert broken(node("n"), old, members=newcomer("matchLabelKeys", "2"), on=["n"]) == set()
    assert broken(node("n"), old, members=newcomer("mismatchLabelKeys", "1"), on=["n"]) == set()
    assert broken(node("n"), old, members=newcomer("mismatchLabelKeys", "2"), on=["n"]) == apart


def test_spread_counts_siblings_in_any_order_that_works() -> None:
    """Three pods on two hosts: two and one. All on one host is uneven in every order."""
    nodes = [node("n"), node("m")]
    members = [pod(name, topologySpreadConstraints=spread()) for name in "pqr"]
    assert broken(*nodes, members=members, on=["n", "n", "m"]) == set()
    assert broken(*nodes, members=members, on=["n", "n", "n"]) == {"PodTopologySpread"}


def test_spread_does_not_count_who_is_leaving() -> None:
    """A terminating pod is no longer counted, though it holds its room."""
    leaving = pod("old", on="n", metadata={"deletionTimestamp": "2026-07-01T12:00:00Z"})
    newcomer = pod(topologySpreadConstraints=spread())
    assert broken(node("n"), node("m"), leaving, members=[newcomer], on=["n"]) == set()
    assert broken(node("n"), node("m"), pod("old", on="n"), members=[newcomer], on=["n"]) == {"PodTopologySpread"}


def test_spread_with_fewer_domains_than_wanted() -> None:
    """The emptiest of too few domains counts as empty."""
    members = [pod(name, topologySpreadConstraints=spread(minDomains=3)) for name in "pq"]
    assert broken(node("n"), node("m"), members=members, on=["n", "m"]) == set()
    members.append(pod("r", topologySpreadConstraints=spread(minDomains=3)))
    assert broken(node("n"), node("m"), members=members, on=["n", "m", "n"]) == {"PodTopologySpread"}


def test_policies_of_spread() -> None:
    """A tainted node is a domain unless taints are honoured; one that the pod does not want is none unless ignored."""
    tainted = [node("n"), node("m", **TAINT)]
    two = ["p", "q"]
    plain = [pod(name, topologySpreadConstraints=spread()) for name in two]
    honest = [pod(name, topologySpreadConstraints=spread(nodeTaintsPolicy="Honor")) for name in two]
    assert broken(*tainted, members=plain, on=["n", "n"]) == {"PodTopologySpread"}
    assert broken(*tainted, members=honest, on=["n", "n"]) == set()
    choosy: Manifest = {"nodeSelector": {"disk": "ssd"}}
    disks = [node("n", labels={"disk": "ssd"}), node("m")]
    honest = [pod(name, topologySpreadConstraints=spread(), **choosy) for name in two]
    blind = [pod(name, topologySpreadConstraints=spread(nodeAffinityPolicy="Ignore"), **choosy) for name in two]
    assert broken(*disks, members=honest, on=["n", "n"]) == set()
    assert broken(*disks, members=blind, on=["n", "n"]) == {"PodTopologySpread"}


def claim(name: str, *, mode: str = "ReadWriteMany", where: Manifest | None = None, zone: str = "") -> list[Manifest]:
    """A claim and its volume."""
    spec: Manifest = {"csi": {"driver": "d", "volumeHandle": name}}
    if where:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}}
    labels = {ZONE: zone} if zone else {}
    return [
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"volumeName": name, "accessModes": [mode]},
        },
        {"kind": "PersistentVolume", "metadata": {"name": name, "labels": labels}, "spec": spec},
    ]


def using(name: str, *claims: str, on: str = "") -> Manifest:
    """A pod with claims."""
    return pod(name, on=on, volumes=[{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims])


def test_a_volume_is_where_it_is() -> None:
    """By its node affinity, and by its label of the zone."""
    here = claim("c", where={"key": HOST, "operator": "In", "values": ["m"]})
    assert broken(node("n"), node("m"), *here, members=[using("p", "c")], on=["n"]) == {"VolumeZone"}
    assert broken(node("n"), node("m"), *here, members=[using("p", "c")], on=["m"]) == set()
    there = claim("c", zone="b__c")
    assert broken(node("n"), *there, members=[using("p", "c")], on=["n"]) == {"VolumeZone"}
    assert broken(node("n", zone="c"), *there, members=[using("p", "c")], on=["n"]) == set()


def test_a_volume_for_one_pod() -> None:
    """ReadWriteOncePod counts in the whole cluster, also among siblings."""
    once = claim("c", mode="ReadWriteOncePod")
    both = [node("n"), node("m"), *once]
    assert broken(*both, members=[using("p", "c")], on=["n"]) == set()
    assert broken(*both, using("old", "c", on="m"), members=[using("p", "c")], on=["n"]) == {"VolumeRestrictions"}
    members = [using("p", "c"), using("q", "c")]
    assert broken(*both, members=members, on=["n", "m"]) == {"VolumeRestrictions"}


def test_a_node_attaches_so_many_volumes() -> None:
    """A volume that two pods share is attached once."""
    driver = {"name": "d", "allocatable": {"count": 1}}
    limited = {"kind": "CSINode", "metadata": {"name": "n"}, "spec": {"drivers": [driver]}}
    base = [node("n"), limited, *claim("c"), *claim("e")]
    assert broken(*base, using("old", "c", on="n"), members=[using("p", "c")], on=["n"]) == set()
    assert broken(*base, using("old", "c", on="n"), members=[using("p", "e")], on=["n"]) == {"NodeVolumeLimits"}


def test_all_or_nothing() -> None:
    """Nobody, or as many as are wanted."""
    members = [pod("p"), pod("q")]
    assert broken(node("n"), members=members, on=[]) == set()
    assert broken(node("n"), members=members, on=["n"]) == {"GangScheduling"}
    assert broken(node("n"), members=members, on=["n"], wanted=1) == set()
