"""The rules of a pod as they are read from its spec: what the API server's defaults mean, and what cannot be read."""

from typing import Any

import pytest

from services.core.constraints import (
    NO_RULES,
    Claim,
    Disk,
    HostPort,
    LabelSelector,
    NodeRequirement,
    PodRules,
    PodTerm,
    SpreadConstraint,
)
from services.core.objects import CsiNode, Kind, Pod, StorageClass, Volume, VolumeClaim
from services.core.quantities import MAX_AMOUNT
from services.core.reduce import MalformedObject, reduce, reduce_leniently
from services.core.reduce_rules import PREFERRED, REQUIRED

Manifest = dict[str, Any]
APP = {"matchLabels": {"app": "a"}}
SELECTS_APP = NodeRequirement(key="app", operator="In", values=("a",))


def manifest(*, labels: Manifest | None = None, **spec: Any) -> Manifest:
    """A pod of team-a as the API shows it."""
    metadata = {"name": "p", "namespace": "team-a", "uid": "u", "labels": labels or {}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main"}], **spec}}


def rules(*, labels: Manifest | None = None, **spec: Any) -> PodRules:
    """The rules that are read."""
    pod = reduce(Kind.POD, manifest(labels=labels, **spec))
    assert isinstance(pod, Pod)
    return pod.rules


def anti(term: Manifest) -> Manifest:
    """The affinity of a pod with one required anti-affinity term."""
    return {"podAntiAffinity": {REQUIRED: [term]}}


class TestPodTerms:
    """Affinity and anti-affinity."""

    def test_a_pod_without_rules_has_the_one_value_for_that(self) -> None:
        """Thousands of pods share it."""
        assert rules() is NO_RULES

    def test_a_term_without_namespaces_means_the_pods_own(self) -> None:
        """With any namespace selector, even an empty one, it does not."""
        term = {"topologyKey": "zone", "labelSelector": APP}
        assert rules(affinity=anti(term)).anti_affinity == (
            PodTerm(topology_key="zone", selector=LabelSelector(requirements=(SELECTS_APP,)), namespaces=("team-a",)),
        )
        (found,) = rules(affinity=anti({**term, "namespaceSelector": {}})).anti_affinity
        assert (found.namespaces, found.namespace_selector) == ((), LabelSelector())

    def test_a_missing_selector_selects_nothing_and_an_empty_one_everything(self) -> None:
        """They are different values."""
        (missing,) = rules(affinity=anti({"topologyKey": "zone"})).anti_affinity
        (empty,) = rules(affinity=anti({"topologyKey": "zone", "labelSelector": {}})).anti_affinity
        assert (missing.selector, empty.selector) == (None, LabelSelector())

    def test_match_label_keys_become_requirements(self) -> None:
        """As the API server does it on creation, and once where it has done so."""
        term = {
            "topologyKey": "zone",
            "labelSelector": APP,
            "matchLabelKeys": ["hash", "absent"],
            "mismatchLabelKeys": ["tenant"],
        }
        labels = {"hash": "1", "tenant": "t"}
        wanted = (
            SELECTS_APP,
            NodeRequirement(key="hash", operator="In", values=("1",)),
            NodeRequirement(key="tenant", operator="NotIn", values=("t",)),
        )
        (found,) = rules(affinity=anti(term), labels=labels).anti_affinity
        assert found.selector == LabelSelector(requirements=wanted)
        stored = {
            "matchLabels": {"app": "a"},
            "matchExpressions": [
                {"key": "hash", "operator": "In", "values": ["1"]},
                {"key": "tenant", "operator": "NotIn", "values": ["t"]},
            ],
        }
        (again,) = rules(affinity=anti({**term, "labelSelector": stored}), labels=labels).anti_affinity
        assert again == found

    def test_preferences_keep_their_sign(self) -> None:
        """Anti-affinity is a negative weight."""
        item = {"weight": 7, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": APP}}
        found = rules(affinity={"podAffinity": {PREFERRED: [item]}, "podAntiAffinity": {PREFERRED: [item]}})
        assert [one.weight for one in found.preferred_pods] == [7, -7]


class TestSpread:
    """Topology spread constraints."""

    def test_defaults_are_those_of_the_api(self) -> None:
        """Affinity is honoured, taints are not, one domain is enough."""
        item = {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": APP}
        assert rules(topologySpreadConstraints=[item]).spread == (
            SpreadConstraint(topology_key="zone", max_skew=2, selector=LabelSelector(requirements=(SELECTS_APP,))),
        )

    def test_all_fields(self) -> None:
        """Policies, domains, and the keys of the pod's own labels."""
        item = {
            "topologyKey": "zone",
            "maxSkew": 1,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": APP,
            "minDomains": 3,
            "nodeAffinityPolicy": "Ignore",
            "nodeTaintsPolicy": "Honor",
            "matchLabelKeys": ["hash"],
        }
        (found,) = rules(topologySpreadConstraints=[item], labels={"hash": "1"}).spread
        assert (found.is_hard, found.min_domains, found.honors_affinity, found.honors_taints) == (False, 3, False, True)
        assert found.selector is not None
        assert [one.key for one in found.selector.requirements] == ["app", "hash"]


class TestPortsAndVolumes:
    """What a node has once."""

    def test_ports_of_containers_and_sidecars_count(self) -> None:
        """Those of init containers that end do not."""
        sidecar = {"name": "s", "restartPolicy": "Always", "ports": [{"containerPort": 1, "hostPort": 90}]}
        init = {"name": "i", "ports": [{"containerPort": 1, "hostPort": 91}]}
        main = {
            "name": "m",
            "ports": [{"containerPort": 80}, {"hostPort": 81, "protocol": "UDP", "hostIP": "10.0.0.1"}],
        }
        assert rules(containers=[main], initContainers=[sidecar, init]).host_ports == (
            HostPort(port=81, protocol="UDP", address="10.0.0.1"),
            HostPort(port=90),
        )

    def test_on_the_hosts_network_every_port_is_one_of_the_host(self) -> None:
        """The API server fills it in."""
        main = {"name": "m", "ports": [{"containerPort": 80}]}
        assert rules(containers=[main], hostNetwork=True).host_ports == (HostPort(port=80),)

    def test_claims_and_disks(self) -> None:
        """An ephemeral volume's claim has the name of pod and volume."""
        found = rules(
            volumes=[
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
                {"name": "disk", "iscsi": {"iqn": "iqn.a", "readOnly": True}},
                {"name": "image", "rbd": {"monitors": ["m2", "m1"], "image": "i"}},
            ]
        )
        assert found.claims == (Claim(name="data"), Claim(name="p-scratch", is_ephemeral=True))
        assert found.disks == (
            Disk(name="iscsi/iqn.a", is_read_only=True),
            Disk(name="rbd/m1/rbd/i"),
            Disk(name="rbd/m2/rbd/i"),
        )

    def test_features_that_a_node_must_declare(self) -> None:
        """Those that kube-scheduler infers from a pod."""
        restarting = {"name": "m", "restartPolicyRules": [{"action": "RestartAllContainers"}]}
        found = rules(containers=[restarting], hostNetwork=True, hostUsers=False)
        assert found.features == ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}, "spec.containers[0].resources.requests.cpu"),
        ({"containers": [{"resources": {"requests": {"cpu": "-1"}}}]}, "spec.containers[0].resources.requests.cpu"),
        (
            {"containers": [{"resources": {"requests": {"memory": "9" * 30}}}]},
            "spec.containers[0].resources.requests.memory",
        ),
        ({"affinity": anti({"labelSelector": APP})}, f"spec.affinity.podAntiAffinity.{REQUIRED}[0].topologyKey"),
        (
            {"affinity": anti({"topologyKey": "z", "labelSelector": {"matchExpressions": [{"key": "a"}]}})},
            f"spec.affinity.podAntiAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0].operator",
        ),
        (
            {
                "affinity": anti(
                    {"topologyKey": "z", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}
                )
            },
            f"spec.affinity.podAntiAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0].values",
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 0, "whenUnsatisfiable": "DoNotSchedule"}]},
            "spec.topologySpreadConstraints[0].maxSkew",
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "Never"}]},
            "spec.topologySpreadConstraints[0].whenUnsatisfiable",
        ),
        ({"containers": [{"ports": [{"hostPort": 70_000}]}]}, "spec.containers[0].ports[0].hostPort"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {}}]}, "spec.volumes[0].persistentVolumeClaim.claimName"),
    ],
)
def test_what_cannot_be_read_is_named(spec: Manifest, field: str) -> None:
    """A file is refused with the field; a pod of a cluster is known, takes all of its node, and says what is wrong."""
    with pytest.raises(MalformedObject) as refused:
        reduce(Kind.POD, manifest(**spec))
    assert refused.value.field == field
    pod = reduce_leniently(Kind.POD, manifest(**spec, schedulingGroup={"podGroupName": "g"}, nodeName="n1"))
    assert isinstance(pod, Pod)
    assert pod.unreadable.startswith(f"{field}: expected ")
    assert (pod.group, pod.node, pod.requests) == ("g", "n1", {"pods": MAX_AMOUNT})


class TestStorage:
    """Claims, volumes, classes, and what nodes can attach."""

    def test_a_claim_is_bound_once_the_controller_has_sealed_it(self) -> None:
        """A volume name alone is a wish."""
        metadata: Manifest = {"name": "c", "namespace": "a"}
        spec = {"volumeName": "pv", "storageClassName": "fast", "accessModes": ["ReadWriteOncePod"]}
        wished = reduce(Kind.PERSISTENT_VOLUME_CLAIM, {"metadata": metadata, "spec": spec})
        sealed = metadata | {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        bound = reduce(Kind.PERSISTENT_VOLUME_CLAIM, {"metadata": sealed, "spec": spec, "status": {"phase": "Bound"}})
        assert isinstance(wished, VolumeClaim)
        assert isinstance(bound, VolumeClaim)
        assert (wished.is_bound, bound.is_bound, bound.is_single_pod, bound.phase) == (False, True, True, "Bound")

    def test_volumes_classes_and_nodes(self) -> None:
        """Only what placement needs of them."""
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
        spec = {
            "csi": {"driver": "d", "volumeHandle": "h"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        }
        volume = reduce(Kind.PERSISTENT_VOLUME, {"metadata": {"name": "pv"}, "spec": spec})
        late = reduce(Kind.STORAGE_CLASS, {"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"})
        drivers = [{"name": "d", "allocatable": {"count": 3}}, {"name": "unlimited"}]
        node = reduce(Kind.CSI_NODE, {"metadata": {"name": "n"}, "spec": {"drivers": drivers}})
        assert isinstance(volume, Volume)
        assert isinstance(late, StorageClass)
        assert isinstance(node, CsiNode)
        assert (volume.driver, volume.handle, late.binding_mode) == ("d", "h", "WaitForFirstConsumer")
        assert volume.node_affinity is not None
        assert dict(node.limits) == {"d": 3}
