"""A judge of one gang at rest: it sees the sandbox and the placement stream, and knows nothing of the binder."""

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from services.contracts.pb.placement.v1 import decision_pb2 as pb
from services.runtime.bus import Batch, Bus
from services.sandbox.store import Store

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from services.sandbox.watching import Change

TRANSACTION = "phalanx.dev/transaction"
ENDINGS = {"committed", "refused", "rolled_back"}


@dataclass(slots=True)
class _Life:
    """What was seen of one pod."""

    name: str
    nodes: set[str] = field(default_factory=set)
    transaction: str = ""
    is_deleted: bool = False


@dataclass(slots=True, kw_only=True)
class Witness:
    """Sees every version of every pod from `open` to `close`."""

    store: Store
    _lives: dict[str, _Life] = field(default_factory=dict)

    def open(self) -> None:
        """Begin to look."""
        self._lives.clear()
        self.store.listeners.append(self._see)

    def close(self) -> None:
        """Look no longer."""
        self.store.listeners.remove(self._see)

    def _see(self, change: "Change") -> None:
        pod: dict[str, Any] = change.stored.obj
        if change.stored.kind.kind != "Pod":
            return
        metadata = pod["metadata"]
        life = self._lives.setdefault(metadata["uid"], _Life(metadata["name"]))
        if pod["spec"].get("nodeName"):
            life.nodes.add(pod["spec"]["nodeName"])
            life.transaction = metadata.get("annotations", {}).get(TRANSACTION, "")
        life.is_deleted |= change.type == "DELETED" or bool(metadata.get("deletionTimestamp"))

    async def problems(self, bus: Bus, *, group: str, transaction: str, min_count: int) -> list[str]:
        """Return what is wrong with a gang whose transaction has ended."""
        endings = await _endings(bus, group=group, transaction=transaction)
        found = [] if len(endings) == 1 else [f"{len(endings)} endings: {[one.WhichOneof('event') for one in endings]}"]
        bound = {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in self.store.objects("pods", namespace="team-a")
            if pod["spec"].get("schedulingGroup", {}).get("podGroupName") == group
            and pod["spec"].get("nodeName")
            and not pod["metadata"].get("deletionTimestamp")
        }
        if 0 < len(bound) < min_count:
            found.append(f"{len(bound)} of {min_count} are bound at rest")
        for ending in endings:
            named = {one.pod: one.node for one in ending.committed.members}
            if named != bound:
                found.append(f"{ending.WhichOneof('event')} names {len(named)} bound members, {len(bound)} are bound")
        for life in self._lives.values():
            if len(life.nodes) > 1:
                found.append(f"{life.name} was bound twice: {sorted(life.nodes)}")
            if life.is_deleted and life.transaction != transaction:
                found.append(f"{life.name} was deleted, and this transaction had not bound it")
        return found


async def _endings(bus: Bus, *, group: str, transaction: str) -> list[pb.Decision]:
    follow = bus.follow(
        "PHALANX_PLACEMENT", subjects=f"phalanx.placement.v1.podgroup.team-a.{group}.*", last_per_subject=False
    )
    found: list[pb.Decision] = []
    async with contextlib.aclosing(cast("AsyncGenerator[Batch, None]", follow)) as batches:
        async for batch in batches:
            found += [pb.Decision.FromString(message.data) for message in batch.messages]
            if not batch.pending:
                break
    return [one for one in found if one.transaction == transaction and one.WhichOneof("event") in ENDINGS]
