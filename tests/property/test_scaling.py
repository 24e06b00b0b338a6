"""Waking: whatever sources say, nothing is scaled below what it has, or above what it may."""

import math
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from services.contracts.scaling_codec import decode_scaling, encode_scaling
from services.core.cold_start import PHASES
from services.core.metric_readings import Known, MetricKey, Sample, SourceState, reading_of
from services.core.reasons import Reason, ReasonCode
from services.core.reduce_autoscaler import reduce_autoscaler
from services.core.scaling import (
    Held,
    LeftAlone,
    Refused,
    Rest,
    ScalingDecision,
    ScalingEvent,
    Started,
    Woken,
    asked_for,
    decide,
)
from tests.builders import START
from tests.hpas import external, hpa_manifest

A, B = MetricKey(name="a"), MetricKey(name="b")
AGES = st.integers(0, 300).map(lambda seconds: START - timedelta(seconds=seconds))
SAMPLES = st.lists(
    st.builds(Sample, value=st.floats(), taken_at=AGES, labels=st.sampled_from([(), (("q", "1"),), (("q", "2"),)])),
    max_size=3,
)
STATES = st.none() | st.builds(
    SourceState, reading=SAMPLES.map(lambda samples: reading_of(samples, now=START)), failures=st.integers(0, 5)
)
ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        "phalanx.dev/wake": st.sampled_from(["true", "false", "?"]),
        "phalanx.dev/fallback": st.sampled_from(["2/3", "1/1", "99/2", "x"]),
        "phalanx.dev/group-size": st.sampled_from(["1", "3", "8", "0"]),
    },
)
REASONS = st.lists(
    st.builds(Reason, code=st.sampled_from(ReasonCode), message=st.text(max_size=9), subject=st.text(max_size=9)),
    max_size=2,
).map(tuple)
COUNTS = st.integers(0, 2**31 - 1)
EVENTS: st.SearchStrategy[ScalingEvent] = st.one_of(
    st.builds(Woken, replicas=COUNTS, why=st.text(max_size=9), warnings=REASONS),
    st.builds(
        Started,
        replicas=COUNTS,
        ends_s=st.dictionaries(st.sampled_from(PHASES), st.floats(0, 1e6)),
        missing=st.text(max_size=9),
    ),
    st.builds(Held, replicas=COUNTS, reasons=REASONS),
    st.builds(Refused, wanted_replicas=COUNTS, reasons=REASONS),
)


@given(samples=SAMPLES)
def test_a_reading_is_a_number_that_a_queue_can_have(samples: list[Sample]) -> None:
    """Finite, not negative, not old; anything else is unknown."""
    reading = reading_of(samples, now=START)
    if isinstance(reading, Known):
        assert math.isfinite(reading.value)
        assert reading.value >= 0
        assert samples


@given(
    first=STATES,
    second=STATES,
    replicas=st.integers(0, 12),
    least=st.integers(0, 4),
    most=st.integers(4, 12),
    condition=st.sampled_from(["", "True", "False"]),
    annotations=ANNOTATIONS,
)
def test_only_sleepers_are_woken_and_never_too_far(
    *,
    first: SourceState | None,
    second: SourceState | None,
    replicas: int,
    least: int,
    most: int,
    condition: str,
    annotations: dict[str, str],
) -> None:
    """Woken is only what is at zero and armed, by whole groups, within bounds; unknown alone never changes anything."""
    manifest = hpa_manifest(
        least=least,
        most=most,
        scaled_to_zero=condition,
        annotations=annotations,
        metrics=(external("a"), external("b")),
    )
    hpa = reduce_autoscaler(manifest)
    sources = {A: first, B: second}
    found = decide(hpa, replicas=replicas, sources=sources, now=START)
    asked = asked_for(hpa, replicas=replicas, sources=sources, now=START)
    if asked.unknown:
        assert asked.replicas >= min(replicas, most)
    if isinstance(found, Woken):
        assert replicas == 0
        assert hpa.is_armed
        assert 0 < found.replicas <= most
        assert found.replicas % hpa.group_size == 0
    if isinstance(found, Held):
        assert found.replicas == replicas
        assert asked.unknown
    if isinstance(found, LeftAlone) and found.rest is Rest.IDLE:
        assert not asked.unknown


@given(event=EVENTS, moment=AGES)
def test_a_scaling_decision_arrives_as_it_was_sent(event: ScalingEvent, moment: datetime) -> None:
    """Every field of every event survives."""
    decision = ScalingDecision(namespace="team-a", hpa="infer", decided_at=moment, event=event)
    assert decode_scaling(encode_scaling(decision)) == decision
