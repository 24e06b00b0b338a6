"""What a test orders a binder process to suffer, and what that process says it did: files in one folder.

Files, because they outlive the process that is killed, and because any process may carry an order out: whichever binder
leads when the chosen call is made. An order is carried out once.
"""

import json
import os
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

    def give(self, namespace: str, *orders: Order) -> None:
        """Order faults, before the first call in this namespace is made: each when the one before was carried out."""
        for number, order in enumerate(orders):
            (self.folder / f"{namespace}.order-{number}").write_text(json.dumps(asdict(order)))

    def look(self, namespace: str) -> Order | None:
        """Return the order that a namespace has now, or None."""
        for file in self._orders(namespace):
            try:
                found = json.loads(file.read_text())
            except FileNotFoundError:
                continue
            return Order(call=found["call"], fault=Fault(found["fault"]))
        return None

    def take(self, namespace: str) -> bool:
        """Take the order out, and return whether it was there: it is this process that carries it out."""
        for file in self._orders(namespace):
            try:
                file.unlink()
            except FileNotFoundError:
                return False
            return True
        return False

    def left(self, namespace: str) -> int:
        """Return how many orders have not been carried out."""
        return len(self._orders(namespace))

    def note(self, namespace: str, call: str) -> None:
        """Write down a call that is about to be made; what was noted outlives the process."""
        with self._calls(namespace).open("a") as file:
            file.write(f"{os.getpid()} {call}\n")

    def calls(self, namespace: str) -> list[str]:
        """Return the calls that were made in a namespace, by whatever process, in order."""
        return [call for _, call in self._noted(namespace)]

    def last_calls(self, namespace: str) -> list[str]:
        """Return the calls of the process that made the last one."""
        noted = self._noted(namespace)
        return [call for pid, call in noted if pid == noted[-1][0]]

    def _noted(self, namespace: str) -> list[tuple[str, str]]:
        """Return process id and call, in order."""
        file = self._calls(namespace)
        lines = file.read_text().splitlines() if file.exists() else []
        return [(pid, call) for pid, _, call in (line.partition(" ") for line in lines)]

    def _orders(self, namespace: str) -> list[Path]:
        return sorted(self.folder.glob(f"{namespace}.order-*"))

    def _calls(self, namespace: str) -> Path:
        return self.folder / f"{namespace}.calls"
