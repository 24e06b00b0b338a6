"""The configuration file: what it says, what is told about mistakes, and that its committed schema is current."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from prometheus_client import CollectorRegistry

from services.cli.main import main
from services.contracts.policy_file import following_policy, policy_schema, read_policy
from services.core.metric_sources import JetStreamSource, MetricSource, PrometheusSource, RedisSource
from services.core.policy import OwnershipPolicy, Policy, TopologyLevel, TopologyPolicy
from services.core.signer_policy import SignerPolicy
from services.runtime.settings import SettingsError
from services.runtime.structured_file import UnusableFile
from tests.fakes.clock import FakeClock

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "deploy" / "config" / "phalanx.yaml"
SCHEMA = ROOT / "deploy" / "config" / "phalanx.schema.json"


def test_the_example_says_what_it_means() -> None:
    """It shows every section."""
    said = read_policy(EXAMPLE.read_bytes(), name="x")
    assert [one.reads for one in said.authorization] == [(), ("PHALANX_PLACEMENT",)]
    assert {one.service_account for one in said.signer.identities} >= {"phalanx-placer", "phalanx-nats", "trainer"}
    assert replace(said, signer=SignerPolicy(), authorization=()) == Policy(
        topology=TopologyPolicy(
            levels=(
                TopologyLevel(name="zone", node_label="topology.kubernetes.io/zone"),
                TopologyLevel(name="rack", node_label="example.com/rack"),
            )
        ),
        ownership=OwnershipPolicy(node_selector={"phalanx.dev/owned": "true"}, device_classes=("gpu.example.com",)),
        metric_sources=(
            MetricSource(
                metric="queue_depth",
                selector={"queue": "infer"},
                jetstream=JetStreamSource(stream="ORDERS", consumer="infer"),
            ),
            MetricSource(
                metric="requests_waiting",
                prometheus=PrometheusSource(
                    url="http://prometheus.monitoring:9090",
                    query='sum(gateway_requests_waiting{service="infer"}) or vector(0)',
                ),
            ),
            MetricSource(
                metric="jobs_waiting",
                redis=RedisSource(
                    address="redis.team-a:6379",
                    stream_key="jobs",
                    group="workers",
                    password_file="/etc/phalanx/redis-password",
                ),
            ),
        ),
    )
    assert set(yaml.safe_load(EXAMPLE.read_text())) == set(policy_schema()["properties"])


def test_the_committed_schema_is_current() -> None:
    """`phalanx config schema > deploy/config/phalanx.schema.json` makes it so."""
    assert json.loads(SCHEMA.read_text()) == policy_schema()
    printed = CliRunner().invoke(main, ["config", "schema"])
    assert printed.output == SCHEMA.read_text()


def test_every_key_is_described() -> None:
    """The schema is the reference that editors show."""

    def undescribed(node: dict[str, object], path: str) -> list[str]:
        properties = node.get("properties")
        found = [] if node.get("description") else [path]
        if isinstance(properties, dict):
            for key, child in properties.items():
                found += undescribed(child, f"{path}.{key}")
        return found

    assert undescribed({**policy_schema(), "description": "root"}, "") == []


@pytest.mark.parametrize("section", ["queues", "authorizations", "signers"])
def test_a_section_of_another_version_is_a_mistake(section: str) -> None:
    """Silently passed over, it would look as if it were in force."""
    with pytest.raises(UnusableFile, match=f"f:1: {section}: no such key in this version; "):
        read_policy(f"{section}: {{}}\n".encode(), name="f")


def test_what_contradicts_itself_is_told_at_its_line() -> None:
    """Found only where every value is right by itself."""
    text = b"topology:\n  levels:\n  - nodeLabel: a\n  - nodeLabel: b\n  - nodeLabel: a\n"
    with pytest.raises(UnusableFile, match=r"^f:5: topology.levels\[2\].nodeLabel: 'a' is level 0 already"):
        read_policy(text, name="f")


def test_check_tells_every_mistake_and_fails(tmp_path: Path) -> None:
    """As `file:line: path: what`, and as JSON for programs."""
    path = tmp_path / "p.yaml"
    path.write_text("topology: 1\nownershp: {}\n")
    result = CliRunner().invoke(main, ["config", "check", str(path)])
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"{path}:1: topology: given 1 (a whole number), expected a map with levels",
        f"{path}:2: ownershp: no such key in this version; did you mean ownership?",
    ]
    rows = json.loads(CliRunner().invoke(main, ["config", "check", str(path), "-o", "json"]).output)
    assert [(row["line"], row["path"]) for row in rows] == [(1, ["topology"]), (2, ["ownershp"])]


def test_check_passes_a_good_file_and_standard_input() -> None:
    """Exit code 0."""
    assert CliRunner().invoke(main, ["config", "check", str(EXAMPLE)]).exit_code == 0
    assert CliRunner().invoke(main, ["config", "check", "-"], input=EXAMPLE.read_bytes()).exit_code == 0


def test_check_names_a_file_that_is_not_there(tmp_path: Path) -> None:
    """In one sentence."""
    result = CliRunner().invoke(main, ["config", "check", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert result.stderr == f"Error: {tmp_path / 'none'}: No such file or directory\n"


async def test_without_a_file_the_defaults_are_in_force() -> None:
    """And the metrics exist all the same."""
    registry = CollectorRegistry()
    async with following_policy(None, clock=FakeClock(), registry=registry) as policy:
        assert policy.value == Policy()
    assert registry.get_sample_value("phalanx_config_refused") == 0


async def test_a_service_does_not_start_on_a_bad_file(tmp_path: Path) -> None:
    """All mistakes are told, as for variables."""
    path = tmp_path / "p.yaml"
    path.write_text("topology: 1\nqueues: 2\n")
    with pytest.raises(SettingsError) as caught:
        async with following_policy(path, clock=FakeClock(), registry=CollectorRegistry()):
            pass
    assert [problem.split(": ")[0] for problem in caught.value.problems] == [f"{path}:1", f"{path}:2"]
    with pytest.raises(SettingsError, match=r"PHALANX_CONFIG: given '.*none': No such file"):
        async with following_policy(tmp_path / "none", clock=FakeClock(), registry=CollectorRegistry()):
            pass
