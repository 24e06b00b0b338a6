"""States of a real control plane that its flags make, and what the audit has to find in each.

The worlds run without a controller manager, so that nobody repairs what was broken on purpose.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import MappingProxyType

from services.cli.audit.checks import CHECKS
from services.cli.audit.collecting import collect
from services.cli.audit.evidence import Evidence
from services.cli.audit.findings import Report
from services.cli.audit.judging import audit
from services.runtime.kube import KubeClient
from tests.audit.making import BROKEN, HEALTHY, Expected, expected, leave_old_object, make
from tests.kubernetes.cluster import Cluster, ClusterConfig
from tests.kubernetes.connection import Connection, Target, connected

LATER = timedelta(minutes=3)
"""The evidence is judged as of then: a request that nobody signs is one that waits for some minutes."""

_ALPHA = "scheduling.k8s.io/v1alpha3"
_APISERVER = "component/kube-apiserver"
_GATE = "GenericWorkload"

Breaking = Callable[[Cluster, Connection], Awaitable[None]]


async def _nothing(_cluster: Cluster, _api: Connection) -> None:
    """Leave the cluster as it starts."""


async def _broken(_cluster: Cluster, api: Connection) -> None:
    await make(api, BROKEN, anchor_days=10)
    # An API that is deprecated and still served by 1.37: who uses it is counted.
    await api.request("GET", "/api/v1/componentstatuses")


async def _healthy(_cluster: Cluster, api: Connection) -> None:
    await make(api, HEALTHY, anchor_days=400)


async def _unreadable(cluster: Cluster, _api: Connection) -> None:
    await leave_old_object(cluster, name="old")


async def _iptables(_cluster: Cluster, api: Connection) -> None:
    document = "kind: KubeProxyConfiguration\nmode: {}\niptables: {{localhostNodePorts: true}}\n"
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kube-proxy", "namespace": "kube-system"},
        "data": {"config.conf": document.format('""')},
    }
    await api.request("POST", "/api/v1/namespaces/kube-system/configmaps", body=config)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One control plane: how it starts, what is done to it, and what has to be found then."""

    name: str
    finds: Expected
    gate: bool = True
    served: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({"api/all": True}))
    breaking: Breaking = _nothing

    @property
    def config(self) -> ClusterConfig:
        """Flags of the control plane."""
        return ClusterConfig(
            controller_manager=False, feature_gates={_GATE: self.gate}, runtime_config=dict(self.served)
        )


SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="broken objects",
        breaking=_broken,
        finds=expected(BROKEN)
        | {
            ("gang-gate-partly-on", "component/kube-scheduler"),
            ("gang-removed-gates", "component/kube-scheduler"),
            ("zero-gate-skew", "component/kube-controller-manager"),
            ("cert-no-right-to-sign", "signer/example.com/mtls"),
            ("api-deprecated-use", "api/componentstatuses.v1."),
            ("proxy-runtime-mode", "node/shared-node"),
        },
    ),
    Setting(name="healthy objects", breaking=_healthy, finds=frozenset()),
    Setting(
        name="defaults of 1.37, kube-proxy without a mode",
        gate=False,
        served={"api/ga": True},
        breaking=_iptables,
        finds=frozenset(
            {
                ("gang-gate-off", _APISERVER),
                ("proxy-mode-unset", "configmap/kube-system/kube-proxy"),
                ("proxy-localhost-nodeports", "configmap/kube-system/kube-proxy"),
            }
        ),
    ),
    Setting(
        name="v1alpha3 alone",
        served={_ALPHA: True},
        finds=frozenset({("gang-alpha-only", _APISERVER), ("gang-gate-without-api", _APISERVER)}),
    ),
    Setting(
        name="a PodGroup of v1alpha2 left in etcd",
        breaking=_unreadable,
        finds=frozenset({("gang-unreadable-objects", "resource/podgroups")}),
    ),
)


async def evidence_of(setting: Setting) -> Evidence:
    """Start the control plane, break it, and read it."""
    async with (
        Cluster(setting.config) as cluster,
        connected(Target.from_kubeconfig(cluster.kubeconfig)) as api,
        await KubeClient.open(cluster.kubeconfig) as client,
    ):
        await setting.breaking(cluster, api)
        evidence = await collect(client, tell=lambda _source, _count: None)
    return replace(evidence, read_at=evidence.read_at + LATER)


def report_of(evidence: Evidence) -> Report:
    """Judge for the first release that matters."""
    return audit(evidence, checks=CHECKS, target="1.37")


def found_in(report: Report) -> Expected:
    """Return check and subject of each finding."""
    return frozenset((one.check, one.subject) for one in report.findings)
