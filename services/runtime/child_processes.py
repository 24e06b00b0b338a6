"""Child processes that never outlive the process that started them."""

import os
import sys
from collections.abc import Sequence

# Asks the kernel for SIGKILL when the parent is gone, then becomes the command with the same process id. A parent that
# ended before the kernel was asked shows as another parent.
_WRAPPER = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); "
    "os.getppid() == int(sys.argv[1]) or sys.exit(1); os.execv(sys.argv[2], sys.argv[2:])"
)


def dying_with_parent(command: Sequence[str]) -> list[str]:
    """Return a command that runs `command`, an absolute path with arguments, and ends with us however we end (Linux).

    A tiny program asks for that and becomes the command: code between fork and exec would run beside gRPC's threads,
    which do not survive it. To be started by the thread that lives longest: the kernel watches that thread.
    """
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-IS", "-c", _WRAPPER, str(os.getpid()), *command]
