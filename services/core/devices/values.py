"""What slices, classes and claims say, as values: resource.k8s.io/v1 reduced to what an allocation depends on.

Amounts are billionths (`amounts.NANO`). Attribute names are pairs of domain and id; a name without a domain has that of
its driver. Values of attributes carry their kind, so that the number 1 and `true` never compare equal.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.core.allocations import DeviceToleration
from services.core.constraints import NodeSelectorTerm
from services.core.reasons import Reason

Attribute = tuple[str, str | int | bool]
"""Kind (`string`, `int`, `bool`, `version`) and value."""
AttributeName = tuple[str, str]
"""Domain and id."""
PoolId = tuple[str, str]
"""Driver and name: in this order pools are tried."""
DeviceId = tuple[str, str, str]
"""Driver, pool, device: what an allocation names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRule:
    """Where a device can be used: on one node, on those that the terms select, or on all. Nowhere where nothing is set.

    `selector_json` is the selector as it was written, for the allocation.
    """

    name: str = ""
    is_all: bool = False
    terms: tuple[NodeSelectorTerm, ...] = ()
    selector_json: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPolicy:
    """How much of a capacity a request consumes (KEP-5075): the default, and valid values or a range with steps."""

    default: int | None = None
    values: tuple[int, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """One capacity of a device."""

    amount: int
    policy: CapacityPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTaint:
    """A taint of a device (KEP-5055). `effect` is None, NoSchedule or NoExecute."""

    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device of a slice; its attributes are columns of the slice.

    `counters` are set, counter and amount of what it consumes of its pool. `is_shareable`: several claims may have a
    share of it (allowMultipleAllocations).
    """

    name: str
    node: NodeRule
    capacity: Mapping[str, Capacity] = field(default_factory=dict)
    counters: tuple[tuple[str, str, int], ...] = ()
    taints: tuple[DeviceTaint, ...] = ()
    is_shareable: bool = False
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceSlice:
    """One ResourceSlice. `columns` hold an attribute of all its devices, None where a device lacks it.

    `problem` says what in it cannot be read; then it has no devices, and its pool is not used. `verdicts` remembers
    what selectors said about its devices: it is no part of the value.
    """

    name: str
    pool: PoolId
    generation: int
    slice_count: int
    node: NodeRule
    devices: tuple[Device, ...] = ()
    columns: Mapping[AttributeName, tuple[Attribute | None, ...]] = field(default_factory=dict)
    counter_sets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    problem: str = ""
    verdicts: "dict[str, Verdict]" = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What selectors say about devices, as bits by position: all hold, or one failed; and what the first failure said.

    `selector` is the expression that failed.
    """

    matches: int = 0
    failures: int = 0
    error: str = ""
    selector: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request, or one alternative of a prioritized list (KEP-4816), whose name is then `name`.

    `count` is None for all matching devices of the node. `capacity` is what is requested of a shareable device.
    """

    name: str = ""
    device_class: str = ""
    selectors: tuple[str, ...] = ()
    count: int | None = 1
    is_admin: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request of a claim: the first of `alternatives` that can be had. Only a prioritized list has names in them."""

    name: str
    alternatives: tuple[Ask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeConstraint:
    """All devices of the requests agree in an attribute, or all differ where it `is_distinct`.

    `requests` are names of requests, or `request/alternative`; without any, all are meant.
    """

    attribute: AttributeName
    requests: tuple[str, ...] = ()
    is_distinct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSpec:
    """What a claim asks for."""

    requests: tuple[Request, ...] = ()
    constraints: tuple[AttributeConstraint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClassSpec:
    """A DeviceClass: selectors, and the extended resource that it stands for (KEP-5004)."""

    selectors: tuple[str, ...] = ()
    extended_resource: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One device of an allocation: what of it is taken. `consumed` is None for a device that is taken whole."""

    device: DeviceId
    is_admin: bool = False
    consumed: tuple[tuple[str, int], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Where the claim can be used, what it holds, and whose it is: uids of pods, or of the one PodGroup."""

    node: NodeRule
    uses: tuple[Use, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A class, claim or template that cannot be read, with the reason for those who need it."""

    reason: Reason
