"""What an audit reads only when it is asked to: dry runs (`--probe`), and nodes by the API server (`--node-proxy`).

Both take rights that a read-only account should not have: `create` cannot be granted for dry runs alone, and
`nodes/proxy` reaches all that a kubelet serves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.cli.audit.sources import SCHEDULING, SOURCES, Form, Source

NAMESPACE = "default"
"""Namespace of the dry runs."""
NAME = "phalanx-audit-probe"
PROXY_MODES, KUBELETS = "node-proxy-modes", "node-kubelets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe(Source):
    """A dry run of a create: the server answers what it would store, and stores nothing."""

    body: Mapping[str, Any]

    @property
    def rule(self) -> str:
        """The RBAC rule that the dry run takes."""
        return (
            f'{{apiGroups: ["{self.group}"], resources: ["{self.resource}"], verbs: ["create"]}} in a Role of '
            f"namespace {self.namespace}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSource(Source):
    """One document of every node, read through the API server. `path` has `{node}` and, where needed, `{port}`."""

    port: int = 0

    @property
    def rule(self) -> str:
        """The RBAC rule that the node proxy takes."""
        return '{apiGroups: [""], resources: ["nodes/proxy"], verbs: ["get"]}'


_META = {"name": NAME, "namespace": NAMESPACE}
_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": _META,
    "spec": {
        # Bound by nobody, should anything ever store it.
        "schedulerName": NAME,
        "schedulingGroup": {"podGroupName": NAME},
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "none",
                "image": "none.invalid/none",
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    },
}
_GROUP = {
    "apiVersion": f"{SCHEDULING}/v1beta1",
    "kind": "PodGroup",
    "metadata": _META,
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
}
_HPA = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": _META,
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
        "minReplicas": 0,
        "maxReplicas": 1,
        "metrics": [
            {
                "type": "External",
                "external": {"metric": {"name": NAME}, "target": {"type": "Value", "value": "1"}},
            }
        ],
    },
}

PROBES: tuple[Source, ...] = (
    Probe(
        key="probe-pod",
        kind="Pod",
        resource="pods",
        namespace=NAMESPACE,
        body=_POD,
        about="dry run: whether a pod keeps its group",
    ),
    Probe(
        key="probe-podgroup",
        kind="PodGroup",
        group=SCHEDULING,
        versions=("v1beta1",),
        resource="podgroups",
        namespace=NAMESPACE,
        body=_GROUP,
        about="dry run: whether a group is accepted",
    ),
    Probe(
        key="probe-hpa",
        kind="HorizontalPodAutoscaler",
        group="autoscaling",
        versions=("v2",),
        resource="horizontalpodautoscalers",
        namespace=NAMESPACE,
        body=_HPA,
        about="dry run: whether an autoscaler may go to zero",
    ),
)

NODE_PROXIES: tuple[Source, ...] = (
    NodeSource(
        key=PROXY_MODES,
        form=Form.TEXT,
        path="/api/v1/nodes/{node}:{port}/proxy/proxyMode",
        port=10249,
        about="the mode in which each kube-proxy runs",
    ),
    NodeSource(
        key=KUBELETS,
        form=Form.DOCUMENT,
        path="/api/v1/nodes/{node}/proxy/configz",
        about="feature gates of each kubelet",
    ),
)

OPTIONAL: tuple[Source, ...] = (*PROBES, *NODE_PROXIES)
EVERY_SOURCE: Mapping[str, Source] = {one.key: one for one in (*SOURCES, *OPTIONAL)}
