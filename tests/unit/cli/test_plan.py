"""`phalanx plan` on files alone: tables and JSON, exit codes, and errors that name file, object and field."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from services.cli.main import main
from tests.builders import Manifest, node_manifest, pod_group_manifest, pod_manifest


def gang(name: str = "train", *, size: int = 2, gpus: int = 1) -> list[Manifest]:
    """A PodGroup and its pods."""
    pods = [pod_manifest(f"{name}-{index}", group=name, gpus=gpus) for index in range(size)]
    return [pod_group_manifest(name, min_count=size), *pods]


def written(folder: Path, *manifests: Manifest, name: str = "objects.yaml") -> Path:
    """The manifests as one file."""
    path = folder / name
    path.write_text(yaml.safe_dump_all(manifests))
    return path


def plan(*arguments: str | Path) -> Result:
    """Run the command on a wide terminal, without any setting of the person who runs the tests."""
    runner = CliRunner(env={"COLUMNS": "200", "PHALANX_PLACER": None})
    return runner.invoke(main, ["plan", *map(str, arguments)])


def test_gang_that_fits(tmp_path: Path) -> None:
    """How many pods go to which node; exit code 0."""
    result = plan("-f", written(tmp_path, node_manifest("n1", gpus=1), node_manifest("n2", gpus=1), *gang()))
    assert result.exit_code == 0
    (line,) = [line for line in result.output.splitlines() if "team-a/train" in line]
    assert line.strip().split(maxsplit=2) == ["team-a/train", "placed", "1 on n1, 1 on n2"]


def test_gang_that_does_not_fit(tmp_path: Path) -> None:
    """Why not, in words; exit code 1."""
    result = plan("-f", written(tmp_path, node_manifest("n1", gpus=1), *gang()))
    assert result.exit_code == 1
    (line,) = [line for line in result.output.splitlines() if "team-a/train" in line]
    assert "waiting" in line
    assert "1 of the 2 needed pods can be placed" in line


def test_json(tmp_path: Path) -> None:
    """For programs: names as in the public schema, reasons by their codes."""
    result = plan("-o", "json", "-f", written(tmp_path, node_manifest("n1", gpus=2), *gang(), *gang("late")))
    assert result.exit_code == 1
    groups = json.loads(result.output)["groups"]
    assert groups["team-a/late"] == {
        "bound": {"late-0": "n1", "late-1": "n1"},
        "devices": {},
        "evict": [],
        "nominate": {},
        "outcome": "placed",
        "reasons": [],
    }
    assert groups["team-a/train"]["outcome"] == "waiting"
    assert groups["team-a/train"]["reasons"][0] == {
        "code": "REASON_CODE_INSUFFICIENT_CAPACITY",
        "count": 0,
        "message": "0 of the 2 needed pods can be placed",
        "subject": "",
    }


def test_several_files_lists_and_json_input(tmp_path: Path) -> None:
    """As from several `kubectl get -o yaml` and `-o json`: all files together are the cluster."""
    nodes = written(tmp_path, {"kind": "List", "apiVersion": "v1", "items": [node_manifest()]}, name="nodes.yaml")
    pods = tmp_path / "pods.json"
    pods.write_text(json.dumps({"kind": "PodList", "items": gang()}))
    result = plan("-f", nodes, "--file", pods)
    assert result.exit_code == 0
    assert "2 on n1" in result.output


def test_running_pods_are_in_the_way(tmp_path: Path) -> None:
    """A pod that is bound takes its part of its node, whose scheduler ever bound it."""
    runs = pod_manifest("runs", scheduler="default-scheduler", gpus=7, nodeName="n1")
    assert plan("-f", written(tmp_path, node_manifest("n1"), runs, *gang())).exit_code == 1


def test_pods_of_other_schedulers(tmp_path: Path) -> None:
    """They are placed where that is asked for; what is said where nothing is ours tells how."""
    path = written(tmp_path, node_manifest(), pod_manifest("w", scheduler="default-scheduler"))
    result = plan("-f", path)
    assert result.exit_code == 0
    assert "no pods with schedulerName phalanx; --all-schedulers" in result.output
    assert "1 on n1" in plan("--all-schedulers", "-f", path).output


def test_jobs_that_were_not_submitted(tmp_path: Path) -> None:
    """They stand for their pods; a PriorityClass may be in another file."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "team-a"}}
    template = {"spec": pod_manifest("w", group="train")["spec"] | {"priorityClassName": "high"}}
    job["spec"] = {"parallelism": 2, "template": template}
    classes = written(tmp_path, {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}, name="classes")
    result = plan(
        "-f", written(tmp_path, node_manifest(), pod_group_manifest("train", min_count=2), job), "-f", classes
    )
    assert result.exit_code == 0
    assert "2 on n1" in result.output


def test_nothing_to_place(tmp_path: Path) -> None:
    """Files without pods are a mistake: exit code 2, and what was expected."""
    path = written(tmp_path, node_manifest(), pod_group_manifest("train", min_count=2))
    for arguments in ([], ["--placer", "127.0.0.1:1"], ["-o", "json"]):
        result = plan("-f", path, *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"{path}: no pods to place: expected pods, or a Job")


def test_other_kinds_are_counted(tmp_path: Path) -> None:
    """What placement does not read is skipped, and said."""
    path = written(tmp_path, {"kind": "Service", "apiVersion": "v1"}, node_manifest(), *gang())
    assert "1 objects of other kinds were skipped" in plan("-f", path).output


def test_group_and_pod_of_one_name(tmp_path: Path) -> None:
    """Both are shown."""
    result = plan("-o", "json", "-f", written(tmp_path, node_manifest(), *gang("w"), pod_manifest("w")))
    assert sorted(json.loads(result.output)["groups"]) == ["pod/team-a/w", "podgroup/team-a/w"]


def test_reason_with_brackets_is_shown_as_it_is(tmp_path: Path) -> None:
    """What looks like markup of the terminal library is none."""
    lone = pod_manifest("w", annotations={"phalanx.dev/repair-window": "[red]soon[/red]"})
    result = plan("-f", written(tmp_path, node_manifest(), lone))
    assert "[red]soon[/red]" in result.output


def test_gang_that_runs_is_told_so(tmp_path: Path) -> None:
    """Where no pod is new, the line says why it names no node."""
    running = pod_manifest("w", nodeName="n1")
    result = plan("-f", written(tmp_path, node_manifest("n1"), running))
    (line,) = [line for line in result.output.splitlines() if "team-a/w" in line]
    assert line.strip().split(maxsplit=2) == ["team-a/w", "placed", "all of its pods had a node before"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("kind: [", "not YAML or JSON: while parsing a flow node, did not find expected node content (line 2)\n"),
        ("hello", "expected a Kubernetes object, got str"),
        ("kind: Pod\nmetadata: {name: w}\nspec: {containers: 3}", "pod default/w: spec.containers: expected a list"),
        ("kind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: x}}", "node n: status.allocatable.cpu"),
        ("kind: PodList", "PodList: expected a list of objects in items"),
    ],
)
def test_bad_file(tmp_path: Path, text: str, sentence: str) -> None:
    """Exit code 2; the error names the file, and in it object, field and what was expected."""
    good = written(tmp_path, node_manifest())
    bad = tmp_path / "bad.yaml"
    bad.write_text(text)
    result = plan("-f", good, "-f", bad)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"{bad}: ")
    assert sentence in result.stderr


def test_bad_file_is_told_before_the_placer_is_asked(tmp_path: Path) -> None:
    """The placer does not know file names, and need not be reachable for this."""
    bad = tmp_path / "bad.yaml"
    bad.write_text("kind: [")
    result = plan("--placer", "127.0.0.1:1", "-f", bad)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"{bad}: ")


@pytest.mark.parametrize("arguments", [[], ["-f", "missing.yaml"], ["-f", "."], ["-o", "xml"]])
def test_misuse(arguments: list[str]) -> None:
    """Exit code 2, and how it is used."""
    result = plan(*arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr
