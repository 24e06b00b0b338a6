"""Random claims of a pod: requests, prioritized lists, selectors, constraints, tolerations, capacities."""

import random
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
Note = Callable[[str], None]

_GPU = 'device.attributes["gpu.example.com"]'
_SELECTORS = (
    f'device.driver != "gpu.example.com" || {_GPU}.model == "a100"',
    f'{_GPU}.?model.orValue("none") == "h100"',
    "device.attributes[device.driver].index < 3",
    '"resource.kubernetes.io" in device.attributes',
    'device.attributes[device.driver].?driverVersion.optMap(v, v.isLessThan(semver("2.0.0"))).orValue(false)',
    'device.capacity[device.driver].?memory.optMap(m, m.compareTo(quantity("16Gi")) >= 0).orValue(true)',
    "cel.bind(a, device.attributes[device.driver], a.numa == 0 && a.index != 1)",
    "device.allowMultipleAllocations == false",
    '!(device.attributes[device.driver].model in ["h100"])',
)
_FAILING = "device.attributes[device.driver].healthy"
_ATTRIBUTES = (
    "gpu.example.com/numa",
    "resource.kubernetes.io/pcieRoot",
    "gpu.example.com/model",
    "nic.example.com/numa",
)


def draw_claims(numbers: random.Random, *, note: Note) -> list[Json]:
    """Return one to three claims without devices."""
    return [_Claim(numbers, note).draw(index) for index in range(numbers.choice((1, 1, 1, 2)))]


class _Claim:
    def __init__(self, numbers: random.Random, note: Note) -> None:
        self._random = numbers
        self._note = note

    def draw(self, index: int) -> Json:
        """Return the claim."""
        requests = [self._request(number) for number in range(self._random.choice((1, 1, 1, 2)))]
        names = [one["name"] for one in requests]
        names += [f"{one['name']}/{sub['name']}" for one in requests for sub in one.get("firstAvailable", ())]
        devices: Json = {"requests": requests}
        if self._random.random() < 0.35:
            devices["constraints"] = [self._constraint(names) for _ in range(self._random.choice((1, 1, 2)))]
        return {"metadata": {"name": f"c{index}", "namespace": "team"}, "spec": {"devices": devices}}

    def _constraint(self, names: list[str]) -> Json:
        kind = self._random.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
        self._note(kind)
        found: Json = {kind: self._random.choice(_ATTRIBUTES)}
        if self._random.random() < 0.5:
            found["requests"] = self._random.sample(names, self._random.randint(1, len(names)))
        return found

    def _request(self, number: int) -> Json:
        if self._random.random() < 0.25:
            self._note("firstAvailable")
            listed = [{"name": f"s{index}", **self._ask(is_listed=True)} for index in range(self._random.randint(1, 3))]
            return {"name": f"r{number}", "firstAvailable": listed}
        return {"name": f"r{number}", "exactly": self._ask(is_listed=False)}

    def _ask(self, *, is_listed: bool) -> Json:
        numbers = self._random
        found: Json = {"deviceClassName": numbers.choice(("gpu", "nic", "any", "any", "a100"))}
        if numbers.random() < 0.12:
            self._note("All")
            found["allocationMode"] = "All"
        else:
            found |= {"allocationMode": "ExactCount", "count": numbers.choice((1, 1, 1, 1, 2))}
        if numbers.random() < 0.4:
            self._note("selector")
            chosen = numbers.sample(_SELECTORS, numbers.choice((1, 1, 2)))
            if numbers.random() < 0.25:
                self._note("selector that may fail")
                chosen.append(_FAILING)
            found["selectors"] = [{"cel": {"expression": one}} for one in chosen]
        if numbers.random() < 0.25:
            self._note("toleration")
            found["tolerations"] = [self._toleration()]
        if numbers.random() < 0.2:
            self._note("capacity request")
            found["capacity"] = {"requests": {"memory": numbers.choice(("1Gi", "3Gi", "5Gi", "9Gi", "13Gi"))}}
        if not is_listed and numbers.random() < 0.15:
            self._note("admin access")
            found["adminAccess"] = True
        return found

    def _toleration(self) -> Json:
        return self._random.choice(
            (
                {"key": "sick", "operator": "Exists"},
                {"operator": "Exists", "effect": "NoSchedule"},
                {"key": "sick", "operator": "Equal", "value": "yes"},
                {"key": "old", "operator": "Equal", "value": "no"},
                {"operator": "Equal", "value": "yes"},
            )
        )
