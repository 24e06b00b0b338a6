"""`phalanx decisions`: the stream of decisions, live or from its beginning."""

import asyncio
import contextlib
import json

import click
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError

from services.cli.certificates import nats_access
from services.contracts.cluster_codec import UndecodableMessage
from services.contracts.decision_codec import EVENTS, decode_decision
from services.contracts.nats_config import READERS_INBOX
from services.contracts.pb.placement.v1 import decision_pb2
from services.contracts.streams import PLACEMENT_STREAM
from services.contracts.subjects import placement_subject
from services.core import decisions as core
from services.core.objects import GangId
from services.core.reasons import summary
from services.runtime.bus import Bus, BusUnavailable, Message
from services.runtime.health import Readiness

CONNECT_TIMEOUT_S = 5.0
"""How long `--once` waits for a server; without it the command waits for one as long as it takes."""
SILENCE_S = 1.0
"""After so long without a server the command says what it waits for."""
LOOK_S = 0.1

FORWARDING = "in a cluster: kubectl -n phalanx-system port-forward svc/nats 4222"


@click.command()
@click.option(
    "--nats-url", default="nats://127.0.0.1:4222", envvar="PHALANX_NATS_URL", show_default=True, show_envvar=True
)
@click.option("--gang", help="Only this gang: a name, or an id such as podgroup/team-a/train.")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace, for a gang given by name.")
@click.option("--all", "is_all", is_flag=True, help="Every decision kept, not only the last of each gang and event.")
@click.option("--once", is_flag=True, help="End when everything stored has been shown.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def decisions(nats_url: str, gang: str | None, namespace: str, output: str, *, is_all: bool, once: bool) -> None:
    """Show decisions about gangs as they happen, until Ctrl-C. Times are in UTC.

    A name stands for gangs of every kind that have it, as for `phalanx why`. Of a pod in a group nothing is known here:
    `phalanx why pod/<namespace>/<name>` names its group.
    """
    asked = gang if not gang or "/" in gang else f"*/{namespace}/{gang}"
    try:
        subject = placement_subject(GangId(asked), event="*") if asked else PLACEMENT_STREAM.subjects[0]
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--gang") from error
    bus = Bus(
        url=nats_url,
        name="phalanx-decisions",
        readiness=(readiness := Readiness()),
        access=nats_access(inbox=READERS_INBOX),
    )
    if not once:
        asyncio.run(_follow(bus, readiness, subject=subject, output=output, is_all=is_all))
        return
    count = asyncio.run(_show_stored(bus, nats_url=nats_url, subject=subject, output=output, is_all=is_all))
    if not count:
        hint = f" in namespace {namespace} (-n)" if gang and "/" not in gang else ""
        click.echo(f"no decisions about {gang or 'any gang'}{hint} are kept", err=True)


async def _show_stored(bus: Bus, *, nats_url: str, subject: str, output: str, is_all: bool) -> int:
    """Show what is stored, and return how much that was."""
    count = 0
    async with contextlib.AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await stack.enter_async_context(bus)
                # A stream that does not exist has no end; to follow it would be to wait for it.
                await bus.last(PLACEMENT_STREAM.name, subject=subject)
        except TimeoutError as error:
            raise click.ClickException(f"no NATS server answers at {nats_url}; {FORWARDING}") from error
        except BusUnavailable as error:
            raise click.ClickException(f"{error}: no service of Phalanx has used this NATS server yet") from error
        async for batch in bus.follow(PLACEMENT_STREAM.name, subjects=subject, last_per_subject=not is_all):
            for message in batch.messages:
                _show(message, output=output)
            count += len(batch.messages)
            if batch.pending == 0:
                break
    return count


async def _follow(bus: Bus, readiness: Readiness, *, subject: str, output: str, is_all: bool) -> None:
    """Show what is stored, and then each new decision, for ever."""
    telling = asyncio.create_task(_tell_waiting(readiness))
    try:
        async with bus:
            async for batch in bus.follow(PLACEMENT_STREAM.name, subjects=subject, last_per_subject=not is_all):
                for message in batch.messages:
                    _show(message, output=output)
    finally:
        telling.cancel()


async def _tell_waiting(readiness: Readiness) -> None:
    """Say what is waited for where that takes longer than a moment, and when it is over; until cancelled."""
    waited_s = 0.0
    while True:
        await asyncio.sleep(LOOK_S)
        missing = [one.detail for one in readiness.conditions if not one.ready]
        if not missing and waited_s > SILENCE_S:
            click.echo("connected", err=True)
        if missing and waited_s <= SILENCE_S < waited_s + LOOK_S:
            click.echo(f"{'; '.join(missing)} ({FORWARDING})", err=True)
        waited_s = waited_s + LOOK_S if missing else 0.0


def _show(message: Message, *, output: str) -> None:
    try:
        click.echo(_as_json(message) if output == "json" else _as_text(message))
    except (UndecodableMessage, DecodeError) as error:
        click.echo(f"message {message.sequence} on {message.subject} cannot be read: {error}", err=True)


def _as_json(message: Message) -> str:
    body = decision_pb2.Decision.FromString(message.data)
    fields = MessageToDict(body, preserving_proto_field_name=True)
    return json.dumps({"sequence": message.sequence, "id": message.headers.get("ce-id"), **fields})


def _as_text(message: Message) -> str:
    decision = decode_decision(message.data)
    name = EVENTS[type(decision.event)]
    return f"{decision.decided_at:%Y-%m-%d %H:%M:%S.%f} {decision.gang:40} {name:12} {_detail(decision.event)}"


def _detail(event: core.DecisionEvent) -> str:
    match event:
        case core.Proposed(is_release=True):
            return f"{len(event.assignments)} pods that are left are released"
        case core.Proposed():
            nodes = {one.node for one in event.assignments}
            warned = f"; warning: {summary(event.warnings)}" if event.warnings else ""
            where = f"{len(event.assignments)} pods on {len(nodes)} nodes"
            return f"{where}, round {event.round}, revision {event.revision}{warned}"
        case core.Committed():
            return f"{len(event.members)} pods bound, {event.repaired} repaired, {event.open} left open"
        case core.Repairing():
            return f"{len(event.open)} pods need another node, {len(event.bound)} are bound"
        case core.RolledBack():
            return f"{len(event.undone)} pods taken back, {len(event.kept)} kept: {summary(event.reasons)}"
        case core.Degraded(is_over=True):
            return f"{event.placed} of the {event.min_count} needed pods are there: over"
        case core.Waiting() | core.Refused() | core.Degraded():
            return summary(event.reasons)
