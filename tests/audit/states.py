"""States of a real control plane that its flags make, and what the audit has to find in each.

The worlds run without a controller manager, so that nobody repairs what was broken on purpose.
"""

import contextlib
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from services.cli.audit.checks import CHECKS
from services.cli.audit.collecting import collect
from services.cli.audit.evidence import Evidence
from services.cli.audit.findings import Report
from services.cli.audit.judging import audit
from services.cli.audit.optional_sources import NODE_PROXIES, OPTIONAL, PROBES
from services.cli.audit.sources import Source
from services.runtime.kube import KubeClient
from tests.audit.accounts import account_kubeconfig, allow_dry_runs, apply_rights
from tests.audit.behind import NAME, OLD_GROUP, NodeAnswers, answering, node_manifest
from tests.audit.making import (
    BROKEN,
    HEALTHY,
    Expected,
    expected,
    leave_old_object,
    make,
    serve_old_version,
)
from tests.kubernetes.cluster import Cluster, ClusterConfig
from tests.kubernetes.connection import Connection, Target, connected

LATER = timedelta(minutes=3)
"""The evidence is judged as of then: a request that nobody signs is one that waits for some minutes."""

_ALPHA = "scheduling.k8s.io/v1alpha3"
_APISERVER = "component/kube-apiserver"
_GATE = "GenericWorkload"
_CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"

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


async def _odd(_cluster: Cluster, api: Connection) -> None:
    """An old version with an object, as a server of 1.36 has it, and a node whose kube-proxy is not as configured."""
    await serve_old_version(api)
    await api.request("POST", "/api/v1/nodes", body=node_manifest())
    document = "kind: KubeProxyConfiguration\nmode: nftables\nmetricsBindAddress: 0.0.0.0:10249\n"
    await api.request("POST", _CONFIG_MAPS, body=_proxy_config(document))


async def _iptables(_cluster: Cluster, api: Connection) -> None:
    document = 'kind: KubeProxyConfiguration\nmode: ""\niptables: {localhostNodePorts: true}\n'
    await api.request("POST", _CONFIG_MAPS, body=_proxy_config(document))


def _proxy_config(document: str) -> dict[str, Any]:
    metadata = {"name": "kube-proxy", "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"config.conf": document}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One control plane: how it starts, what is done to it, and what has to be found then.

    `inferred` are the findings that have to be marked so, `unseen` the sources of the gaps. `more` is read beside the
    usual; `answers` is what a node says of itself. With `is_restricted` the account is that of `deploy/audit` without
    its right to metrics, and with that to carry out dry runs.
    """

    name: str
    finds: Expected
    inferred: Expected = frozenset()
    unseen: frozenset[str] = frozenset()
    gates: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({_GATE: True}))
    served: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({"api/all": True}))
    breaking: Breaking = _nothing
    more: tuple[Source, ...] = ()
    answers: NodeAnswers | None = None
    is_restricted: bool = False

    @property
    def config(self) -> ClusterConfig:
        """Flags of the control plane."""
        return ClusterConfig(controller_manager=False, feature_gates=dict(self.gates), runtime_config=dict(self.served))


_HIDDEN = frozenset({"components"})
"""The gate is on in the API server, and there are no pods that show what it is elsewhere."""

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
        inferred=frozenset(
            {
                ("proxy-runtime-mode", "node/shared-node"),
                ("proxy-iptables-writers", "daemonset/kube-system/calico-node"),
                ("gang-stuck-deletion", "podgroup/team/leaving"),
                ("zero-unmeasured", "horizontalpodautoscaler/team/asleep"),
            }
        ),
    ),
    Setting(
        name="healthy objects, dry runs that are accepted, and a node as it should be",
        breaking=_healthy,
        finds=frozenset(),
        more=OPTIONAL,
        answers=NodeAnswers(mode="nftables", gates={"PodCertificateRequest": True}),
    ),
    Setting(
        name="defaults of 1.37, kube-proxy without a mode",
        gates=MappingProxyType({_GATE: False}),
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
        name="all gates off, seen by an account without metrics that may try dry runs",
        gates=MappingProxyType({_GATE: False, "HPAScaleToZero": False}),
        served={"api/ga": True},
        more=PROBES,
        is_restricted=True,
        finds=frozenset(
            {
                ("gang-gate-off", _APISERVER),
                ("gang-field-dropped", _APISERVER),
                ("probe-refused", "horizontalpodautoscaler/default/phalanx-audit-probe"),
            }
        ),
        inferred=frozenset({("gang-gate-off", _APISERVER)}),
        unseen=frozenset({"metrics"}),
    ),
    Setting(
        name="v1alpha3 alone",
        served={_ALPHA: True},
        finds=frozenset({("gang-alpha-only", _APISERVER), ("gang-gate-without-api", _APISERVER)}),
        unseen=_HIDDEN,
    ),
    Setting(
        name="a PodGroup of v1alpha2 left in etcd",
        breaking=_unreadable,
        finds=frozenset({("gang-unreadable-objects", "resource/podgroups")}),
        unseen=_HIDDEN | {"podgroups"},
    ),
    Setting(
        name="an old version served, certificates not, and a node that is not as configured",
        served={
            "api/all": True,
            "certificates.k8s.io/v1/podcertificaterequests": False,
            "certificates.k8s.io/v1/clustertrustbundles": False,
        },
        breaking=_odd,
        more=NODE_PROXIES,
        answers=NodeAnswers(mode="ipvs", gates={"PodCertificateRequest": False}),
        finds=frozenset(
            {
                ("gang-old-objects", f"podgroup/default/{OLD_GROUP}"),
                ("cert-not-served", "resource/podcertificaterequests.certificates.k8s.io"),
                ("cert-not-served", "resource/clustertrustbundles.certificates.k8s.io"),
                ("proxy-node-modes", f"node/{NAME}"),
                ("node-kubelet-gates", f"node/{NAME}"),
            }
        ),
        unseen=_HIDDEN,
    ),
)


async def evidence_of(setting: Setting) -> Evidence:
    """Start the control plane, break it, and read it."""
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="phalanx-audit-")))
        flags: tuple[str, ...] = ()
        if setting.answers is not None:
            flags = await stack.enter_async_context(answering(folder, setting.answers))
        cluster = await stack.enter_async_context(Cluster(replace(setting.config, apiserver_args=flags)))
        api = await stack.enter_async_context(connected(Target.from_kubeconfig(cluster.kubeconfig)))
        await setting.breaking(cluster, api)
        kubeconfig = cluster.kubeconfig
        if setting.is_restricted:
            await apply_rights(api, without_metrics=True)
            await allow_dry_runs(api)
            kubeconfig = await account_kubeconfig(api, cluster=cluster, folder=folder)
        client = await stack.enter_async_context(await KubeClient.open(kubeconfig))
        evidence = await collect(client, more=setting.more, tell=lambda _source, _count: None)
    return replace(evidence, read_at=evidence.read_at + LATER)


def report_of(evidence: Evidence) -> Report:
    """Judge for the first release that matters."""
    return audit(evidence, checks=CHECKS, target="1.37")


def found_in(report: Report) -> Expected:
    """Return check and subject of each finding."""
    return frozenset((one.check, one.subject) for one in report.findings)


def inferred_in(report: Report) -> Expected:
    """Return check and subject of each finding that was concluded from effects."""
    return frozenset((one.check, one.subject) for one in report.findings if one.is_inferred)
