"""Draws what a pod says about itself and about nodes: requests, ports, selectors, tolerations, node affinity."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.differential.drawing_cluster import GPU, HOST, PREFERRED, REQUIRED, TAINT_KEYS, ZONE, Site
from tests.differential.features import Feature
from tests.differential.scenarios import Claim, Manifest


@dataclass(slots=True, kw_only=True)
class Members:
    """The pods of a gang that is being drawn: drawers change them in place."""

    site: Site
    name: str
    nodes: tuple[Manifest, ...]
    pods: list[Manifest]
    claims: list[Claim] = field(default_factory=list)
    is_tolerant: bool = False

    def some(self, draw: random.Random) -> list[Manifest]:
        """All of the pods, mostly; else all but the first."""
        return self.pods if draw.random() < 0.75 or len(self.pods) == 1 else self.pods[1:]


Drawer = Callable[[random.Random, Members], None]


def branch(parent: Manifest, *keys: str) -> Manifest:
    """The object under the keys, made where it is missing."""
    for key in keys:
        parent = parent.setdefault(key, {})
    return parent


def _tolerations(draw: random.Random, members: Members) -> None:
    members.is_tolerant = True
    choices: tuple[Manifest, ...] = (
        {"key": TAINT_KEYS[0], "operator": "Exists"},
        {"key": TAINT_KEYS[0], "operator": "Equal", "value": "a", "effect": "NoSchedule"},
        {"key": TAINT_KEYS[1], "value": "b"},
        {"key": TAINT_KEYS[1], "operator": "Exists", "effect": "NoExecute"},
        {"operator": "Exists", "effect": "NoSchedule"},
        {"operator": "Exists"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
    )
    chosen = draw.sample(choices, k=draw.randint(1, 3))
    for pod in members.some(draw):
        pod["spec"]["tolerations"] = [dict(one) for one in chosen]


def _node_selector(draw: random.Random, members: Members) -> None:
    key, value = draw.choice((("disk", "ssd"), ("disk", "hdd"), ("pool", "a"), (ZONE, "zone-0")))
    for pod in members.some(draw):
        pod["spec"]["nodeSelector"] = {key: value}


def _required_terms(pod: Manifest) -> list[Any]:
    required = branch(pod["spec"], "affinity", "nodeAffinity", REQUIRED)
    terms: list[Any] = required.setdefault("nodeSelectorTerms", [])
    return terms


def _add_requirement(pod: Manifest, kind: str, requirement: Manifest, *, is_further_term: bool) -> None:
    """Narrow every term by the requirement, or widen the choice by a further term."""
    terms = _required_terms(pod)
    if is_further_term or not terms:
        terms.append({kind: [requirement]})
        return
    for term in terms:
        term.setdefault(kind, []).append(requirement)


def _node_affinity(draw: random.Random, members: Members) -> None:
    requirement = draw.choice(
        (
            {"key": "disk", "operator": "In", "values": ["ssd"]},
            {"key": "disk", "operator": "NotIn", "values": ["hdd"]},
            {"key": "pool", "operator": "Exists"},
            {"key": "pool", "operator": "DoesNotExist"},
            {"key": "pool", "operator": "NotIn", "values": ["a"]},
            {"key": ZONE, "operator": "In", "values": ["zone-0", "zone-1"]},
        )
    )
    is_further_term = draw.random() < 0.3
    for pod in members.some(draw):
        _add_requirement(pod, "matchExpressions", dict(requirement), is_further_term=is_further_term)


def _node_affinity_numbers(draw: random.Random, members: Members) -> None:
    operator = draw.choice(("Gt", "Lt"))
    value = str(draw.randint(1, 3) if operator == "Gt" else draw.randint(2, 4))
    for pod in members.some(draw):
        requirement = {"key": "generation", "operator": operator, "values": [value]}
        _add_requirement(pod, "matchExpressions", requirement, is_further_term=False)


def _node_affinity_fields(draw: random.Random, members: Members) -> None:
    name = draw.choice(members.nodes)["metadata"]["name"]
    requirement = {"key": "metadata.name", "operator": draw.choice(("In", "NotIn", "NotIn")), "values": [name]}
    chosen = members.pods[:1] if requirement["operator"] == "In" else members.pods
    for pod in chosen:
        _add_requirement(pod, "matchFields", dict(requirement), is_further_term=False)


def _node_preference(draw: random.Random, members: Members) -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": [draw.choice(("ssd", "hdd"))]}]}
    for pod in members.pods:
        affinity = branch(pod["spec"], "affinity", "nodeAffinity")
        affinity[PREFERRED] = [{"weight": draw.randint(1, 100), "preference": term}]


def _host_port(draw: random.Random, members: Members) -> None:
    address = draw.choice(("", "127.0.0.1"))
    protocol = draw.choice(("TCP", "UDP"))
    for index, pod in enumerate(members.some(draw)):
        port: Manifest = {"containerPort": 80, "hostPort": 8080 + index % draw.choice((1, 2)), "protocol": protocol}
        if address:
            port["hostIP"] = address
        pod["spec"]["containers"][0]["ports"] = [port]


def _overhead(_draw: random.Random, members: Members) -> None:
    for pod in members.pods:
        pod["spec"]["runtimeClassName"] = runtime_class_name(members.site)


def runtime_class_name(site: Site) -> str:
    """Name of the class whose pods need more than their containers."""
    return f"heavy-{site.seed}"


def _further_container(name: str, cpu: str, memory: str) -> Manifest:
    return {"name": name, "image": "none", "resources": {"requests": {"cpu": cpu, "memory": memory}}}


def _init_request(draw: random.Random, members: Members) -> None:
    for pod in members.some(draw):
        container = _further_container("first", draw.choice(("750m", "2", "3")), "512Mi")
        pod["spec"].setdefault("initContainers", []).append(container)


def _sidecar(draw: random.Random, members: Members) -> None:
    for pod in members.some(draw):
        container = _further_container("beside", draw.choice(("250m", "500m", "1")), "256Mi")
        container["restartPolicy"] = "Always"
        containers = pod["spec"].setdefault("initContainers", [])
        containers.insert(draw.randint(0, len(containers)), container)


def _pod_level_resources(draw: random.Random, members: Members) -> None:
    """More than the containers ask for, as the API demands: they leave their requests to the pod."""
    cpu, memory = draw.choice(("500m", "1500m", "3")), draw.choice(("1Gi", "3Gi"))
    for pod in members.some(draw):
        for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
            requests = container["resources"]["requests"]
            for resource in ("cpu", "memory"):
                requests.pop(resource, None)
        pod["spec"]["resources"] = {"requests": {"cpu": cpu, "memory": memory}}


def _extended_resource(draw: random.Random, members: Members) -> None:
    amount = str(draw.choice((1, 1, 2)))
    for pod in members.some(draw):
        resources = pod["spec"]["containers"][0]["resources"]
        resources["requests"][GPU] = amount
        resources["limits"] = {GPU: amount}


def _node_feature(draw: random.Random, members: Members) -> None:
    """Asks for what only kubelets can do that declare it."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    for pod in members.some(draw):
        pod["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}


def _unequal_members(draw: random.Random, members: Members) -> None:
    for pod in members.pods[: max(1, len(members.pods) // 2)]:
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        if "cpu" in requests:
            requests["cpu"] = draw.choice(("2", "2500m", "3"))
        pod["metadata"]["labels"]["version"] = "v2"


POD_DRAWERS: Mapping[Feature, Drawer] = {
    Feature.TOLERATION: _tolerations,
    Feature.NODE_SELECTOR: _node_selector,
    Feature.NODE_AFFINITY: _node_affinity,
    Feature.NODE_AFFINITY_NUMBERS: _node_affinity_numbers,
    Feature.NODE_AFFINITY_FIELDS: _node_affinity_fields,
    Feature.NODE_PREFERENCE: _node_preference,
    Feature.HOST_PORT: _host_port,
    Feature.OVERHEAD: _overhead,
    Feature.INIT_REQUEST: _init_request,
    Feature.SIDECAR: _sidecar,
    Feature.POD_LEVEL_RESOURCES: _pod_level_resources,
    Feature.NODE_FEATURE: _node_feature,
    Feature.EXTENDED_RESOURCE: _extended_resource,
    Feature.UNEQUAL_MEMBERS: _unequal_members,
}

__all__ = ("HOST", "POD_DRAWERS", "Drawer", "Members", "branch", "runtime_class_name")
