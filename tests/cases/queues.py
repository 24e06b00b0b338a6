"""Judge the cases about the length of a queue: what a row says of a consumer is asked for as the autoscaler asks.

The bus carries messages only, and this module answers for JetStream: as a leader does, with an error, or not at all.
A follower never answers, so its numbers stand in a row for what nobody may act on.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
import yaml
from nats.aio.client import Client
from nats.aio.msg import Msg

from services.autoscaler.adapters.jetstream import JetStreamQueues
from services.autoscaler.ports import SourceFailed
from services.core.metric_readings import NEVER_READ, MetricKey, Reading, SourceState, Unknown, reading_of
from services.core.metric_sources import JetStreamSource
from services.core.reduce_autoscaler import reduce_autoscaler
from services.core.scaling import Held, Verdict, Woken, asked_for, decide
from services.runtime.clock import SystemClock
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness
from tests.cases.check import Case, UnknownWord

IN_FORCE = ("C37",)

SOURCE = JetStreamSource(stream="ORDERS", consumer="consumer")
_LAG = MetricKey(name="jetstream_lag")
_ECHO = "case.echo"
_API = f"$JS.API.CONSUMER.INFO.{SOURCE.stream}.{SOURCE.consumer}"
_REPORTS = {"consumer not found": "does not exist (consumer consumer of stream ORDERS)"}
"""What a row calls a report, and how it is worded here."""


async def judge_queue(case: Case) -> list[str]:
    """Return a sentence for each row whose answer is another."""
    objects = list(yaml.safe_load_all(case.path.read_text()))
    hpa = next(one for one in objects if one and one["kind"] == "HorizontalPodAutoscaler")
    events = next(one for one in objects if one and one["kind"] == "ConfigMap")
    problems: list[str] = []
    async with (
        EmbeddedNats(has_jetstream=False) as server,
        _connected(server.url) as server_side,
        JetStreamQueues(url=server.url, name="case", clock=SystemClock(), readiness=Readiness()) as queues,
    ):
        for row in yaml.safe_load(events["data"]["events.yaml"]):
            async with _answering(server_side, row=row):
                problems += _problems(row, hpa, reading=await _read(queues))
    return problems


@contextlib.asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Client]:
    client = Client()
    await client.connect(url)
    try:
        await client.subscribe(_ECHO, cb=_echo)
        yield client
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def _answering(client: Client, *, row: Mapping[str, Any]) -> AsyncIterator[None]:
    """Answer for JetStream as the row says; nobody does while there is no leader."""
    answer = _answer(row)
    if answer is None:
        yield
        return

    async def asked(message: Msg) -> None:
        await message.respond(orjson.dumps(answer))

    subscription = await client.subscribe(_API, cb=asked)
    await _known_to_the_server(client)
    try:
        yield
    finally:
        await subscription.unsubscribe()
        await _known_to_the_server(client)


async def _known_to_the_server(client: Client) -> None:
    """Wait until the server has read all that was sent; the ping of the library's flush overtakes what is buffered."""
    await client.request(_ECHO, timeout=10)


async def _echo(message: Msg) -> None:
    await message.respond(b"")


def _answer(row: Mapping[str, Any]) -> dict[str, Any] | None:
    match row:
        case {"consumer": "missing"}:
            return {"error": {"code": 404, "err_code": 10014, "description": "consumer not found"}}
        case {"leader": "changes during poll"}:
            return None
        case {"leader": dict(numbers)}:
            config = {"durable_name": SOURCE.consumer, "ack_policy": "explicit", "deliver_policy": "all"}
            known = {"name": SOURCE.consumer, "stream_name": SOURCE.stream, "created": "2026-11-02T08:00:00Z"}
            return {**known, "config": config, **numbers}
        case _:
            raise UnknownWord(f"row {row}")


async def _read(queues: JetStreamQueues) -> Reading:
    try:
        return reading_of(await queues.read(SOURCE), now=datetime.now(UTC))
    except SourceFailed as error:
        return Unknown(why=str(error))


def _problems(row: Mapping[str, Any], hpa: dict[str, Any], *, reading: Reading) -> Iterator[str]:
    replicas = row["cur"]
    status = {"conditions": [{"type": "ScaledToZero", "status": "True" if replicas == 0 else "False"}]}
    autoscaler = reduce_autoscaler(hpa | {"metadata": _identified(hpa), "status": status})
    sources: Mapping[MetricKey, SourceState | None] = {_LAG: NEVER_READ.after(reading)}
    now = datetime.now(UTC)
    verdict = decide(autoscaler, replicas=replicas, sources=sources, now=now)
    asked = asked_for(autoscaler, replicas=replicas, sources=sources, now=now).replicas
    got = verdict.replicas if isinstance(verdict, Woken) else asked
    if got != row["want"]:
        yield f"{row}: got {got}"
    if "report" in row and not _says(verdict, _REPORTS[row["report"]]):
        yield f"{row}: got {verdict}"


def _identified(hpa: dict[str, Any]) -> dict[str, Any]:
    """What the API server adds."""
    return {"uid": "uid-consumer", "resourceVersion": "1", **hpa["metadata"]}


def _says(verdict: Verdict, words: str) -> bool:
    return isinstance(verdict, Held) and any(words in reason.message for reason in verdict.reasons)
