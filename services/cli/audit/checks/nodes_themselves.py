"""What nodes say themselves (`--node-proxy`): the mode that each kube-proxy runs in, and the gates of each kubelet."""

from collections.abc import Iterator

from services.cli.audit.checks.gang_api import REMOVED_GATES
from services.cli.audit.checks.proxy import IPVS_OFF, settings_of
from services.cli.audit.findings import Finding, Severity
from services.cli.audit.optional_sources import KUBELETS, PROXY_MODES
from services.cli.audit.registry import Case, Check, Finder

_DEFAULT_MODE = "iptables"
_MISSED = {
    "PodCertificateRequest": "pods with podCertificate volumes do not start on it",
    "ClusterTrustBundleProjection": "pods with clusterTrustBundle volumes do not start on it",
    "DynamicResourceAllocation": "pods with claims do not start on it, and a kubelet of 1.35 or later not at all",
}
"""Gates of kubelets that are on by default in 1.37, and what is lost without them."""


def _modes(case: Case) -> Iterator[Finding]:
    """Kube-proxies that run in ipvs, or in another mode than is configured."""
    find = Finder("proxy-node-modes")
    configured = {one.mode or _DEFAULT_MODE for one in settings_of(case.evidence)}
    for item in case.evidence.items(PROXY_MODES):
        mode = str(item.get("mode"))
        is_ipvs, is_other = mode == "ipvs", bool(configured) and mode not in configured
        if not is_ipvs and not is_other:
            continue
        yield find(
            Severity.ERROR if is_ipvs and case.reaches(IPVS_OFF) else Severity.WARNING,
            subject=f"node/{item['metadata']['name']}",
            field="kube-proxy /proxyMode",
            found=f"runs in mode {mode}"
            + (f", while {', '.join(sorted(configured))} is configured" if is_other else ""),
            fix="restart kube-proxy on the node, where its configuration was changed since it started; else look for a "
            "configuration of its own"
            if is_other
            else "move it to nftables: the report suggests an order",
        )


def _gates(case: Case) -> Iterator[Finding]:
    """Kubelets that lack a gate, or have one that 1.37 does not know."""
    find = Finder("node-kubelet-gates")
    for item in case.evidence.items(KUBELETS):
        gates = item.get("featureGates") or {}
        subject = f"node/{item['metadata']['name']}"
        for name, what in _MISSED.items():
            if gates.get(name) is False:
                yield find(
                    Severity.WARNING,
                    subject=subject,
                    field=f"kubelet /configz featureGates.{name}",
                    found=f"off: {what}",
                    fix=f"remove {name} from the kubelet's featureGates",
                )
        for name in REMOVED_GATES:
            if name in gates:
                yield find(
                    Severity.ERROR,
                    subject=subject,
                    field=f"kubelet /configz featureGates.{name}",
                    found="does not exist in 1.37: the kubelet will not start",
                    fix=f"remove {name} from the kubelet's featureGates before the upgrade",
                )


CHECKS = (
    Check(
        id="proxy-node-modes",
        theme="kube-proxy",
        title="Modes that kube-proxies run in",
        needs=(PROXY_MODES, "proxy-config", "daemonsets"),
        judge=_modes,
    ),
    Check(
        id="node-kubelet-gates",
        theme="surroundings",
        title="Feature gates of kubelets",
        needs=(KUBELETS,),
        judge=_gates,
    ),
)
