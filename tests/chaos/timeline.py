"""What happened in a run, in order, for whoever has to find out why it failed."""

import time
from dataclasses import dataclass, field

LAST = 200
"""Lines that are shown."""


@dataclass(slots=True)
class Timeline:
    """Lines with the seconds since it was made, and the wall-clock time that logs have."""

    lines: list[str] = field(default_factory=list)
    _started_s: float = field(default_factory=time.monotonic)

    def note(self, text: str) -> None:
        """Add a line."""
        clock = time.strftime("%H:%M:%S", time.gmtime())
        self.lines.append(f"{time.monotonic() - self._started_s:8.2f} s {clock}  {text}")

    def told(self) -> str:
        """Return the last lines."""
        return "\n".join(self.lines[-LAST:])
