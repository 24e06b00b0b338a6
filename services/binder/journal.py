"""The journal that lives and dies with the process.

After a restart the placement stream alone tells which transactions are open, and each is run again from the start:
every step is idempotent, and the pods themselves say what is already bound.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from services.core.transaction_state import Step, TransactionState

if TYPE_CHECKING:
    from services.core.objects import TransactionId


class MemoryJournal:
    """Satisfies `services.binder.ports.Journal`."""

    def __init__(self) -> None:
        """Start without transactions."""
        self._states: dict[TransactionId, TransactionState] = {}

    def record(self, transaction: TransactionState) -> None:
        """Keep the present state of a transaction; one that is over is forgotten."""
        if transaction.step is Step.OVER:
            self._states.pop(transaction.id, None)
        else:
            self._states[transaction.id] = transaction

    def open(self) -> Sequence[TransactionState]:
        """Return the open transactions, oldest first."""
        return sorted(self._states.values(), key=lambda one: (one.started_at, one.id))
