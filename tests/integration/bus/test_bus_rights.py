"""Every service works with exactly its own permissions on a real NATS server, and can do nothing else."""

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client

from services.contracts.bus_rights import WORK
from services.contracts.nats_config import READERS_INBOX, rendered, users_of
from services.contracts.streams import DEAD_LETTERS_STREAM, PLACEMENT_STREAM, STREAMS
from services.contracts.subjects import dead_letter_subject
from services.core.authorization import Grant
from services.core.policy import Policy
from services.core.signer_policy import spiffe_id
from services.runtime.bus import Bus
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness
from services.runtime.nats_connection import LASTING, NatsAccess, inbox_of
from services.runtime.tls import client_context, read_folder
from tests.e2e.waiting import eventually, until
from tests.pki import TestAuthority

NAMESPACE = "phalanx-system"
READER = "spiffe://phalanx.dev/ns/team-a/sa/trainer"
POLICY = Policy(authorization=(Grant(identity=READER, reads=("PHALANX_PLACEMENT",)),))
AUTHORITY = TestAuthority()

FOREIGN: dict[str, Sequence[str]] = {
    "watcher": (
        "phalanx.placement.v1.podgroup.a.b.proposed",
        "$KV.phalanx_leaders.placer",
        "$JS.API.STREAM.DELETE.PHALANX_CLUSTER",
        "$JS.API.STREAM.PURGE.PHALANX_CLUSTER",
        "$JS.API.STREAM.MSG.GET.PHALANX_PLACEMENT",
    ),
    "placer": (
        "phalanx.cluster.v1.node._.n1",
        "phalanx.placement.v1.podgroup.a.b.committed",
        "phalanx.placement.v1.podgroup.a.b.rolled_back",
        "phalanx.deadletter.v1.binder.PHALANX_CLUSTER.1",
        "$KV.phalanx_transactions.t",
        "$KV.phalanx_leaders.binder",
        "$JS.API.STREAM.UPDATE.PHALANX_PLACEMENT",
    ),
    "binder": (
        "phalanx.cluster.v1.pod.a.b",
        "phalanx.placement.v1.podgroup.a.b.waiting",
        "phalanx.scaling.v1.a.b.woken",
        "$KV.phalanx_leaders.placer",
        "$JS.API.STREAM.DELETE.KV_phalanx_transactions",
    ),
    "autoscaler": (
        "phalanx.placement.v1.podgroup.a.b.proposed",
        "phalanx.cluster.v1.pod.a.b",
        "$KV.phalanx_transactions.t",
        "$JS.API.CONSUMER.MSG.NEXT.ORDERS.infer",
    ),
}
"""What each service would do, were it taken over."""


def identity(service: str) -> str:
    """The name of a service's user."""
    return spiffe_id("phalanx.dev", namespace=NAMESPACE, service_account=f"phalanx-{service}")


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[EmbeddedNats]:
    """A server with the configuration that `phalanx nats-config` writes."""
    server = AUTHORITY.issue(dns_names=("phalanx-nats",)).write(folder / "server", trusted=AUTHORITY.certificate)
    further = rendered(users_of(POLICY, namespace=NAMESPACE), tls_dir=str(server))
    async with EmbeddedNats(further=further) as running:
        yield running


def access(folder: Path, who: str, *, inbox: str) -> NatsAccess:
    """How somebody with a certificate of ours connects."""
    written = AUTHORITY.issue(uri=who).write(folder / who.rsplit("/", 1)[-1], trusted=AUTHORITY.certificate)
    return NatsAccess(tls=client_context(read_folder(written)), inbox=inbox)


@contextlib.asynccontextmanager
async def connected(
    server: EmbeddedNats, given: NatsAccess, *, errors: list[str] | None = None
) -> AsyncIterator[Client]:
    """A plain client, which tells what the server refuses."""
    client = Client()

    async def told(error: Exception) -> None:
        if errors is not None:
            errors.append(str(error).lower())

    await client.connect(servers=[server.url], error_cb=told, **LASTING, **given.options)
    try:
        yield client
    finally:
        await client.close()


@pytest.mark.parametrize("service", sorted(WORK))
async def test_what_is_not_a_services_work_is_refused(tmp_path: Path, service: str) -> None:
    """Each foreign subject is a violation that the server names; so is listening to another's answers."""
    errors: list[str] = []
    async with (
        serving(tmp_path) as server,
        connected(server, access(tmp_path, identity(service), inbox=inbox_of(service)), errors=errors) as client,
    ):
        for subject in FOREIGN[service]:
            await client.publish(subject, b"{}")
        others = (">", "_INBOX.>", "phalanx.cluster.v1.>", "$SYS.>", "$JS.EVENT.>")
        for subject in others:
            await client.subscribe(subject)
        expected = [f'publish to "{subject}"'.lower() for subject in FOREIGN[service]]
        expected += [f'subscription to "{subject}"'.lower() for subject in others]
        await until(
            lambda: all(any(one in error for error in errors) for one in expected), what=f"{expected} in {errors}"
        )


@pytest.mark.parametrize("service", ["placer", "binder", "autoscaler"])
async def test_a_service_stores_letters_about_what_it_cannot_read(tmp_path: Path, service: str) -> None:
    """Seldom needed, and then it has to work: the stream is made, the letter stored and found again."""
    given = access(tmp_path, identity(service), inbox=inbox_of(service))
    async with (
        serving(tmp_path) as server,
        Bus(url=server.url, name=service, readiness=Readiness(), access=given) as bus,
    ):
        await bus.keep_streams(STREAMS)
        subject = dead_letter_subject(service, stream=PLACEMENT_STREAM.name, sequence=7)
        await bus.publish(subject, data=b"letter", headers={}, expected_sequence=0)
        found = await bus.last(DEAD_LETTERS_STREAM.name, subject=subject)
        assert found is not None
        assert found.data == b"letter"


async def test_the_answers_of_one_service_are_not_heard_by_another(tmp_path: Path) -> None:
    """Its inbox is its own."""
    errors: list[str] = []
    async with (
        serving(tmp_path) as server,
        connected(server, access(tmp_path, identity("placer"), inbox=inbox_of("placer")), errors=errors) as client,
    ):
        await client.subscribe(f"{inbox_of('binder')}.>")
        await until(lambda: any("permissions violation" in error for error in errors), what="a violation")


async def test_a_reader_reads_its_stream_and_writes_nothing(tmp_path: Path) -> None:
    """What `reads` grants is enough for a consumer and for a plain subscription; publishing is refused."""
    errors: list[str] = []
    mine = access(tmp_path, READER, inbox=READERS_INBOX)
    placer = access(tmp_path, identity("placer"), inbox=inbox_of("placer"))
    async with (
        serving(tmp_path) as server,
        Bus(url=server.url, name="placer", readiness=Readiness(), access=placer) as writing,
        Bus(url=server.url, name="reader", readiness=Readiness(), access=mine) as reading,
        connected(server, mine, errors=errors) as client,
    ):
        await writing.ensure_streams([PLACEMENT_STREAM])
        heard = await client.subscribe("phalanx.placement.v1.>")
        await client.flush()
        subject = "phalanx.placement.v1.podgroup.a.b.waiting"

        async def is_heard() -> bool:
            # A plain subscription promises at most once: whoever must miss nothing reads by a consumer, as below.
            await writing.publish(subject, data=b"x", headers={})
            with contextlib.suppress(nats.errors.TimeoutError):
                return (await heard.next_msg(timeout=1)).data == b"x"
            return False

        await eventually(is_heard, what="the subscription brings a message", timeout_s=60)
        batches = reading.follow(PLACEMENT_STREAM.name, subjects=PLACEMENT_STREAM.subjects)
        async with asyncio.timeout(30):
            batch = await anext(aiter(batches))
        assert {message.data for message in batch.messages} == {b"x"}
        await client.publish(subject, b"forged")
        await until(lambda: any("permissions violation" in error for error in errors), what="a violation")
        assert (await writing.last(PLACEMENT_STREAM.name, subject=subject)) is not None
        last = await writing.last(PLACEMENT_STREAM.name, subject=subject)
        assert last is not None
        assert last.data == b"x"


@pytest.mark.parametrize("whom", ["no certificate", "another authority", "expired", "no user", "another namespace"])
async def test_nobody_else_gets_in(tmp_path: Path, whom: str) -> None:
    """The connection fails, the server says why in its log, and goes on serving others."""
    stranger, folder = TestAuthority("stranger"), tmp_path / "who"
    good = identity("placer")
    pairs = {
        "another authority": stranger.issue(uri=good),
        "expired": AUTHORITY.issue(uri=good, is_expired=True),
        "no user": AUTHORITY.issue(uri=identity("nobody")),
        "another namespace": AUTHORITY.issue(uri=good.replace(NAMESPACE, "team-a")),
    }
    async with serving(tmp_path) as server:
        if whom == "no certificate":
            given = NatsAccess(tls=_without_certificate())
        else:
            material = read_folder(pairs[whom].write(folder, trusted=AUTHORITY.certificate))
            given = NatsAccess(tls=client_context(material))
        client = Client()
        with pytest.raises((nats.errors.Error, OSError, TimeoutError)):
            await client.connect(servers=[server.url], allow_reconnect=False, connect_timeout=5, **given.options)
        await until(
            lambda: re.search(r"TLS handshake error|authentication error", server.log_text), what="it is in the log"
        )
        assert "PRIVATE" not in server.log_text
        async with connected(server, access(tmp_path, good, inbox=inbox_of("placer"))) as other:
            assert other.is_connected


def _without_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=AUTHORITY.certificate.decode())
    return context
