"""What metrics say of one transaction: how long it was in each phase, and why it ended as it did."""

from services.binder.metrics import BinderMetrics
from services.core.decisions import Refused, RolledBack
from services.core.transaction_state import Phase, TransactionState
from services.runtime.clock import Clock


class PhaseTimes:
    """Observes the phases of one transaction as it goes through them."""

    def __init__(self, metrics: BinderMetrics, *, clock: Clock) -> None:
        """Start before the first phase."""
        self._metrics = metrics
        self._clock = clock
        self._phase: Phase | None = None
        self._since_s = 0.0

    def observe(self, state: TransactionState) -> None:
        """Take note of the state; costs nothing while the phase is the same."""
        if state.phase is self._phase:
            return
        self.end()
        self._phase, self._since_s = state.phase, self._clock.monotonic()
        if state.phase is Phase.UNDOING:
            self._metrics.undos.inc()

    def end(self) -> None:
        """The transaction leaves the phase that it is in."""
        if self._phase is not None:
            seconds = self._clock.monotonic() - self._since_s
            self._metrics.phases.labels(phase=self._phase.value).observe(seconds)
        self._phase = None


def cause_of(state: TransactionState) -> str:
    """Return the code of the first reason of a transaction's end, empty where it has none."""
    reasons = state.ending.reasons if isinstance(state.ending, Refused | RolledBack) else ()
    return reasons[0].code.value if reasons else ""
