"""What the API server says of pods and PodGroups, as it says it, and waiting for it to say something."""

import asyncio
from collections.abc import Callable, Iterable

from tests.differential.scenarios import Manifest
from tests.kubernetes.connection import Connection

PODS = "/api/v1/pods"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/podgroups"

_PATIENCE_S = 60.0
"""Until something that never came is an error. Nothing here takes a second on a machine that is not overloaded."""


class Undecided(AssertionError):
    """What was waited for did not come."""


class Following:
    """The latest form of each pod and PodGroup by uid."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._seen: dict[str, Manifest] = {}
        self._changed = asyncio.Condition()

    async def follow(self, path: str) -> None:
        """Keep up with one collection until cancelled."""
        async for event in self._connection.follow(path, query={}):
            async with self._changed:
                if event["type"] == "LISTED":
                    for item in event["object"]["items"]:
                        self._seen[item["metadata"]["uid"]] = item
                elif event["type"] == "DELETED":
                    self._seen.pop(event["object"]["metadata"]["uid"], None)
                else:
                    self._seen[event["object"]["metadata"]["uid"]] = event["object"]
                self._changed.notify_all()

    async def until(self, condition: Callable[["Following"], bool], *, what: str) -> None:
        """Wait for the condition. Raises Undecided."""
        try:
            async with asyncio.timeout(_PATIENCE_S), self._changed:
                await self._changed.wait_for(lambda: condition(self))
        except TimeoutError as error:
            raise Undecided(f"not within {_PATIENCE_S:.0f} s: {what}") from error

    def latest(self, items: Iterable[Manifest]) -> list[Manifest]:
        """The objects as they are now; one that was not seen yet as it was given."""
        return [self._seen.get(item["metadata"]["uid"], item) for item in items]

    def has(self, item: Manifest) -> bool:
        """Whether the object is there."""
        return item["metadata"]["uid"] in self._seen

    def remaining(self, namespaces: Iterable[str]) -> list[str]:
        """Names of what is left in the namespaces."""
        names = set(namespaces)
        return [item["metadata"]["name"] for item in self._seen.values() if item["metadata"]["namespace"] in names]
