"""Books of devices with short ways to ask them."""

from collections.abc import Mapping

from services.core.allocations import ClaimAllocation
from services.core.devices import DeviceBooks, Devices
from services.core.objects import DeviceObject, Node, NodeName, Pod
from services.core.reasons import Reason


def books(*items: DeviceObject) -> DeviceBooks:
    """Return books with these objects."""
    found = DeviceBooks()
    for item in items:
        found.put(item)
    return found


def devices(*items: DeviceObject, nodes: Mapping[NodeName, Node] | None = None) -> Devices:
    """Return the devices for one decision."""
    return books(*items).snapshot(nodes=nodes)


def fits(found: Devices, node: str, *pods: Pod) -> bool | None:
    """Tell whether pods fit on a node together, by its devices."""
    wanted: dict[object, int] = {}
    for pod in pods:
        demand = found.demand(pod)
        wanted[demand] = wanted.get(demand, 0) + 1
    return found.fits(NodeName(node), wanted)  # type: ignore[arg-type]


def allocated(found: Devices, *placement: tuple[Pod, str]) -> tuple[ClaimAllocation, ...]:
    """Return the devices of a placement; fails where they do not suffice."""
    answer = found.allocate([(pod, NodeName(node)) for pod, node in placement])
    assert all(isinstance(one, ClaimAllocation) for one in answer), answer
    return tuple(one for one in answer if isinstance(one, ClaimAllocation))


def refused(found: Devices, *placement: tuple[Pod, str]) -> tuple[Reason, ...]:
    """Return why the devices do not suffice for a placement."""
    answer = found.allocate([(pod, NodeName(node)) for pod, node in placement])
    assert answer
    assert all(isinstance(one, Reason) for one in answer), answer
    return tuple(one for one in answer if isinstance(one, Reason))


def names(allocation: ClaimAllocation) -> list[str]:
    """Return the devices of an allocation as pool/device."""
    return [f"{one.pool}/{one.device}" for one in allocation.results]
