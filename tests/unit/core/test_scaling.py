"""Whether a sleeping target is woken, and to how many replicas."""

from typing import Any

import pytest

from services.core.metric_readings import NEVER_READ, Known, MetricKey, SourceState, Unknown
from services.core.reasons import ReasonCode
from services.core.reduce_autoscaler import reduce_autoscaler
from services.core.scaling import Held, LeftAlone, Refused, Rest, Sources, Verdict, Woken, decide, must_disarm
from tests.builders import START
from tests.hpas import cpu, external, hpa_manifest

QUEUE = MetricKey(name="queue_depth")
DOWN = NEVER_READ.after(Unknown(why="is down"))


def known(value: float) -> SourceState:
    """A source that was read just now."""
    return NEVER_READ.after(Known(value=value, taken_at=START))


def verdict(
    value: float | SourceState | None = 12, *, replicas: int = 0, rivals: tuple[str, ...] = (), **hpa: Any
) -> Verdict:
    """What is decided about an HPA that is asleep by itself, with one metric."""
    state = known(value) if isinstance(value, int | float) else value
    given = {"scaled_to_zero": "True"} | hpa
    return decide(
        reduce_autoscaler(hpa_manifest(**given)), replicas=replicas, sources={QUEUE: state}, now=START, rivals=rivals
    )


def codes_of(one: Verdict) -> list[ReasonCode]:
    """The codes of what was said."""
    reasons = one.warnings if isinstance(one, LeftAlone) else () if isinstance(one, Woken) else one.reasons
    return [reason.code for reason in reasons]


@pytest.mark.parametrize(("value", "replicas"), [(1, 1), (10, 1), (11, 2), (12, 2), (99, 10), (1e30, 10), (0.001, 1)])
def test_a_sleeper_is_woken_in_one_step(value: float, replicas: int) -> None:
    """To what the HPA's own formula asks for, clamped before it becomes an integer."""
    assert verdict(value) == Woken(replicas=replicas, why=f"queue_depth is {value:g}")


def test_a_total_asks_for_its_ratio() -> None:
    """A `Value` target counts the queue as a whole; from zero there is nothing to multiply with."""
    assert isinstance(verdict(25, metrics=(external(total="10"),)), Woken)
    woken = verdict(25, metrics=(external(total="10"),))
    assert isinstance(woken, Woken)
    assert woken.replicas == 3


def test_a_target_may_be_a_fraction() -> None:
    """Half a message for each replica is two replicas for a message."""
    woken = verdict(1, metrics=(external(each="500m"),))
    assert isinstance(woken, Woken)
    assert woken.replicas == 2


@pytest.mark.parametrize("condition", ["", "False", "Unknown"])
def test_a_persons_zero_stays(condition: str) -> None:
    """Only what the HPA itself put to sleep is woken."""
    assert verdict(50, scaled_to_zero=condition) == LeftAlone(rest=Rest.PAUSED)


def test_an_annotated_target_may_start_at_zero() -> None:
    """Nobody put it to sleep: it was created so."""
    woken = verdict(50, scaled_to_zero="", annotations={"phalanx.dev/wake": "true"})
    assert isinstance(woken, Woken)
    assert woken.replicas == 5


def test_an_empty_queue_wakes_nobody() -> None:
    """Nor does one that has not been read yet."""
    assert verdict(0) == LeftAlone(rest=Rest.IDLE)
    assert verdict(None) == LeftAlone(rest=Rest.IDLE)


def test_what_runs_is_left_to_the_native_autoscaler() -> None:
    """Up and down are not ours; only the relic of an earlier sleep is."""
    assert verdict(50, replicas=1) == LeftAlone(rest=Rest.AWAKE)
    asleep = reduce_autoscaler(hpa_manifest(scaled_to_zero="True"))
    assert must_disarm(asleep, replicas=1)
    assert not must_disarm(asleep, replicas=0)
    assert not must_disarm(reduce_autoscaler(hpa_manifest(scaled_to_zero="False")), replicas=1)


@pytest.mark.parametrize("replicas", [0, 4])
def test_unknown_holds(replicas: int) -> None:
    """Whatever it has, it keeps, and the reason names metric and source."""
    held = verdict(DOWN, replicas=replicas)
    assert isinstance(held, Held)
    assert held.replicas == replicas
    assert held.reasons[0].message == "metric queue_depth is unknown: its source is down"


def test_a_healthy_metric_wakes_although_another_is_unknown() -> None:
    """The work that is known of is there, whatever the other one would say."""
    hpa = reduce_autoscaler(hpa_manifest(scaled_to_zero="True", metrics=(external(), external("inflight", each="5"))))
    sources: Sources = {QUEUE: DOWN, MetricKey(name="inflight"): known(35)}
    woken = decide(hpa, replicas=0, sources=sources, now=START)
    assert isinstance(woken, Woken)
    assert woken.replicas == 7


def test_metrics_without_a_source_of_ours_are_not_ours() -> None:
    """Another adapter serves them, and the native HPA wakes by them."""
    hpa = reduce_autoscaler(hpa_manifest(scaled_to_zero="True"))
    assert decide(hpa, replicas=0, sources={MetricKey(name="other"): known(9)}, now=START) == LeftAlone(
        rest=Rest.FOREIGN
    )


def test_a_selector_belongs_to_the_metric() -> None:
    """The same name with other labels is another queue."""
    labels = {"queue": "infer", "zone": "a"}
    hpa = reduce_autoscaler(hpa_manifest(scaled_to_zero="True", metrics=(external(labels=labels),)))
    key = MetricKey(name="queue_depth", selector=(("queue", "infer"), ("zone", "a")))
    assert str(key) == "queue_depth{queue=infer,zone=a}"
    assert isinstance(decide(hpa, replicas=0, sources={key: known(9)}, now=START), Woken)
    assert decide(hpa, replicas=0, sources={QUEUE: known(9)}, now=START) == LeftAlone(rest=Rest.FOREIGN)


def test_the_fallback_waits_for_its_failures() -> None:
    """A source that stays down starts what the annotation says, and no more than maxReplicas."""
    notes = {"phalanx.dev/fallback": "20/3"}
    twice = DOWN.after(DOWN.reading)
    assert isinstance(verdict(twice, annotations=notes), Held)
    woken = verdict(twice.after(DOWN.reading), annotations=notes)
    assert isinstance(woken, Woken)
    assert woken.replicas == 10
    assert "phalanx.dev/fallback" in woken.why


def test_a_raised_minimum_wakes() -> None:
    """As the HPA does it, where every metric is known."""
    assert verdict(0, least=2) == Woken(replicas=2, why="minReplicas is 2")
    assert isinstance(verdict(DOWN, least=2), Held)


@pytest.mark.parametrize(("value", "most", "replicas"), [(1, 10, 4), (41, 10, 8), (999, 10, 8), (999, 12, 12)])
def test_groups_are_woken_whole(value: float, most: int, replicas: int) -> None:
    """Rounded up to whole groups, and down where maxReplicas is in the way."""
    woken = verdict(value, most=most, annotations={"phalanx.dev/group-size": "4"})
    assert isinstance(woken, Woken)
    assert woken.replicas == replicas


def test_what_cannot_be_woken_is_refused() -> None:
    """Each with its reason; the replicas that would be wanted are told."""
    shared = verdict(12, rivals=("other",))
    assert shared == Refused(wanted_replicas=2, reasons=shared.reasons if isinstance(shared, Refused) else ())
    assert codes_of(shared) == [ReasonCode.TARGET_SHARED]
    assert codes_of(verdict(12, most=3, annotations={"phalanx.dev/group-size": "4"})) == [ReasonCode.MAX_BELOW_GROUP]


@pytest.mark.parametrize("text", ["0", "-1", "four", "4097", "", "1.5"])
def test_a_group_size_that_cannot_be_read_wakes_nobody(text: str) -> None:
    """Half a group would be worse than none."""
    assert codes_of(verdict(12, annotations={"phalanx.dev/group-size": text})) == [ReasonCode.MISCONFIGURED]


@pytest.mark.parametrize(
    "note", [{"phalanx.dev/fallback": "2"}, {"phalanx.dev/fallback": "0/3"}, {"phalanx.dev/wake": "yes"}]
)
def test_other_mistakes_are_warned_of(note: dict[str, str]) -> None:
    """They take nothing away from what works."""
    assert codes_of(verdict(0, annotations=note)) == [ReasonCode.MISCONFIGURED]
    assert isinstance(verdict(12, annotations=note), Woken)


def test_cpu_beside_a_queue_is_warned_of() -> None:
    """The maximum of both never reaches zero; with a minimum above zero nobody expects that."""
    both = (external(), cpu())
    assert codes_of(verdict(0, metrics=both)) == [ReasonCode.NEVER_IDLE]
    assert codes_of(verdict(0, metrics=both, least=1, replicas=1, scaled_to_zero="False")) == []


@pytest.mark.parametrize(
    "target", [{"type": "AverageValue", "averageValue": "0"}, {"type": "Value", "value": "-3"}, {}]
)
def test_a_target_that_divides_by_nothing_is_no_metric(target: dict[str, str]) -> None:
    """The API server refuses it; what comes all the same divides nothing by zero."""
    broken = {"type": "External", "external": {"metric": {"name": "queue_depth"}, "target": target}}
    hpa = reduce_autoscaler(hpa_manifest(metrics=(broken,)))
    assert hpa.metrics == ()
    assert [one.code for one in hpa.warnings] == [ReasonCode.MISCONFIGURED]
