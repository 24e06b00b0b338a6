"""Selectors: what they say about a device, how they fail, and how seldom they are asked."""

import pytest

from services.core.devices.judging import Judge
from services.core.devices.reading_slices import read_slice
from services.core.devices.values import Verdict
from services.core.selector_reads import PRESENCE
from services.core.selectors import Facts, Selector, SelectorProblem, compile_selector
from tests.device_builders import device, resource_slice

FACTS = Facts(
    driver="gpu.example.com",
    is_shareable=False,
    attributes={
        ("gpu.example.com", "model"): ("string", "a100"),
        ("gpu.example.com", "index"): ("int", 3),
        ("gpu.example.com", "healthy"): ("bool", True),
        ("gpu.example.com", "driverVersion"): ("version", "1.10.0+build"),
        ("resource.kubernetes.io", "pcieRoot"): ("string", "pci0000:01"),
    },
    capacity={("gpu.example.com", "memory"): 80 * 2**30 * 10**9},
)
OWN = 'device.attributes["gpu.example.com"]'


def judged(expression: str) -> bool | str:
    """Return what an expression says about the device."""
    selector = compile_selector(expression)
    assert isinstance(selector, Selector), selector
    return selector.judge(FACTS)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('device.driver == "gpu.example.com"', True),
        (f'{OWN}.model == "a100" && {OWN}.index == 3', True),
        (f"{OWN}.healthy", True),
        ('"gpu.example.com" in device.attributes', True),
        ('"nic.example.com" in device.attributes', False),
        ('"nic.example.com" in device.attributes && device.attributes["nic.example.com"].rdma', False),
        ('"model" in device.attributes["nic.example.com"]', False),
        ('device.attributes["nic.example.com"].?rdma.orValue(true)', True),
        ("size(device.attributes) == 2", True),
        ('device.attributes.exists(d, d == "resource.kubernetes.io")', True),
        ("device.attributes[device.driver].index == 3", True),
        (f"{OWN}.driverVersion.isGreaterThan(semver('1.9.0'))", True),
        (f"{OWN}.driverVersion == semver('1.10.0')", True),
        ("semver('1.0.0-rc.1').isLessThan(semver('1.0.0')) && semver('1.0.0-2').isLessThan(semver('1.0.0-a'))", True),
        ('device.capacity["gpu.example.com"].memory == quantity("81920Mi")', True),
        ('device.capacity["gpu.example.com"].memory.compareTo(quantity("1e11")) < 0', True),
        ('quantity("1.5Gi").isInteger() && !quantity("1500m").isInteger()', True),
        ("device.allowMultipleAllocations", False),
        ("[1, 2].sum() == 3 && sets.contains([1, 2], [2]) && !sets.intersects([1], [true])", True),
        ('cidr("10.0.0.0/8").containsIP("10.1.1.1") && !cidr("10.0.0.0/8").containsCIDR("10.0.0.0/7")', True),
        (f"{OWN}.missing == 1 || true", True),
    ],
)
def test_an_expression_says_yes_or_no(expression: str, expected: bool) -> None:  # noqa: FBT001
    """Unknown domains are empty maps when looked up, and unknown to `in`."""
    assert judged(expression) is expected


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        (f"{OWN}.missing", "missing"),
        ('device.attributes["nic.example.com"].rdma', "rdma"),
        (f"{OWN}.model", "STRING"),
        (f"{OWN}.index.isLessThan(quantity('1'))", "isLessThan"),
        (f"quantity({OWN}.model) == quantity('1')", "quantity"),
        (f"{OWN}.driverVersion.isLessThan(quantity('1'))", "version"),
    ],
)
def test_a_failure_at_run_time_is_told_and_is_no_mismatch(expression: str, says: str) -> None:
    """What is missing or of another kind is a message, never a device that does not match."""
    assert says in str(judged(expression))
    assert isinstance(judged(expression), str)


@pytest.mark.parametrize("depth", [2, 3, 4, 6])
def test_an_expression_that_would_run_for_long_is_not_run(depth: int) -> None:
    """Nested loops are refused before they cost a millisecond for each of many devices; short ones are not."""
    numbers = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
    endless = "".join(f"{numbers}.all({name}, " for name in "abcdef"[:depth]) + "a > 0" + ")" * depth
    found = compile_selector(endless)
    assert isinstance(found, SelectorProblem) is (depth > 2)
    assert isinstance(found, Selector) or "rounds" in found.message


def test_what_cannot_be_used_says_why() -> None:
    """Too long, no answer, no such field, or a use of the maps whose result would differ from the server's."""
    for expression in ("x" * 20_000, "1 + 1", "device.name == 'x'", "cel.bind(m, device.attributes, size(m) > 0)"):
        found = compile_selector(expression)
        assert isinstance(found, SelectorProblem)
        assert found.message


def test_an_expression_tells_what_it_reads() -> None:
    """Attributes by domain and id; whether a domain is there; a whole domain where the ids are not known."""
    found = compile_selector(f'"a.b" in device.attributes && {OWN}.index > 1 && {OWN}.exists(k, k == "x")')
    assert isinstance(found, Selector)
    expected = {("a.b", PRESENCE), ("gpu.example.com", "index"), ("gpu.example.com", None)}
    assert set(found.reads.attributes or ()) == expected


def test_devices_of_a_shape_are_asked_about_once() -> None:
    """A thousand devices with a unique uuid are two shapes for an expression that reads the model alone."""
    judge = Judge()
    for number in range(125):
        devices = [device(f"g{i}", attributes={"model": ("a", "b")[i % 2], "uuid": f"{number}-{i}"}) for i in range(8)]
        item = read_slice(resource_slice(f"s{number}", devices, node=f"n{number}"))
        verdict = judge.verdict(item, [f'{OWN}.model == "a"'])
        assert isinstance(verdict, Verdict)
        assert verdict.matches == 0b01010101
    assert judge.asked == 2


def test_later_selectors_are_asked_where_the_earlier_hold() -> None:
    """A request's selector that fails on devices of another class is no failure."""
    devices = [device("g", attributes={"kind": "gpu", "model": "a"}), device("n", attributes={"kind": "nic"})]
    item = read_slice(resource_slice("s", devices, node="n"))
    verdict = Judge().verdict(item, [f'{OWN}.kind == "gpu"', f'{OWN}.model == "a"'])
    assert isinstance(verdict, Verdict)
    assert (verdict.matches, verdict.failures) == (0b01, 0)
    verdict = Judge().verdict(item, [f'{OWN}.model == "a"', f'{OWN}.kind == "gpu"'])
    assert isinstance(verdict, Verdict)
    assert (verdict.matches, verdict.failures) == (0b01, 0b10)
    assert "model" in verdict.error
