"""docs/metrics.md names what the services have, and nothing else."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services.autoscaler.following import AutoscalerMetrics
from services.autoscaler.metrics import WakingMetrics
from services.binder.metrics import BinderMetrics
from services.contracts.dead_letter_box import DeadLetterMetrics
from services.placer.metrics import PlacerMetrics
from services.runtime import telemetry
from services.runtime.followed_file import FollowedFileMetrics
from services.runtime.leadership import LeadershipMetrics
from services.runtime.rpc_access import RpcMetrics
from services.runtime.tls import TlsMetrics
from services.signer.metrics import SignerMetrics
from services.watcher.metrics import Metrics as WatcherMetrics

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text()
SERVICES: dict[str, Callable[[CollectorRegistry], object]] = {
    "watcher": WatcherMetrics,
    "placer": PlacerMetrics,
    "binder": BinderMetrics,
    "autoscaler": lambda registry: (AutoscalerMetrics(registry), WakingMetrics(registry)),
    "signer": SignerMetrics,
    "certificates": TlsMetrics,
    "calls": RpcMetrics,
    "election": LeadershipMetrics,
    "configuration file": FollowedFileMetrics,
    "dead letters": DeadLetterMetrics,
}
ROW = re.compile(
    r"^\| `(?P<name>phalanx_\w+)(?:\{(?P<labels>[\w,]+)\})?` \| (?P<type>\w+) \| (?P<meaning>.+) \|$", re.MULTILINE
)
TYPES = {Counter: "counter", Gauge: "gauge", Histogram: "histogram"}


def section(title: str) -> str:
    """The part of the page below a heading."""
    _, _, rest = PAGE.partition(f"\n## {title}\n")
    return rest.partition("\n## ")[0]


def registered(service: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Type and labels of each metric of a service, by the name that Prometheus shows."""
    registry = CollectorRegistry()
    SERVICES[service](registry)
    found = {}
    for collector in registry._collector_to_names:
        assert isinstance(collector, Counter | Gauge | Histogram)
        name = f"{collector._name}_total" if isinstance(collector, Counter) else collector._name
        found[name] = (TYPES[type(collector)], tuple(collector._labelnames))
    return found


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_page_lists_the_metrics_of_a_service(service: str) -> None:
    """Names, types and labels as registered; each with a meaning."""
    rows = list(ROW.finditer(section(f"Metrics of the {service}")))
    documented = {
        row["name"]: (row["type"], tuple((row["labels"] or "").split(",")) if row["labels"] else ()) for row in rows
    }
    assert documented == registered(service)


def test_every_metric_named_anywhere_exists() -> None:
    """Also in the alerts."""
    known = {name for service in SERVICES for name in registered(service)}
    assert set(re.findall(r"\bphalanx_\w+", PAGE)) - {"phalanx_"} == known


def test_page_lists_spans_and_attributes() -> None:
    """All that `services.runtime.telemetry` declares."""
    rows = section("Traces")
    names = {value for name, value in vars(telemetry).items() if name.startswith(("SPAN_", "ATTR_"))}
    assert {name for name in names if f"`{name}`" not in rows} == set()
    spans = {value for name, value in vars(telemetry).items() if name.startswith("SPAN_")}
    assert set(re.findall(r"^\| `([a-z.]+)` \| \w+ \| ", rows, re.MULTILINE)) - names - {"phalanx.gang"} <= spans


def test_page_lists_the_variables_that_turn_tracing_on() -> None:
    """Those that our code reads; the SDK has more of its own."""
    source = Path(telemetry.__file__).read_text()
    for variable in set(re.findall(r'"((?:OTEL|PHALANX)_[A-Z_]+)"', source)):
        assert f"`{variable}`" in PAGE


def test_scrape_example_is_yaml() -> None:
    """It can be copied as it is."""
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert [job["job_name"] for job in yaml.safe_load(example)["scrape_configs"]] == ["phalanx-local", "phalanx"]
