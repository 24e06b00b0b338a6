"""Children end with their parent, however that ends."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from services.runtime.child_processes import dying_with_parent

WAIT_S = 20.0

PARENT = """
import subprocess, sys
from services.runtime.child_processes import dying_with_parent

child = subprocess.Popen(dying_with_parent([sys.executable, "-c", "input()"]), stdin=subprocess.PIPE)
print(child.pid, flush=True)
child.wait()
"""


async def test_child_of_a_killed_parent() -> None:
    """Nobody is left behind who could clean up: the kernel ends it."""
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    async with asyncio.timeout(WAIT_S):
        child = int(await parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
        await parent.wait()
        # The pipe of the output is the child's too: it ends when the last of the two is going.
        await parent.stdout.read()
        while is_running(child):  # noqa: ASYNC110 - the kernel closes a process's files a moment before it is gone
            await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    """Tell whether a process runs; one that only waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_command_keeps_its_process_id_and_its_arguments() -> None:
    """So that signals and files named after it reach the right process."""
    code = "import os, sys; print(os.getpid(), sys.argv[1:])"
    command = dying_with_parent([sys.executable, "-c", code, "a b", "--c"])
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await child.communicate()
    assert output.decode() == f"{child.pid} ['a b', '--c']\n"


async def test_parent_that_is_gone_already() -> None:
    """The command does not start at all."""
    command = dying_with_parent([sys.executable, "-c", "print('started')"])
    command[command.index(str(os.getpid()))] = "1"
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await child.communicate()
    assert (child.returncode, output) == (1, b"")
