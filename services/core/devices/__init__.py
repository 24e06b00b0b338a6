"""Devices of resource.k8s.io (KEP-4381): what there is, what is taken, what pods ask for, and what fits where.

`DeviceBooks` is folded from the cluster stream and from promises; `Devices` is its state for one decision. Rules are
those of the structured allocator in k8s.io/dynamic-resource-allocation 0.37.2, with which tests/differential compares;
docs/devices.md has the table of what is done and what is refused.
"""

from services.core.devices.books import DeviceBooks
from services.core.devices.demands import NO_DEMAND, DeviceDemand
from services.core.devices.inventory import Devices

__all__ = ["NO_DEMAND", "DeviceBooks", "DeviceDemand", "Devices"]
