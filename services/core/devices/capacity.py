"""How much of a shareable device a request consumes (KEP-5075, consumable capacity).

Rounding is that of the structured allocator with DRAFractionalCapacityRange off: steps are whole units.
"""

from collections.abc import Mapping

from services.core.devices.values import Capacity, CapacityPolicy
from services.core.exact_amounts import NANO, whole

Amounts = tuple[tuple[str, int], ...]
"""Name of the capacity and billionths, by name."""


def consumption(capacity: Mapping[str, Capacity], *, requested: Amounts) -> Amounts | None:
    """Return what a request consumes of a device's capacities; None where the device cannot serve it, however free."""
    wanted = dict(requested)
    if any(name not in capacity for name in wanted):
        return None
    consumed = []
    for name in sorted(capacity):
        one = capacity[name]
        amount = _consumed(one, wanted.get(name))
        if not 0 <= amount <= one.amount or _breaks_policy(amount, one.policy):
            return None
        consumed.append((name, amount))
    return tuple(consumed)


def _consumed(capacity: Capacity, wanted: int | None) -> int:
    policy = capacity.policy
    if wanted is None:
        return capacity.amount if policy is None or policy.default is None else policy.default
    if policy is None:
        return wanted
    if policy.minimum is not None:
        return _stepped(wanted, policy, minimum=policy.minimum)
    return min((value for value in policy.values if value >= wanted), default=wanted)


def _stepped(wanted: int, policy: CapacityPolicy, *, minimum: int) -> int:
    if wanted < minimum:
        return minimum
    if policy.step is None:
        return wanted
    start, step = whole(minimum), whole(policy.step)
    return (start + -(-(whole(wanted) - start) // step) * step) * NANO


def _breaks_policy(amount: int, policy: CapacityPolicy | None) -> bool:
    if policy is None or amount == policy.default:
        return False
    if policy.minimum is None:
        return bool(policy.values) and amount not in policy.values
    if policy.maximum is not None and amount > policy.maximum:
        return True
    return policy.step is not None and (whole(amount) - whole(policy.minimum)) % whole(policy.step) != 0
