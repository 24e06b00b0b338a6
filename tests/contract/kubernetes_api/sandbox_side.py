"""Starts the sandbox with the same features as the real control plane of this suite.

Its controllers run, but nothing plays the kubelets: on the real side there are none either.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from services.sandbox.app import running
from services.sandbox.cluster import ClusterSettings
from tests.contract.kubernetes_api.runner import ForgetHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSide:
    """A running sandbox, as the rows need it."""

    url: str
    forget_history: ForgetHistory


@asynccontextmanager
async def running_sandbox() -> AsyncIterator[SandboxSide]:
    """A sandbox in this process."""
    async with running(ClusterSettings()) as sandbox:

        async def forget_history() -> None:
            sandbox.watches.compact()

        yield SandboxSide(url=sandbox.url, forget_history=forget_history)
