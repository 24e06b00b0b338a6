"""The audit of real control planes of 1.37.2: every fault that was made is found, and nothing else is."""

from dataclasses import replace
from pathlib import Path

import pytest

from services.cli.audit.checks import CHECKS
from services.cli.audit.dumps import load, save
from services.cli.audit.gates import GENERIC_WORKLOAD, gate_of
from tests.audit.states import SETTINGS, Setting, evidence_of, found_in, inferred_in, report_of
from tests.kubernetes.fixtures import require_binaries

pytestmark = pytest.mark.kubernetes


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: one.name)
async def test_what_is_broken_is_found(setting: Setting, tmp_path: Path) -> None:
    """Live and from a dump: the findings expected, marked where they are inferred, and no gap but those expected."""
    require_binaries()
    evidence = await evidence_of(setting)
    report = report_of(evidence)
    assert found_in(report) == setting.finds
    assert inferred_in(report) == setting.inferred
    assert {gap.source.split()[0] for gap in report.gaps} == setting.unseen
    if not setting.finds:
        # Nothing is wrong and all was asked for: every check has looked, and passed.
        assert set(report.passed) == {one.id for one in CHECKS}
    if "metrics" not in setting.unseen:
        # What the server says of its gates in two places is the same; the second is for where the first is hidden.
        hidden = {key: one for key, one in evidence.readings.items() if key != "metrics"}
        by_flags = gate_of(replace(evidence, readings=hidden), GENERIC_WORKLOAD)
        assert by_flags == gate_of(evidence, GENERIC_WORKLOAD)
    save(evidence, tmp_path / "dump")
    assert report_of(load(tmp_path / "dump")) == report


def test_every_check_is_broken_somewhere() -> None:
    """Each check finds something on a real control plane in one of the settings."""
    assert {one.id for one in CHECKS} == {check for setting in SETTINGS for check, _ in setting.finds}
