"""The reduction of the API's JSON: effective requests as kube-scheduler counts them, and every other field."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from services.core.constraints import NodeRequirement, NodeSelectorTerm
from services.core.objects import (
    DeviceObject,
    Kind,
    Node,
    Pod,
    PodGroup,
    Workload,
    kind_of,
)
from services.core.quantities import MAX_AMOUNT
from services.core.reduce import MalformedObject, reduce

CASES = Path(__file__).parents[2] / "cases"
MIB = 2**20

Manifest = dict[str, Any]


def container(name: str = "main", *, requests: Manifest | None = None, **fields: Any) -> Manifest:
    """A container that asks for `requests`."""
    return {"name": name, "resources": {"requests": requests or {}}} | fields


def sidecar(name: str, *, requests: Manifest) -> Manifest:
    """An init container that keeps running."""
    return container(name, requests=requests, restartPolicy="Always")


def pod(*containers: Manifest, status: Manifest | None = None, **spec: Any) -> Pod:
    """A pod reduced; ordinary containers first, spec fields by name."""
    manifest = {
        "metadata": {"name": "w-0", "namespace": "team-a", "uid": "u1", "resourceVersion": "7"},
        "spec": {"containers": list(containers)} | spec,
        "status": status or {},
    }
    item = reduce(Kind.POD, manifest)
    assert isinstance(item, Pod)
    return item


class TestEffectiveRequests:
    """What a pod takes from a node."""

    def test_the_field_case_of_init_containers_sidecars_and_overhead(self) -> None:
        """C08: max(steady 3+2, init peak 5+2) plus half a core of overhead."""
        documents = yaml.safe_load_all((CASES / "C08-effective-pod-request.yaml").read_text())
        pods = [reduce(Kind.POD, document) for document in documents if document["kind"] == "Pod"]
        assert [dict(item.requests) for item in pods if isinstance(item, Pod)] == [{"cpu": 7500, "pods": 1}] * 3

    def test_containers_add_up(self) -> None:
        """Ordinary containers run together."""
        item = pod(container(requests={"cpu": "1500m", "memory": "1Gi"}), container("b", requests={"cpu": 1}))
        assert item.requests == {"cpu": 2500, "memory": 1024 * MIB, "pods": 1}

    def test_a_sidecar_after_an_init_container_does_not_burden_it(self) -> None:
        """Only the sidecars before an init container run beside it."""
        first, later = container("fetch", requests={"cpu": 5}), sidecar("proxy", requests={"cpu": 2})
        assert pod(container(requests={"cpu": 1}), initContainers=[first, later]).requests["cpu"] == 5000
        assert pod(container(requests={"cpu": 1}), initContainers=[later, first]).requests["cpu"] == 7000

    def test_pod_level_requests_replace_cpu_memory_and_huge_pages_only(self) -> None:
        """Other resources stay the sum of the containers; overhead comes on top."""
        item = pod(
            container(requests={"cpu": 8, "nvidia.com/gpu": 2}),
            resources={"requests": {"cpu": 3, "hugepages-2Mi": "4Mi", "nvidia.com/gpu": 9}},
            overhead={"cpu": "250m"},
        )
        assert item.requests == {"cpu": 3250, "hugepages-2Mi": 4 * MIB, "nvidia.com/gpu": 2, "pods": 1}

    @pytest.mark.parametrize(
        ("allocated", "actual", "expected"),
        [("1", "1", 4000), ("6", "1", 6000), ("1", "7", 7000), ("1", None, 4000)],
    )
    def test_a_resize_in_place_counts_the_largest_of_spec_allocated_and_actual(
        self, allocated: str, actual: str | None, expected: int
    ) -> None:
        """While the kubelet resizes, the node holds the larger amount."""
        state: Manifest = {"name": "main", "allocatedResources": {"cpu": allocated}}
        if actual is not None:
            state["resources"] = {"requests": {"cpu": actual}}
        item = pod(container(requests={"cpu": 4}), status={"containerStatuses": [state]})
        assert item.requests["cpu"] == expected

    def test_an_infeasible_resize_leaves_the_spec_out(self) -> None:
        """What the kubelet will never grant is not held."""
        status = {
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
            "containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "2"}}],
        }
        assert pod(container(requests={"cpu": 64}), status=status).requests["cpu"] == 2000

    def test_a_pod_level_resize_counts_the_larger(self) -> None:
        """Pod-level amounts in effect hold until the kubelet lowers them."""
        status = {"resources": {"requests": {"cpu": "6"}}, "allocatedResources": {"cpu": "5"}}
        item = pod(container(requests={"cpu": 1}), resources={"requests": {"cpu": 2}}, status=status)
        assert item.requests["cpu"] == 6000

    @given(
        st.lists(st.integers(0, 10**6), max_size=6),
        st.lists(st.tuples(st.integers(0, 10**6), st.booleans()), max_size=6),
    )
    def test_the_request_is_the_peak_of_the_pods_life(self, main: list[int], init: list[tuple[int, bool]]) -> None:
        """Playing the pod's life step by step never needs more than its request, and once needs exactly that."""
        sidecars, peak = 0, 0
        for amount, stays in init:
            peak = max(peak, sidecars + amount)
            sidecars += amount if stays else 0
        expected = max(peak, sidecars + sum(main))
        item = pod(
            *(container(f"c{n}", requests={"cpu": f"{amount}m"}) for n, amount in enumerate(main)),
            initContainers=[
                (sidecar if stays else container)(f"i{n}", requests={"cpu": f"{amount}m"})
                for n, (amount, stays) in enumerate(init)
            ],
        )
        assert item.requests.get("cpu", 0) == expected


class TestPod:
    """Everything else that a pod says."""

    def test_fields_are_carried(self) -> None:
        """Group, gates, priority, selectors, tolerations and the reason for waiting."""
        item = pod(
            schedulerName="phalanx",
            schedulingGroup={"podGroupName": "train"},
            schedulingGates=[{"name": "kueue.x-k8s.io/admission"}],
            priority=1000,
            nodeSelector={"zone": "a"},
            tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, {"key": "x", "value": "y"}],
            status={"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        )
        assert (item.group, item.is_gated, item.priority, item.unscheduled_reason) == (
            "train",
            True,
            1000,
            "Unschedulable",
        )
        assert (item.scheduler_name, dict(item.node_selector), item.phase) == ("phalanx", {"zone": "a"}, "Pending")
        assert [(one.key, one.operator, one.value) for one in item.tolerations] == [
            ("gpu", "Exists", ""),
            ("x", "Equal", "y"),
        ]

    def test_a_required_affinity_without_terms_is_not_none(self) -> None:
        """No requirement and a requirement that nothing fulfils are different."""
        key = "requiredDuringSchedulingIgnoredDuringExecution"
        assert pod().node_affinity is None
        assert pod(affinity={"nodeAffinity": {key: {"nodeSelectorTerms": []}}}).node_affinity == ()
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
        assert pod(affinity={"nodeAffinity": {key: {"nodeSelectorTerms": [term]}}}).node_affinity == (
            NodeSelectorTerm(expressions=(NodeRequirement(key="zone", operator="In", values=("a",)),)),
        )

    def test_claims_of_devices_are_no_rule_that_cannot_be_honoured(self) -> None:
        """They are read as what the pod asks for."""
        item = pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "one"}])
        assert not item.unsupported
        assert [one.claim for one in item.devices.claims] == ["one"]

    @pytest.mark.parametrize(
        ("state", "started"),
        [
            ({"state": {"waiting": {"reason": "ContainerCreating"}}}, False),
            ({"state": {"running": {"startedAt": "2026-11-02T09:00:00Z"}}}, True),
            ({"state": {"terminated": {"exitCode": 1, "startedAt": "2026-11-02T09:00:00Z"}}}, True),
            ({"state": {"waiting": {}}, "lastState": {"terminated": {"exitCode": 1}}}, True),
            ({"state": {"terminated": {"reason": "StartError", "startedAt": "1970-01-01T00:00:00Z"}}}, False),
        ],
    )
    def test_a_pod_has_started_once_a_process_of_it_ran(self, state: Manifest, *, started: bool) -> None:
        """Also in an init container, and also before the last restart."""
        assert pod(status={"containerStatuses": [state]}).has_started is started
        assert pod(status={"initContainerStatuses": [state]}).has_started is started


class TestOtherKinds:
    """Nodes, groups, workloads and device objects."""

    def test_a_node_without_a_ready_condition_is_not_ready(self) -> None:
        """Unknown is never yes."""
        ready = {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "7200m", "nvidia.com/gpu": "8"},
        }
        node = reduce(
            Kind.NODE,
            {"metadata": {"name": "n1"}, "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}, "status": ready},
        )
        assert isinstance(node, Node)
        assert (node.is_ready, dict(node.allocatable), node.taints[0].effect) == (
            True,
            {"cpu": 7200, "nvidia.com/gpu": 8},
            "NoExecute",
        )
        silent = reduce(Kind.NODE, {"metadata": {"name": "n1"}})
        assert isinstance(silent, Node)
        assert not silent.is_ready

    def test_groups_of_both_policies(self) -> None:
        """A basic group has no minimum."""
        spec = {
            "schedulingPolicy": {"gang": {"minCount": 64}},
            "disruptionMode": {"all": {}},
            "workloadRef": {"workloadName": "w", "templateName": "t"},
        }
        gang = reduce(Kind.POD_GROUP, {"metadata": {"name": "g", "namespace": "a"}, "spec": spec})
        basic = reduce(
            Kind.POD_GROUP, {"metadata": {"name": "g", "namespace": "a"}, "spec": {"schedulingPolicy": {"basic": {}}}}
        )
        assert isinstance(gang, PodGroup)
        assert isinstance(basic, PodGroup)
        assert (gang.min_count, gang.is_gang, gang.disrupts_all, gang.workload, gang.template) == (
            64,
            True,
            True,
            "w",
            "t",
        )
        assert (basic.min_count, basic.is_gang, basic.disrupts_all) == (0, False, False)

    def test_a_workload_names_its_templates(self) -> None:
        """In their order."""
        spec = {"podGroupTemplates": [{"name": "b"}, {"name": "a"}], "controllerRef": {"kind": "Job", "name": "train"}}
        item = reduce(Kind.WORKLOAD, {"metadata": {"name": "w", "namespace": "a"}, "spec": spec})
        assert isinstance(item, Workload)
        assert (item.templates, item.controller_kind, item.controller_name) == (("b", "a"), "Job", "train")

    def test_device_objects_are_whole_and_their_order_of_keys_is_no_news(self) -> None:
        """Equal documents give equal bytes."""
        one = reduce(Kind.RESOURCE_CLAIM, {"metadata": {"name": "c"}, "spec": {"a": 1, "b": [{"x": "é"}]}})
        two = reduce(Kind.RESOURCE_CLAIM, {"metadata": {"name": "c"}, "spec": {"b": [{"x": "é"}], "a": 1}})
        assert isinstance(one, DeviceObject)
        assert one == two
        assert json.loads(one.spec_json) == {"a": 1, "b": [{"x": "é"}]}
        assert one.status_json == b""

    def test_only_annotations_that_placement_reads_are_kept(self) -> None:
        """Others are left out, as are values of a size that none of them has."""
        annotations = {
            "phalanx.dev/transaction": "t",
            "kubectl.kubernetes.io/last-applied": "{}",
            "phalanx.dev/x": "y" * 5000,
        }
        item = reduce(Kind.NAMESPACE, {"metadata": {"name": "n", "annotations": annotations}})
        assert item.metadata.annotations == {"phalanx.dev/transaction": "t"}


@pytest.mark.parametrize(
    ("kind", "manifest", "field"),
    [
        (
            Kind.POD,
            {"spec": {"containers": [container(requests={"cpu": "two"})]}},
            "spec.containers[0].resources.requests.cpu",
        ),
        (
            Kind.POD,
            {"spec": {"containers": [container(requests={"cpu": [1]})]}},
            "spec.containers[0].resources.requests.cpu",
        ),
        (Kind.POD, {"spec": {"priority": 2**31}}, "spec.priority"),
        (Kind.POD, {"spec": {"containers": {}}}, "spec.containers"),
        (Kind.POD, {"spec": {"containers": ["main"]}}, "spec.containers[0]"),
        (
            Kind.POD,
            {
                "spec": {
                    "containers": [
                        container(requests={"memory": str(MAX_AMOUNT)}),
                        container("b", requests={"memory": 1}),
                    ]
                }
            },
            "spec.containers[].resources.requests.memory",
        ),
        (Kind.NODE, {"status": {"allocatable": {"memory": "-1Gi"}}}, "status.allocatable.memory"),
        (Kind.NODE, {"spec": {"unschedulable": "no"}}, "spec.unschedulable"),
        (Kind.POD_GROUP, {"spec": {"schedulingPolicy": {"gang": {}}}}, "spec.schedulingPolicy.gang.minCount"),
        (Kind.POD_GROUP, {"spec": {"schedulingPolicy": "gang"}}, "spec.schedulingPolicy"),
    ],
)
def test_what_cannot_be_understood_is_named(kind: Kind, manifest: Manifest, field: str) -> None:
    """Object, field and value stand in the message."""
    with pytest.raises(MalformedObject) as caught:
        reduce(kind, {"metadata": {"name": "w-0", "namespace": "team-a"}} | manifest)
    assert caught.value.field == field
    assert f"{kind.value} team-a/w-0: {field}: expected " in str(caught.value)


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({}, "metadata.name"),
        ({"name": "a", "labels": {"x": 1}}, "metadata.labels[x]"),
        ({"name": "a", "creationTimestamp": "yesterday"}, "metadata.creationTimestamp"),
        ({"name": "a", "ownerReferences": [{"controller": 1}]}, "metadata.ownerReferences[0].controller"),
    ],
)
def test_metadata_that_cannot_be_understood_is_named(metadata: Manifest, field: str) -> None:
    """Of whatever kind."""
    with pytest.raises(MalformedObject) as caught:
        reduce(Kind.NAMESPACE, {"metadata": metadata})
    assert caught.value.field == field


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "spec", "status", "name", "containers", "requests", "resources", "cpu", "conditions"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(
    st.sampled_from([kind for kind in Kind if kind is not Kind.WATCH]),
    st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), _JSON),
)
def test_any_json_is_reduced_or_refused(kind: Kind, manifest: Manifest) -> None:
    """Nothing else than MalformedObject comes out of JSON, however wrong."""
    with contextlib.suppress(MalformedObject):
        assert kind_of(reduce(kind, manifest)) is kind
