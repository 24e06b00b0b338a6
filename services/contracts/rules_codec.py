"""What pods demand, and what storage demands for them, between the core's values and `phalanx.cluster.v1`."""

from collections.abc import Iterable

from services.contracts.pb.cluster.v1 import cluster_pb2 as pb
from services.core import constraints as core


def encode_rules(rules: core.PodRules) -> pb.PodRules | None:
    """Return the message, or None for a pod without rules: it is then absent."""
    if rules == core.NO_RULES:
        return None
    return pb.PodRules(
        affinity=[_encode_pod_term(one) for one in rules.affinity],
        anti_affinity=[_encode_pod_term(one) for one in rules.anti_affinity],
        spread=[_encode_spread(one) for one in rules.spread],
        preferred_nodes=[
            pb.WeightedNodeTerm(weight=one.weight, term=encode_term(one.term)) for one in rules.preferred_nodes
        ],
        preferred_pods=[
            pb.WeightedPodTerm(weight=one.weight, term=_encode_pod_term(one.term)) for one in rules.preferred_pods
        ],
        host_ports=[pb.HostPort(port=one.port, protocol=one.protocol, address=one.address) for one in rules.host_ports],
        disks=[pb.Disk(name=one.name, read_only=one.is_read_only) for one in rules.disks],
        claims=[pb.Claim(name=one.name, ephemeral=one.is_ephemeral) for one in rules.claims],
        features=rules.features,
    )


def decode_rules(message: pb.PodRules) -> core.PodRules:
    """Return the rules that a message states."""
    return core.PodRules(
        affinity=tuple(_decode_pod_term(one) for one in message.affinity),
        anti_affinity=tuple(_decode_pod_term(one) for one in message.anti_affinity),
        spread=tuple(_decode_spread(one) for one in message.spread),
        preferred_nodes=tuple(
            core.WeightedNodeTerm(weight=one.weight, term=decode_term(one.term)) for one in message.preferred_nodes
        ),
        preferred_pods=tuple(
            core.WeightedPodTerm(weight=one.weight, term=_decode_pod_term(one.term)) for one in message.preferred_pods
        ),
        host_ports=tuple(
            core.HostPort(port=one.port, protocol=one.protocol, address=one.address) for one in message.host_ports
        ),
        disks=tuple(core.Disk(name=one.name, is_read_only=one.read_only) for one in message.disks),
        claims=tuple(core.Claim(name=one.name, is_ephemeral=one.ephemeral) for one in message.claims),
        features=tuple(message.features),
    )


def encode_term(term: core.NodeSelectorTerm) -> pb.NodeSelectorTerm:
    """Return the message of a term about nodes."""
    return pb.NodeSelectorTerm(
        expressions=_encode_requirements(term.expressions), fields=_encode_requirements(term.fields)
    )


def decode_term(term: pb.NodeSelectorTerm) -> core.NodeSelectorTerm:
    """Return the term about nodes that a message states."""
    return core.NodeSelectorTerm(
        expressions=_decode_requirements(term.expressions), fields=_decode_requirements(term.fields)
    )


def _encode_requirements(requirements: Iterable[core.NodeRequirement]) -> list[pb.NodeRequirement]:
    return [pb.NodeRequirement(key=one.key, operator=one.operator, values=one.values) for one in requirements]


def _decode_requirements(requirements: Iterable[pb.NodeRequirement]) -> tuple[core.NodeRequirement, ...]:
    return tuple(
        core.NodeRequirement(key=one.key, operator=one.operator, values=tuple(one.values)) for one in requirements
    )


def _encode_selector(selector: core.LabelSelector | None) -> pb.LabelSelector | None:
    return None if selector is None else pb.LabelSelector(requirements=_encode_requirements(selector.requirements))


def _decode_selector(message: pb.LabelSelector) -> core.LabelSelector:
    return core.LabelSelector(requirements=_decode_requirements(message.requirements))


def _encode_pod_term(term: core.PodTerm) -> pb.PodTerm:
    return pb.PodTerm(
        topology_key=term.topology_key,
        selector=_encode_selector(term.selector),
        namespaces=term.namespaces,
        namespace_selector=_encode_selector(term.namespace_selector),
    )


def _decode_pod_term(message: pb.PodTerm) -> core.PodTerm:
    return core.PodTerm(
        topology_key=message.topology_key,
        selector=_decode_selector(message.selector) if message.HasField("selector") else None,
        namespaces=tuple(message.namespaces),
        namespace_selector=(
            _decode_selector(message.namespace_selector) if message.HasField("namespace_selector") else None
        ),
    )


def _encode_spread(one: core.SpreadConstraint) -> pb.SpreadConstraint:
    return pb.SpreadConstraint(
        topology_key=one.topology_key,
        max_skew=one.max_skew,
        hard=one.is_hard,
        selector=_encode_selector(one.selector),
        min_domains=one.min_domains,
        honors_affinity=one.honors_affinity,
        honors_taints=one.honors_taints,
    )


def _decode_spread(message: pb.SpreadConstraint) -> core.SpreadConstraint:
    return core.SpreadConstraint(
        topology_key=message.topology_key,
        max_skew=message.max_skew,
        is_hard=message.hard,
        selector=_decode_selector(message.selector) if message.HasField("selector") else None,
        min_domains=message.min_domains,
        honors_affinity=message.honors_affinity,
        honors_taints=message.honors_taints,
    )
