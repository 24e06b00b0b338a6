"""Kubernetes quantities as exact integers.

CPU is counted in millicores, everything else in base units (bytes, pieces), always rounded up as the API server does,
so that a sum of requests is never smaller than what the kubelet will reserve.
"""

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal, InvalidOperation

Resources = Mapping[str, int]
"""Amounts by resource name: `cpu` in millicores, everything else in base units."""

CPU = "cpu"
PODS = "pods"

MAX_AMOUNT = 2**53
"""Larger amounts are refused: no machine has them, and sums over the pods of a node stay within 64 bits."""

_SUFFIXES: Mapping[str, Decimal] = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)([A-Za-z]{0,2})", re.ASCII)


class QuantityError(ValueError):
    """Text that is not a quantity, or one that no machine has."""


def parse_quantity(text: object, *, resource: str) -> int:
    """Return the amount of `resource` that `text` states, rounded up to a whole unit.

    Raises QuantityError for what is not a quantity, is negative, or exceeds `MAX_AMOUNT`.
    """
    match = _FORM.fullmatch(str(text).strip()) if isinstance(text, str | int | float) else None
    if match is None or match[2] not in _SUFFIXES:
        raise QuantityError(f"expected a quantity such as 500m, 8 or 16Gi for {resource}, got {text!r}")
    try:
        amount = Decimal(match[1]) * _SUFFIXES[match[2]] * (1000 if resource == CPU else 1)
    except InvalidOperation as error:
        raise QuantityError(f"expected a quantity for {resource}, got {text!r}") from error
    if amount < 0:
        raise QuantityError(f"expected a quantity of at least 0 for {resource}, got {text!r}")
    if amount > MAX_AMOUNT:
        raise QuantityError(f"expected at most {MAX_AMOUNT} units of {resource}, got {text!r}")
    return int(amount.to_integral_value(rounding=ROUND_CEILING))


def parse_milli(text: object) -> int:
    """Return the thousandths that `text` states, rounded up: at least 1.

    Raises QuantityError for what is not a quantity, is zero or negative, or exceeds `MAX_AMOUNT` thousandths.
    """
    match = _FORM.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None or match[2] not in _SUFFIXES:
        raise QuantityError(f"expected a quantity such as 500m or 30, got {text!r}")
    try:
        amount = Decimal(match[1]) * _SUFFIXES[match[2]] * 1000
    except InvalidOperation as error:
        raise QuantityError(f"expected a quantity, got {text!r}") from error
    if not 0 < amount <= MAX_AMOUNT:
        raise QuantityError(f"expected a quantity above 0 and up to {MAX_AMOUNT} thousandths, got {text!r}")
    return int(amount.to_integral_value(rounding=ROUND_CEILING))


def added(left: Resources, right: Resources) -> dict[str, int]:
    """Return the sum, resource by resource."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total


def larger(left: Resources, right: Resources) -> dict[str, int]:
    """Return the larger amount of each resource."""
    most = dict(left)
    for name, amount in right.items():
        most[name] = max(most.get(name, 0), amount)
    return most


def shown(amount: int, *, resource: str) -> str:
    """Return the amount for people: CPU in cores, bytes with a binary suffix, everything else as it is."""
    if resource == CPU:
        return str(Decimal(amount) / 1000).rstrip("0").rstrip(".") if amount % 1000 else str(amount // 1000)
    if resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-"):
        for suffix in ("Ti", "Gi", "Mi", "Ki"):
            unit = int(_SUFFIXES[suffix])
            if amount >= unit and amount % unit == 0:
                return f"{amount // unit}{suffix}"
    return str(amount)
