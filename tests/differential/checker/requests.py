"""How much a pod counts for on its node, in exact numbers."""

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from tests.differential.checker.view import Manifest

Amounts = dict[str, Fraction]

_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    **{letter: Fraction(10 ** (3 * power)) for power, letter in enumerate("MGTPE", start=2)},
    **{f"{letter}i": Fraction(2 ** (10 * power)) for power, letter in enumerate("KMGTPE", start=1)},
}
_OF_THE_POD = ("cpu", "memory")
"""What pod-level requests can be about, with huge pages."""


def quantity(value: Any) -> Fraction:
    """A resource.Quantity."""
    text = str(value)
    for length in (2, 1):
        if len(text) > length and text[-length:] in _SUFFIXES:
            return Fraction(text[:-length]) * _SUFFIXES[text[-length:]]
    return Fraction(text)


def amounts(resources: Mapping[str, Any] | None) -> Amounts:
    """A ResourceList."""
    return {name: quantity(value) for name, value in (resources or {}).items()}


def pod_request(pod: Manifest) -> Amounts:
    """What the pod holds, or needs: the largest moment of its life, pod-level requests in its place, and overhead.

    While a resize is under way the largest of what was asked for, allocated, and is in effect counts; of one that the
    node cannot do, what was asked for does not count.
    """
    readings: list[Callable[[Manifest], Amounts]] = [_allocated, _in_effect]
    if not _is_infeasible(pod):
        readings.insert(0, _asked_for)
    request = _largest([_of_containers(pod, reading) for reading in readings])
    of_the_pod = amounts((pod["spec"].get("resources") or {}).get("requests"))
    for name, amount in of_the_pod.items():
        if name in _OF_THE_POD or name.startswith("hugepages-"):
            request[name] = amount
    return _sum([request, amounts(pod["spec"].get("overhead"))])


def _of_containers(pod: Manifest, reading: Callable[[Manifest], Amounts]) -> Amounts:
    """The larger of what runs together at last, and each moment of the start.

    Containers that restart for ever (sidecars) stay from where they stand in the list; other init containers run one
    after the other beside those before them.
    """
    statuses = {
        status["name"]: status
        for key in ("containerStatuses", "initContainerStatuses")
        for status in (pod.get("status") or {}).get(key) or ()
    }

    def read(container: Manifest) -> Amounts:
        return reading({**container, "status": statuses.get(container["name"], {})})

    sidecars: Amounts = {}
    moments: list[Amounts] = []
    for container in pod["spec"].get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars = _sum([sidecars, read(container)])
            moments.append(sidecars)
        else:
            moments.append(_sum([sidecars, read(container)]))
    running = _sum([sidecars, *(read(container) for container in pod["spec"]["containers"])])
    return _largest([running, *moments])


def _asked_for(container: Manifest) -> Amounts:
    return amounts((container.get("resources") or {}).get("requests"))


def _allocated(container: Manifest) -> Amounts:
    found = container["status"].get("allocatedResources")
    return amounts(found) if found else _asked_for(container)


def _in_effect(container: Manifest) -> Amounts:
    found = (container["status"].get("resources") or {}).get("requests")
    return amounts(found) if found else _asked_for(container)


def _is_infeasible(pod: Manifest) -> bool:
    return any(
        one["type"] == "PodResizePending" and one.get("reason") == "Infeasible"
        for one in (pod.get("status") or {}).get("conditions") or ()
    )


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, Fraction(0)) + amount
    return total


def _largest(parts: Iterable[Amounts]) -> Amounts:
    most: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            most[name] = max(most.get(name, amount), amount)
    return most
