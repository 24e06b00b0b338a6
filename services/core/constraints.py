"""What a pod demands of its node and of the pods around it, as values that compare and hash.

They mirror the scheduling fields of core/v1. Empty fields that Kubernetes reads as a default are filled in when an
object is reduced, so that what is here means what it says. `services.core.node_rules` judges what concerns one node,
`services.core.solving` what concerns several pods.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint of a node. `effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A toleration of a pod (core/v1): an empty key with Exists tolerates everything, an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequirement:
    """One comparison of a label or field. `operator` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelectorTerm:
    """Holds where every requirement holds; a term without requirements holds nowhere."""

    expressions: tuple[NodeRequirement, ...] = ()
    fields: tuple[NodeRequirement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedNodeTerm:
    """A node term that is preferred, by weight (1 to 100)."""

    weight: int
    term: NodeSelectorTerm


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSelector:
    """A selector over pods or namespaces: all requirements hold. Without requirements it selects everything.

    `operator` of its requirements is In, NotIn, Exists or DoesNotExist; matchLabels are requirements with In.
    """

    requirements: tuple[NodeRequirement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTerm:
    """A PodAffinityTerm: pods that `selector` selects, within one value of the node label `topology_key`.

    A `selector` of None selects nothing. Pods of `namespaces`, and of namespaces that `namespace_selector` selects, are
    meant; the pod's own namespace is stated where it is meant. matchLabelKeys are requirements of the selector already.
    """

    topology_key: str
    selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedPodTerm:
    """A pod term that is preferred, by weight; a negative weight keeps away."""

    weight: int
    term: PodTerm


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadConstraint:
    """A TopologySpreadConstraint. `is_hard` is whenUnsatisfiable DoNotSchedule.

    Nodes outside the pod's node selector and affinity count only where not `honors_affinity`, nodes with taints that it
    does not tolerate only where not `honors_taints`.
    """

    topology_key: str
    max_skew: int
    is_hard: bool = True
    selector: LabelSelector | None = None
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPort:
    """A port of the node that a container takes. `address` 0.0.0.0 takes it on every address."""

    port: int
    protocol: str = "TCP"
    address: str = "0.0.0.0"  # noqa: S104 - the API's way of saying every address


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A volume that is named in the pod itself and may be mounted once on a node (VolumeRestrictions).

    `name` is what makes two mounts one disk. Two read-only mounts go together, where the kind of disk allows it.
    """

    name: str
    is_read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A PersistentVolumeClaim of the pod's namespace. One that `is_ephemeral` must belong to the pod itself."""

    name: str
    is_ephemeral: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRules:
    """The rules of a pod beyond amounts, taints, and what selects nodes. Most pods have none: NO_RULES."""

    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    preferred_nodes: tuple[WeightedNodeTerm, ...] = ()
    preferred_pods: tuple[WeightedPodTerm, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    disks: tuple[Disk, ...] = ()
    claims: tuple[Claim, ...] = ()
    features: tuple[str, ...] = ()
    """Features that a node must declare (status.declaredFeatures, KEP-5328)."""

    @property
    def looks_at_pods(self) -> bool:
        """True where other pods decide on which nodes the pod may be, beyond what they take there."""
        return bool(self.affinity or self.anti_affinity or self.disks or self.claims) or any(
            one.is_hard for one in self.spread
        )


NO_RULES = PodRules()
