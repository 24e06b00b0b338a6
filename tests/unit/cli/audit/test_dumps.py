"""Dumps: what comes back is what was read, and what is damaged is told with its place."""

import re
from pathlib import Path

import orjson
import pytest
import yaml

from services.cli.audit.checks import CHECKS
from services.cli.audit.dumps import UnusableDump, load, save
from services.cli.audit.evidence import State
from services.cli.audit.judging import audit
from services.cli.audit.registry import Check
from tests.unit.cli.audit.pairs import PAIRS
from tests.unit.cli.audit.worlds import group, members, node, proxy_config, world

LIST = {"apiVersion": "v1", "kind": "List"}


def _pod_manifests() -> list[dict[str, object]]:
    return [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in members(2)]


@pytest.mark.parametrize("check", CHECKS, ids=lambda one: one.id)
def test_a_saved_dump_is_judged_as_the_cluster_was(check: Check, tmp_path: Path) -> None:
    """For every check the findings from the dump are those from what was read."""
    evidence = PAIRS[check.id].broken()
    save(evidence, tmp_path / "dump")
    loaded = load(tmp_path / "dump")
    assert loaded == evidence
    assert audit(loaded, checks=CHECKS, target="1.40") == audit(evidence, checks=CHECKS, target="1.40")


def test_a_folder_in_use_is_not_written_to(tmp_path: Path) -> None:
    """A dump never mixes with what was in the folder before."""
    (tmp_path / "mine").write_text("")
    with pytest.raises(UnusableDump, match="not empty"):
        save(world(), tmp_path)


def test_what_kubectl_prints_is_a_dump(tmp_path: Path) -> None:
    """Objects of `kubectl get -o yaml` are judged; kinds that are not in it are unknown, and not absent."""
    file = tmp_path / "dump.yaml"
    groups = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", **group("g", min_count=3)}
    file.write_text(yaml.safe_dump(LIST | {"items": [*_pod_manifests(), groups]}))
    report = audit(load(file), checks=CHECKS, target="1.37")
    assert [one.subject for one in report.findings if one.check == "gang-too-few-members"] == ["podgroup/team/g"]
    assert "nodes" in {gap.source.split()[0] for gap in report.gaps}


def test_an_empty_list_says_that_there_is_nothing(tmp_path: Path) -> None:
    """A list of a kind without items makes this kind known."""
    (tmp_path / "nodes.json").write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "NodeList", "items": []}))
    assert load(tmp_path).reading("nodes").state is State.READ


def test_only_the_object_that_was_asked_for_counts(tmp_path: Path) -> None:
    """Of all ConfigMaps in a dump only kube-proxy's own is its configuration."""
    own = {"apiVersion": "v1", "kind": "ConfigMap", **proxy_config(mode="ipvs")[0]}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-proxy", "namespace": "team"}}
    (tmp_path / "maps.yaml").write_text(yaml.safe_dump_all([other, own]))
    assert [one["metadata"]["namespace"] for one in load(tmp_path).items("proxy-config")] == ["kube-system"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"apiVersion": "v1", "kind": "PodList", "items": [', "truncated"),
        ("- 1\n", "expected Kubernetes objects"),
        ("apiVersion: v1\nkind: PodList\nitems: 3\n", "PodList: items: expected a list"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}\n", "Pod: metadata.name"),
    ],
)
def test_a_damaged_dump_is_told_with_its_place(text: str, words: str, tmp_path: Path) -> None:
    """Truncated files and wrong types are named with the file."""
    file = tmp_path / "dump.yaml"
    file.write_text(text)
    with pytest.raises(UnusableDump, match=rf"(?s){re.escape(str(file))}.*{words}"):
        load(file)


def test_mixed_versions_make_one_kind_unknown(tmp_path: Path) -> None:
    """The objects are named; everything else is judged."""
    file = tmp_path / "dump.yaml"
    file.write_text(
        "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: a}\n---\n"
        "apiVersion: scheduling.k8s.io/v1alpha3\nkind: PodGroup\nmetadata: {name: b}\n---\n"
        "apiVersion: v1\nkind: PodList\nitems: []\n"
    )
    evidence = load(file)
    groups = evidence.reading("podgroups")
    assert groups.state is State.FAILED
    assert "PodGroup b: apiVersion v1alpha3, but others are v1beta1" in groups.problem
    assert evidence.is_served("pods")


def test_a_damaged_file_does_not_hide_the_others(tmp_path: Path) -> None:
    """It is a gap of its own, so that nothing counts as looked at whole; the rest is judged."""
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: PodList\nitems: []\n")
    (tmp_path / "b.json").write_text('{"kind": "NodeList", ')
    evidence = load(tmp_path)
    assert evidence.is_served("pods")
    report = audit(evidence, checks=CHECKS, target="1.37")
    (gap,) = [one for one in report.gaps if one.source == "dump"]
    assert "b.json: truncated" in gap.problem


def test_a_damaged_source_of_a_saved_dump_is_unknown(tmp_path: Path) -> None:
    """A cut file makes its own source unknown, and no other."""
    save(world(nodes=[node("n1")]), tmp_path / "dump")
    file = tmp_path / "dump" / "nodes.json"
    file.write_bytes(file.read_bytes()[:-5])
    evidence = load(tmp_path / "dump")
    assert evidence.reading("nodes").state is State.FAILED
    assert "nodes.json" in evidence.reading("nodes").problem
    assert evidence.is_served("services")


def test_a_damaged_index_is_told(tmp_path: Path) -> None:
    """A folder whose index was cut is no dump."""
    save(world(), tmp_path / "dump")
    index = tmp_path / "dump" / "audit.json"
    index.write_bytes(index.read_bytes()[:-20])
    with pytest.raises(UnusableDump, match="damaged"):
        load(tmp_path / "dump")


def test_other_kinds_are_passed_over(tmp_path: Path) -> None:
    """A dump may hold whatever else; it is not read."""
    file = tmp_path / "dump.yaml"
    file.write_text("apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\n")
    assert {reading.state for reading in load(file).readings.values()} == {State.FAILED, State.UNASKED}
