"""One pull consumer of JetStream, read with a request that is always open, so that silence means that something broke.

The library's own `fetch` hides the deletion of a consumer until its time is over, and does not know that the connection
was lost. Here the server sends a sign of life while nothing happens; where it does not come, the owner has to look.
"""

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING

from nats.aio.client import Client
from nats.aio.msg import Msg

if TYPE_CHECKING:
    from nats.aio.subscription import Subscription

REQUEST_MESSAGES = 256
"""Messages that one request may bring, and so what a slow reader has to hold.

They are not limited in bytes: a consumer of last messages loses the message that would exceed such a limit
(nats-server 2.15), and its delivery counter does not show it.
"""
PENDING_BYTES = REQUEST_MESSAGES * 8 * 2**20
"""More than one request can bring, so that the library never drops what was asked for."""
REQUEST_EXPIRES_S = 30.0
HEARTBEAT_S = 0.5
SILENCE_S = 1.5
"""After three missed heartbeats the owner looks whether the consumer still exists."""

_NANOSECONDS = 1_000_000_000
_HEARTBEAT = "100"
_OVER = frozenset({"404", "408"})
"""The request is used up or expired; the consumer is well."""


class Silence(Exception):
    """Nothing came, not even a sign of life, or the server ended the request: look whether the consumer exists."""


class Puller:
    """Reads one consumer. `received` counts its messages, as the server's own delivery counter should."""

    def __init__(self, client: Client, *, stream: str, consumer: str) -> None:
        """Keep what `open` needs."""
        self.stream = stream
        self.consumer = consumer
        self._client = client
        self._request_subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._inbox = client.new_inbox()
        self._subscription: Subscription | None = None
        self._arrived = asyncio.Event()
        self._messages: deque[Msg] = deque()
        self._remaining = 0
        self._is_interrupted = False
        self._is_idle = False
        self.received = 0

    async def open(self) -> None:
        """Subscribe to what requests bring."""
        self._subscription = await self._client.subscribe(
            self._inbox, cb=self._receive, pending_bytes_limit=PENDING_BYTES
        )

    async def close(self) -> None:
        """Stop listening."""
        if self._subscription is not None:
            await self._subscription.unsubscribe()

    def interrupt(self) -> None:
        """Say that the connection was lost: whatever was asked for will not come."""
        self._is_interrupted = True
        self._arrived.set()

    async def next(self) -> tuple[Msg, ...]:
        """Return the messages that came, at least one; none where the server says that nothing is left to send.

        Raises Silence.
        """
        while True:
            if self._messages:
                messages = tuple(self._messages)
                self._messages.clear()
                return messages
            if self._is_interrupted:
                self._is_interrupted, self._remaining = False, 0
                raise Silence
            if self._is_idle:
                self._is_idle = False
                return ()
            self._arrived.clear()
            if self._remaining <= 0:
                await self._ask()
            try:
                async with asyncio.timeout(SILENCE_S):
                    await self._arrived.wait()
            except TimeoutError:
                self._remaining = 0
                raise Silence from None

    async def _ask(self) -> None:
        request = {
            "batch": REQUEST_MESSAGES,
            "expires": int(REQUEST_EXPIRES_S * _NANOSECONDS),
            "idle_heartbeat": int(HEARTBEAT_S * _NANOSECONDS),
        }
        self._remaining = REQUEST_MESSAGES
        await self._client.publish(self._request_subject, json.dumps(request).encode(), reply=self._inbox)

    async def _receive(self, message: Msg) -> None:
        status = "" if message.reply else (message.headers or {}).get("Status", "")
        if not status:
            self._messages.append(message)
            self._remaining -= 1
            self.received += 1
        elif status == _HEARTBEAT:
            self._is_idle = True
        elif status in _OVER:
            self._remaining = 0
        else:
            # Consumer or stream deleted, server shutting down, leader changed, request too large, nobody listens.
            self._is_interrupted = True
        self._arrived.set()
