"""How kube-proxies move to nftables: what comes first, in which order nodes go, and how to go back.

What is suggested rests on how kube-proxy behaves (KEP-3866): it reads its mode when it starts, and removes the rules of
the other family then. So a changed configuration alone moves nobody, and one node can go before all others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from services.cli.audit.checks.proxy import ProxySettings, settings_of
from services.cli.audit.checks.proxy_readiness import (
    HOOKED,
    can_run_nftables,
    exposed_services,
    lost_settings,
)
from services.cli.audit.evidence import Evidence, Manifest, State

_POOL_LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "node.kubernetes.io/instance-type",
)
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_NAMED = 5
MODE_LINE = "^( +mode:).*"
"""The line of the mode in the ConfigMap, which is text in a YAML document."""
_ONE_NODE = "kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName={node}"
_ON_DELETE = '{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}'
_ROLLING = '{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Nodes that move together. `blocked` are those whose kernel cannot run nftables."""

    name: str
    nodes: int
    blocked: tuple[str, ...]
    is_control_plane: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step, with what is known about this cluster, and commands where there are any."""

    title: str
    detail: str
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """The suggested move of a cluster."""

    mode: str
    subject: str
    pools: tuple[Pool, ...]
    steps: tuple[Step, ...]
    rollback: tuple[Step, ...]


def migration_of(evidence: Evidence) -> Migration | None:
    """Return the suggested move, or None where kube-proxies run with nftables, or nobody knows."""
    if any(evidence.reading(key).state is State.FAILED for key in ("proxy-config", "daemonsets")):
        return None
    moving = [one for one in settings_of(evidence) if one.mode != "nftables"]
    if not moving:
        return None
    settings = moving[0]
    pools = _pools(evidence)
    first = _first_node(evidence)
    return Migration(
        mode=settings.mode or "the default, iptables",
        subject=settings.subject,
        pools=pools,
        steps=(*_preparations(evidence, settings), *_moves(settings, first=first, pools=pools)),
        rollback=tuple(_way_back(settings, first=first)),
    )


def _preparations(evidence: Evidence, settings: ProxySettings) -> Iterator[Step]:
    nodes = evidence.items("nodes")
    old = [str(node["metadata"]["name"]) for node in nodes if not can_run_nftables(node)]
    yield Step(
        title="Kernels",
        detail=f"{len(old)} of {len(nodes)} nodes have a kernel older than 5.13 and cannot run nftables: "
        f"{_named(old)}; upgrade them first, they go last"
        if old
        else f"all {len(nodes)} nodes have a kernel of 5.13 or newer; kube-proxy's image brings nft 1.0.1 or newer",
    )
    lost = [f"{name} ({given})" for name, given, _ in lost_settings(settings)]
    yield Step(
        title="Settings without a counterpart",
        detail=f"decide what replaces {', '.join(lost)}" if lost else "none is set",
    )
    writers = [str(item["metadata"]["name"]) for item in evidence.items("daemonsets") if _hooks(item)]
    yield Step(
        title="Who else writes rules",
        detail=f"read what the makers of {_named(writers)} say of kube-proxy in mode nftables"
        if writers
        else "no DaemonSet is known to hook kube-proxy's chains; ask the same of host firewalls and agents of your own",
    )
    exposed = exposed_services(evidence)
    count = len(exposed)
    is_set = bool(settings.document.get("nodePortAddresses"))
    yield Step(
        title="Node ports",
        detail=f"{count} services have node ports and nodePortAddresses is not set: set it to what clients use, "
        "for nftables serves a node's primary addresses only, and never localhost"
        if count and not is_set
        else f"{count} services have node ports" + (", and nodePortAddresses is set" if is_set else ""),
    )


def _hooks(item: Manifest) -> bool:
    return str(item["metadata"].get("name")) in HOOKED


def _moves(settings: ProxySettings, *, first: str, pools: tuple[Pool, ...]) -> Iterator[Step]:
    yield Step(
        title="Keep what is there",
        detail="for comparison, should something go wrong",
        commands=(
            "kubectl -n kube-system get configmap/kube-proxy daemonset/kube-proxy -o yaml > kube-proxy-before.yaml",
        ),
    )
    yield Step(
        title="Let kube-proxies restart only when you say so",
        detail="a kube-proxy that restarts by itself after the next step starts in the new mode too",
        commands=(f"kubectl -n kube-system patch daemonset kube-proxy --type merge -p '{_ON_DELETE}'",),
    )
    yield Step(title="Change the mode", detail="no kube-proxy has read it yet", commands=_change(settings, "nftables"))
    yield Step(
        title="One node first",
        detail=f"{first}, which runs fewest pods; then try cluster addresses, node ports and network policies there",
        commands=(_ONE_NODE.format(node=first), f"nft list table ip kube-proxy   # on {first}: the rules are there"),
    )
    order = "; then ".join(_shown(pool) for pool in pools) or "all nodes"
    yield Step(title="Then one pool of nodes after the other", detail=order, commands=(_ONE_NODE.format(node="NODE"),))
    yield Step(
        title="Rolling updates again",
        detail="when every node has moved",
        commands=(f"kubectl -n kube-system patch daemonset kube-proxy --type merge -p '{_ROLLING}'",),
    )


def _way_back(settings: ProxySettings, *, first: str) -> Iterator[Step]:
    old = settings.mode or "iptables"
    yield Step(title="The old mode", detail=old, commands=_change(settings, old))
    yield Step(
        title="Restart the kube-proxies that have moved",
        detail="a kube-proxy that starts with iptables or ipvs removes the rules of nftables",
        commands=(_ONE_NODE.format(node=first),),
    )
    yield Step(
        title="Where rules are left on a node",
        detail="on the node, as root",
        commands=("nft delete table ip kube-proxy; nft delete table ip6 kube-proxy",),
    )


def _change(settings: ProxySettings, mode: str) -> tuple[str, ...]:
    """Return the command that sets the mode, where it is set now."""
    if settings.field == "--proxy-mode":
        return (f"kubectl -n kube-system edit daemonset kube-proxy   # --proxy-mode={mode}",)
    if "mode" not in settings.document:
        return (f"kubectl -n kube-system edit configmap kube-proxy   # add the line mode: {mode}",)
    changed = f"sed -E 's/{MODE_LINE}/\\1 \"{mode}\"/'"
    return (
        f"kubectl -n kube-system get configmap kube-proxy -o yaml | {changed} | kubectl -n kube-system replace -f -",
        f"kubectl -n kube-system get configmap kube-proxy -o yaml | grep ' mode:'   # says {mode} now",
    )


def _pools(evidence: Evidence) -> tuple[Pool, ...]:
    """Return nodes by pool in the order of the move: small ones first, then control planes, then what is blocked."""
    found: dict[tuple[str, bool], list[Manifest]] = {}
    for node in evidence.items("nodes"):
        labels: Mapping[str, str] = node["metadata"].get("labels") or {}
        found.setdefault((_pool_of(node, labels), _CONTROL_PLANE in labels), []).append(node)
    pools = [
        Pool(
            name=f"{name}{' (control plane)' if is_control_plane else ''}",
            nodes=len(nodes),
            blocked=tuple(str(one["metadata"]["name"]) for one in nodes if not can_run_nftables(one)),
            is_control_plane=is_control_plane,
        )
        for (name, is_control_plane), nodes in found.items()
    ]
    return tuple(sorted(pools, key=lambda one: (len(one.blocked) > 0, one.is_control_plane, one.nodes, one.name)))


def _pool_of(node: Manifest, labels: Mapping[str, str]) -> str:
    """Return the pool of a node by the labels that providers set, else by what it runs."""
    for label in _POOL_LABELS:
        if label in labels:
            return labels[label]
    facts = node["status"].get("nodeInfo") or {}
    return f"kernel {facts.get('kernelVersion', 'unknown')}"


def _shown(pool: Pool) -> str:
    blocked = f", {len(pool.blocked)} of them only after a new kernel" if pool.blocked else ""
    return f"{pool.name} ({pool.nodes} nodes{blocked})"


def _first_node(evidence: Evidence) -> str:
    """Return the node that can move and whose trouble would be least: a worker with the fewest pods."""
    pods: dict[str, int] = {}
    for pod in evidence.items("pods"):
        node = str(pod["spec"].get("nodeName") or "")
        pods[node] = pods.get(node, 0) + 1
    able = [
        (_CONTROL_PLANE in (node["metadata"].get("labels") or {}), pods.get(name, 0), name)
        for node in evidence.items("nodes")
        if can_run_nftables(node) and (name := str(node["metadata"]["name"]))
    ]
    return min(able)[2] if able else "NODE"


def _named(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(sorted(names)[:_NAMED]) + (f" and {more} more" if more > 0 else "")
