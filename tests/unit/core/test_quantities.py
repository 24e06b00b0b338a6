"""Quantities: exact, rounded up, and refused where they are none."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.quantities import (
    MAX_AMOUNT,
    QuantityError,
    added,
    larger,
    parse_quantity,
    shown,
)

UNITS: dict[str, int | Fraction] = {
    "": 1,
    "m": Fraction(1, 1000),
    "k": 10**3,
    "M": 10**6,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
}


@pytest.mark.parametrize(
    ("text", "resource", "amount"),
    [
        ("1", "cpu", 1000),
        ("500m", "cpu", 500),
        ("0.1", "cpu", 100),
        ("1.0005", "cpu", 1001),
        ("100u", "cpu", 1),
        ("1n", "cpu", 1),
        (2, "cpu", 2000),
        (0.5, "cpu", 500),
        ("1Gi", "memory", 2**30),
        ("1G", "memory", 10**9),
        ("1e3", "memory", 1000),
        ("1E3", "memory", 1000),
        ("128974848", "memory", 128974848),
        ("0.5Gi", "memory", 2**29),
        (".5", "memory", 1),
        ("5.", "memory", 5),
        ("+3", "nvidia.com/gpu", 3),
        ("1m", "nvidia.com/gpu", 1),
        ("0", "memory", 0),
    ],
)
def test_what_the_api_writes(text: object, resource: str, amount: int) -> None:
    """CPU counts in millicores, everything else in whole units, always rounded up."""
    assert parse_quantity(text, resource=resource) == amount


@pytest.mark.parametrize(
    "text", ["", "a", "1 Gi", "1gi", "1Xi", "--1", "1e", "0x10", "1,5", "nan", "\u0663", None, True, [], {}]
)
def test_what_is_no_quantity(text: object) -> None:
    """The message shows what was given and for which resource."""
    with pytest.raises(QuantityError, match=r"such as 500m, 8 or 16Gi for memory, got"):
        parse_quantity(text, resource="memory")


def test_amounts_that_no_machine_has() -> None:
    """A negative amount would free what it asks for; one that is too large would overflow sums."""
    with pytest.raises(QuantityError, match="at least 0 for cpu, got '-1'"):
        parse_quantity("-1", resource="cpu")
    with pytest.raises(QuantityError, match=f"at most {MAX_AMOUNT} units of memory"):
        parse_quantity(str(MAX_AMOUNT + 1), resource="memory")
    for text in ("1e999", "1E", "1Ei"):
        with pytest.raises(QuantityError, match="at most"):
            parse_quantity(text, resource="memory")
    assert parse_quantity(str(MAX_AMOUNT), resource="memory") == MAX_AMOUNT


@given(
    whole=st.integers(0, 8000),
    decimals=st.integers(0, 999_999),
    unit=st.sampled_from(sorted(UNITS)),
    cpu=st.booleans(),
)
def test_rounding_is_exact_and_up(*, whole: int, decimals: int, unit: str, cpu: bool) -> None:
    """No sum of requests is smaller than what the kubelet will reserve."""
    exact = (whole + Fraction(decimals, 10**6)) * UNITS[unit] * (1000 if cpu else 1)
    text = f"{whole}.{decimals:06d}{unit}"
    assert parse_quantity(text, resource="cpu" if cpu else "memory") == ceil(exact)


def test_sums_and_maxima_keep_what_only_one_side_has() -> None:
    """A resource that is missing counts as none."""
    left, right = {"cpu": 1, "memory": 5}, {"cpu": 2, "pods": 1}
    assert added(left, right) == {"cpu": 3, "memory": 5, "pods": 1}
    assert larger(left, right) == {"cpu": 2, "memory": 5, "pods": 1}
    assert left == {"cpu": 1, "memory": 5}


@pytest.mark.parametrize(
    ("amount", "resource", "text"),
    [
        (1500, "cpu", "1.5"),
        (2000, "cpu", "2"),
        (100, "cpu", "0.1"),
        (0, "cpu", "0"),
        (2**30, "memory", "1Gi"),
        (2**30 + 1, "memory", str(2**30 + 1)),
        (3 * 2**20, "hugepages-2Mi", "3Mi"),
        (0, "memory", "0"),
        (1024, "nvidia.com/gpu", "1024"),
    ],
)
def test_amounts_for_people(amount: int, resource: str, text: str) -> None:
    """Cores with decimals, bytes with a suffix where it is exact, everything else as it is."""
    assert shown(amount, resource=resource) == text
