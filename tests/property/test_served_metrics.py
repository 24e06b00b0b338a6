"""What the HPA computes from a served number, for every size of a group, target and limit."""

import math
from dataclasses import replace
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from services.core.metric_readings import Known, MetricKey, SourceState
from services.core.metric_selectors import parse_selector
from services.core.reduce_autoscaler import reduce_autoscaler
from services.core.scaling import Autoscaler, MetricTarget, Woken, decide
from services.core.served_metrics import MetricQuery, served_metric
from tests.builders import START
from tests.hpas import hpa_manifest

KEY = MetricKey(name="m")
TOLERANCE = Fraction(1, 10)
"""The native controller changes nothing within a tenth of the target."""


def native(milli: int, *, current: int, autoscaler: Autoscaler) -> int:
    """The replicas that the native controller asks for: its formula for AverageValue, its tolerance, its limits."""
    target = autoscaler.metrics[0].target_milli
    if current and abs(Fraction(milli, target * current) - 1) <= TOLERANCE:
        return current
    return min(max(math.ceil(Fraction(milli, target)), autoscaler.min_replicas), autoscaler.max_replicas)


@st.composite
def autoscalers(draw: st.DrawFn) -> Autoscaler:
    """An HPA that sleeps, whose maximum has room for a group."""
    manifest = hpa_manifest(scaled_to_zero="True")
    manifest["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    size = draw(st.integers(1, 64))
    most = draw(st.integers(size, 1000))
    return replace(
        reduce_autoscaler(manifest),
        metrics=(MetricTarget(key=KEY, target_milli=draw(st.integers(1, 10**6)), is_average=True),),
        group_size=size,
        max_replicas=most,
        min_replicas=draw(st.integers(0, most // size * size)),
    )


@given(
    autoscaler=autoscalers(),
    value=st.floats(min_value=0, max_value=1e12),
    groups=st.integers(0, 100),
)
def test_the_native_controller_lands_on_whole_groups(autoscaler: Autoscaler, value: float, groups: int) -> None:
    """From whole groups to whole groups, for all the work or as much as is allowed; and a wake starts as many."""
    state = SourceState(reading=Known(value=value, taken_at=START))
    sources = {KEY: state}
    query = MetricQuery(namespace="team-a", name="m", selector=parse_selector(""))
    answer = served_metric(query, sources=sources, users=[autoscaler], now=START)
    assert isinstance(answer, tuple)
    (item,) = answer
    size = autoscaler.group_size
    current = min(groups, autoscaler.max_replicas // size) * size
    from_zero = native(item.milli, current=0, autoscaler=autoscaler)
    if size > 1:
        assert from_zero % size == 0
        assert native(item.milli, current=current, autoscaler=autoscaler) % size == 0
    needed = math.ceil(Fraction(value) * 1000 / autoscaler.metrics[0].target_milli)
    assert from_zero >= min(needed, autoscaler.max_replicas // size * size)
    verdict = decide(autoscaler, replicas=0, sources=sources, now=START)
    assert (verdict.replicas if isinstance(verdict, Woken) else 0) == from_zero
