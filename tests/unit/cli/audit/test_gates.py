"""Gates of a control plane that cannot be seen: inferred from what it does, or said to be unknown."""

from typing import Any

import pytest

from services.cli.audit.checks import CHECKS
from services.cli.audit.evidence import Evidence, Reading, State, gates_in
from services.cli.audit.findings import Finding, Report
from services.cli.audit.gates import GENERIC_WORKLOAD, SCALE_TO_ZERO, Gate, component_gate_of, gate_of
from services.cli.audit.judging import audit
from tests.unit.cli.audit.worlds import gates, group, hpa, members, served, world

HIDDEN = Reading(state=State.FAILED, problem="forbidden", fix="a rule")
DROPPED = {"kind": "Pod", "spec": {}}
KEPT = {"kind": "Pod", "spec": {"schedulingGroup": {"podGroupName": "g"}}}
FLAGS = {"flags": {"feature-gates": ":GenericWorkload=true,:Other=false"}}
"""As a kube-apiserver of 1.37.2 writes them."""
LONG_AGO, JUST_NOW = "2026-12-01T11:00:00Z", "2026-12-01T11:59:50Z"


def managed(**sources: Any) -> Evidence:
    """Return what can be read of a managed control plane: neither metrics nor component pods."""
    return world(**{"metrics": HIDDEN, "pods": []} | sources)


def of(report: Report, check: str) -> list[Finding]:
    """Return the findings of a check."""
    return [one for one in report.findings if one.check == check]


@pytest.mark.parametrize(
    ("sources", "is_on", "is_inferred"),
    [
        ({"metrics": gates(GenericWorkload=0), "pods": members(1)}, False, False),
        ({"flagz": [FLAGS]}, True, False),
        ({"pods": members(1)}, True, True),
        ({"probe__pod": [KEPT]}, True, True),
        ({"probe__pod": [DROPPED]}, False, True),
    ],
)
def test_the_api_servers_gate(sources: dict[str, Any], *, is_on: bool, is_inferred: bool) -> None:
    """What it says goes before what it does."""
    found = gate_of(managed(**sources), GENERIC_WORKLOAD)
    assert found is not None
    assert (found.is_on, found.is_inferred) == (is_on, is_inferred)


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("", {}),
        ("A=true, B=false", {"A": True, "B": False}),
        (":A=true,:B=false", {"A": True, "B": False}),
        ("kube:A=True;other:B=false", {"A": True, "B": False}),
        ("A", {}),
    ],
)
def test_gates_are_read_in_every_form(text: str, stated: dict[str, bool]) -> None:
    """As flags state them, with components or without, and as /flagz does."""
    assert gates_in(text) == stated


def test_a_refused_dry_run_shows_nothing_of_pods() -> None:
    """A policy may have refused it."""
    assert gate_of(managed(probe__pod=[{"kind": "Status"}]), GENERIC_WORKLOAD) is None
    assert gate_of(managed(), GENERIC_WORKLOAD) is None


def test_scale_to_zero_by_its_effects() -> None:
    """Autoscalers that have gone to zero, or a dry run of one."""
    assert gate_of(managed(), SCALE_TO_ZERO) is None
    assert gate_of(managed(horizontalpodautoscalers=[hpa("h", "External")]), SCALE_TO_ZERO) == Gate(
        is_on=True, how="there are autoscalers with minReplicas 0"
    )
    found = gate_of(managed(probe__hpa=[{"kind": "Status"}]), SCALE_TO_ZERO)
    assert found is not None
    assert not found.is_on


@pytest.mark.parametrize(
    ("created", "is_scheduled", "expected"),
    [(LONG_AGO, True, True), (LONG_AGO, False, False), (JUST_NOW, False, None)],
)
def test_the_schedulers_gate_by_what_it_writes(created: str, *, is_scheduled: bool, expected: bool | None) -> None:
    """A group whose members have nodes carries its condition, or the scheduler knows nothing of groups."""
    evidence = managed(
        podgroups=[group("g", min_count=1, is_scheduled=is_scheduled, creationTimestamp=created)],
        pods=members(1, node="n1"),
    )
    found = component_gate_of(evidence, "kube-scheduler", GENERIC_WORKLOAD)
    assert (None if found is None else found.is_on) is expected


def test_members_of_another_scheduler_show_nothing() -> None:
    """Ours writes the same condition, and is not the native one."""
    evidence = managed(podgroups=[group("g", min_count=1)], pods=members(1, node="n1", schedulerName="phalanx"))
    assert component_gate_of(evidence, "kube-scheduler", GENERIC_WORKLOAD) is None


def test_what_is_partly_on_is_found_without_seeing_it() -> None:
    """The scheduler places members and says nothing of their group: inferred, and the controller manager is a gap."""
    evidence = managed(podgroups=[group("g", min_count=1)], pods=members(1, node="n1"))
    report = audit(evidence, checks=CHECKS, target="1.37")
    (found,) = of(report, "gang-gate-partly-on")
    assert (found.subject, found.is_inferred) == ("component/kube-scheduler", True)
    assert "team/g" in found.found
    assert any(gap.source.startswith("components") and "kube-controller-manager" in gap.problem for gap in report.gaps)


def test_a_controller_manager_without_the_gate_holds_deleted_groups() -> None:
    """Deleted a while ago, without a member, and its finalizer is still there."""
    held = group("g", min_count=1, deletionTimestamp=LONG_AGO, finalizers=["scheduling.k8s.io/podgroup-protection"])
    found = component_gate_of(managed(podgroups=[held]), "kube-controller-manager", GENERIC_WORKLOAD)
    assert found is not None
    assert not found.is_on
    assert found.is_inferred


def test_a_gate_that_is_off_is_inferred_from_a_dry_run() -> None:
    """Without metrics, and marked."""
    report = audit(managed(probe__pod=[DROPPED], groups=served("v1")), checks=CHECKS, target="1.37")
    (found,) = of(report, "gang-gate-off")
    assert found.is_inferred


def test_what_nothing_shows_is_a_gap() -> None:
    """Neither a pass nor a finding: the check names the metrics that it needs."""
    report = audit(managed(), checks=CHECKS, target="1.37")
    unknown = {check for gap in report.gaps for check in gap.checks}
    assert {"gang-gate-off", "gang-gate-partly-on", "gang-gate-without-api"} <= unknown
    assert not unknown & set(report.passed)


def test_hidden_components_of_an_older_release_may_have_removed_gates() -> None:
    """Before 1.37 they may be set; a component of 1.37 that runs cannot have them."""
    for version, is_gap in (("v1.36.1", True), ("v1.37.2", False)):
        report = audit(managed(version=[{"gitVersion": version}]), checks=CHECKS, target="1.37")
        gaps = [gap for gap in report.gaps if "gang-removed-gates" in gap.checks]
        assert bool(gaps) is is_gap
