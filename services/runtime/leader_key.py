"""The key of one service in the bucket of leaders, on a NATS connection of its own.

Every request is short and tried once: what to do without an answer is decided by `services.runtime.election`. Nothing
is sent while the connection is down, so that no write leaves long after it was meant.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import nats.errors
from nats.aio.client import Client
from nats.js import JetStreamContext, api
from nats.js.errors import APIError, NotFoundError
from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from services.runtime.bus import EXPECTED_LAST_SEQUENCE, MESSAGE_TTL, STREAM_NAME_IN_USE, WRONG_LAST_SEQUENCE
from services.runtime.election import (
    Acquire,
    Event,
    Holder,
    Instruction,
    Look,
    Overtaken,
    Renew,
    Seen,
    Stored,
    Terms,
    Unanswered,
    Vacant,
)
from services.runtime.nats_connection import LASTING, OPEN, NatsAccess, servers_of

BUCKET = "phalanx_leaders"
MARKER_TTL_S = 60.0
"""How long the server remembers that a key expired; after it, the key looks as if it had never been."""

LEADERS_STREAM = f"KV_{BUCKET}"
"""Stream of the bucket."""
_OPERATION = "KV-Operation"
_MARKER = "Nats-Marker-Reason"
_MESSAGE_NOT_FOUND = 10037
_FAULTS = (nats.errors.Error, APIError, OSError, TimeoutError)


class LeaderKey:
    """Reads and writes the key; `candidate` is unique to this process, `instance` is its name for people."""

    def __init__(
        self,
        *,
        url: str,
        service: str,
        instance: str,
        candidate: str,
        terms: Terms,
        monotonic: Callable[[], float],
        access: NatsAccess = OPEN,
    ) -> None:
        """Keep what `open` needs."""
        self._urls = servers_of(url)
        self._subject = leader_subject(service)
        self._name = f"phalanx-{service}/{instance}/leadership"
        self._instance = instance
        self._candidate = candidate
        self._terms = terms
        self._monotonic = monotonic
        self._access = access
        self._client = Client()
        self._has_bucket = False
        self._acquired_at = ""

    async def open(self) -> None:
        """Connect, waiting for the server as long as it takes."""
        patient = AsyncRetrying(
            wait=wait_random_exponential(multiplier=0.1, max=2), retry=retry_if_exception_type(_FAULTS)
        )
        async for attempt in patient:
            with attempt:
                await self._client.connect(
                    servers=self._urls,
                    name=self._name,
                    **LASTING,
                    **self._access.options,
                    ping_interval=1,
                    error_cb=_ignored,
                )

    async def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(*_FAULTS):
            await self._client.close()

    async def carry_out(self, instruction: Instruction, *, timeout_s: float) -> Event:
        """Do what the rules ask for, and return what came of it."""
        if not self._client.is_connected:
            return Unanswered()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._carry_out(instruction)
        except _FAULTS as error:
            if isinstance(error, APIError) and error.err_code == WRONG_LAST_SEQUENCE:
                return Overtaken()
            # The bucket may be gone, with the volume of the server.
            self._has_bucket = False
            return Unanswered()

    async def release(self, *, timeout_s: float) -> None:
        """Delete the key if it is ours, so that another need not wait until it expires."""
        with contextlib.suppress(*_FAULTS):
            async with asyncio.timeout(timeout_s):
                jetstream = self._client.jetstream(timeout=timeout_s)
                held = await self._read(jetstream)
                if isinstance(held, Holder) and held.candidate == self._candidate:
                    deleted = {EXPECTED_LAST_SEQUENCE: str(held.revision), _OPERATION: "DEL"}
                    await jetstream.publish(self._subject, b"", headers=deleted)

    async def _carry_out(self, instruction: Instruction) -> Event:
        jetstream = self._client.jetstream(timeout=self._terms.ttl_s)
        if not self._has_bucket:
            await _ensure_bucket(jetstream)
            self._has_bucket = True
        match instruction:
            case Look():
                return Seen(key=await self._read(jetstream))
            case Acquire(expected=expected):
                self._acquired_at = datetime.now(UTC).isoformat(timespec="milliseconds")
                # Its epoch is the revision that this very write will get, which nobody knows yet.
                return await self._write(jetstream, expected=expected, epoch=0)
            case Renew(expected=expected, epoch=epoch):
                return await self._write(jetstream, expected=expected, epoch=epoch)

    async def _write(self, jetstream: JetStreamContext, *, expected: int, epoch: int) -> Stored:
        value = {
            "instance": self._instance,
            "epoch": epoch,
            "acquired_at": self._acquired_at,
            "candidate": self._candidate,
        }
        given = {EXPECTED_LAST_SEQUENCE: str(expected), MESSAGE_TTL: f"{int(self._terms.ttl_s)}s"}
        sent_at_s = self._monotonic()
        answer = await jetstream.publish(self._subject, json.dumps(value).encode(), headers=given)
        return Stored(revision=int(answer.seq), sent_at_s=sent_at_s)

    async def _read(self, jetstream: JetStreamContext) -> Holder | Vacant:
        try:
            found = await jetstream.get_last_msg(LEADERS_STREAM, self._subject)
        except NotFoundError as error:
            if error.err_code != _MESSAGE_NOT_FOUND:
                raise
            return Vacant(revision=0)
        return key_of(found.data or b"", found.headers or {}, revision=int(found.seq or 0))


def leader_subject(service: str) -> str:
    """Return the subject that a service's key has in the bucket's stream."""
    return f"$KV.{BUCKET}.{service}"


def key_of(data: bytes, headers: Mapping[str, str], *, revision: int) -> Holder | Vacant:
    """Return what a key says in a revision."""
    if _OPERATION in headers or _MARKER in headers:
        return Vacant(revision=revision)
    try:
        value = json.loads(data)
        return Holder(
            candidate=str(value["candidate"]),
            instance=str(value["instance"]),
            epoch=int(value["epoch"]) or revision,
            revision=revision,
        )
    except (ValueError, KeyError, TypeError):
        # Somebody wrote to the key by hand. Unless it expires, it stays theirs, and readiness shows it.
        return Holder(candidate="", instance="(unreadable key)", epoch=revision, revision=revision)


async def _ensure_bucket(jetstream: JetStreamContext) -> None:
    """Create the bucket; one that exists with other settings is left as its operator made it."""
    try:
        # Without the limit for markers, the server refuses messages that expire.
        await jetstream.create_key_value(api.KeyValueConfig(bucket=BUCKET, limit_marker_ttl=MARKER_TTL_S, direct=False))
    except APIError as error:
        if error.err_code != STREAM_NAME_IN_USE:
            raise


async def _ignored(_error: Exception) -> None:
    """The rules notice by the missing answer."""
