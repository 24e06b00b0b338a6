"""A box for dead letters over whatever bus a test has."""

from prometheus_client import CollectorRegistry

from services.contracts.dead_letter_box import DeadLetterBox, DeadLetterMetrics, LetterBus
from services.runtime.clock import Clock, SystemClock


def letter_box(
    bus: LetterBus, *, service: str = "test", clock: Clock | None = None, registry: CollectorRegistry | None = None
) -> DeadLetterBox:
    """Return a box; letters are stored only where a test runs it."""
    return DeadLetterBox(
        bus,
        service=service,
        instance=f"{service}-1",
        clock=clock or SystemClock(),
        metrics=DeadLetterMetrics(registry or CollectorRegistry()),
    )
