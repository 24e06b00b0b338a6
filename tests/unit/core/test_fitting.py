"""What the answer about room changes about a wake."""

import pytest

from services.core.fitting import DoesNotFit, Fit, Fits, FitUnknown, after_fit
from services.core.reasons import Reason, ReasonCode
from services.core.scaling import Held, TargetRef, WhenItDoesNotFit, Woken

TARGET = TargetRef(api_version="apps/v1", kind="Deployment", name="infer")
WOKEN = Woken(replicas=8, why="queue_depth is 80")
LACKING = DoesNotFit(
    placeable=3,
    reasons=tuple(
        Reason(code=ReasonCode.INSUFFICIENT_RESOURCE, message="2 nodes have too little cpu", subject="cpu")
        for _ in range(5)
    ),
)
CREATE, HOLD = WhenItDoesNotFit.CREATE, WhenItDoesNotFit.HOLD


@pytest.mark.parametrize("when", [CREATE, HOLD])
def test_a_wake_that_fits_is_carried_out_as_it_is(when: WhenItDoesNotFit) -> None:
    """Whatever is wanted otherwise."""
    assert after_fit(WOKEN, target=TARGET, fit=Fits(), when=when) == WOKEN


def test_a_wake_that_does_not_fit_is_held_where_that_is_wanted() -> None:
    """The reason has the numbers, and says once what many pods lack."""
    held = after_fit(WOKEN, target=TARGET, fit=LACKING, when=HOLD)
    assert isinstance(held, Held)
    (reason,) = held.reasons
    assert reason.code is ReasonCode.REPLICAS_DO_NOT_FIT
    assert reason.message == (
        "8 replicas of Deployment/infer would not fit now, 3 pods would have a place: 2 nodes have too little cpu"
    )


@pytest.mark.parametrize(
    ("fit", "when", "code"),
    [
        (LACKING, CREATE, ReasonCode.REPLICAS_DO_NOT_FIT),
        (FitUnknown(why="has no answer"), CREATE, ReasonCode.FIT_UNKNOWN),
        (FitUnknown(why="has no answer"), HOLD, ReasonCode.FIT_UNKNOWN),
    ],
)
def test_what_is_carried_out_all_the_same_says_so(fit: Fit, when: WhenItDoesNotFit, code: ReasonCode) -> None:
    """Node autoscalers must see pods that do not fit, and what is unknown holds nobody."""
    woken = after_fit(WOKEN, target=TARGET, fit=fit, when=when)
    assert isinstance(woken, Woken)
    assert (woken.replicas, [one.code for one in woken.warnings]) == (8, [code])
