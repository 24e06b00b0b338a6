"""What a pod says about devices: its entries of spec.resourceClaims, and extended resources that may stand for some.

Which devices these ask for is said in other objects (ResourceClaim, template, DeviceClass); `services.core.devices`
brings them together. KEP-4381 (claims), KEP-5004 (extended resources by DRA).
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClaim:
    """One entry of spec.resourceClaims.

    `claim` is the name of the ResourceClaim: the one that the pod names, or the one that status.resourceClaimStatuses
    says was made from `template`; empty while it is not made. `is_unneeded`: the status says that there is none to be
    had, because the template asks for nothing.
    """

    entry: str
    claim: str = ""
    template: str = ""
    is_unneeded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResource:
    """An extended resource that a container requests, which a DeviceClass may stand for.

    `index` counts initContainers and containers in one row, `position` the container's requests by name: both make the
    name of the request, `container-<index>-request-<position>`. `is_initial`: an init container that ends before the
    others begin, so that they can use the same devices.
    """

    index: int
    position: int
    container: str
    resource: str
    amount: int
    is_initial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDevices:
    """All of it. `extended_claim` is the claim that was made for the pod's extended resources, if one was."""

    claims: tuple[PodClaim, ...] = ()
    extended: tuple[ContainerResource, ...] = ()
    extended_claim: str = ""


NO_DEVICES = PodDevices()


def anew(devices: PodDevices) -> PodDevices:
    """Return what another pod of the same template asks for: it gets claims of its own."""
    claims = tuple(replace(one, claim="") if one.template and not one.is_unneeded else one for one in devices.claims)
    return replace(devices, claims=claims, extended_claim="")
