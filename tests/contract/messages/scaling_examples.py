"""One example of each scaling decision, with every field set."""

from collections.abc import Mapping

from services.core.cold_start import PHASES
from services.core.reasons import Reason, ReasonCode
from services.core.scaling import Held, Refused, ScalingDecision, ScalingEvent, Started, Woken
from tests.contract.messages.examples import MOMENT

_UNKNOWN = Reason(
    code=ReasonCode.METRIC_UNKNOWN,
    message="metric queue_depth{queue=infer} is unknown: its source gave nan, expected a number",
    subject="queue_depth{queue=infer}",
)
_SHARED = Reason(
    code=ReasonCode.TARGET_SHARED,
    message="Deployment/infer is the target of b too",
    count=2,
    subject="Deployment/infer",
)


def _decision(event: ScalingEvent, *, epoch: int = 0) -> ScalingDecision:
    return ScalingDecision(namespace="team-a", hpa="infer.v2", decided_at=MOMENT, event=event, epoch=epoch)


SCALINGS: Mapping[str, ScalingDecision] = {
    "scaling-woken": _decision(Woken(replicas=8, why="queue_depth{queue=infer} is 71")),
    "scaling-woken-without-room": _decision(Woken(replicas=8, why="queue_depth is 71", warnings=(_SHARED,)), epoch=17),
    "scaling-started": _decision(
        Started(
            replicas=8,
            ends_s={phase: 0.25 * (number + 1) for number, phase in enumerate(PHASES)},
            missing="no item was taken",
        )
    ),
    "scaling-held": _decision(Held(replicas=3, reasons=(_UNKNOWN,))),
    "scaling-refused": _decision(Refused(wanted_replicas=8, reasons=(_SHARED, _UNKNOWN))),
}
