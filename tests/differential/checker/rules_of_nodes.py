"""Rules about a pod, its node, and what else is on that node."""

from collections.abc import Iterable
from fractions import Fraction

from tests.differential.checker.requests import amounts, pod_request
from tests.differential.checker.selectors import is_node_wanted, is_tolerated, untolerated
from tests.differential.checker.view import Manifest, Placed, View, name_of

_ANY_ADDRESS = "0.0.0.0"


def unschedulable(_view: View, pod: Manifest, node: Manifest, _others: Iterable[Placed]) -> str | None:
    """A cordoned node takes only pods that tolerate that."""
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    if node["spec"].get("unschedulable") and not is_tolerated(pod, taint):
        return "the node is cordoned"
    return None


def tainted(_view: View, pod: Manifest, node: Manifest, _others: Iterable[Placed]) -> str | None:
    """Taints NoSchedule and NoExecute keep pods away that do not tolerate them."""
    taints = untolerated(pod, node)
    return f"does not tolerate {taints}" if taints else None


def unwanted(_view: View, pod: Manifest, node: Manifest, _others: Iterable[Placed]) -> str | None:
    """Fields nodeSelector and nodeAffinity."""
    return None if is_node_wanted(pod, node) else "nodeSelector or required node affinity does not match"


def misnamed(_view: View, pod: Manifest, node: Manifest, _others: Iterable[Placed]) -> str | None:
    """Field nodeName."""
    named = pod["spec"].get("nodeName")
    return f"the pod names node {named}" if named and named != name_of(node) else None


def ungated(_view: View, pod: Manifest, _node: Manifest, _others: Iterable[Placed]) -> str | None:
    """A pod with scheduling gates is placed nowhere."""
    return "the pod carries scheduling gates" if pod["spec"].get("schedulingGates") else None


def overfull(_view: View, pod: Manifest, node: Manifest, others: Iterable[Placed]) -> str | None:
    """The node has a slot for the pod, and room for each resource that it asks for."""
    beside = [one.pod for one in others if one.node == name_of(node)]
    allocatable = amounts(node["status"]["allocatable"])
    slots = allocatable.get("pods", Fraction(0))
    if len(beside) + 1 > slots:
        return f"{len(beside)} pods are there, for {slots} slots"
    held = [pod_request(one) for one in beside]
    for resource, asked in pod_request(pod).items():
        free = allocatable.get(resource, Fraction(0)) - sum(
            (one.get(resource, Fraction(0)) for one in held), Fraction(0)
        )
        if asked > 0 and asked > free:
            return f"asks for {float(asked):g} {resource}, {float(free):g} are free"
    return None


def port_taken(_view: View, pod: Manifest, node: Manifest, others: Iterable[Placed]) -> str | None:
    """A port of the host is given once for each protocol and address."""
    wanted = _host_ports(pod)
    for other in others:
        if other.node != name_of(node):
            continue
        for address, protocol, port in wanted & _host_ports(other.pod) | {
            mine
            for mine in wanted
            for theirs in _host_ports(other.pod)
            if mine[1:] == theirs[1:] and _ANY_ADDRESS in {mine[0], theirs[0]}
        }:
            return f"{address}:{port}/{protocol} is taken by {name_of(other.pod)}"
    return None


def _host_ports(pod: Manifest) -> set[tuple[str, str, int]]:
    """Address, protocol and number; of containers that run beside one another."""
    sidecars = [one for one in pod["spec"].get("initContainers") or () if one.get("restartPolicy") == "Always"]
    return {
        (port.get("hostIP") or _ANY_ADDRESS, port.get("protocol") or "TCP", port["hostPort"])
        for container in (*pod["spec"]["containers"], *sidecars)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }


def undeclared(_view: View, pod: Manifest, node: Manifest, _others: Iterable[Placed]) -> str | None:
    """What only some nodes can do, they declare in status.declaredFeatures."""
    spec = pod["spec"]
    containers = (*spec["containers"], *(spec.get("initContainers") or ()))
    needed = set()
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        needed.add("UserNamespacesHostNetworkSupport")
    if any(
        rule.get("action") == "RestartAllContainers"
        for container in containers
        for rule in container.get("restartPolicyRules") or ()
    ):
        needed.add("RestartAllContainersOnContainerExits")
    lacking = needed - set(node["status"].get("declaredFeatures") or ())
    return f"the node does not declare {sorted(lacking)}" if lacking else None
