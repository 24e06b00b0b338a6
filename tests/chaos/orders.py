"""What a test orders a binder process to suffer, and what that process says it did: files in one folder.

Files, because they outlive the process that is killed, and because any process may carry an order out: whichever binder
leads when the chosen call is made. An order is carried out once.
"""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path


class Fault(StrEnum):
    """What happens at the chosen call."""

    DIE_BEFORE = "die before"
    DIE_AFTER = "die after"
    ANSWER_LOST = "answer lost"
    LANDS_LATE = "lands late"
    """The process dies with the request on its way; it arrives when the transaction has ended. The proxy's work."""


STRIKES = (Fault.DIE_BEFORE, Fault.DIE_AFTER, Fault.ANSWER_LOST)
"""The faults that the process itself carries out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Strike at a call, such as `bind 3`: the third binding that one process writes in a namespace."""

    call: str
    fault: Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The folder. Orders and calls are kept by namespace, because each point of a test has a namespace of its own."""

    folder: Path

    def give(self, namespace: str, order: Order) -> None:
        """Order a fault, before the first call in this namespace is made."""
        self._order(namespace).write_text(json.dumps(asdict(order)))

    def look(self, namespace: str) -> Order | None:
        """Return the order of a namespace, or None."""
        try:
            found = json.loads(self._order(namespace).read_text())
        except FileNotFoundError:
            return None
        return Order(call=found["call"], fault=Fault(found["fault"]))

    def take(self, namespace: str) -> bool:
        """Take the order out, and return whether it was there: it is this process that carries it out."""
        try:
            self._order(namespace).unlink()
        except FileNotFoundError:
            return False
        return True

    def note(self, namespace: str, call: str) -> None:
        """Write down a call that is about to be made; what was noted outlives the process."""
        with self._calls(namespace).open("a") as file:
            file.write(f"{call}\n")

    def calls(self, namespace: str) -> list[str]:
        """Return the calls that were made in a namespace, by whatever process, in order."""
        file = self._calls(namespace)
        return file.read_text().splitlines() if file.exists() else []

    def _order(self, namespace: str) -> Path:
        return self.folder / f"{namespace}.order"

    def _calls(self, namespace: str) -> Path:
        return self.folder / f"{namespace}.calls"
