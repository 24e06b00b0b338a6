"""All services with certificates, and each with the rights of its work alone: gangs run, and nobody lacks anything."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import grpc.aio
import pytest
import pytest_asyncio
import yaml

from services.contracts.bus_rights import WORK, BusRights
from services.contracts.nats_config import NatsUser, rendered, users_of
from services.contracts.pb.placement.v1 import placement_service_pb2 as pb
from services.contracts.pb.placement.v1.placement_service_pb2_grpc import PlacementServiceStub
from services.contracts.policy_file import read_policy
from services.core.decisions import Waiting
from services.core.signer_policy import spiffe_id
from services.runtime.nats_connection import NatsAccess
from services.runtime.tls import channel_credentials, client_context, read_folder
from services.sandbox.cluster import ClusterSettings
from tests.builders import namespace_manifest
from tests.e2e.gangs import bound, committed, submit
from tests.e2e.system import System, running_system
from tests.e2e.waiting import until
from tests.pki import Pair, TestAuthority

pytestmark = pytest.mark.asyncio(loop_scope="module")

AUTHORITY = TestAuthority()
TESTER = "spiffe://phalanx.dev/ns/tests/sa/tester"
STRANGER = "spiffe://phalanx.dev/ns/team-b/sa/default"
CONFIG = {"authorization": [{"identity": TESTER, "calls": ["phalanx.placement.v1.PlacementService/Explain"]}]}
GPUS = 16


@pytest_asyncio.fixture(loop_scope="module", scope="module", name="secured")
async def _secured(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    """Everything with TLS; placer and binder stand for election, as in a cluster."""
    folder = tmp_path_factory.mktemp("secured")
    config = folder / "phalanx.yaml"
    config.write_text(yaml.safe_dump(CONFIG))
    everything = NatsUser(identity=TESTER, rights=BusRights(publishes=(">",), subscribes=(">",)), about="the test")
    users = (*users_of(read_policy(config.read_bytes(), name="x"), namespace="phalanx-system"), everything)
    server = _written(AUTHORITY.issue(uri="spiffe://phalanx.dev/ns/phalanx-system/sa/phalanx-nats"), folder / "nats")
    own = {service: _environment(service, folder=folder, config=config) for service in WORK}
    mine = read_folder(_written(AUTHORITY.issue(uri=TESTER), folder / "tester"))
    async with running_system(
        folder,
        settings=ClusterSettings(nodes=2),
        own_environment=own,
        names=tuple(WORK),
        nats_further=rendered(users, tls_dir=str(server)),
        access=NatsAccess(tls=client_context(mine)),
    ) as running:
        await running.api("team-a").create(namespace_manifest("team-a"))
        yield running


def _environment(service: str, *, folder: Path, config: Path) -> dict[str, str]:
    """Certificates of a service's own, and the election."""
    identity = spiffe_id("phalanx.dev", namespace="phalanx-system", service_account=f"phalanx-{service}")
    written = _written(AUTHORITY.issue(uri=identity, dns_names=("localhost",)), folder / "tls" / service)
    elected = {} if service == "watcher" else {"PHALANX_LEADER_ELECTION": "true"}
    return {"PHALANX_TLS_DIR": str(written), "PHALANX_CONFIG": str(config), **elected}


def _written(pair: Pair, folder: Path) -> Path:
    return pair.write(folder, trusted=AUTHORITY.certificate)


async def _explain(system: System, pair: Pair, *, gang: str) -> pb.ExplainResponse:
    """Ask the placer, showing a certificate."""
    folder = _written(pair, system.folder / "asking")
    credentials = channel_credentials(read_folder(folder))
    async with grpc.aio.secure_channel(system.services.processes["placer"].grpc_target, credentials) as channel:
        answer: pb.ExplainResponse = await PlacementServiceStub(channel).Explain(
            pb.ExplainRequest(gang=gang), timeout=30
        )
        return answer


async def test_nobody_lacks_a_right_and_nobody_has_another(secured: System) -> None:
    """Gangs are bound, wait, and are taken over after every process was killed: the server refuses nobody anything."""
    api = secured.api("team-a")
    first = await submit(api, "a", size=GPUS)
    await committed(secured, first, timeout_s=60)
    assert len(bound(secured.apiserver, first)) == GPUS
    second = await submit(api, "b", size=1)
    await until(lambda: isinstance(secured.recorder.last(second), Waiting), what="the second gang waits")
    for service in ("binder", "placer", "watcher", "autoscaler"):
        secured.services.processes[service].kill()
        await secured.services.restart(service)
    for index in range(GPUS):
        await api.delete("Pod", f"a-{index}", grace_s=0)
    await committed(secured, second, timeout_s=60)
    answer = await _explain(secured, AUTHORITY.issue(uri=TESTER), gang=second)
    assert answer.gang == second
    assert "Violation" not in secured.nats.log_text
    for process in secured.services.processes.values():
        log = await asyncio.to_thread(process.log_file.read_text)
        assert "bus.refused" not in log
        assert "PRIVATE KEY" not in log


async def test_callers_without_the_right_are_refused_and_counted(secured: System) -> None:
    """A certificate is not a right; the placer says so, counts it, and goes on."""
    before = await secured.metric("placer", "phalanx_rpc_refused_total", reason="not_allowed")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _explain(secured, AUTHORITY.issue(uri=STRANGER), gang="podgroup/team-a/a")
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert STRANGER in str(caught.value.details())
    assert await secured.metric("placer", "phalanx_rpc_refused_total", reason="not_allowed") == before + 1
    assert (await secured.readyz("placer"))[0]
