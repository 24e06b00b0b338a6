"""Reads what a taint could touch: all that placement looks at, and the claims with the pods that use them.

Pods are kept as reduced objects, whole only where they use a device that is selected: there may be 50,000.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.core.blast import allocated, device_of, is_selected, users_of
from services.core.objects import Kind, KubernetesObject
from services.core.reduce import MalformedObject, reduce
from services.runtime.kube import KubeClient, KubeError
from services.watcher.kinds import WATCHED_KINDS, WatchedKind

Manifest = Mapping[str, Any]
Tell = Callable[[str], None]

NOT_FOUND = 404
FORBIDDEN = 403
_FIRST = (Kind.RESOURCE_CLAIM, Kind.RESOURCE_SLICE)
"""Read before pods: they say which pods are looked at closely."""
_WHOLE = frozenset({Kind.RESOURCE_CLAIM, Kind.RESOURCE_SLICE, Kind.RESOURCE_CLAIM_TEMPLATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What was read. `whole` has manifests as the server sent them, of pods only those that use selected devices."""

    objects: tuple[KubernetesObject, ...] = ()
    whole: Mapping[Kind, tuple[Manifest, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    """What could not be read; while there is any, nothing is certain."""

    def manifests(self, kind: Kind) -> tuple[Manifest, ...]:
        """Return the whole objects of a kind."""
        return self.whole.get(kind, ())


async def read_world(client: KubeClient, *, rule: Manifest, tell: Tell) -> World:
    """Read everything. Raises KubeUnavailable where the server does not answer."""
    objects: list[KubernetesObject] = []
    whole: dict[Kind, list[Manifest]] = {}
    problems: list[str] = []
    users: set[str] = set()
    for watched in sorted(WATCHED_KINDS, key=lambda one: one.kind not in _FIRST):
        tell(watched.plural)
        try:
            async for item in _items(client, watched):
                try:
                    objects.append(reduce(watched.kind, item))
                except MalformedObject as error:
                    problems.append(str(error))
                if watched.kind in _WHOLE or (watched.kind is Kind.POD and item["metadata"].get("uid") in users):
                    whole.setdefault(watched.kind, []).append(item)
                if watched.kind is Kind.RESOURCE_CLAIM and _is_hit(rule, item):
                    users |= users_of(item)
        except KubeError as error:
            problems.append(_problem(watched, error))
    return World(
        objects=tuple(objects),
        whole={kind: tuple(items) for kind, items in whole.items()},
        problems=tuple(problems),
    )


async def _items(client: KubeClient, watched: WatchedKind) -> AsyncIterator[Manifest]:
    """Yield the objects of a kind in the first version that is served; none where none is."""
    for version in watched.versions:
        try:
            async for page in client.list_pages(watched.path(version), limit=watched.page_size, query=watched.query()):
                for item in page.items:
                    yield {**item, "apiVersion": watched.api_version(version)}
        except KubeError as error:
            if error.status == NOT_FOUND:
                continue
            raise
        return


def _is_hit(rule: Manifest, claim: Manifest) -> bool:
    return any(is_selected(rule, device_of(result)) for result in allocated(claim))


def _problem(watched: WatchedKind, error: KubeError) -> str:
    if error.status != FORBIDDEN:
        return f"{watched.resource} could not be listed: {error}"
    rule = f'{{apiGroups: ["{watched.group}"], resources: ["{watched.plural}"], verbs: ["list"]}}'
    return f"{watched.resource} could not be listed; grant this rule in a ClusterRole: {rule}"
