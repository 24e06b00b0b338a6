"""What `deploy/` states agrees with the code that it is for."""

import subprocess
from itertools import product
from pathlib import Path

from services.contracts.streams import MAX_MESSAGE_BYTES, MIB
from services.runtime.embedded_nats import MAX_PAYLOAD, nats_server_binary
from services.watcher.kinds import WATCHED_KINDS
from tests.e2e.kubernetes.rights import Right, granted

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nats" / "nats-server.conf"


def test_the_watcher_may_read_its_table_and_nothing_else() -> None:
    """A kind that is added to the table needs its right, and one that goes leaves none behind."""
    wanted = {
        Right(verb=verb, resource=watched.plural, group=watched.group)
        for watched, verb in product(WATCHED_KINDS, ("list", "watch"))
    }
    assert granted("watcher") == wanted


def test_services_on_the_bus_alone_have_no_rights() -> None:
    """The placer never talks to the API server."""
    assert not granted("placer")


def test_the_bus_is_configured_as_the_services_expect() -> None:
    """The server accepts the file, which has the sizes and the syncing of the embedded server."""
    subprocess.run(
        [str(nats_server_binary()), "-t", "-c", str(CONFIGURATION)], check=True, capture_output=True, timeout=30
    )
    lines = [line.strip() for line in CONFIGURATION.read_text().splitlines()]
    assert f"max_payload: {MAX_PAYLOAD}" in lines
    assert "sync_interval: always" in lines
    assert int(MAX_PAYLOAD.removesuffix("MB")) * MIB >= 2 * MAX_MESSAGE_BYTES
