"""`phalanx plan` on other platforms' groups: what is read of workloads, what owners are worth, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from services.cli.main import main
from tests.builders import GPU, Manifest, job_manifest, node_manifest, pod_manifest, pod_spec
from tests.groups import API_VERSIONS

LWS = "LeaderWorkerSet"


def plan(folder: Path, *manifests: Manifest, options: tuple[str, ...] = ()) -> Result:
    """The command on these objects."""
    path = folder / "objects.yaml"
    path.write_text(yaml.safe_dump_all(manifests))
    return CliRunner(env={"COLUMNS": "200", "PHALANX_PLACER": None}).invoke(main, ["plan", "-f", str(path), *options])


def groups_of(folder: Path, *manifests: Manifest, code: int = 0) -> dict[str, Any]:
    """The answer as JSON."""
    result = plan(folder, *manifests, options=("-o", "json"))
    assert result.exit_code == code, result.output
    found: dict[str, Any] = json.loads(result.stdout)["groups"]
    return found


def workload(kind: str, name: str = "x", **spec: Any) -> Manifest:
    """An object of another platform that was not submitted."""
    return {"apiVersion": API_VERSIONS[kind], "kind": kind, "metadata": {"name": name, "namespace": "a"}, "spec": spec}


def template(**fields: Any) -> Manifest:
    """A pod template."""
    return {"spec": pod_spec(**fields)}


def owned(name: str, *, kind: str, of: str, uid: str, labels: dict[str, str], **fields: Any) -> Manifest:
    """A pod as it is in a cluster."""
    found = pod_manifest(name, namespace="a", labels=labels, **fields)
    reference = {"apiVersion": API_VERSIONS[kind], "kind": kind, "name": of, "uid": uid, "controller": True}
    found["metadata"] |= {"uid": f"uid-{name}", "ownerReferences": [reference]}
    return found


RAY = {"ray.io/cluster": "ray", "ray.io/node-type": "worker", "ray.io/group": "gpu"}


def test_owner_that_is_not_given_is_trusted_and_noted(tmp_path: Path) -> None:
    """As where only the pods of a namespace were dumped: they are a gang of those that exist, and that is said."""
    pods = [owned(f"w-{index}", kind="RayCluster", of="ray", uid="u", labels=RAY) for index in range(2)]
    found = groups_of(tmp_path, node_manifest(), *pods)["a/ray"]
    assert (found["outcome"], sorted(found["bound"])) == ("placed", ["w-0", "w-1"])
    assert [reason["code"] for reason in found["reasons"]] == ["REASON_CODE_OWNER_NOT_SEEN"]
    assert "RayCluster ray: not given" in found["reasons"][0]["message"]


def test_owner_that_is_given_says_how_many_are_needed(tmp_path: Path) -> None:
    """From `kubectl get rayclusters,pods -o yaml`; a member that was bound before is not in `bound`."""
    cluster = workload("RayCluster", "ray", workerGroupSpecs=[{"groupName": "gpu", "minReplicas": 2}])
    cluster["metadata"]["uid"] = "u"
    head = owned("h", kind="RayCluster", of="ray", uid="u", labels=RAY | {"ray.io/node-type": "head"}, nodeName="n1")
    first = owned("w-0", kind="RayCluster", of="ray", uid="u", labels=RAY)
    found = groups_of(tmp_path, node_manifest(), cluster, head, first, code=1)["a/ray"]
    assert (found["outcome"], found["reasons"][0]["message"]) == ("incomplete", "2 of the 3 needed pods exist")
    second = owned("w-1", kind="RayCluster", of="ray", uid="u", labels=RAY)
    found = groups_of(tmp_path, node_manifest(), cluster, head, first, second)["a/ray"]
    assert (found["outcome"], found["bound"]) == ("placed", {"w-0": "n1", "w-1": "n1"})


def test_pod_of_an_owner_with_another_uid_is_not_counted(tmp_path: Path) -> None:
    """It only says that it belongs to the group."""
    cluster = workload("RayCluster", "ray", workerGroupSpecs=[{"groupName": "gpu", "minReplicas": 1}])
    cluster["metadata"]["uid"] = "u"
    pods = [owned(name, kind="RayCluster", of="ray", uid=uid, labels=RAY) for name, uid in (("w", "u"), ("x", "v"))]
    found = groups_of(tmp_path, node_manifest(), cluster, *pods, code=1)["a/ray"]
    assert found["outcome"] == "incomplete"
    assert {reason["code"] for reason in found["reasons"]} == {
        "REASON_CODE_OWNER_NOT_SEEN",
        "REASON_CODE_MEMBERS_MISSING",
    }


def test_each_group_of_a_leader_worker_set_has_its_answer(tmp_path: Path) -> None:
    """Two groups of three: there is room for one."""
    sets = workload(LWS, "serve", replicas=2, leaderWorkerTemplate={"size": 3, "workerTemplate": template(gpus=1)})
    found = groups_of(tmp_path, node_manifest(gpus=5), sets, code=1)
    assert {name: one["outcome"] for name, one in found.items()} == {"a/serve-0": "placed", "a/serve-1": "waiting"}
    assert sorted(found["a/serve-0"]["bound"]) == ["serve-0", "serve-0-1", "serve-0-2"]


def test_leader_of_its_own_template(tmp_path: Path) -> None:
    """The leader asks for what its template says."""
    leader = {"leaderTemplate": template(gpus=4), "workerTemplate": template(gpus=2)}
    sets = workload(LWS, "serve", leaderWorkerTemplate={"size": 3} | leader)
    small, large = node_manifest("n1", gpus=4), node_manifest("n2", gpus=4)
    bound = groups_of(tmp_path, small, large, sets)["a/serve-0"]["bound"]
    assert bound["serve-0"] != bound["serve-0-1"] == bound["serve-0-2"]


def test_suspended_workload_counts_as_if_it_were_resumed(tmp_path: Path) -> None:
    """As Kueue's users submit them; one that runs and is suspended says so."""
    job = job_manifest("j", count=2, namespace="a", suspend=True)
    job["metadata"]["labels"] = {"phalanx.dev/gang": "true"}
    assert groups_of(tmp_path, node_manifest(), job)["a/j"]["outcome"] == "placed"
    job["metadata"]["uid"] = "u"
    pod = owned("j-0", kind="Job", of="j", uid="u", labels={})
    found = groups_of(tmp_path, node_manifest(), job, pod, code=1)["a/j"]
    assert (found["outcome"], found["reasons"][0]["code"]) == ("waiting", "REASON_CODE_SUSPENDED")


def test_group_of_one_name_in_several_kinds(tmp_path: Path) -> None:
    """Then the kind stands in front."""
    head: Manifest = {"headGroupSpec": {"template": template(gpus=1)}}
    job = job_manifest("x", count=1, namespace="a", pod_labels={"phalanx.dev/gang": "true"})
    assert sorted(groups_of(tmp_path, node_manifest(), workload("RayCluster", **head), job)) == [
        "job/a/x",
        "raycluster/a/x",
    ]


def test_ray_job_and_ray_service_are_their_cluster(tmp_path: Path) -> None:
    """Under the name that people know."""
    spec = {"headGroupSpec": {"template": template(gpus=1)}}
    wrapped = [
        {
            "apiVersion": "ray.io/v1",
            "kind": kind,
            "metadata": {"name": kind.lower(), "namespace": "a"},
            "spec": {key: spec},
        }
        for kind, key in (("RayJob", "rayClusterSpec"), ("RayService", "rayClusterConfig"))
    ]
    assert sorted(groups_of(tmp_path, node_manifest(), *wrapped)) == ["a/rayjob", "a/rayservice"]


def test_standard_input() -> None:
    """As in `kubectl get … -o yaml | phalanx plan -f -`, beside files."""
    text = yaml.safe_dump_all([node_manifest(), pod_manifest("w")])
    runner = CliRunner(env={"PHALANX_PLACER": None})
    result = runner.invoke(main, ["plan", "-f", "-", "-o", "json"], input=text)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["groups"]["team-a/w"]["bound"] == {"w": "n1"}
    broken = runner.invoke(main, ["plan", "-f", "-"], input="kind: [")
    assert (broken.exit_code, broken.stderr[:35]) == (2, "standard input: not YAML or JSON: w")


def test_list_in_a_list(tmp_path: Path) -> None:
    """As people put them together."""
    inner = {"kind": "PodList", "apiVersion": "v1", "items": [pod_manifest("w")]}
    outer = {"kind": "List", "apiVersion": "v1", "items": [node_manifest(), inner]}
    assert groups_of(tmp_path, outer)["team-a/w"]["outcome"] == "placed"


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        (workload("JobSet", replicatedJobs=[{"replicas": "2"}]), "JobSet a/x: spec.replicatedJobs[0].replicas"),
        (
            workload(
                "JobSet",
                replicatedJobs=[{"name": "w", "template": {"spec": {"template": {"spec": {"containers": 3}}}}}],
            ),
            "JobSet a/x: spec.replicatedJobs[0].template.spec.template.spec.containers: expected a list of objects",
        ),
        (workload("RayCluster"), "RayCluster a/x: spec.headGroupSpec.template.spec: expected the pods' spec, got None"),
        (
            workload(LWS, leaderWorkerTemplate={"size": 4097, "workerTemplate": template()}),
            "LeaderWorkerSet a/x: spec.leaderWorkerTemplate.size: expected 0 to 4096 pods, got 4097",
        ),
        (
            workload(LWS, replicas=4000, leaderWorkerTemplate={"size": 4000, "workerTemplate": template()}),
            "LeaderWorkerSet a/x: spec.leaderWorkerTemplate.size: expected at most 4096 pods, got",
        ),
        (
            workload("PyTorchJob", pytorchReplicaSpecs={"Worker": 3}),
            "PyTorchJob a/x: spec.pytorchReplicaSpecs.Worker: expected an object, got 3",
        ),
        (
            {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "r"}, "spec": {}},
            "RayJob default/r: spec.rayClusterSpec: expected the spec of a RayCluster",
        ),
    ],
)
def test_bad_workload(tmp_path: Path, manifest: Manifest, sentence: str) -> None:
    """Exit code 2; file, object, field, and what was expected."""
    result = plan(tmp_path, node_manifest(), manifest)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"{tmp_path / 'objects.yaml'}: {sentence}")


@pytest.mark.parametrize("total", ["many", "0"])
def test_count_that_cannot_be_read_makes_its_group_wait(tmp_path: Path, total: str) -> None:
    """An annotation is no field of the API: the file can be read, and the reason says what is wrong."""
    labels, annotations = {"kueue.x-k8s.io/pod-group-name": "k"}, {"kueue.x-k8s.io/pod-group-total-count": total}
    found = groups_of(tmp_path, node_manifest(), pod_manifest("w", labels=labels, annotations=annotations), code=1)
    assert found["team-a/k"]["outcome"] == "waiting"
    assert found["team-a/k"]["reasons"][0]["code"] == "REASON_CODE_MISCONFIGURED"


def test_limits_stand_for_requests_in_every_template(tmp_path: Path) -> None:
    """A worker that states limits only asks for them."""
    worker = {"spec": {"schedulerName": "phalanx", "containers": [{"name": "m", "resources": {"limits": {GPU: 5}}}]}}
    job = workload("PyTorchJob", pytorchReplicaSpecs={"Worker": {"replicas": 2, "template": worker}})
    assert groups_of(tmp_path, node_manifest(gpus=8), job, code=1)["a/x"]["outcome"] == "waiting"
