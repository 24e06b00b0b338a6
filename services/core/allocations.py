"""Which devices each claim of a placement gets: what the placer promises and the binder writes into ResourceClaims.

They mirror `ClaimAllocation` in `proto/phalanx/placement/v1/allocation.proto`, and through it
`status.allocation` of resource.k8s.io/v1 ResourceClaim (KEP-4381).
"""

from dataclasses import dataclass

from services.core.objects import NodeName, Uid


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRef:
    """Which claim is meant.

    `name` and `uid` are those of the ResourceClaim; empty where it does not exist yet. `pod` and `entry` say whose it
    will be: the claim of that entry of spec.resourceClaims, which the claim controller makes from a template. Without
    an `entry` it is the claim of the pod's extended resources, which whoever binds the pod makes. A claim that several
    pods share has no `pod`.
    """

    namespace: str
    name: str = ""
    uid: Uid = Uid("")
    pod: Uid = Uid("")
    entry: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class DeviceId:
    """Names a device."""

    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceToleration:
    """A toleration of a request, copied into the allocation, because eviction reads it there.

    `seconds` None tolerates for ever.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceResult:
    """One device for one request: `request` is `main`, or `main/sub` for a request of a prioritized list.

    `consumed` is the capacity by name, as quantities, of a device that several allocations share; such a result
    `is_share`, and gets a share id of its own when it is written. A result that `is_admin` consumes nothing.
    """

    request: str
    driver: str
    pool: str
    device: str
    is_admin: bool = False
    is_share: bool = False
    consumed: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()

    @property
    def id(self) -> DeviceId:
        """The device."""
        return DeviceId(driver=self.driver, pool=self.pool, device=self.device)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedRequest:
    """One request of the claim that stands for a pod's extended resources: `count` devices of a DeviceClass.

    `name` is `container-I-request-J`; the container's name and the resource go into the pod's status. With a `count` of
    0 nothing is requested: the container uses the devices of the request of that name, as init containers may.
    """

    name: str
    container: str
    resource: str
    device_class: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAllocation:
    """The devices of one claim, and the members that use it.

    Without `results` the claim is allocated already, and its consumers are only reserved. `node` is the one node where
    the devices can be used; empty for devices that `node_selector_json` admits (a core/v1 NodeSelector as UTF-8 JSON),
    or for devices usable everywhere where both are empty. `is_of_group`: the claim belongs to the PodGroup, which is
    its one consumer. `extended` is set for a claim that has to be made first.
    """

    ref: ClaimRef
    consumers: tuple[Uid, ...]
    results: tuple[DeviceResult, ...] = ()
    node: NodeName = NodeName("")
    node_selector_json: bytes = b""
    is_of_group: bool = False
    extended: tuple[ExtendedRequest, ...] = ()
