"""Releases under kills, lost answers and disturbances: what is left goes whole, and there is one ending."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from services.core.decisions import Assignment, Proposed, Refused, RolledBack
from services.core.objects import NodeName, Uid
from tests.property.test_transaction import START, Model, ModelPod, play


@st.composite
def releases(draw: st.DrawFn) -> Model:
    """What is left of a gang of up to six, on its nodes, to be taken back."""
    size = draw(st.integers(1, 5))
    pods = {
        Uid(f"u{number}"): ModelPod(is_controlled=True, node="n0", was_bound=True, is_ours=draw(st.booleans()))
        for number in range(size)
    }
    model = Model(draw=draw, min_count=size + 1, window_s=30, pods=pods)
    model.proposal = Proposed(
        revision=1,
        deadline=START + timedelta(seconds=60),
        min_count=size + 1,
        assignments=tuple(Assignment(pod=f"p-{uid}", uid=uid, node=NodeName("n0")) for uid in pods),
        is_release=True,
    )
    play(model)
    return model


@settings(max_examples=300, deadline=None)
@given(model=releases())
def test_a_release_takes_back_all_or_says_that_nothing_was_left(model: Model) -> None:
    """Killed wherever it is: one ending, nothing bound by it, and nobody left unless it could not begin in time."""
    assert len(model.endings) == 1
    ending = model.endings[0]
    left = {uid for uid, pod in model.pods.items() if pod.is_alive}
    if isinstance(ending, RolledBack):
        assert left == set()
    else:
        assert isinstance(ending, Refused)
        assert not left or model.now >= START + timedelta(seconds=60)
