"""Some cold starts, summed up."""

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from services.cli.coldstart.summary import ADVICE, Run, as_json, percentile, summed_up
from services.cli.main import main
from services.core.cold_start import PHASES, TOTAL, Phase


def run(created_s: float, running_s: float) -> Run:
    """A start in which two phases take time."""
    return Run(ends_s={Phase.PODS_CREATED: created_s, Phase.RUNNING: created_s + running_s})


def test_the_phase_with_the_greatest_median_dominates() -> None:
    """Not the one that was slow once."""
    summary = summed_up([run(1.0, 2.0), run(1.0, 3.0), run(50.0, 4.0)])
    assert summary.p50_s == {Phase.PODS_CREATED: 1.0, Phase.RUNNING: 3.0, TOTAL: 4.0}
    assert summary.p95_s == {Phase.PODS_CREATED: 50.0, Phase.RUNNING: 4.0, TOTAL: 54.0}
    assert summary.dominating is Phase.RUNNING
    assert "images" in summary.advice


def test_runs_that_were_not_complete_count_for_nothing() -> None:
    """Without a complete one there is no summary, and no advice."""
    broken = Run(ends_s={Phase.PODS_CREATED: 1.0}, missing="0 of 1 ready")
    assert summed_up([broken, run(2.0, 1.0)]).p50_s[Phase.PODS_CREATED] == 2.0
    empty = summed_up([broken])
    assert (dict(empty.p50_s), empty.dominating, empty.advice) == ({}, None, "")
    document = as_json([broken], hpa="team-a/infer", target="Deployment/infer", replicas=1)
    assert document["runs"] == [{"ends_s": {"pods-created": 1.0}, "missing": "0 of 1 ready"}]


@given(values=st.lists(st.floats(0, 1e6), min_size=1), share=st.floats(0.01, 1))
def test_a_percentile_is_the_smallest_value_that_a_share_does_not_exceed(values: list[float], share: float) -> None:
    """One of the values."""
    found = percentile(values, share)
    assert found in values
    assert sum(one <= found for one in values) >= share * len(values) - 1e-9 * len(values)
    assert sum(one < found for one in values) < share * len(values)


def test_there_is_advice_for_each_phase() -> None:
    """Whatever dominates."""
    assert set(ADVICE) == set(PHASES)


@pytest.mark.parametrize("given_name", ["infer", "a/b/c", "/infer", "team-a/"])
def test_an_hpa_is_named_with_its_namespace(given_name: str) -> None:
    """Anything else is told before a cluster is asked."""
    result = CliRunner().invoke(main, ["coldstart", given_name])
    assert result.exit_code == 2
    assert "expected NAMESPACE/HPA, such as team-a/infer" in result.output
