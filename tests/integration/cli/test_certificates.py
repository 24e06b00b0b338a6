"""Commands with certificates: questions to a placer, and decisions of a NATS server, where both ask for one."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner
from grpc.aio import Server

from services.cli.main import main
from services.contracts.nats_config import rendered, users_of
from services.core.authorization import Grant
from services.core.policy import Policy
from services.runtime import rpc
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness
from tests.integration.tls import CALLER, SERVER, TestAuthority, access, side

AUTHORITY = TestAuthority()
READER = Policy(authorization=(Grant(identity=CALLER, reads=("PHALANX_PLACEMENT",)),))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The certificates of somebody at a workstation."""
    return AUTHORITY.issue(uri=CALLER).write(tmp_path / "mine", trusted=AUTHORITY.certificate)


def _nothing(_server: Server) -> tuple[str, ...]:
    return ()


async def test_a_question_shows_the_callers_certificate(folder: Path, tmp_path: Path) -> None:
    """With it the placer answers (here: that it has no such method); without it nobody does."""
    server = side(
        tmp_path / "placer", AUTHORITY.issue(uri=SERVER, dns_names=("placer.svc",)), trusted=AUTHORITY.certificate
    )
    gate = access(server, calls={CALLER: ["phalanx.placement.v1.PlacementService/*"]})
    async with rpc.serve("127.0.0.1:0", _nothing, Readiness(), access=gate) as port:
        asked = ["why", "podgroup/a/b", "--placer", f"127.0.0.1:{port}"]
        given = {"PHALANX_TLS_DIR": str(folder), "PHALANX_TLS_SERVER_NAME": "placer.svc"}
        known = await _run(asked, environ=given)
        assert "Method not found" in known
        unknown = await _run(asked, environ={})
        assert "cannot be reached" in unknown


async def test_decisions_are_read_with_a_readers_rights(folder: Path, tmp_path: Path) -> None:
    """The server knows the reader by the certificate; there is nothing to show yet."""
    written = AUTHORITY.issue(uri=SERVER).write(tmp_path / "nats", trusted=AUTHORITY.certificate)
    further = rendered(users_of(READER, namespace="phalanx-system"), tls_dir=str(written))
    async with EmbeddedNats(further=further) as nats:
        shown = await _run(["decisions", "--once", "--nats-url", nats.url], environ={"PHALANX_TLS_DIR": str(folder)})
        assert "stream PHALANX_PLACEMENT does not exist" in shown or "no decisions about any gang" in shown


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """The variable, the file, and what is wrong with it."""
    environ = {"PHALANX_TLS_DIR": str(tmp_path)}
    result = CliRunner().invoke(main, ["why", "podgroup/a/b"], env=environ)
    assert result.exit_code == 1
    assert "PHALANX_TLS_DIR" in result.output
    assert "tls.crt: No such file" in result.output


async def _run(arguments: list[str], *, environ: dict[str, str]) -> str:
    """Run a command in a thread of its own, because the server runs in this one."""
    return (await asyncio.to_thread(CliRunner().invoke, main, arguments, env=environ)).output
