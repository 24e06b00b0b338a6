"""A cold start is folded from what is seen of its pods."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from services.core.cold_start import PHASES, ColdStart, Phase, PodStage, took_s, total_s
from services.core.scaling import Started, TargetRef
from services.core.scaling_reports import told_of_start

TARGET = TargetRef(api_version="apps/v1", kind="Deployment", name="infer")


def test_a_phase_ends_when_it_holds_for_all_replicas() -> None:
    """A pod that is ready is bound and runs, also where nobody saw it do so."""
    start = ColdStart(replicas=2)
    start.pod_seen("a", stage=PodStage.CREATED, at_s=1.0)
    start.pod_seen("a", stage=PodStage.READY, at_s=2.0)
    assert start.ends_s == {}
    start.pod_seen("b", stage=PodStage.BOUND, at_s=3.0)
    assert start.ends_s == {Phase.PODS_CREATED: 3.0, Phase.BOUND: 3.0}
    start.pod_seen("b", stage=PodStage.READY, at_s=4.0)
    start.pod_seen("b", stage=PodStage.READY, at_s=5.0)
    assert start.ends_s == {Phase.PODS_CREATED: 3.0, Phase.BOUND: 3.0, Phase.RUNNING: 4.0, Phase.READY: 4.0}


def test_placements_may_be_heard_before_the_pods_are_seen() -> None:
    """And those of other pods count for nothing."""
    start = ColdStart(replicas=2)
    start.pods_placed(["a", "b", "x"], at_s=1.0)
    start.pod_seen("a", stage=PodStage.CREATED, at_s=2.0)
    assert Phase.PLACED not in start.ends_s
    start.pod_seen("b", stage=PodStage.CREATED, at_s=3.0)
    assert start.ends_s[Phase.PLACED] == 3.0


def test_a_pod_that_goes_has_to_be_replaced() -> None:
    """A start whose pods are all gone is over without being complete."""
    start = ColdStart(replicas=1)
    start.pod_seen("a", stage=PodStage.BOUND, at_s=1.0)
    start.pod_gone("a")
    assert start.is_abandoned
    assert start.missing == "its pods are gone"
    start.pod_seen("b", stage=PodStage.CREATED, at_s=2.0)
    assert not start.is_abandoned
    assert start.missing == "0 of 1 running, 0 of 1 ready"


def test_a_start_is_complete_with_the_first_item_where_items_are_counted() -> None:
    """Elsewhere with the last pod that is ready."""
    for counts_items in (True, False):
        start = ColdStart(replicas=1, counts_items=counts_items)
        start.pod_seen("a", stage=PodStage.READY, at_s=1.0)
        assert start.is_complete is not counts_items
        assert start.missing == ("no item was taken" if counts_items else "")
        start.ended(Phase.FIRST_ITEM, at_s=2.0)
        assert start.is_complete


@given(ends_s=st.dictionaries(st.sampled_from(PHASES), st.floats(0, 1e6), min_size=1))
def test_the_times_of_the_phases_are_the_whole(ends_s: dict[Phase, float]) -> None:
    """None is negative, in whatever order they ended."""
    took = took_s(ends_s)
    assert all(value >= 0 for value in took.values())
    assert abs(sum(took.values()) - total_s(ends_s)) <= 1e-9 * total_s(ends_s)
    assert tuple(took) == tuple(phase for phase in PHASES if phase in ends_s)


STAGES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([None, *PodStage])), max_size=12)


@given(steps=STAGES, placed=st.lists(st.sampled_from("abcd"), max_size=3))
def test_counts_are_those_of_the_pods_that_are_left(
    steps: list[tuple[str, PodStage | None]], placed: list[str]
) -> None:
    """However pods come and go: what is missing says what a count of all pods says."""
    start, left = ColdStart(replicas=9), dict[str, PodStage]()
    start.pods_placed(placed, at_s=0.0)
    for number, (uid, stage) in enumerate(steps):
        if stage is None:
            start.pod_gone(uid)
            left.pop(uid, None)
        else:
            start.pod_seen(uid, stage=stage, at_s=float(number))
            left[uid] = max(stage, left.get(uid, stage))
    counts = [sum(one >= stage for one in left.values()) for stage in PodStage]
    names = ("pods-created", "bound", "running", "ready")
    assert start.missing == ", ".join(f"{count} of 9 {name}" for count, name in zip(counts, names, strict=True))


def test_the_sentence_names_the_phase_that_took_longest() -> None:
    """And what is missing."""
    ends_s = dict(zip(PHASES, itertools.accumulate([0.1, 0.1, 0.2, 0.3, 0.1, 5.0, 1.0]), strict=False))
    started = Started(replicas=8, ends_s=ends_s, missing="no item was taken")
    assert told_of_start(started, target=TARGET) == (
        "Deployment/infer with 8 replicas: 6.80 s since the signal, of which running 5.00 s; no item was taken"
    )
