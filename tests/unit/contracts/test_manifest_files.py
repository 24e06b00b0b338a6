"""Manifests as people write them: what an API server and the controllers would make of them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from services.contracts.manifest_files import UnreadableManifest, read_manifests
from services.core.objects import Job, Kind, Owner, Pod, PodGroup, Uid, kind_of
from tests.builders import GPU, Manifest, job_manifest, pod_group_manifest, pod_manifest

QUICKSTART = Path(__file__).resolve().parents[3] / "docs" / "quickstart.md"


def gang_of_the_quickstart() -> str:
    """The YAML that the quickstart tells a newcomer to submit."""
    return QUICKSTART.read_text().split("```yaml\n", 1)[1].split("```", 1)[0]


def read(*manifests: Manifest) -> tuple[Any, ...]:
    """The objects of some manifests."""
    return read_manifests(yaml.safe_dump_all(manifests)).objects


def written_pod(**spec: Any) -> Manifest:
    """A pod as a person writes it."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w"}, "spec": {"schedulerName": "phalanx", **spec}}


def container(**resources: Any) -> Manifest:
    """A container with requests and limits."""
    return {"name": "main", "image": "pause", "resources": resources}


def requests_of(pod: Manifest) -> dict[str, int]:
    """What the pod takes from its node, without its slot."""
    (found,) = read(pod)
    return {resource: amount for resource, amount in found.requests.items() if resource != "pods"}


def test_gang_of_the_quickstart() -> None:
    """64 pods of one GPU, whose group they name."""
    manifests = read_manifests(gang_of_the_quickstart())
    (group,) = [item for item in manifests.objects if isinstance(item, PodGroup)]
    pods = [item for item in manifests.objects if isinstance(item, Pod)]
    assert (group.min_count, len(pods), manifests.skipped) == (64, 64, 0)
    assert [pod.metadata.name for pod in pods[:2]] == ["train-0", "train-1"]
    assert all(pod.requests == {GPU: 1, "pods": 1} for pod in pods)
    assert {(pod.metadata.namespace, pod.group, pod.scheduler_name) for pod in pods} == {
        ("default", "train", "phalanx")
    }
    assert len({pod.metadata.uid for pod in pods}) == 64


def test_limits_stand_for_requests() -> None:
    """Resource by resource, and never in the place of a request that is stated."""
    pod = written_pod(containers=[container(limits={GPU: 2, "cpu": "4"}, requests={"cpu": "500m"})])
    assert requests_of(pod) == {GPU: 2, "cpu": 500}


def test_limits_of_init_containers() -> None:
    """They make the peak of initialisation, as requests do."""
    pod = written_pod(containers=[container(limits={"cpu": 1})], initContainers=[container(limits={"cpu": 3})])
    assert requests_of(pod) == {"cpu": 3000}


def test_pod_level_limits() -> None:
    """The pod requests what its containers do in sum; where they say nothing, its limit (KEP-2837)."""
    limits = {"cpu": 8, "memory": "4Gi", "hugepages-2Mi": "2Mi"}
    pod = written_pod(
        containers=[container(requests={"cpu": "1500m"}), container(limits={"cpu": 1})], resources={"limits": limits}
    )
    assert requests_of(pod) == {"cpu": 2500, "memory": 4 * 2**30, "hugepages-2Mi": 2 * 2**20}


def test_pod_level_requests_are_kept() -> None:
    """What is stated is what counts."""
    resources = {"limits": {"cpu": 8}, "requests": {"cpu": 3}}
    assert requests_of(written_pod(containers=[container(requests={"cpu": 1})], resources=resources)) == {"cpu": 3000}


@pytest.mark.parametrize("stored", [{"metadata": {"name": "w", "uid": "u"}}, {"status": {"phase": "Pending"}}])
def test_admitted_pods_are_left_as_they_are(stored: Manifest) -> None:
    """What an API server has stored states its requests."""
    assert requests_of(written_pod(containers=[container(limits={GPU: 2})]) | stored) == {}


def test_priorities_come_from_the_classes() -> None:
    """By name from the same files or from those that every cluster has; else from the global default."""
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    usual = {"kind": "PriorityClass", "metadata": {"name": "usual"}, "value": 7, "globalDefault": True}
    group = pod_group_manifest("g", min_count=1)
    group["spec"]["priorityClassName"] = "high"
    pods = [
        written_pod(priorityClassName=name) | {"metadata": {"name": name or "none"}}
        for name in ("high", "system-node-critical", "elsewhere", "")
    ]
    found = {item.metadata.name: item.priority for item in read(group, *pods, high, usual) if hasattr(item, "priority")}
    assert found == {"g": 1000, "high": 1000, "system-node-critical": 2_000_001_000, "elsewhere": 0, "none": 7}


def test_a_bound_pod_has_the_priority_of_its_class() -> None:
    """Written by hand with a status, and the name of a class alone: it is no pod of priority 0."""
    vital = {"kind": "PriorityClass", "metadata": {"name": "vital"}, "value": 1000}
    pod = written_pod(priorityClassName="vital", nodeName="n1") | {"status": {"phase": "Running"}}
    assert [item.priority for item in read(pod, vital) if isinstance(item, Pod)] == [1000]


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({}, 1),
        ({"parallelism": 3}, 3),
        ({"parallelism": 8, "completions": 2}, 2),
        ({"parallelism": 2, "completions": 8}, 2),
        ({"parallelism": 2, "suspend": True}, 2),
        ({"parallelism": 0}, 0),
    ],
)
def test_pods_of_a_job(spec: Manifest, count: int) -> None:
    """As many as run at once; a suspended Job counts as if it were resumed."""
    job = job_manifest("j", parallelism=1)
    for key in ("parallelism", "completions"):
        job["spec"].pop(key, None)
    job["spec"] |= spec
    first, *pods = read(job)
    assert isinstance(first, Job)
    assert not first.is_suspended
    assert [pod.metadata.name for pod in pods] == [f"j-{index}" for index in range(count)]
    assert {pod.metadata.owners[0].uid for pod in pods} <= {first.metadata.uid}


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_pods_of_replicated_workloads(kind: str) -> None:
    """From the template, with the workload as their owner."""
    template = {
        "metadata": {"labels": {"app": "web"}, "annotations": {"phalanx.dev/allow-delete": "true"}},
        "spec": {"schedulerName": "phalanx", "containers": [container(limits={GPU: 1})]},
    }
    spec = {"replicas": 2, "template": template}
    metadata = {"name": "web", "namespace": "team-a"}
    pods = read({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec})
    assert [(pod.metadata.namespace, pod.metadata.name) for pod in pods] == [("team-a", "web-0"), ("team-a", "web-1")]
    for pod in pods:
        assert pod.metadata.labels == {"app": "web"}
        assert pod.metadata.annotations == {"phalanx.dev/allow-delete": "true"}
        assert pod.requests[GPU] == 1
        uid = Uid(f"{kind}/team-a/web")
        assert pod.metadata.owners == (
            Owner(kind=kind, name="web", uid=uid, is_controller=True, api_version="apps/v1"),
        )


def test_kind_of_another_platform_is_another_kind() -> None:
    """Though it has the same name."""
    manifests = read_manifests(yaml.safe_dump(job_manifest("j") | {"apiVersion": "batch.volcano.sh/v1alpha1"}))
    assert (manifests.objects, manifests.skipped) == ((), 1)


def test_workload_that_runs_stands_for_no_pods() -> None:
    """It has them beside it, and tells how many there are."""
    manifests = read_manifests(yaml.safe_dump(job_manifest("j", parallelism=2) | {"status": {"active": 2}}))
    assert [(kind_of(item), manifests.skipped) for item in manifests.objects] == [(Kind.JOB, 0)]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"template": {"spec": {"containers": [container(limits={GPU: "1x"})]}}}, "spec.template.spec.containers[0]"),
        ({"template": {"spec": {"schedulingGroup": {"podGroupName": "a/b"}}}}, "spec.template.spec.schedulingGroup"),
        ({"template": {"metadata": {"labels": 3}, "spec": {"containers": []}}}, "spec.template.metadata.labels"),
        ({"template": {}}, "spec.template.spec: expected the pods' spec"),
        ({"parallelism": 4097}, "spec.parallelism: expected 0 to 4096 pods, got 4097"),
        ({"parallelism": "2"}, "spec.parallelism: expected a 32-bit integer"),
    ],
)
def test_bad_workload(change: Manifest, sentence: str) -> None:
    """The error names the workload, and the field by its path in it."""
    job = job_manifest("train", parallelism=2)
    job["metadata"].pop("namespace", None)
    job["spec"] |= {"completions": None} | change
    with pytest.raises(UnreadableManifest) as raised:
        read(job)
    assert str(raised.value).startswith(f"Job default/train: {sentence}")
    assert str(raised.value).endswith("; correct this field")


def test_limit_that_is_no_quantity() -> None:
    """It is told as a limit, where it stands."""
    with pytest.raises(
        UnreadableManifest, match=r"^pod default/w: spec.containers\[0\].resources.limits.cpu: expected"
    ):
        read(written_pod(containers=[container(limits={"cpu": "many"})]))


def test_pods_of_one_name() -> None:
    """Neither silently replaces the other."""
    job = job_manifest("w", parallelism=1)
    with pytest.raises(UnreadableManifest, match=r"pod .*/w-0 is stated twice \(of Job w and as a pod\)"):
        read(job, pod_manifest("w-0"))


def test_pod_seen_at_two_moments() -> None:
    """Of versions from a cluster the later one counts, as on a watch: nothing is wrong with the files."""
    older, newer = pod_manifest("w"), pod_manifest("w")
    older["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    newer["metadata"] |= {"uid": "u", "resourceVersion": "2"}
    assert len(read(older, newer)) == 2
