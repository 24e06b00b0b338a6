"""Binder processes that obey orders: `python -m tests.chaos.struck_binder`, with a birth a line on its standard input.

It imports everything once and forks a binder for each line, so that hundreds of them cost seconds and not minutes. Each
is a process of its own, which can be killed, stopped, and waited for; its id is printed.
"""

import ctypes
import json
import os
import random
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

from services.binder.app import Effects, bind
from services.binder.settings import BinderSettings
from services.runtime.lifecycle import main
from tests.chaos.numbering import NumberedBus, NumberedClaims, NumberedPods, NumberedStatus, Steps
from tests.chaos.orders import Orders
from tests.integration.binder.killing import LateJournal

ORDERS_VARIABLE = "CHAOS_ORDERS"
"""Folder of `tests.chaos.orders`."""

LATE_VARIABLE = "CHAOS_LATE_JOURNAL"
"""Breaks the rule on purpose: that bindings are being written is stored only after them."""

_PR_SET_PDEATHSIG = 1


def effects(environment: dict[str, str]) -> Effects:
    """Return ports that number their calls."""
    steps = Steps(Orders(folder=Path(environment[ORDERS_VARIABLE])))
    ports = Effects(
        pods=partial(NumberedPods, steps=steps),
        claims=partial(NumberedClaims, steps=steps),
        status=partial(NumberedStatus, steps=steps),
        bus=partial(NumberedBus, steps=steps),
    )
    if LATE_VARIABLE not in environment:
        return ports
    return replace(ports, journal=LateJournal)


def _live(environment: dict[str, str], *, log: str, parent: int) -> NoReturn:
    """Become a binder, in the child of a fork."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    # Otherwise every binder would wait for the same random times as the one before.
    random.seed()
    for name in [name for name in os.environ if name.startswith("PHALANX_")]:
        del os.environ[name]
    os.environ.update(environment)
    main("binder", BinderSettings, partial(bind, through=effects(environment)))


def serve() -> None:
    """Fork a binder for each line, until the input ends."""
    # Nobody waits for them here: who started them sees their end by their process id.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    parent = os.getpid()
    for line in sys.stdin:
        birth = json.loads(line)
        pid = os.fork()
        if not pid:
            _live(birth["environment"], log=birth["log"], parent=parent)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
