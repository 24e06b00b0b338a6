"""The command: its outputs and exit codes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from services.cli.audit.checks import CHECKS
from services.cli.audit.command import EXIT_FINDINGS, EXIT_INCOMPLETE, EXIT_USAGE
from services.cli.audit.dumps import save
from services.cli.audit.evidence import Evidence, Reading, State
from services.cli.main import main
from tests.unit.cli.audit.worlds import component, hpa, node, proxy_config, world

FORBIDDEN = Reading(state=State.FAILED, problem="nodes is forbidden", reason="Forbidden", fix="grant this rule: nodes")


def _run(evidence: Evidence, folder: Path, *arguments: str) -> tuple[int, str]:
    save(evidence, folder / "dump")
    result = CliRunner().invoke(main, ["audit", "--from-dump", str(folder / "dump"), *arguments])
    return result.exit_code, result.output


def test_a_healthy_cluster_passes(tmp_path: Path) -> None:
    """Without findings the exit code is 0, and the last line says that it is ready."""
    code, output = _run(world(), tmp_path)
    assert code == 0
    assert output.splitlines()[-1].startswith("Ready for 1.37: 0 errors")


@pytest.mark.parametrize(("fail_on", "code"), [("error", 0), ("warning", EXIT_FINDINGS)])
def test_fail_on_says_what_counts(fail_on: str, code: int, tmp_path: Path) -> None:
    """A warning fails the command only where it was asked to."""
    evidence = world(proxy__config=proxy_config(mode="ipvs"))
    assert _run(evidence, tmp_path, "--fail-on", fail_on)[0] == code


def test_the_target_decides(tmp_path: Path) -> None:
    """What is a warning for this release is an error for the one that removes it."""
    code, output = _run(world(proxy__config=proxy_config(mode="ipvs")), tmp_path, "--target", "1.43")
    assert code == EXIT_FINDINGS
    assert "Not ready for 1.43" in output


def test_what_could_not_be_looked_at_is_no_pass(tmp_path: Path) -> None:
    """A missing right has an exit code of its own, and the rule to add is printed."""
    code, output = _run(world(nodes=FORBIDDEN), tmp_path)
    assert code == EXIT_INCOMPLETE
    assert "grant this rule: nodes" in output
    assert "Not known whether ready" in output


def test_findings_weigh_more_than_gaps(tmp_path: Path) -> None:
    """Where there are both, the exit code is that of findings, and both are printed."""
    evidence = world(nodes=FORBIDDEN, pods=[component("kube-scheduler", "--feature-gates=GangScheduling=true")])
    code, output = _run(evidence, tmp_path)
    assert code == EXIT_FINDINGS
    assert "could not look" in output
    assert "gang-removed-gates" in output


def test_json_has_stable_fields(tmp_path: Path) -> None:
    """Each finding has the same fields, which scripts rely on."""
    _, output = _run(world(horizontalpodautoscalers=[hpa("h", "External", "Resource")]), tmp_path, "-o", "json")
    document = json.loads(output)
    (finding,) = [one for one in document["findings"] if one["check"] == "zero-cpu-in-the-mix"]
    assert finding.keys() == {
        "check", "theme", "title", "severity", "object", "field", "found", "fix", "inferred", "page",
    }  # fmt: skip
    assert finding["object"] == "horizontalpodautoscaler/team/h"
    assert document["summary"].keys() == {"info", "warning", "error", "gaps"}


def test_sarif_names_every_rule_and_result(tmp_path: Path) -> None:
    """SARIF lists all rules, and each result has a rule, a level and a place."""
    _, output = _run(world(proxy__config=proxy_config(mode="ipvs")), tmp_path, "-o", "sarif")
    (run,) = json.loads(output)["runs"]
    assert [one["id"] for one in run["tool"]["driver"]["rules"]] == [one.id for one in CHECKS]
    assert run["results"]
    for result in run["results"]:
        assert result["level"] in {"error", "warning", "note"}
        assert result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]


def test_markdown_is_a_table_for_each_severity(tmp_path: Path) -> None:
    """Markdown has the verdict, and a row for each finding."""
    _, output = _run(world(proxy__config=proxy_config(mode="ipvs")), tmp_path, "-o", "markdown")
    assert "## Warnings" in output
    assert "`configmap/kube-system/kube-proxy`" in output


def test_many_equal_findings_are_one_line_and_documents_for_machines_have_all(tmp_path: Path) -> None:
    """The table and Markdown name the first nodes and count the others."""
    nodes = [node(f"n{number}", containerRuntimeVersion="containerd://1.7.0") for number in range(20)]
    evidence = world(nodes=nodes)
    for output in ("table", "markdown"):
        shown = _run(evidence, tmp_path / output, "-o", output)[1].replace("`", "")
        assert "node/n0, node/n1, node/n10 and 17 more" in shown
        assert "node/n5" not in shown
    document = json.loads(_run(evidence, tmp_path / "json", "-o", "json")[1])
    assert len(document["findings"]) == 20
    sarif = json.loads(_run(evidence, tmp_path / "sarif", "-o", "sarif")[1])
    assert len(sarif["runs"][0]["results"]) == 20


def test_the_report_begins_with_what_has_to_be_done(tmp_path: Path) -> None:
    """A summary in words of whoever decides, before any detail."""
    evidence = world(
        proxy__config=proxy_config(mode="ipvs"),
        pods=[component("kube-scheduler", "--feature-gates=GangScheduling=true")],
    )
    _, output = _run(evidence, tmp_path)
    before, _, rest = output.partition("Later, or half configured")
    assert "Before 1.37" in before
    assert "Feature gates that 1.37 does not know are set" in before
    assert "kube-proxy runs in mode ipvs" in rest


def test_the_move_to_nftables_is_a_section_of_its_own(tmp_path: Path) -> None:
    """Steps with commands and the way back, in the table, in Markdown, and as fields of the JSON."""
    evidence = world(proxy__config=proxy_config(mode="ipvs"), nodes=[node("n1")])
    for output in ("table", "markdown"):
        shown = _run(evidence, tmp_path / output, "-o", output)[1]
        assert "kube-proxy to nftables: a suggested order" in shown
        assert "nft delete table ip kube-proxy" in shown
    found = json.loads(_run(evidence, tmp_path / "json", "-o", "json")[1])["kubeProxyMigration"]
    assert found["mode"] == "ipvs"
    assert found["steps"][0]["title"] == "Kernels"
    assert found["rollback"]
    healthy = world(proxy__config=proxy_config(mode="nftables"))
    assert json.loads(_run(healthy, tmp_path / "none", "-o", "json")[1])["kubeProxyMigration"] is None


def test_a_bad_dump_is_wrong_usage(tmp_path: Path) -> None:
    """A truncated file ends with the code of wrong usage and its name."""
    file = tmp_path / "dump.json"
    file.write_text('{"kind": "PodList", ')
    result = CliRunner().invoke(main, ["audit", "--from-dump", str(file)])
    assert result.exit_code == EXIT_USAGE
    assert str(file) in result.output


def test_a_dump_has_no_context(tmp_path: Path) -> None:
    """Options of a live cluster and of a dump exclude each other."""
    result = CliRunner().invoke(main, ["audit", "--from-dump", str(tmp_path), "--context", "prod"])
    assert result.exit_code == EXIT_USAGE
