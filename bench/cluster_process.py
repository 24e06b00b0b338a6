"""The API server of benchmarks as a process of its own, asked over its standard input."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import orjson


class ClusterServer:
    """The API server in its process, asked over its standard input."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Use a started process."""
        self._process = process

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, directory: Path, *, pods: int, nodes: int) -> AsyncIterator["ClusterServer"]:
        """Start it, and wait until it holds everything."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.cluster_server", str(directory / "kubeconfig"), str(pods), str(nodes)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        server = cls(process)
        try:
            await server._answer()
            yield server
        finally:
            process.terminate()
            await process.wait()

    async def ask(self, command: dict[str, object]) -> None:
        """Have something done, and wait until it is."""
        assert self._process.stdin is not None
        self._process.stdin.write(orjson.dumps(command) + b"\n")
        await self._answer()

    async def _answer(self) -> None:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line.strip() == b"done", line
