"""The demo of devices: 64 claims on eight nodes of eight GPUs, of which one is tainted.

A gang that needs all 64 waits and holds nothing; one that needs 63 runs on 63; when the taint goes, its last pod gets
the device that was kept from it. What is judged was read from the API server and the bus.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.cli.demo.clusters import GPUS_PER_NODE, NODES
from services.cli.demo.objects import NAMESPACE, DemoGang, job_manifest, namespace_manifest
from services.cli.demo.promises import Promise
from services.cli.demo.witness import Witness
from services.contracts.streams import CLUSTER_STREAM
from services.contracts.subjects import cluster_subject
from services.core.decisions import Committed, Waiting
from services.core.objects import Kind, Metadata
from services.runtime.bus import Bus
from services.runtime.kube import KubeClient

GPUS = NODES * GPUS_PER_NODE
WAIT_S = 60.0
DRIVER, DEVICE_CLASS, TEMPLATE, TAINT = "gpu.example.com", "gpu", "one-gpu", "broken-gpu"
TAINTED = ("node-003", "gpu-5")

ALL = DemoGang(name="needs-64", members=GPUS, run_s=0)
MOST = DemoGang(name="needs-63", members=GPUS, run_s=0)
GANGS = (ALL, MOST)

_RESOURCES = "/apis/resource.k8s.io/v1"


@dataclass(slots=True, kw_only=True)
class DevicesStory:
    """The acts on one running system. `tell` shows a line to whoever watches."""

    client: KubeClient
    bus: Bus
    witness: Witness
    tell: Callable[[str], None]
    group_version: str
    kept: list[Promise] = field(default_factory=list)

    async def play(self) -> None:
        """Play all acts."""
        await self._prepare()
        await self._too_many()
        await self._one_less()
        await self._healed()

    async def _prepare(self) -> None:
        """Publish the devices, and taint one of them."""
        await self.client.request_ok("POST", "/api/v1/namespaces", body=namespace_manifest())
        for body, path in self._objects():
            await self.client.request_ok("POST", path, body=body)
        # Of different kinds either may be seen first; what is in the stream before the pods are made is known before.
        for subject in self._subjects():
            async with asyncio.timeout(WAIT_S):
                while await self.bus.last(CLUSTER_STREAM.name, subject=subject) is None:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0.05)
        self.tell(f"{NODES} nodes publish {GPUS_PER_NODE} GPUs each; a DeviceTaintRule keeps {'/'.join(TAINTED)} free.")

    async def _too_many(self) -> None:
        """A gang that needs every device waits, and nothing is allocated for it."""
        await self._submit(ALL, min_count=GPUS)
        await self.witness.until(
            lambda: self._most_placeable(ALL) == GPUS - 1, timeout_s=WAIT_S, what=f"{ALL.name} waits for its last GPU"
        )
        said = self._waits(ALL)[-1]
        held = [claim for claim in await self._claims() if _results(claim)]
        self.tell(f"{ALL.name} needs {GPUS} and says: {said.reasons[0].message if said.reasons else 'nothing'}")
        self.kept.append(
            Promise(
                text=f"{ALL.name}: {GPUS - 1} of {GPUS} could be placed, so it waits, and holds no device",
                happened=f"{said.placeable} placeable, {len(self._bound(ALL))} bound, {len(held)} claims allocated",
                is_held=said.placeable == GPUS - 1 and not self._bound(ALL) and not held,
            )
        )
        await self.client.request_ok(
            "DELETE",
            f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{ALL.name}",
            query={"propagationPolicy": "Background"},
        )
        await self.witness.until(
            lambda: all(pod.gone_s is not None for pod in self.witness.of_gang(ALL.name)),
            timeout_s=WAIT_S,
            what=f"the pods of {ALL.name} are gone",
        )

    async def _one_less(self) -> None:
        """A gang that needs one device less runs on all that there are."""
        await self._submit(MOST, min_count=GPUS - 1)
        await self.witness.until(
            lambda: len(self._bound(MOST)) >= GPUS - 1 and bool(self.witness.decisions(MOST.name, Committed)),
            timeout_s=WAIT_S,
            what=f"{GPUS - 1} pods of {MOST.name} are bound",
        )
        users = _users(await self._claims())
        twice = [name for name, count in users.items() if count > 1]
        self.tell(f"{MOST.name} needs {GPUS - 1}, and runs with {len(self._bound(MOST))} devices.")
        self.kept += [
            Promise(
                text=f"{MOST.name}: minCount {GPUS - 1} of {GPUS} pods runs, in one transaction",
                happened=f"{len(self._bound(MOST))} bound, {len(users)} devices allocated, "
                f"commits: {len(self.witness.decisions(MOST.name, Committed))}",
                is_held=len(self._bound(MOST)) == len(users) == GPUS - 1,
            ),
            Promise(
                text="no device is in two allocations, and the tainted one is in none",
                happened=f"{len(twice)} twice; tainted one in {users[TAINTED]}",
                is_held=not twice and not users[TAINTED],
            ),
        ]

    async def _healed(self) -> None:
        """The taint goes, and the pod that waits gets the device."""
        await self.client.request_ok("DELETE", f"{_RESOURCES}/devicetaintrules/{TAINT}")
        await self.witness.until(
            lambda: len(self._bound(MOST)) == GPUS, timeout_s=WAIT_S, what=f"the last pod of {MOST.name} is bound"
        )
        users = _users(await self._claims())
        self.tell(f"The taint is gone, and so {MOST.name} has all {GPUS}.")
        self.kept.append(
            Promise(
                text="without the taint its last pod gets the last device",
                happened=f"{len(self._bound(MOST))} bound, {len(users)} devices, most uses {max(users.values())}",
                is_held=len(users) == GPUS and set(users.values()) == {1} and users[TAINTED] == 1,
            )
        )

    def _objects(self) -> Iterable[tuple[dict[str, Any], str]]:
        """Yield what is published before the gangs come, each with the path that it is created at."""
        meta = {"apiVersion": "resource.k8s.io/v1"}
        expression = f'device.driver == "{DRIVER}"'
        selectors = {"selectors": [{"cel": {"expression": expression}}]}
        device_class = meta | {"kind": "DeviceClass", "metadata": {"name": DEVICE_CLASS}, "spec": selectors}
        yield device_class, f"{_RESOURCES}/deviceclasses"
        for number in range(1, NODES + 1):
            node = f"node-{number:03}"
            spec = {
                "driver": DRIVER,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "nodeName": node,
                "devices": [{"name": f"gpu-{index}"} for index in range(GPUS_PER_NODE)],
            }
            yield (
                meta | {"kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec},
                f"{_RESOURCES}/resourceslices",
            )
        rule = {
            "deviceSelector": {"driver": DRIVER, "pool": TAINTED[0], "device": TAINTED[1]},
            "taint": {"key": "example.com/broken", "effect": "NoSchedule"},
        }
        yield (
            meta | {"kind": "DeviceTaintRule", "metadata": {"name": TAINT}, "spec": rule},
            f"{_RESOURCES}/devicetaintrules",
        )
        request = {"name": "gpu", "exactly": {"deviceClassName": DEVICE_CLASS}}
        template = {"spec": {"devices": {"requests": [request]}}}
        metadata = {"name": TEMPLATE, "namespace": NAMESPACE}
        yield (
            meta | {"kind": "ResourceClaimTemplate", "metadata": metadata, "spec": template},
            f"{_RESOURCES}/namespaces/{NAMESPACE}/resourceclaimtemplates",
        )

    def _subjects(self) -> Iterable[str]:
        """Yield where what is published appears in the cluster stream."""
        yield cluster_subject(Kind.DEVICE_TAINT_RULE, Metadata(name=TAINT))
        for number in range(1, NODES + 1):
            yield cluster_subject(Kind.RESOURCE_SLICE, Metadata(name=f"node-{number:03}"))

    async def _submit(self, gang: DemoGang, *, min_count: int) -> None:
        version = f"scheduling.k8s.io/{self.group_version}"
        group = {
            "apiVersion": version,
            "kind": "PodGroup",
            "metadata": {"name": gang.name, "namespace": NAMESPACE},
            "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
        }
        await self.client.request_ok("POST", f"/apis/{version}/namespaces/{NAMESPACE}/podgroups", body=group)
        job = job_manifest(gang, parallelism=gang.members)
        pod = job["spec"]["template"]["spec"]
        pod["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": TEMPLATE}]
        pod["containers"][0]["resources"] = {"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]}
        await self.client.request_ok("POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", body=job)

    async def _claims(self) -> list[dict[str, Any]]:
        path = f"{_RESOURCES}/namespaces/{NAMESPACE}/resourceclaims"
        found: list[dict[str, Any]] = (await self.client.request_ok("GET", path)).json()["items"]
        return found

    def _bound(self, gang: DemoGang) -> list[str]:
        return [pod.name for pod in self.witness.of_gang(gang.name) if pod.bound_s is not None and pod.gone_s is None]

    def _waits(self, gang: DemoGang) -> list[Waiting]:
        heard = (one.decision.event for one in self.witness.decisions(gang.name, Waiting))
        return [event for event in heard if isinstance(event, Waiting)]

    def _most_placeable(self, gang: DemoGang) -> int:
        return max((one.placeable for one in self._waits(gang)), default=0)


def _results(claim: Mapping[str, Any]) -> list[dict[str, Any]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return list((allocation.get("devices") or {}).get("results") or ())


def _users(claims: Iterable[Mapping[str, Any]]) -> Counter[tuple[str, str]]:
    """Return how many allocations each device is in."""
    return Counter((one["pool"], one["device"]) for claim in claims for one in _results(claim))
