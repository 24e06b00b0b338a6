"""The configuration file: `services.core.policy` as YAML, read at the start and whenever it changes.

`PHALANX_CONFIG` names it. It is the same file for all services, so that they agree; each takes what concerns it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from prometheus_client import CollectorRegistry

from services.core.policy import Policy, problems_of
from services.runtime import structured_file
from services.runtime.clock import Clock
from services.runtime.followed_file import FollowedFile, FollowedFileMetrics
from services.runtime.settings import SettingsError
from services.runtime.structured_schema import schema


class PolicySource(Protocol):
    """The policy in force; it is asked anew each time, because it may change."""

    @property
    def value(self) -> Policy:
        """The policy in force."""

    async def changed(self, *, since: Policy) -> Policy:
        """Wait until another policy is in force, and return it."""


class FixedPolicy:
    """A policy that never changes: the defaults where there is no file."""

    def __init__(self, policy: Policy | None = None) -> None:
        """Keep it."""
        self._policy = Policy() if policy is None else policy

    @property
    def value(self) -> Policy:
        """The policy."""
        return self._policy

    async def changed(self, *, since: Policy) -> Policy:
        """Wait for ever, unless it is another one."""
        if self._policy == since:
            await asyncio.Event().wait()
        return self._policy


def read_policy(data: bytes, *, name: str) -> Policy:
    """Return what a file says. Raises `structured_file.UnusableFile`, with a line for each mistake."""
    return structured_file.read(data, Policy, name=name, contradictions=_contradictions)


def policy_schema() -> dict[str, Any]:
    """Return the JSON schema of the file."""
    return schema(Policy, title="Configuration of Phalanx")


@contextlib.asynccontextmanager
async def following_policy(
    path: Path | None, *, clock: Clock, registry: CollectorRegistry
) -> AsyncIterator[PolicySource]:
    """Follow the file while the context is open; without one, the defaults are in force.

    Raises SettingsError where the file cannot be used at the start. Later a version that cannot be used is refused and
    counted, and the one before stays in force.
    """
    metrics = FollowedFileMetrics(registry)
    if path is None:
        yield FixedPolicy()
        return
    try:
        followed = FollowedFile(path, read=partial(read_policy, name=str(path)), clock=clock, metrics=metrics)
    except structured_file.UnusableFile as error:
        raise SettingsError(str(error).splitlines()) from error
    except OSError as error:
        raise SettingsError([f"PHALANX_CONFIG: given {str(path)!r}: {error.strerror or error}"]) from error
    async with asyncio.TaskGroup() as group:
        following = group.create_task(followed.follow(), name="following the configuration file")
        try:
            yield followed
        finally:
            following.cancel()


def _contradictions(policy: Policy) -> Iterator[tuple[structured_file.Path, str]]:
    return ((problem.path, problem.what) for problem in problems_of(policy))
