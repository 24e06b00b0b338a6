"""Reads a live cluster: paged lists, a few documents, nothing written. What cannot be read is a fact of its own."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import orjson
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from services.cli.audit.asking_more import probe, read_nodes
from services.cli.audit.evidence import Evidence, Manifest, Reading, State
from services.cli.audit.optional_sources import OPTIONAL, NodeSource, Probe
from services.cli.audit.sources import SOURCES, Form, Source, kept_metrics, trimmed
from services.runtime.kube import Gone, KubeClient, KubeError, KubeUnavailable

PAGE = 1000
ATTEMPTS = 3
CONCURRENT = 4
REACHABLE_WITHIN_S = 30.0
_HOW_TO_REACH = "check that the API server can be reached, and the kubeconfig"
UNAUTHORIZED, FORBIDDEN, NOT_FOUND = 401, 403, 404

Tell = Callable[[str, int], None]
"""Hears the source that is being read and the number of its objects so far."""


async def collect(
    client: KubeClient, *, sources: Iterable[Source] = SOURCES, more: Iterable[Source] = (), tell: Tell
) -> Evidence:
    """Read every source, a few side by side, and then what is asked for beyond: dry runs, and nodes themselves."""
    given = tuple(sources)
    if problem := await _silence(client):
        # Every source would be tried in vain, and more than once.
        unread = Reading(state=State.FAILED, problem=problem, fix=_HOW_TO_REACH)
        readings = {one.key: unread for one in given} | {one.key: unread for one in more}
        unasked = {one.key: Reading(state=State.UNASKED) for one in OPTIONAL}
        return Evidence(origin=client.host, read_at=datetime.now(UTC), readings=unasked | readings)
    places = asyncio.Semaphore(CONCURRENT)

    async def read(source: Source) -> tuple[str, Reading]:
        async with places:
            return source.key, await _reading(client, source, tell=tell)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(read(source)) for source in given]
    readings = {one.key: Reading(state=State.UNASKED) for one in OPTIONAL}
    readings |= dict(task.result() for task in tasks)
    evidence = Evidence(origin=client.host, read_at=datetime.now(UTC), readings=readings)
    for source in more:
        if isinstance(source, Probe):
            readings[source.key] = await probe(client, source, tell=tell)
        elif isinstance(source, NodeSource):
            readings[source.key] = await read_nodes(client, source, evidence=evidence, tell=tell)
    return Evidence(origin=evidence.origin, read_at=evidence.read_at, readings=readings)


async def _silence(client: KubeClient) -> str:
    """Return why the server does not answer at all; nothing where it does, in whatever way."""
    try:
        await client.request("GET", "/version", timeout_s=REACHABLE_WITHIN_S)
    except KubeUnavailable as error:
        return str(error)
    return ""


async def _reading(client: KubeClient, source: Source, *, tell: Tell) -> Reading:
    """Read one source; every failure becomes a reading that names it and what would help."""
    tell(source.key, 0)
    try:
        async for attempt in AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.2, max=2),
            retry=retry_if_exception_type((KubeUnavailable, Gone)),
            reraise=True,
        ):
            with attempt:
                return await _read(client, source, tell=tell)
    except KubeError as error:
        return _refused(error, source)
    except KubeUnavailable as error:
        return Reading(state=State.FAILED, problem=str(error), fix=_HOW_TO_REACH)
    raise AssertionError("a retry either returns or raises")


async def _read(client: KubeClient, source: Source, *, tell: Tell) -> Reading:
    if source.form is Form.LIST:
        return await _list(client, source, tell=tell)
    reply = await client.request_ok("GET", source.path, accept=source.accept)
    if source.form is Form.TEXT:
        return Reading(state=State.READ, text=kept_metrics(reply.body.decode(errors="replace")))
    return Reading(state=State.READ, items=(orjson.loads(reply.body),))


async def _list(client: KubeClient, source: Source, *, tell: Tell) -> Reading:
    for version in source.versions:
        items: list[Manifest] = []
        try:
            async for page in client.list_pages(source.path_in(version), limit=PAGE, query=source.query):
                items.extend(trimmed(item, source) for item in page.items)
                tell(source.key, len(items))
        except KubeError as error:
            if error.status == NOT_FOUND:
                continue
            raise
        return Reading(state=State.READ, items=tuple(items), version=version)
    return Reading(state=State.ABSENT)


def _refused(error: KubeError, source: Source) -> Reading:
    if error.status == NOT_FOUND:
        return Reading(state=State.ABSENT)
    if error.status == FORBIDDEN:
        fix = f"grant this rule{'' if source.namespace else ' in a ClusterRole'}: {source.rule}"
    elif error.status == UNAUTHORIZED:
        fix = "the credentials were refused: log in again, or give another --kubeconfig or --context"
    else:
        fix = "look for the cause in the API server's log; the answer is its own"
    return Reading(state=State.FAILED, problem=str(error), reason=error.reason, fix=fix)
