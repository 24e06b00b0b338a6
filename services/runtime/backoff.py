"""The retry policies that more than one service needs, declared once on tenacity.

Nothing here decides that something may be repeated: that is the caller's knowledge. Effects that are not idempotent are
resolved, not retried.
"""

from collections.abc import Awaitable, Callable

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_delay,
    wait_random_exponential,
)

from services.runtime.clock import Clock, SystemClock
from services.runtime.health import Readiness

SHORTEST_S = 0.1
LONGEST_S = 5.0


def connecting(
    readiness: Readiness,
    *,
    condition: str,
    target: str,
    retry_on: tuple[type[Exception], ...] = (OSError, TimeoutError),
    clock: Clock | None = None,
) -> AsyncRetrying:
    """Try for ever, waiting 0.1 s to a bound that grows to 5 s; each failure becomes the condition's detail.

    The caller sets the condition ready once connected: only it knows what "connected" means.
    """

    def tell(state: RetryCallState) -> None:
        readiness.set(condition, ready=False, detail=f"waiting for {target}: {_cause(state)}")

    readiness.set(condition, ready=False, detail=f"waiting for {target}")
    return AsyncRetrying(
        wait=wait_random_exponential(multiplier=SHORTEST_S, min=SHORTEST_S, max=LONGEST_S),
        retry=retry_if_exception_type(retry_on),
        before_sleep=tell,
        sleep=_sleep(clock),
        reraise=True,
    )


def following(*, retry_on: type[Exception], tell: Callable[[RetryCallState], None], clock: Clock) -> AsyncRetrying:
    """Begin again for ever with what follows objects, after a random pause that grows to 5 s.

    `tell` hears of each failure.
    """
    return AsyncRetrying(
        wait=wait_random_exponential(multiplier=SHORTEST_S, max=LONGEST_S),
        retry=retry_if_exception_type(retry_on),
        before_sleep=tell,
        sleep=clock.sleep,
    )


def repeating(*, limit_s: float, retry_on: tuple[type[Exception], ...], clock: Clock | None = None) -> AsyncRetrying:
    """Repeat something idempotent for about `limit_s` until the result is definite; then raise the last error."""
    return AsyncRetrying(
        wait=wait_random_exponential(multiplier=SHORTEST_S, min=SHORTEST_S, max=1.0),
        stop=stop_after_delay(limit_s),
        retry=retry_if_exception_type(retry_on),
        sleep=_sleep(clock),
        reraise=True,
    )


def _sleep(clock: Clock | None) -> Callable[[float], Awaitable[None]]:
    return (clock or SystemClock()).sleep


def _cause(state: RetryCallState) -> str:
    error = state.outcome.exception() if state.outcome else None
    return str(error) or type(error).__name__
