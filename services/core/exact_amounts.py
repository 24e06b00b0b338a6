"""Quantities of device capacity and counters, exactly: whole numbers of billionths.

`services.core.quantities` rounds up to whole units, as a kubelet reserves them. Here amounts are compared, added and
rounded to steps, and the API keeps nine digits behind the point (k8s.io/apimachinery Quantity).
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil

from services.core.manifests import FieldError

NANO = 10**9
"""Billionths in one unit."""

_DECIMAL: Mapping[str, int] = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Mapping[str, int] = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_FORM = re.compile(
    r"([+-]?)([0-9]{1,64}\.?[0-9]{0,64}|\.[0-9]{1,64})(?:[eE]([+-]?[0-9]{1,2})|([KMGTPE]i|[numkMGTPE])?)", re.ASCII
)


class AmountError(ValueError):
    """Text that is not a quantity."""


@lru_cache(maxsize=8192)
def parse_amount(text: str) -> int:
    """Return the billionths that a quantity states, rounded up. Raises AmountError."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise AmountError(f"expected a quantity such as 80Gi, 7 or 500m, got {text[:80]!r}")
    sign, digits, exponent, suffix = match.groups()
    if suffix in _BINARY:
        scale = Fraction(2 ** _BINARY[suffix])
    else:
        scale = Fraction(10) ** (int(exponent) if exponent else _DECIMAL[suffix or ""])
    amount = ceil(Fraction(digits) * scale * NANO)
    return -amount if sign == "-" else amount


def amount_at(parent: Mapping[str, object], key: str, *, at: str) -> int:
    """Return the quantity under `key` of the API's JSON in billionths. Raises FieldError."""
    value = parent.get(key)
    is_text = isinstance(value, str | int | float) and not isinstance(value, bool)
    try:
        return parse_amount(str(value) if is_text else "")
    except AmountError as error:
        raise FieldError(field=at, expected="a quantity such as 80Gi, 7 or 500m", got=value) from error


def whole(amount: int) -> int:
    """Return the whole units that hold an amount."""
    return -(-amount // NANO)


def shown_amount(amount: int) -> str:
    """Return an amount as the shortest quantity that says it exactly."""
    units, rest = divmod(amount, NANO)
    if rest:
        for suffix, step in (("m", NANO // 1000), ("u", 1000)):
            if amount % step == 0:
                return f"{amount // step}{suffix}"
        return f"{amount}n"
    for suffix, power in reversed(tuple(_BINARY.items())):
        if units and units % (1 << power) == 0:
            return f"{units >> power}{suffix}"
    return str(units)
