"""Every check: its page, and that it tells a broken cluster from a healthy one."""

from pathlib import Path

import pytest

from services.cli.audit.checks import CHECKS
from services.cli.audit.evidence import Reading, State
from services.cli.audit.judging import audit
from services.cli.audit.optional_sources import EVERY_SOURCE, OPTIONAL
from services.cli.audit.registry import Check
from tests.unit.cli.audit.pairs import PAIRS
from tests.unit.cli.audit.worlds import claim, hpa, pod, proxy_config, world

PAGES = Path(__file__).resolve().parents[4] / "docs" / "audit"
SECTIONS = ("## Why it matters", "## How it is found", "## What to do", "## Source")
BY_ID = {one.id: one for one in CHECKS}
_GIVEN = {"version", "groups", "metrics", "pods"}
"""Sources that `world` fills by itself."""
_ASKED = {one.key for one in OPTIONAL}


def test_ids_are_unique_and_all_have_a_pair() -> None:
    """No id is used twice, and none is without a broken and a healthy world."""
    assert len(BY_ID) == len(CHECKS)
    assert BY_ID.keys() == PAIRS.keys()


@pytest.mark.parametrize("check", CHECKS, ids=lambda one: one.id)
def test_every_check_has_a_page(check: Check) -> None:
    """The page carries the check's title, and says why, how, what to do and by which source."""
    text = (PAGES / f"{check.id}.md").read_text()
    assert text.startswith(f"# {check.title}\n\n`{check.id}`")
    assert [line for line in text.splitlines() if line.startswith("## ")] == list(SECTIONS)


def test_every_page_has_a_check() -> None:
    """No page describes a check that does not exist, and the index names all."""
    assert {path.stem for path in PAGES.glob("*.md")} - {"README"} == BY_ID.keys()
    index = (PAGES / "README.md").read_text()
    assert [one.id for one in CHECKS if f"({one.id}.md)" not in index] == []


@pytest.mark.parametrize("check", CHECKS, ids=lambda one: one.id)
def test_a_check_finds_what_is_broken(check: Check) -> None:
    """In the broken world the finding names the object and the field, and what to do."""
    pair = PAIRS[check.id]
    report = audit(pair.broken(), checks=[check], target=pair.target)
    assert not report.gaps
    assert (pair.subject, pair.field) in {(one.subject, one.field) for one in report.findings}
    assert all(one.found and one.fix for one in report.findings)


@pytest.mark.parametrize("check", CHECKS, ids=lambda one: one.id)
def test_a_check_is_silent_where_all_is_well(check: Check) -> None:
    """In the healthy world nothing is found, and the check counts as passed."""
    pair = PAIRS[check.id]
    report = audit(pair.healthy(), checks=[check], target=pair.target)
    assert report.findings == ()
    assert report.passed == (check.id,)


@pytest.mark.parametrize("check", CHECKS, ids=lambda one: one.id)
def test_a_check_that_cannot_look_says_so(check: Check) -> None:
    """Without one of its sources a check neither passes nor finds: the gap names it, and the right to add."""
    for key in check.needs:
        unread = Reading(state=State.FAILED, problem="403", fix=EVERY_SOURCE[key].rule)
        given = {one.replace("-", "__"): Reading(state=State.READ) for one in check.needs if one not in _GIVEN}
        # No pod that would show a gate by what it keeps.
        report = audit(world(**given | {key.replace("-", "__"): unread}), checks=[check], target="1.37")
        assert report.passed == ()
        assert [gap.checks for gap in report.gaps] == [(check.id,)]
        assert EVERY_SOURCE[key].rule in report.gaps[0].fix


@pytest.mark.parametrize("check", [one for one in CHECKS if set(one.needs) & _ASKED])
def test_a_check_that_was_not_asked_for_is_silent(check: Check) -> None:
    """What takes more rights runs only where it is asked for: else it neither passes nor counts as a gap."""
    report = audit(world(), checks=[check], target="1.37")
    assert (report.findings, report.gaps, report.passed) == ((), (), ())


@pytest.mark.parametrize("check", CHECKS, ids=lambda one: one.id)
def test_a_check_bears_an_empty_cluster(check: Check) -> None:
    """Where nothing is served and nothing is there, no check stumbles."""
    empty = world(**{key.replace("-", "__"): Reading(state=State.ABSENT) for key in EVERY_SOURCE})
    assert not audit(empty, checks=[check], target="1.43").gaps


def test_ipvs_is_graver_the_later_the_target() -> None:
    """Mode ipvs is a warning for 1.37 and an error from 1.40 on, when it no longer starts."""
    evidence = world(proxy__config=proxy_config(mode="ipvs"))
    found = {
        target: [
            one.severity.word
            for one in audit(evidence, checks=CHECKS, target=target).findings
            if one.check == "proxy-mode-ipvs"
        ]
        for target in ("1.37", "1.40", "1.43")
    }
    assert found == {"1.37": ["warning"], "1.40": ["error"], "1.43": ["error"]}


def test_an_autoscaler_with_one_replica_is_left_alone() -> None:
    """Nothing is said of autoscalers that never go to zero."""
    report = audit(world(horizontalpodautoscalers=[hpa("h", "Resource", minimum=1)]), checks=CHECKS, target="1.37")
    assert [one for one in report.findings if one.check.startswith("zero-")] == []


def test_a_server_of_the_release_is_not_told_to_upgrade_to_it() -> None:
    """A 1.37 that does not serve the certificates API has it switched off; an older one is too old."""
    for version, advice in (("v1.37.2", "serve v1 again"), ("v1.36.1", "upgrade to 1.37")):
        evidence = world(
            version=[{"gitVersion": version}], podcertificaterequests=Reading(state=State.ABSENT, version="")
        )
        (finding,) = audit(evidence, checks=[BY_ID["cert-not-served"]], target="1.37").findings
        assert finding.fix.startswith(advice)


def test_drivers_of_several_schedulers_are_worth_knowing() -> None:
    """On whatever nodes: their devices are held for pods of two schedulers."""
    pods = [pod("a", node="n1"), pod("b", node="n2", schedulerName="phalanx")]
    claims = [claim("c", "gpu-0", users=("a",)), claim("d", "gpu-1", users=("b",))]
    check = BY_ID["dra-shared-nodes"]
    (finding,) = audit(world(pods=pods, resourceclaims=claims), checks=[check], target="1.37").findings
    assert finding.subject == "driver/gpu.example.com"
    assert "default-scheduler (resourceclaim/team/c), phalanx (resourceclaim/team/d)" in finding.found
    assert audit(world(pods=pods[:1], resourceclaims=claims), checks=[check], target="1.37").findings == ()
