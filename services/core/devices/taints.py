"""Taints of devices (KEP-5055): those of slices with those of DeviceTaintRules laid over, and what tolerates them."""

from collections.abc import Iterable

from services.core.allocations import DeviceToleration
from services.core.devices.reading_claims import TaintRule
from services.core.devices.values import DeviceTaint, PoolId

_KEEPS_OFF = frozenset({"NoSchedule", "NoExecute"})


def rules_for(pool: PoolId, rules: Iterable[TaintRule]) -> tuple[TaintRule, ...]:
    """Return the rules that may select devices of a pool."""
    return tuple(
        rule for rule in rules if not rule.is_idle and rule.driver in {"", pool[0]} and rule.pool in {"", pool[1]}
    )


def taints_of(device: str, *, own: tuple[DeviceTaint, ...], rules: tuple[TaintRule, ...]) -> tuple[DeviceTaint, ...]:
    """Return the taints that keep claims off a device of a pool for which `rules` hold."""
    laid_over = (rule.taint for rule in rules if rule.device in {"", device})
    return tuple(taint for taint in (*own, *laid_over) if taint.effect in _KEEPS_OFF)


def are_tolerated(taints: Iterable[DeviceTaint], tolerations: tuple[DeviceToleration, ...]) -> bool:
    """Tell whether a request with these tolerations may have the device."""
    return all(any(_tolerates(one, taint) for one in tolerations) for taint in taints)


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Tell whether one toleration covers the taint. Unlike a pod's, Equal without a key compares values alone."""
    if toleration.effect not in {"", taint.effect} or toleration.key not in {"", taint.key}:
        return False
    return toleration.operator == "Exists" or (toleration.operator in {"", "Equal"} and toleration.value == taint.value)
