"""The commands of a case: sent through a real work queue, applied by workers that may die before they acknowledge.

What a command does is decided by `services.core.commands`; a worker here is the thinnest shell around it: read the
target, decide, write on the condition of the version that was read, and only then acknowledge.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import nats
from nats.aio.msg import Msg
from nats.js import JetStreamContext, api
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from services.core.commands import (
    AddReplicas,
    Evict,
    EvictionTarget,
    EvictionWrite,
    ScaleCommand,
    ScaleTarget,
    ScaleWrite,
    SetReplicas,
    SkipReason,
    decide_eviction,
    decide_scale,
)
from services.core.names import LAST_COMMAND_ANNOTATION
from services.core.objects import Uid
from services.runtime.kube import KubeError
from tests.cases.check import UnknownWord
from tests.e2e.api import Api, Manifest

STREAM = "CASES"
SUBJECT = "cases.commands"
CONSUMER = "workers"
ACK_WAIT_S = 1.0
"""After so long without an acknowledgement a message comes again."""
FETCH_TIMEOUT_S = 15.0
MAX_ATTEMPTS = 10

_CONFLICT = 409
_SCALE = re.compile(r"(?P<target>\S+): (?P<verb>add|set) (?P<amount>-?\d+)")
_EVICT = re.compile(r"evict (?P<target>\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """One delivery: what it led to, `written` or why nothing was, and whether it was acknowledged after that."""

    id: str
    worker: str
    deliveries: int
    outcome: str
    is_acked: bool


@dataclass(slots=True, kw_only=True)
class CommandQueue:
    """The queue, its sender and its workers."""

    jetstream: JetStreamContext
    api: Api
    log: list[Handled] = field(default_factory=list)

    async def send(self, message: Mapping[str, Any]) -> None:
        """Put a message of a case into the queue. The sender names the target's uid as it sees it now."""
        command = await self._written_down(message)
        await self.jetstream.publish(SUBJECT, json.dumps(command).encode())

    async def handle(self, *, worker: str, acks: bool) -> Handled:
        """Take the next delivery and carry it out; without `acks` the worker dies before it can say so."""
        subscription = await self.jetstream.pull_subscribe_bind(consumer=CONSUMER, stream=STREAM)
        (message,) = await subscription.fetch(1, timeout=FETCH_TIMEOUT_S)
        document = json.loads(message.data)
        outcome = await self._carry_out(document)
        if acks:
            await message.ack_sync()
        await subscription.unsubscribe()
        handled = Handled(
            id=document["id"], worker=worker, deliveries=_deliveries(message), outcome=outcome, is_acked=acks
        )
        self.log.append(handled)
        return handled

    async def evict(self, command: Evict, *, pod: str) -> str:
        """Carry an eviction out; returns what came of it."""
        async for attempt in _patient():
            with attempt:
                return await self._evict_once(command, pod=pod)
        raise AssertionError("the last attempt raises")

    async def _written_down(self, message: Mapping[str, Any]) -> dict[str, Any]:
        body = message["body"]
        if found := _SCALE.fullmatch(body):
            target = await self.api.get("Deployment", found["target"])
            return {
                "id": message["id"],
                "sequence": message["seq"],
                "do": found["verb"],
                "target": found["target"],
                "uid": target["metadata"]["uid"],
                "amount": int(found["amount"]),
            }
        if found := _EVICT.fullmatch(body):
            pod = await self.api.get("Pod", found["target"])
            return {"id": message["id"], "do": "evict", "target": found["target"], "uid": pod["metadata"]["uid"]}
        raise UnknownWord(
            f"message {message['id']}: expected '<name>: add|set <number>' or 'evict <pod>', got {body!r}"
        )

    async def _carry_out(self, document: Mapping[str, Any]) -> str:
        uid = Uid(document["uid"])
        if document["do"] == "evict":
            return await self.evict(Evict(id=document["id"], uid=uid), pod=document["target"])
        command: ScaleCommand
        if document["do"] == "add":
            command = AddReplicas(id=document["id"], sequence=document["sequence"], uid=uid, count=document["amount"])
        else:
            command = SetReplicas(
                id=document["id"], sequence=document["sequence"], uid=uid, replicas=document["amount"]
            )
        async for attempt in _patient():
            with attempt:
                return await self._scale_once(command, name=document["target"])
        raise AssertionError("the last attempt raises")

    async def _scale_once(self, command: ScaleCommand, *, name: str) -> str:
        found = await self.api.find("Deployment", name)
        decision = decide_scale(command, target=None if found is None else _scale_target(found))
        if found is None or not isinstance(decision, ScaleWrite):
            return _skipped(decision)
        # One request for both, on the condition of what was read: neither can be there without the other.
        metadata = {
            "resourceVersion": found["metadata"]["resourceVersion"],
            "annotations": {LAST_COMMAND_ANNOTATION: decision.record.text()},
        }
        await self.api.patch("Deployment", name, {"metadata": metadata, "spec": {"replicas": decision.replicas}})
        return "written"

    async def _evict_once(self, command: Evict, *, pod: str) -> str:
        found = await self.api.find("Pod", pod)
        decision = decide_eviction(command, target=None if found is None else _eviction_target(found))
        if not isinstance(decision, EvictionWrite):
            return _skipped(decision)
        await self.api.evict(pod, uid=decision.uid)
        return "written"


@asynccontextmanager
async def command_queue(nats_url: str, *, kubernetes: Api) -> AsyncIterator[CommandQueue]:
    """Make the queue, with a consumer that delivers again what is not acknowledged."""
    client = await nats.connect(nats_url)
    jetstream = client.jetstream()
    try:
        await jetstream.add_stream(name=STREAM, subjects=[SUBJECT])
        await jetstream.add_consumer(
            STREAM,
            api.ConsumerConfig(
                durable_name=CONSUMER, ack_policy=api.AckPolicy.EXPLICIT, ack_wait=ACK_WAIT_S, max_ack_pending=1
            ),
        )
        yield CommandQueue(jetstream=jetstream, api=kubernetes)
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            await client.close()


def _deliveries(message: Msg) -> int:
    return message.metadata.num_delivered or 0


def _scale_target(found: Manifest) -> ScaleTarget:
    return ScaleTarget(
        uid=Uid(found["metadata"]["uid"]),
        replicas=found["spec"].get("replicas", 1),
        record=(found["metadata"].get("annotations") or {}).get(LAST_COMMAND_ANNOTATION, ""),
    )


def _eviction_target(found: Manifest) -> EvictionTarget:
    metadata = found["metadata"]
    return EvictionTarget(uid=Uid(metadata["uid"]), is_terminating="deletionTimestamp" in metadata)


def _skipped(decision: object) -> str:
    reason = getattr(decision, "reason", None)
    assert isinstance(reason, SkipReason), f"expected a decision to skip, got {decision!r}"
    return reason.value


def _patient() -> AsyncRetrying:
    """Try again after a conflict: somebody changed the object between reading and writing."""
    return AsyncRetrying(
        retry=retry_if_exception(lambda error: isinstance(error, KubeError) and error.status == _CONFLICT),
        wait=wait_random_exponential(multiplier=0.01, max=0.5),
        stop=stop_after_attempt(MAX_ATTEMPTS),
        reraise=True,
    )
