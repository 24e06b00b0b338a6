"""Pods with a device each, end to end, in turns with the native scheduler: `python -m bench.claims`.

2,500 claims of one device and their pods on 500 nodes of eight devices, on a real API server with played nodes. The
claims are there before; a rate is that from the first pod's creation to the last binding, by the API server's audit
log. Phalanx gets its pods in gangs, each bound all or nothing; the native scheduler gets them one by one, which is what
its own published rate of 51 to 81 pods a second is about. After each turn a checker that reads only the API server
says whether a device is in two allocations.
"""

import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import click
from rich.console import Console

from bench.binding_log import BindingLog, Entry
from bench.measures import Measure, show, write
from tests import device_checker
from tests.builders import pod_manifest
from tests.device_manifests import claim_manifest, pools, with_claim
from tests.e2e.api import Api, Manifest
from tests.e2e.gangs import submit_group
from tests.e2e.kubernetes.system import System, running_system
from tests.e2e.waiting import eventually
from tests.kubernetes.cluster import ClusterConfig
from tests.kubernetes.nodes import NodesConfig

RESULT = Path("build/bench-claims.json")
NAMESPACE = "bench"
PHALANX, NATIVE = "phalanx", "default-scheduler"
DEVICES_PER_NODE = 8
RATIO_GOAL = 3.0
LIMIT_S = 300.0
_CREATING = 24


@dataclass(slots=True, kw_only=True)
class Stage:
    """The running system, and its audit log."""

    system: System
    api: Api
    log: BindingLog
    members: int

    async def rate(self, scheduler: str, *, turn: int, claims: int) -> float:
        """Let a scheduler place all; returns pods a second."""
        groups = {f"t{turn}-{number}": f"t{turn}-g{number // self.members}" for number in range(claims)}
        await _at_once(groups, lambda one: self.api.create(claim_manifest(one, namespace=NAMESPACE)))
        if scheduler == PHALANX:
            sizes = Counter(groups.values())
            await _at_once(sizes, lambda group: submit_group(self.api, group, min_count=sizes[group]))
        # Claims and groups are no part of what is measured.
        await self.system.at_rest(timeout_s=LIMIT_S)
        began_at = datetime.fromtimestamp(time.time(), tz=UTC)
        await _at_once(groups, lambda one: self.api.create(_pod(one, group=groups[one], scheduler=scheduler)))
        found = await self._bound(groups)
        seconds = (max(one.answered_at for one in found) - began_at).total_seconds()
        await self._judge()
        await self._clear(groups)
        return claims / seconds

    async def _bound(self, names: Collection[str]) -> list[Entry]:
        found: list[Entry] = []

        async def are_bound() -> bool:
            found[:] = [one for one in self.log.of(NAMESPACE) if one.is_bound and one.pod in names]
            return len(found) >= len(names)

        await eventually(are_bound, what=f"{len(names)} pods are bound", timeout_s=LIMIT_S)
        return found

    async def _judge(self) -> None:
        """Raise where a device is in two allocations, or a pod runs without its own."""
        claims, pods = await self.api.list("ResourceClaim"), await self.api.list("Pod")
        slices = await self.api.list("ResourceSlice")
        wrong = device_checker.problems(claims=claims, pods=pods, slices=slices)
        if wrong:
            raise RuntimeError(f"{len(wrong)} devices or pods are wrong: {wrong[:3]}")

    async def _clear(self, names: Iterable[str]) -> None:
        """Delete pods, and then the claims, which their controller frees by then."""
        await _at_once(names, lambda one: self.api.delete("Pod", one, grace_s=0))
        await _at_once(names, lambda one: self.api.delete("ResourceClaim", one))

        async def are_gone() -> bool:
            return not await self.api.list("ResourceClaim") and not await self.api.list("Pod")

        await eventually(are_gone, what="pods and claims are gone", timeout_s=LIMIT_S)
        await self.system.at_rest(timeout_s=LIMIT_S)


def _pod(name: str, *, group: str, scheduler: str) -> Manifest:
    member_of = group if scheduler == PHALANX else ""
    pod = pod_manifest(name, namespace=NAMESPACE, group=member_of, gpus=0, scheduler=scheduler)
    return with_claim(pod, name)


async def _at_once(names: Iterable[str], make: Callable[[str], Awaitable[object]]) -> None:
    """Make something of each name, some at a time, in order."""
    waiting = iter(names)

    async def work() -> None:
        for name in waiting:
            await make(name)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(_CREATING):
            tasks.create_task(work())


async def measure(folder: Path, *, claims: int, nodes: int, members: int, rounds: int) -> dict[str, list[float]]:
    """Return the rates of both, by turns."""
    rates: dict[str, list[float]] = {PHALANX: [], NATIVE: []}
    config = NodesConfig(count=nodes, gpus_per_node=0)
    async with running_system(folder, config=ClusterConfig(scheduler=True), nodes=config) as system:
        api = system.api(NAMESPACE)
        await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        names = [f"node-{number:03d}" for number in range(1, nodes + 1)]
        for manifest in pools(names, count=DEVICES_PER_NODE):
            await api.create(manifest)
        stage = Stage(system=system, api=api, log=BindingLog.reading(system.audit.log), members=members)
        # The first turn of a process fills its caches; it is shorter, and not counted.
        for turn, scheduler in enumerate(rates):
            await stage.rate(scheduler, turn=turn, claims=members * 2)
        for turn in range(rounds):
            for number, scheduler in enumerate(rates):
                found = await stage.rate(scheduler, turn=10 + turn * 2 + number, claims=claims)
                Console().print(f"round {turn + 1}: {scheduler} {found:.0f} pods/s", highlight=False)
                rates[scheduler].append(found)
    return rates


@click.command(help=__doc__)
@click.option("--claims", default=2_500, show_default=True)
@click.option("--nodes", default=500, show_default=True)
@click.option("--members", default=50, show_default=True, help="of each of Phalanx's gangs")
@click.option("--rounds", default=1, show_default=True)
def main(claims: int, nodes: int, members: int, rounds: int) -> None:
    """Measure, print, write, and exit with 1 where the goal is missed."""
    with tempfile.TemporaryDirectory(prefix="phalanx-bench-") as name:
        rates = asyncio.run(measure(Path(name), claims=claims, nodes=nodes, members=members, rounds=rounds))
    ratios = [ours / native for ours, native in zip(rates[PHALANX], rates[NATIVE], strict=True)]
    measures = [
        Measure(
            name=f"{claims} claims on {nodes} nodes, Phalanx, gangs of {members}",
            value=median(rates[PHALANX]),
            unit="pods/s",
        ),
        Measure(name="the same, native scheduler, pods one by one", value=median(rates[NATIVE]), unit="pods/s"),
        Measure(name="Phalanx / native of its round", value=median(ratios), unit="", goal=RATIO_GOAL, is_floor=True),
    ]
    show(measures, title="Devices end to end on a real API server")
    inputs = {"claims": claims, "nodes": nodes, "members": members, "rounds": rounds, "rates": rates}
    write(measures, inputs=inputs, path=RESULT)
    sys.exit(any(one.is_met is False for one in measures))


if __name__ == "__main__":
    main()
