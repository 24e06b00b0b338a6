"""Certificates and authorities are replaced under load: no call fails, a long stream goes on, the bus reconnects."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.contracts.streams import PLACEMENT_STREAM
from services.runtime import rpc
from services.runtime.backoff import repeating
from services.runtime.bus import Bus, BusUnavailable, StaleWrite
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness
from services.runtime.nats_connection import NatsAccess
from services.runtime.rpc_channel import RenewedChannel
from tests.e2e.waiting import until
from tests.integration.tls import CALLER, SERVER, Side, TestAuthority, access, nats_tls, side
from tests.pki import Pair

HEALTH = "grpc.health.v1.Health"
PATIENCE_S = 30.0
CHECK = health_pb2.HealthCheckRequest()


class Rotation:
    """Two authorities and two sides; each step is one of those that a rotation with overlap consists of."""

    def __init__(self, folder: Path) -> None:
        self.old, self.new = TestAuthority("old"), TestAuthority("new")
        self.both = self.old.certificate + self.new.certificate
        self.server = side(folder / "server", self.pair(self.old, SERVER), trusted=self.old.certificate)
        self.client = side(folder / "client", self.pair(self.old, CALLER), trusted=self.old.certificate)

    @staticmethod
    def pair(authority: TestAuthority, identity: str) -> Pair:
        """A certificate of one side."""
        return authority.issue(uri=identity, dns_names=("localhost",))

    async def steps(self) -> AsyncIterator[str]:
        """Each step, in the order in which a kubelet might bring them: the two sides are never in step."""
        await self.client.renew(trusted=self.both)
        yield "the client believes both"
        await self.server.renew(trusted=self.both)
        yield "the server believes both"
        await self.server.renew(self.pair(self.new, SERVER), trusted=self.both)
        yield "the server is renewed"
        await self.client.renew(self.pair(self.new, CALLER), trusted=self.both)
        yield "the client is renewed"
        await self.server.renew(trusted=self.new.certificate)
        yield "the server believes the new one alone"
        await self.client.renew(trusted=self.new.certificate)
        yield "the client believes the new one alone"


def has_grown(counted: list[int], at_least: int) -> bool:
    """Whether a counter has come so far."""
    return counted[0] >= at_least


async def check(client: RenewedChannel) -> None:
    """One call."""
    async with client.calling() as channel:
        await health_pb2_grpc.HealthStub(channel).Check(CHECK, timeout=PATIENCE_S, wait_for_ready=True)


async def test_an_authority_is_replaced_while_calls_go_on(tmp_path: Path) -> None:
    """Calls at every moment of a rotation, and one stream that lasts longer than all of it: none fails."""
    rotation, readiness = Rotation(tmp_path), Readiness()
    gate = access(rotation.server, calls={CALLER: [f"{HEALTH}/*"]})
    async with (
        rpc.serve("127.0.0.1:0", lambda _server: (), readiness, access=gate) as port,
        RenewedChannel(f"127.0.0.1:{port}", tls=rotation.client.tls) as client,
        client.calling() as channel,
    ):
        stream = health_pb2_grpc.HealthStub(channel).Watch(CHECK)
        assert (await stream.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        done, counted = asyncio.Event(), [0]

        async def load() -> None:
            while not done.is_set():
                await check(client)
                counted[0] += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(load())
            async for _ in rotation.steps():
                before = counted[0]
                await until(functools.partial(has_grown, counted, before + 20), what="calls after the step")
            done.set()
        # The stream began before the first step, on a connection of the first certificate, and still hears.
        readiness.set("x", ready=True)
        async with asyncio.timeout(PATIENCE_S):
            assert (await stream.read()).status == health_pb2.HealthCheckResponse.SERVING
        assert client.channel_count == 2


async def test_a_channel_whose_calls_have_ended_is_closed(tmp_path: Path) -> None:
    """After a renewal there is one channel again, with the new certificate."""
    rotation = Rotation(tmp_path)
    gate = access(rotation.server, calls={CALLER: [f"{HEALTH}/Check"]})
    async with (
        rpc.serve("127.0.0.1:0", lambda _server: (), Readiness(), access=gate) as port,
        RenewedChannel(f"127.0.0.1:{port}", tls=rotation.client.tls) as client,
    ):
        await check(client)
        async with client.calling():
            await rotation.client.renew(rotation.pair(rotation.old, CALLER), trusted=rotation.both)
            await check(client)
            assert client.channel_count == 2
        assert client.channel_count == 1


async def test_whom_nobody_believes_any_more_gets_nothing(tmp_path: Path) -> None:
    """The end of a rotation is an end: a new connection with the old certificate is refused."""
    rotation = Rotation(tmp_path)
    gate = access(rotation.server, calls={CALLER: [f"{HEALTH}/Check"]})
    async with rpc.serve("127.0.0.1:0", lambda _server: (), Readiness(), access=gate) as port:
        target = f"127.0.0.1:{port}"
        async with RenewedChannel(target, tls=rotation.client.tls) as client:
            await check(client)
        await rotation.client.renew(trusted=rotation.both)
        await rotation.server.renew(rotation.pair(rotation.new, SERVER), trusted=rotation.new.certificate)
        async with RenewedChannel(target, tls=rotation.client.tls) as client, client.calling() as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await health_pb2_grpc.HealthStub(channel).Check(CHECK, timeout=PATIENCE_S)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@contextlib.asynccontextmanager
async def bus_of(client: Side, *, url: str, readiness: Readiness | None = None) -> AsyncIterator[Bus]:
    """A bus that shows the client's certificates."""
    async with Bus(
        url=url, name="test", readiness=readiness or Readiness(), access=NatsAccess(tls=client.tls.client_context())
    ) as bus:
        yield bus


def configuration(server: Side) -> str:
    """A NATS server that lets the caller do everything, and nobody else anything."""
    return f'{nats_tls(server.folder)}\nauthorization {{ users: [ {{ user: "{CALLER}" }} ] }}'


async def test_the_bus_goes_on_while_both_sides_are_renewed(tmp_path: Path) -> None:
    """Every message arrives, through reloads of the server and a restart with what nobody believed at first."""
    rotation = Rotation(tmp_path)
    async with EmbeddedNats(further=configuration(rotation.server)) as nats:
        url = f"tls://127.0.0.1:{nats.port}"
        async with bus_of(rotation.client, url=url) as bus:
            await bus.ensure_streams([PLACEMENT_STREAM])
            sent = [0]

            async def publish() -> None:
                subject = f"phalanx.placement.v1.podgroup.a.g{sent[0]}.waiting"
                async for attempt in repeating(limit_s=PATIENCE_S, retry_on=(BusUnavailable,)):
                    # Stale where an answer was lost with its connection: the message is there.
                    with attempt, contextlib.suppress(StaleWrite):
                        await bus.publish(subject, data=b"x", headers={}, expected_sequence=0)
                sent[0] += 1

            seen: set[str] = set()

            async def follow() -> None:
                async for batch in bus.follow(PLACEMENT_STREAM.name, subjects=PLACEMENT_STREAM.subjects):
                    seen.update(message.subject for message in batch.messages)

            following = asyncio.create_task(follow())
            async for _ in rotation.steps():
                nats.reload()
                for _ in range(5):
                    await publish()
            # From here on only the new certificates are any good, and every connection is made anew.
            await nats.kill()
            await nats.start()
            await publish()
            await until(lambda: len(seen) == sent[0], what="every message arrives")
            following.cancel()
        assert len(seen) == sent[0] == 31


async def test_the_bus_never_speaks_in_the_clear(tmp_path: Path) -> None:
    """A server that says there is no TLS, or somebody who says so in its name, gets no connection."""
    rotation, readiness = Rotation(tmp_path), Readiness()
    access = NatsAccess(tls=rotation.client.tls.client_context())
    async with EmbeddedNats() as nats:
        bus = Bus(url=nats.url, name="test", readiness=readiness, access=access)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2), bus:
                raise AssertionError("connected without TLS")
    assert not readiness.is_ready
