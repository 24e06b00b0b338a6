"""What an installation decides about placement: the content of the configuration file, as values.

One dataclass for each section. Their field names in camelCase are the keys of the file, their docstrings its reference,
and the limits in their metadata are checked when it is read; `services.contracts.policy_file` reads it, and generates
the JSON schema. All sections are optional, and an empty file is this module's defaults.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from services.core.authorization import MAX_GRANTS, Grant, problems_of_authorization
from services.core.field_limits import DOMAIN, LABEL_KEY, LABEL_KEY_PATTERN, LABELS
from services.core.metric_sources import MetricSource, problems_of_sources
from services.core.signer_policy import SignerPolicy, problems_of_signer

PolicyPath = tuple[str | int, ...]
"""Where something stands in the file: keys and positions, as ("topology", "levels", 1, "nodeLabel")."""

MAX_LEVELS = 16
"""Levels of topology; the API's own topology constraints allow no more in use."""

MAX_METRIC_SOURCES = 4096

LEVEL_NAME = {"pattern": rf"^({LABEL_KEY_PATTERN})?$", "text": "a short word, such as rack, or a label key"}
"""Limits of the name of a level."""
DEVICE_CLASSES = {"pattern": rf"^{DOMAIN}$", "text": "the name of a DeviceClass, such as gpu.example.com"}
"""Limits of names of DeviceClasses."""

WHEN_IT_DOES_NOT_FIT = {"pattern": r"^(create|hold)$", "text": "create or hold"}
"""Limits of what a wake does whose pods have no place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyLevel:
    """One level of domains: nodes with the same value of a label are one domain of the level."""

    node_label: str = field(metadata=LABEL_KEY)
    """Label of nodes whose value names the domain, such as topology.kubernetes.io/zone."""

    name: str = field(default="", metadata=LEVEL_NAME)
    """What people call the level, such as zone or rack; without one it is called by its label."""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.node_label)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyPolicy:
    """How nodes are grouped into domains that a gang should not leave."""

    levels: tuple[TopologyLevel, ...] = field(default=(), metadata={"maximum_count": MAX_LEVELS})
    """Levels from the widest to the narrowest. Without any, all nodes are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipPolicy:
    """What no other scheduler uses. What is not owned is shared: see docs/ownership.md."""

    node_selector: Mapping[str, str] = field(default_factory=dict, metadata=LABELS)
    """Labels that the nodes have which only Phalanx uses; empty for all nodes."""

    device_classes: tuple[str, ...] = field(default=(), metadata=DEVICE_CLASSES)
    """DeviceClasses whose devices only Phalanx allocates; empty for all."""

    def owns_node(self, labels: Mapping[str, str]) -> bool:
        """Tell whether a node with these labels is used by nobody else."""
        return all(labels.get(key) == value for key, value in self.node_selector.items())

    def owns_device_class(self, name: str) -> bool:
        """Tell whether devices of this class are allocated by nobody else."""
        return not self.device_classes or name in self.device_classes


@dataclass(frozen=True, slots=True, kw_only=True)
class WakingPolicy:
    """How targets are woken from zero."""

    when_it_does_not_fit: str = field(default="create", metadata=WHEN_IT_DOES_NOT_FIT)
    """What a wake does whose pods have no place now: create makes them, for node autoscalers to see; hold waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The whole file, the same for all services."""

    topology: TopologyPolicy = field(default_factory=TopologyPolicy)
    """How nodes are grouped."""

    ownership: OwnershipPolicy = field(default_factory=OwnershipPolicy)
    """Which nodes and devices are used by nobody else."""

    metric_sources: tuple[MetricSource, ...] = field(default=(), metadata={"maximum_count": MAX_METRIC_SOURCES})
    """By which metrics targets are woken from zero. Without any, the autoscaler wakes nothing."""

    authorization: tuple[Grant, ...] = field(default=(), metadata={"maximum_count": MAX_GRANTS})
    """Who may call what. Without this section nobody may, but on the loopback interface of a service without TLS."""

    signer: SignerPolicy = field(default_factory=SignerPolicy)
    """Whose certificate requests the signer signs. Without this section, nobody's."""

    waking: WakingPolicy = field(default_factory=WakingPolicy)
    """How they are woken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyProblem:
    """One thing in a policy that cannot be used, beside what is wrong with a single value."""

    path: PolicyPath
    what: str


def problems_of(policy: Policy) -> Iterator[PolicyProblem]:
    """Yield what contradicts itself in a policy whose values are right one by one."""
    yield from _problems_of_topology(policy.topology)
    yield from _problems_of_ownership(policy.ownership)
    for path, what in problems_of_sources(policy.metric_sources):
        yield PolicyProblem(path=("metricSources", *path), what=what)
    for path, what in problems_of_authorization(policy.authorization):
        yield PolicyProblem(path=("authorization", *path), what=what)
    for path, what in problems_of_signer(policy.signer).items():
        yield PolicyProblem(path=("signer", *path), what=what)


def _problems_of_topology(topology: TopologyPolicy) -> Iterator[PolicyProblem]:
    labels: dict[str, int] = {}
    names: dict[str, int] = {}
    for place, level in enumerate(topology.levels):
        path: PolicyPath = ("topology", "levels", place)
        for known, value, key in ((labels, level.node_label, "nodeLabel"), (names, level.name, "name")):
            first = known.setdefault(value, place)
            if first != place and not (key == "name" and level.name == level.node_label):
                what = f"{value!r} is level {first} already; expected each level once, from the widest to the narrowest"
                yield PolicyProblem(path=(*path, key), what=what)


def _problems_of_ownership(ownership: OwnershipPolicy) -> Iterator[PolicyProblem]:
    classes = ownership.device_classes
    for place, name in enumerate(classes):
        if name in classes[:place]:
            what = f"{name!r} stands here twice; remove one"
            yield PolicyProblem(path=("ownership", "deviceClasses", place), what=what)
