"""What changes for a cluster whose kube-proxy moves to nftables: kernels, node ports, ipvs settings, other writers."""

from collections.abc import Iterator

from services.cli.audit.checks.proxy import ProxySettings, settings_of
from services.cli.audit.evidence import Evidence, Manifest, subject_of
from services.cli.audit.findings import Finding, Severity
from services.cli.audit.registry import Case, Check, Finder, minor_of

_THEME = "kube-proxy"
_PROXY = ("proxy-config", "daemonsets")
OLDEST_KERNEL = (5, 13)
_EXPOSED = frozenset({"NodePort", "LoadBalancer"})
HOOKED = {
    "calico-node": "Calico's iptables data plane",
    "canal": "Calico's iptables data plane",
    "weave-net": "Weave's iptables rules",
    "kube-router": "kube-router's ipvs and iptables rules",
    "antrea-agent": "Antrea's NodePortLocal iptables rules",
    "aws-node": "the AWS VPC CNI's iptables SNAT rules",
    "node-local-dns": "NodeLocal DNSCache's NOTRACK iptables rules",
}
"""DaemonSets that are known to write iptables rules of their own, and which."""
_LOST_IPVS = {
    "scheduler": "nftables chooses endpoints at random; other ipvs schedulers have no counterpart",
    "strictARP": "strictARP (MetalLB in layer 2 mode asks for it) has no counterpart, and is not needed without "
    "kube-ipvs0",
    "tcpTimeout": "ipvs timeouts have no counterpart",
    "tcpFinTimeout": "ipvs timeouts have no counterpart",
    "udpTimeout": "ipvs timeouts have no counterpart",
    "excludeCIDRs": "there are no ipvs rules of others to be left alone",
}


def can_run_nftables(node: Manifest) -> bool:
    """Tell whether a node's kernel can run mode nftables; one that does not say its version is given the benefit."""
    kernel = minor_of(str((node["status"].get("nodeInfo") or {}).get("kernelVersion", "")))
    return kernel == (0, 0) or kernel >= OLDEST_KERNEL


def exposed_services(evidence: Evidence) -> list[Manifest]:
    """Return the services with node ports."""
    return [
        item
        for item in evidence.items("services")
        if item["spec"].get("type") in _EXPOSED
        and any(port.get("nodePort") for port in item["spec"].get("ports") or ())
    ]


def lost_settings(settings: ProxySettings) -> list[tuple[str, object, str]]:
    """Return the ipvs settings that have no counterpart: name, value, and what is lost."""
    given = settings.document.get("ipvs") or {}
    if settings.mode != "ipvs":
        return []
    return [
        (name, given[name], meaning)
        for name, meaning in _LOST_IPVS.items()
        if given.get(name) and given[name] not in {"rr", "0s"}
    ]


def _moving(case: Case) -> list[ProxySettings]:
    """Return the settings of kube-proxies that have yet to move."""
    return [one for one in settings_of(case.evidence) if one.mode != "nftables"]


def _old_kernels(case: Case) -> Iterator[Finding]:
    """Kernels that cannot run mode nftables."""
    find = Finder("proxy-kernel-too-old")
    if not list(settings_of(case.evidence)):
        return
    for node in case.evidence.items("nodes"):
        if can_run_nftables(node):
            continue
        kernel = node["status"]["nodeInfo"]["kernelVersion"]
        yield find(
            Severity.ERROR if not _moving(case) else Severity.WARNING,
            subject=subject_of(node, kind="node"),
            field="status.nodeInfo.kernelVersion",
            found=f"{kernel}; mode nftables needs 5.13",
            fix="upgrade the node's kernel before its kube-proxy moves to nftables",
        )


def _node_ports(case: Case) -> Iterator[Finding]:
    """Node ports answer on fewer addresses under nftables."""
    find = Finder("proxy-nodeport-exposure")
    for one in _moving(case):
        if one.document.get("nodePortAddresses"):
            continue
        exposed = exposed_services(case.evidence)
        if not exposed:
            continue
        yield find(
            Severity.WARNING,
            subject=subject_of(exposed[0], kind="service"),
            field="spec.ports[].nodePort",
            found=f"{len(exposed)} services have node ports, and nodePortAddresses is not set: today they answer "
            "on every "
            "address of a node, under nftables on its primary addresses only",
            fix=f"set nodePortAddresses in {one.subject} to what clients use (`[primary]`, or CIDRs) and test "
            "before moving",
        )


def _localhost_ports(case: Case) -> Iterator[Finding]:
    """Node ports on localhost, as node-local registries use them, end with nftables."""
    find = Finder("proxy-localhost-nodeports")
    for one in _moving(case):
        iptables = one.document.get("iptables") or {}
        if one.mode == "ipvs" or iptables.get("localhostNodePorts") is not True:
            continue
        yield find(
            Severity.WARNING,
            subject=one.subject,
            field=one.field.replace(".mode", ".iptables.localhostNodePorts"),
            found="true: node ports answer on 127.0.0.1, which mode nftables does not do "
            "(its gate KubeProxyNFTablesLocalhostNodePorts is alpha)",
            fix="find who connects to localhost node ports (registries, agents) and give them a host port or the "
            "node's address",
        )


def _ipvs_settings(case: Case) -> Iterator[Finding]:
    """Settings of ipvs that have no counterpart."""
    find = Finder("proxy-ipvs-settings")
    for one in _moving(case):
        for name, value, meaning in lost_settings(one):
            yield find(
                Severity.WARNING,
                subject=one.subject,
                field=one.field.replace(".mode", f".ipvs.{name}"),
                found=f"{value}: {meaning}",
                fix="decide what replaces it before moving to nftables",
            )


def _other_writers(case: Case) -> Iterator[Finding]:
    """DaemonSets that write iptables rules beside kube-proxy's chains."""
    find = Finder("proxy-iptables-writers")
    if not _moving(case):
        return
    for item in case.evidence.items("daemonsets"):
        what = HOOKED.get(str(item["metadata"].get("name")))
        if what is None:
            continue
        yield find(
            Severity.WARNING,
            subject=subject_of(item, kind="daemonset"),
            field="metadata.name",
            found=f"{what} may rely on chains KUBE-… that exist only with iptables and ipvs",
            fix="read its release notes on kube-proxy in mode nftables, and try one node pool first",
            is_inferred=True,
        )


def _services(case: Case) -> Iterator[Finding]:
    """How much there is to move."""
    find = Finder("proxy-service-count")
    count = sum(item["spec"].get("type") != "ExternalName" for item in case.evidence.items("services"))
    for one in _moving(case):
        if count <= 1:
            continue
        yield find(
            Severity.INFO,
            subject=one.subject,
            field=one.field,
            found=f"{one.mode or 'the default mode'} serves {count} services"
            + (": from about a thousand on, nftables is plainly faster than iptables" if one.mode != "ipvs" else ""),
            fix="order of a move: kernels, then settings without counterpart, then node ports, then one node "
            "pool, then all",
        )


CHECKS = tuple(
    Check(id=name, theme=_THEME, title=title, needs=(*_PROXY, *more), judge=judge)
    for name, title, more, judge in (
        ("proxy-kernel-too-old", "Kernels too old for mode nftables", ("nodes",), _old_kernels),
        ("proxy-nodeport-exposure", "Node ports answer on fewer addresses", ("services",), _node_ports),
        ("proxy-localhost-nodeports", "Node ports on localhost end", (), _localhost_ports),
        ("proxy-ipvs-settings", "ipvs settings without counterpart", (), _ipvs_settings),
        ("proxy-iptables-writers", "Others write iptables rules", (), _other_writers),
        ("proxy-service-count", "Services to move", ("services",), _services),
    )
)
