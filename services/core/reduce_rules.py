"""The rules of a pod, read from its spec: affinity, spread, host ports, volumes, and the features that it needs.

What an API server and its defaults would have filled in is filled in here too, so that a manifest that was never
submitted is judged as if it had been: matchLabelKeys become requirements of the selector (KEP-3243, KEP-3633), and a
term without namespaces means the pod's own.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from services.core.constraints import (
    NO_RULES,
    Claim,
    Disk,
    HostPort,
    LabelSelector,
    NodeRequirement,
    NodeSelectorTerm,
    PodRules,
    PodTerm,
    SpreadConstraint,
    WeightedNodeTerm,
    WeightedPodTerm,
)
from services.core.manifests import (
    FieldError,
    flag_at,
    integer_at,
    mapping_at,
    numbered,
    text_at,
    text_mapping_at,
    texts_at,
)
from services.core.objects import Metadata

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

_AFFINITY = "spec.affinity"
_SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS = (*_SELECTOR_OPERATORS, "Gt", "Lt")
_MAX_PORT = 65_535
_MAX_WEIGHT = 100


def reduce_rules(metadata: Metadata, spec: Mapping[str, Any]) -> PodRules:
    """Return the rules of a pod; NO_RULES itself where it has none. Raises FieldError."""
    affinity = mapping_at(spec, "affinity", at=_AFFINITY)
    near = mapping_at(affinity, "podAffinity", at=f"{_AFFINITY}.podAffinity")
    apart = mapping_at(affinity, "podAntiAffinity", at=f"{_AFFINITY}.podAntiAffinity")
    rules = PodRules(
        affinity=_terms(near, metadata, at=f"{_AFFINITY}.podAffinity.{REQUIRED}"),
        anti_affinity=_terms(apart, metadata, at=f"{_AFFINITY}.podAntiAffinity.{REQUIRED}"),
        spread=tuple(
            _spread(item, metadata, at=path)
            for path, item in numbered(spec, "topologySpreadConstraints", at="spec.topologySpreadConstraints")
        ),
        preferred_nodes=_preferred_nodes(affinity),
        preferred_pods=(
            *_preferred_pods(near, metadata, sign=1, at=f"{_AFFINITY}.podAffinity.{PREFERRED}"),
            *_preferred_pods(apart, metadata, sign=-1, at=f"{_AFFINITY}.podAntiAffinity.{PREFERRED}"),
        ),
        host_ports=tuple(sorted(set(_host_ports(spec)), key=lambda one: (one.port, one.protocol, one.address))),
        disks=tuple(disk for path, item in numbered(spec, "volumes", at="spec.volumes") for disk in _disks(path, item)),
        claims=tuple(_claims(metadata, spec)),
        features=tuple(_features(spec)),
    )
    return NO_RULES if rules == NO_RULES else rules


def required_node_terms(spec: Mapping[str, Any]) -> tuple[NodeSelectorTerm, ...] | None:
    """Return the terms of the required node affinity, or None where there is none. Raises FieldError."""
    affinity = mapping_at(spec, "affinity", at=_AFFINITY)
    node_affinity = mapping_at(affinity, "nodeAffinity", at=f"{_AFFINITY}.nodeAffinity")
    if node_affinity.get(REQUIRED) is None:
        return None
    at = f"{_AFFINITY}.nodeAffinity.{REQUIRED}"
    return node_terms(mapping_at(node_affinity, REQUIRED, at=at), at=at)


def node_terms(selector: Mapping[str, Any], *, at: str) -> tuple[NodeSelectorTerm, ...]:
    """Return the terms of a NodeSelector. Raises FieldError."""
    return tuple(
        _node_term(term, at=path)
        for path, term in numbered(selector, "nodeSelectorTerms", at=f"{at}.nodeSelectorTerms")
    )


def _node_term(term: Mapping[str, Any], *, at: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        expressions=_requirements(term, "matchExpressions", at=f"{at}.matchExpressions", operators=_NODE_OPERATORS),
        fields=_requirements(term, "matchFields", at=f"{at}.matchFields", operators=_NODE_OPERATORS),
    )


def _requirements(
    parent: Mapping[str, Any], key: str, *, at: str, operators: tuple[str, ...]
) -> tuple[NodeRequirement, ...]:
    return tuple(_requirement(item, at=path, operators=operators) for path, item in numbered(parent, key, at=at))


def _requirement(item: Mapping[str, Any], *, at: str, operators: tuple[str, ...]) -> NodeRequirement:
    operator = text_at(item, "operator", at=f"{at}.operator")
    if operator not in operators:
        raise FieldError(field=f"{at}.operator", expected=f"one of {', '.join(operators)}", got=operator)
    key = text_at(item, "key", at=f"{at}.key")
    if not key:
        raise FieldError(field=f"{at}.key", expected="a key", got=item.get("key"))
    return NodeRequirement(key=key, operator=operator, values=texts_at(item, "values", at=f"{at}.values"))


def _preferred_nodes(affinity: Mapping[str, Any]) -> tuple[WeightedNodeTerm, ...]:
    at = f"{_AFFINITY}.nodeAffinity"
    node_affinity = mapping_at(affinity, "nodeAffinity", at=at)
    return tuple(
        WeightedNodeTerm(
            weight=_weight(item, at=f"{path}.weight"),
            term=_node_term(mapping_at(item, "preference", at=f"{path}.preference"), at=f"{path}.preference"),
        )
        for path, item in numbered(node_affinity, PREFERRED, at=f"{at}.{PREFERRED}")
    )


def _preferred_pods(
    parent: Mapping[str, Any], metadata: Metadata, *, sign: int, at: str
) -> tuple[WeightedPodTerm, ...]:
    return tuple(
        WeightedPodTerm(
            weight=sign * _weight(item, at=f"{path}.weight"),
            term=_term(
                mapping_at(item, "podAffinityTerm", at=f"{path}.podAffinityTerm"),
                metadata,
                at=f"{path}.podAffinityTerm",
            ),
        )
        for path, item in numbered(parent, PREFERRED, at=at)
    )


def _weight(item: Mapping[str, Any], *, at: str) -> int:
    weight = integer_at(item, "weight", at=at)
    if not 0 <= weight <= _MAX_WEIGHT:
        raise FieldError(field=at, expected="a weight from 1 to 100", got=weight)
    return weight


def _terms(parent: Mapping[str, Any], metadata: Metadata, *, at: str) -> tuple[PodTerm, ...]:
    return tuple(_term(item, metadata, at=path) for path, item in numbered(parent, REQUIRED, at=at))


def _term(item: Mapping[str, Any], metadata: Metadata, *, at: str) -> PodTerm:
    namespaces = tuple(sorted(set(texts_at(item, "namespaces", at=f"{at}.namespaces"))))
    namespace_selector = label_selector(item, "namespaceSelector", at=f"{at}.namespaceSelector")
    selector = label_selector(item, "labelSelector", at=f"{at}.labelSelector")
    if selector is not None:
        for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            wanted = texts_at(item, keys, at=f"{at}.{keys}")
            selector = _with_own_labels(selector, metadata, keys=wanted, operator=operator)
    return PodTerm(
        topology_key=_topology_key(item, at=at),
        selector=selector,
        namespaces=namespaces if namespaces or namespace_selector is not None else (metadata.namespace,),
        namespace_selector=namespace_selector,
    )


def _topology_key(item: Mapping[str, Any], *, at: str) -> str:
    key = text_at(item, "topologyKey", at=f"{at}.topologyKey")
    if not key:
        raise FieldError(field=f"{at}.topologyKey", expected="a label of nodes", got=item.get("topologyKey"))
    return key


def _with_own_labels(
    selector: LabelSelector, metadata: Metadata, *, keys: tuple[str, ...], operator: str
) -> LabelSelector:
    """Return the selector with the pod's own values of some labels, unless an API server has put them there."""
    known = {(one.key, one.operator) for one in selector.requirements}
    added = tuple(
        NodeRequirement(key=key, operator=operator, values=(metadata.labels[key],))
        for key in keys
        if key in metadata.labels and (key, operator) not in known
    )
    return LabelSelector(requirements=(*selector.requirements, *added)) if added else selector


def label_selector(parent: Mapping[str, Any], key: str, *, at: str) -> LabelSelector | None:
    """Return a LabelSelector, or None where it is absent and so selects nothing. Raises FieldError."""
    if parent.get(key) is None:
        return None
    selector = mapping_at(parent, key, at=at)
    labels = text_mapping_at(selector, "matchLabels", at=f"{at}.matchLabels")
    equal = tuple(NodeRequirement(key=name, operator="In", values=(value,)) for name, value in sorted(labels.items()))
    others = _requirements(selector, "matchExpressions", at=f"{at}.matchExpressions", operators=_SELECTOR_OPERATORS)
    for index, one in enumerate(others):
        needs_values = one.operator in {"In", "NotIn"}
        if needs_values != bool(one.values):
            expected = f"{'at least one value' if needs_values else 'no values'} with {one.operator}"
            raise FieldError(field=f"{at}.matchExpressions[{index}].values", expected=expected, got=one.values)
    return LabelSelector(requirements=(*equal, *others))


def _spread(item: Mapping[str, Any], metadata: Metadata, *, at: str) -> SpreadConstraint:
    selector = label_selector(item, "labelSelector", at=f"{at}.labelSelector")
    keys = texts_at(item, "matchLabelKeys", at=f"{at}.matchLabelKeys")
    if selector is not None:
        selector = _with_own_labels(selector, metadata, keys=keys, operator="In")
    unsatisfiable = text_at(item, "whenUnsatisfiable", at=f"{at}.whenUnsatisfiable")
    if unsatisfiable not in {"DoNotSchedule", "ScheduleAnyway"}:
        raise FieldError(field=f"{at}.whenUnsatisfiable", expected="DoNotSchedule or ScheduleAnyway", got=unsatisfiable)
    max_skew = integer_at(item, "maxSkew", at=f"{at}.maxSkew")
    min_domains = integer_at(item, "minDomains", at=f"{at}.minDomains", default=1)
    for field, number in (("maxSkew", max_skew), ("minDomains", min_domains)):
        if number < 1:
            raise FieldError(field=f"{at}.{field}", expected="at least 1", got=number)
    return SpreadConstraint(
        topology_key=_topology_key(item, at=at),
        max_skew=max_skew,
        is_hard=unsatisfiable == "DoNotSchedule",
        selector=selector,
        min_domains=min_domains,
        honors_affinity=_honors(item, "nodeAffinityPolicy", at=at, default="Honor"),
        honors_taints=_honors(item, "nodeTaintsPolicy", at=at, default="Ignore"),
    )


def _honors(item: Mapping[str, Any], key: str, *, at: str, default: str) -> bool:
    policy = text_at(item, key, at=f"{at}.{key}", default=default)
    if policy not in {"Honor", "Ignore"}:
        raise FieldError(field=f"{at}.{key}", expected="Honor or Ignore", got=policy)
    return policy == "Honor"


def _host_ports(spec: Mapping[str, Any]) -> Iterator[HostPort]:
    """Yield the ports that the pod takes as long as it runs: those of containers and sidecars."""
    takes_all = flag_at(spec, "hostNetwork", at="spec.hostNetwork")
    for key in ("containers", "initContainers"):
        for path, container in numbered(spec, key, at=f"spec.{key}"):
            if key == "initContainers" and container.get("restartPolicy") != "Always":
                continue
            for at, item in numbered(container, "ports", at=f"{path}.ports"):
                port = integer_at(item, "hostPort", at=f"{at}.hostPort")
                if takes_all and not port:
                    # On the host's network every port of a container is one of the host (an API server fills it in).
                    port = integer_at(item, "containerPort", at=f"{at}.containerPort")
                if not 0 <= port <= _MAX_PORT:
                    raise FieldError(field=f"{at}.hostPort", expected="a port from 1 to 65535", got=port)
                if port:
                    protocol = text_at(item, "protocol", at=f"{at}.protocol", default="TCP")
                    address = text_at(item, "hostIP", at=f"{at}.hostIP", default=HostPort(port=0).address)
                    yield HostPort(port=port, protocol=protocol, address=address)


def _disks(path: str, volume: Mapping[str, Any]) -> Iterator[Disk]:
    """Yield what makes the volume one disk with another pod's; an RBD image is reached through any of its monitors."""
    if volume.get("gcePersistentDisk") is not None:
        at = f"{path}.gcePersistentDisk"
        disk = mapping_at(volume, "gcePersistentDisk", at=at)
        name = text_at(disk, "pdName", at=f"{at}.pdName")
        yield Disk(name=f"gce/{name}", is_read_only=flag_at(disk, "readOnly", at=f"{at}.readOnly"))
    if volume.get("awsElasticBlockStore") is not None:
        at = f"{path}.awsElasticBlockStore"
        disk = mapping_at(volume, "awsElasticBlockStore", at=at)
        yield Disk(name=f"ebs/{text_at(disk, 'volumeID', at=f'{at}.volumeID')}")
    if volume.get("iscsi") is not None:
        at = f"{path}.iscsi"
        disk = mapping_at(volume, "iscsi", at=at)
        name = text_at(disk, "iqn", at=f"{at}.iqn")
        yield Disk(name=f"iscsi/{name}", is_read_only=flag_at(disk, "readOnly", at=f"{at}.readOnly"))
    if volume.get("rbd") is not None:
        at = f"{path}.rbd"
        disk = mapping_at(volume, "rbd", at=at)
        pool = text_at(disk, "pool", at=f"{at}.pool", default="rbd")
        image = text_at(disk, "image", at=f"{at}.image")
        is_read_only = flag_at(disk, "readOnly", at=f"{at}.readOnly")
        for monitor in sorted(set(texts_at(disk, "monitors", at=f"{at}.monitors"))):
            yield Disk(name=f"rbd/{monitor}/{pool}/{image}", is_read_only=is_read_only)


def _claims(metadata: Metadata, spec: Mapping[str, Any]) -> Iterator[Claim]:
    for path, item in numbered(spec, "volumes", at="spec.volumes"):
        if item.get("persistentVolumeClaim") is not None:
            at = f"{path}.persistentVolumeClaim"
            name = text_at(mapping_at(item, "persistentVolumeClaim", at=at), "claimName", at=f"{at}.claimName")
            if not name:
                raise FieldError(field=f"{at}.claimName", expected="the name of a claim", got=name)
            yield Claim(name=name)
        elif item.get("ephemeral") is not None:
            # The claim's name follows from the pod's and the volume's.
            yield Claim(name=f"{metadata.name}-{text_at(item, 'name', at=f'{path}.name')}", is_ephemeral=True)


def _features(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the features that kube-scheduler 1.37 infers from a pod that it places, in name order."""
    containers = [
        (path, item)
        for key in ("containers", "initContainers", "ephemeralContainers")
        for path, item in numbered(spec, key, at=f"spec.{key}")
    ]
    if any(
        rule.get("action") == "RestartAllContainers"
        for path, item in containers
        if not path.startswith("spec.ephemeralContainers")
        for _, rule in numbered(item, "restartPolicyRules", at=f"{path}.restartPolicyRules")
    ):
        yield "RestartAllContainersOnContainerExits"
    if flag_at(spec, "hostNetwork", at="spec.hostNetwork") and spec.get("hostUsers") is False:
        yield "UserNamespacesHostNetworkSupport"
    if any(
        texts_at(mount, "bindMountOptions", at=f"{at}.bindMountOptions")
        for path, item in containers
        for at, mount in numbered(item, "volumeMounts", at=f"{path}.volumeMounts")
    ):
        yield "VolumeBindMountOptions"
