"""What selectors say about devices: the CEL of kube-scheduler beside ours, expression by expression."""

from typing import Any

import pytest

from services.core.devices.judging import facts_of
from services.core.devices.reading_slices import read_slice
from services.core.selectors import Selector, compile_selector
from tests.contract.selectors.expressions import ACCEPTED
from tests.device_builders import DRIVER, device, resource_slice
from tests.differential.devices.oracle import Oracle

pytestmark = pytest.mark.kubernetes

DEVICES: tuple[dict[str, Any], ...] = (
    device(
        "full",
        attributes={
            "model": "a100",
            "index": 3,
            "healthy": True,
            "driverVersion": "v1.10.0",
            "other.example.com/x": 2,
            "resource.kubernetes.io/pcieRoot": "pci0000:01",
        },
        capacity={"memory": {"value": "80Gi"}},
    ),
    device("odd", attributes={"model": 7, "index": "three", "healthy": "yes", "driverVersion": "1.10.0"}),
    device("bare"),
    device(
        "shared",
        attributes={"model": "nvidia-a100", "index": 0, "healthy": False, "driverVersion": "v1.2.3-rc.1"},
        capacity={"memory": {"value": "41943040Ki"}},
        allowMultipleAllocations=True,
    ),
)


@pytest.mark.parametrize("expression", ACCEPTED)
def test_a_selector_says_the_same(oracle: Oracle, expression: str) -> None:
    """Yes, no, or a failure: the same for every device."""
    selector = compile_selector(expression)
    assert isinstance(selector, Selector)
    for one in DEVICES:
        theirs = oracle.judge(expression, driver=DRIVER, device=one)
        mine = selector.judge(facts_of(read_slice(resource_slice("s", [one], node="n")), 0))
        assert (mine if isinstance(mine, bool) else "fails") == (theirs if isinstance(theirs, bool) else "fails"), (
            one["name"],
            mine,
            theirs,
        )
