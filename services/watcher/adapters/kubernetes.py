"""The API's lists and watches through the shared client; its errors become sentences that say what to do."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import TypeVar, cast

from services.runtime.kube import Gone, KubeClient, KubeError, KubeFault, ListPage, WatchEvent
from services.watcher.kinds import WatchedKind
from services.watcher.ports import ApiFailed, HistoryGone, NotServed

T = TypeVar("T")

LIST_TIMEOUT_S = 120.0

_FORBIDDEN = 403
_NOT_FOUND = 404


class KubernetesApi:
    """The cluster's API server."""

    def __init__(self, client: KubeClient) -> None:
        """Use an open client."""
        self._client = client

    async def version_of(self, watched: WatchedKind) -> str | None:
        """Return the most preferred version in which the kind is served, or None."""
        with _told(watched, verb="discover"):
            served = await self._client.served_versions(watched.group)
            for version in watched.versions:
                if version in served and watched.plural in await self._client.resources(watched.group, version):
                    return version
        return None

    async def pages(self, watched: WatchedKind, *, version: str) -> AsyncGenerator[ListPage, None]:
        """Yield the pages of a list over all namespaces."""
        with _told(watched, verb="list"):
            pages = self._client.list_pages(
                watched.path(version), limit=watched.page_size, query=watched.query(), timeout_s=LIST_TIMEOUT_S
            )
            async with _closing(pages):
                async for page in pages:
                    yield page

    async def events(
        self, watched: WatchedKind, *, version: str, resource_version: int, timeout_s: float
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield what happened after `resource_version`, until the server closes the watch."""
        events = self._client.watch(
            watched.path(version),
            resource_version=str(resource_version),
            timeout_s=timeout_s,
            query=watched.query(),
        )
        with _told(watched, verb="watch"):
            async with _closing(events):
                async for event in events:
                    yield event


def _closing(items: AsyncIterator[T]) -> contextlib.aclosing[AsyncGenerator[T, None]]:
    """Close the client's generator when ours is left early, so that no connection is left open."""
    return contextlib.aclosing(cast("AsyncGenerator[T, None]", items))


@contextlib.contextmanager
def _told(watched: WatchedKind, *, verb: str) -> Iterator[None]:
    """Turn the client's errors into this port's, with what an operator can do about them."""
    try:
        yield
    except Gone as error:
        raise HistoryGone(str(error)) from error
    except KubeError as error:
        if error.status == _FORBIDDEN:
            detail = (
                f"forbidden: {verb} {watched.resource} at the cluster scope; grant list, watch on {watched.resource}"
            )
            raise ApiFailed(detail, retry_after_s=error.retry_after_s) from error
        kind = NotServed if error.status == _NOT_FOUND else ApiFailed
        raise kind(str(error), retry_after_s=error.retry_after_s) from error
    except KubeFault as error:
        raise ApiFailed(f"waiting for the API server: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ApiFailed(f"{verb} {watched.resource}: the answer cannot be read: {error!r}") from error
