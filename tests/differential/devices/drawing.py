"""Random questions about devices by seed, as objects of the API: pools, what is taken of them, and the claims of a pod.

Everything is small and tight, so that about half of the questions have no answer, for many reasons.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.differential.devices.drawing_claims import draw_claims

Json = dict[str, Any]
NODE = "n1"
DRIVERS = ("gpu.example.com", "nic.example.com")
ROOT = "resource.kubernetes.io/pcieRoot"
MODELS = ("a100", "h100")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question, with the features that are in it."""

    seed: int
    node: Json
    slices: tuple[Json, ...]
    classes: tuple[Json, ...]
    allocated: tuple[Json, ...]
    claims: tuple[Json, ...]
    features: frozenset[str]


def draw(seed: int) -> Question:
    """Return the question of a seed."""
    drawer = _Drawer(random.Random(seed))
    slices = drawer.slices()
    classes = drawer.classes()
    allocated = drawer.allocated(slices)
    claims = draw_claims(drawer.random, note=drawer.note)
    return Question(
        seed=seed,
        node={"metadata": {"name": NODE, "labels": {"rack": "r1", "kubernetes.io/hostname": NODE}}},
        slices=tuple(slices),
        classes=tuple(classes),
        allocated=tuple(allocated),
        claims=tuple(claims),
        features=frozenset(drawer.features),
    )


class _Drawer:
    def __init__(self, numbers: random.Random) -> None:
        self.random = numbers
        self.features: set[str] = set()

    def note(self, feature: str) -> None:
        """Remember that a feature is in the question."""
        self.features.add(feature)

    def chance(self, share: float, feature: str = "") -> bool:
        """Return true for this share of the questions, and note the feature then."""
        is_so = self.random.random() < share
        if is_so and feature:
            self.note(feature)
        return is_so

    def slices(self) -> list[Json]:
        """Return the slices of one to three pools."""
        found: list[Json] = []
        for number in range(self.random.randint(1, 3)):
            found.extend(self._pool(number))
        self.random.shuffle(found)
        return found

    def _pool(self, number: int) -> list[Json]:
        name, driver = f"pool-{number}", self.random.choice(DRIVERS)
        where = self._where()
        counters = self._counter_sets() if self.chance(0.25, "counters") else {}
        devices = [self._device(number, index, counters=counters) for index in range(self.random.randint(2, 6))]
        if "perDeviceNodeSelection" in where:
            rules: Sequence[Json] = ({"nodeName": NODE}, {"nodeName": "n2"}, {"allNodes": True})
            devices = [one | self.random.choice(rules) for one in devices]
        if self.chance(0.08, "taint"):
            taint = {"key": "sick", "value": "yes", "effect": "NoSchedule"}
            devices = [one | {"taints": [taint]} for one in devices]
        if self.chance(0.07, "duplicate device"):
            devices.append(dict(devices[0]))
        parts = [devices]
        if len(devices) > 1 and self.chance(0.3, "several slices"):
            cut = self.random.randint(1, len(devices) - 1)
            parts = [devices[:cut], devices[cut:]]
        return self._published(name, driver=driver, where=where, parts=parts, counters=counters)

    def _published(
        self, name: str, *, driver: str, where: Json, parts: Sequence[Sequence[Json]], counters: Json
    ) -> list[Json]:
        contents: list[Json] = [{"devices": list(part)} for part in parts]
        if counters:
            contents.append({"sharedCounters": [{"name": key, "counters": value} for key, value in counters.items()]})
        count = len(contents) + (1 if self.chance(0.07, "incomplete pool") else 0)
        generation = 1
        older: list[Json] = []
        if self.chance(0.15, "older generation"):
            generation = 2
            gone = {"devices": [{"name": "gone", "attributes": {"model": {"string": "a100"}}}]}
            older = [_slice(f"{name}-old", driver, name, where, gone, generation=1, count=1)]
        return older + [
            _slice(f"{name}-{index}", driver, name, where, content, generation=generation, count=count)
            for index, content in enumerate(contents)
        ]

    def _where(self) -> Json:
        if self.chance(0.6):
            return {"nodeName": NODE}
        if self.chance(0.3, "all nodes"):
            return {"allNodes": True}
        if self.chance(0.5, "node selector"):
            rack = self.random.choice(("r1", "r1", "r2"))
            terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": [rack]}]}]
            return {"nodeSelector": {"nodeSelectorTerms": terms}}
        self.note("per device nodes")
        return {"perDeviceNodeSelection": True}

    def _counter_sets(self) -> Json:
        return {
            f"set-{number}": {
                "memory": {"value": f"{self.random.choice((2, 4))}Gi"},
                "slices": {"value": str(self.random.randint(2, 4))},
            }
            for number in range(self.random.randint(1, 2))
        }

    def _device(self, pool: int, index: int, *, counters: Json) -> Json:
        numbers = self.random
        attributes: Json = {
            "model": {"string": numbers.choice(MODELS)},
            "index": {"int": index},
            "uuid": {"string": f"{pool}-{index}"},
            "numa": {"int": numbers.randint(0, 1)},
        }
        if not self.chance(0.06, "attribute missing"):
            attributes[ROOT] = {"string": f"root-{numbers.randint(0, 2)}"}
        if not self.chance(0.05):
            attributes["healthy"] = {"bool": not self.chance(0.1)}
        if self.chance(0.5):
            attributes["driverVersion"] = {"version": numbers.choice(("1.9.0", "1.10.0", "2.0.0-rc.1"))}
        device: Json = {"name": f"d{index}", "attributes": attributes}
        if counters and self.chance(0.8):
            device["consumesCounters"] = [self._consumed(counters)]
        if self.chance(0.06, "taint"):
            effect = numbers.choice(("NoSchedule", "NoExecute", "None"))
            device["taints"] = [{"key": numbers.choice(("sick", "old")), "value": "yes", "effect": effect}]
        if self.chance(0.08, "binding conditions"):
            device |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
            device["bindsToNode"] = numbers.random() < 0.5
        if self.chance(0.15, "consumable capacity"):
            device |= {"allowMultipleAllocations": True, "capacity": {"memory": self._capacity()}}
        elif self.chance(0.4):
            device["capacity"] = {"memory": {"value": numbers.choice(("40Gi", "80Gi"))}}
        return device

    def _consumed(self, counters: Json) -> Json:
        name = self.random.choice(sorted(counters))
        return {
            "counterSet": name,
            "counters": {
                "memory": {"value": f"{self.random.choice((1, 2, 4))}Gi"},
                "slices": {"value": str(self.random.randint(1, 2))},
            },
        }

    def _capacity(self) -> Json:
        policies: Sequence[Json] = (
            {},
            {"requestPolicy": {"default": "4Gi", "validValues": ["4Gi", "8Gi", "16Gi"]}},
            {"requestPolicy": {"default": "2Gi", "validRange": {"min": "2Gi", "max": "12Gi", "step": "2Gi"}}},
            {"requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi"}}},
        )
        return {"value": self.random.choice(("8Gi", "16Gi", "20Gi")), **self.random.choice(policies)}

    def classes(self) -> list[Json]:
        """Return classes: one for each driver, and one by an attribute."""
        selectors: Mapping[str, Sequence[str]] = {
            "gpu": [f'device.driver == "{DRIVERS[0]}"'],
            "nic": [f'device.driver == "{DRIVERS[1]}"'],
            "any": [],
            "a100": [f'device.driver == "{DRIVERS[0]}"', f'device.attributes["{DRIVERS[0]}"].model == "a100"'],
        }
        return [
            {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": one}} for one in expressions]}}
            for name, expressions in selectors.items()
        ]

    def allocated(self, slices: Sequence[Json]) -> list[Json]:
        """Return a claim that holds some devices."""
        results: list[Json] = []
        for one in slices:
            for device in one["spec"].get("devices", ()):
                if self.chance(0.4 if "allowMultipleAllocations" in device else 0.12, "devices in use"):
                    results.extend(self._held(one["spec"], device))
        if not results:
            return []
        spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "any"}}]}}
        status = {"allocation": {"devices": {"results": results}}}
        return [{"metadata": {"name": "held", "namespace": "other"}, "spec": spec, "status": status}]

    def _held(self, spec: Json, device: Json) -> list[Json]:
        base = {"request": "r", "driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
        if self.chance(0.2, "admin access in use"):
            return [base | {"adminAccess": True}]
        if not device.get("allowMultipleAllocations"):
            return [base]
        amount = self.random.choice(("2Gi", "4Gi", "8Gi"))
        return [base | {"shareID": f"share-{device['name']}", "consumedCapacity": {"memory": amount}}]


def _slice(name: str, driver: str, pool: str, where: Json, content: Json, *, generation: int, count: int) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            **where,
            **content,
        },
    }
