"""Claims as the API server has them, for the model of transactions: versions, write-once allocations, late copies."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from services.core.allocations import ClaimAllocation, ClaimRef, DeviceResult
from services.core.claim_writes import ClaimStep, Deal, Done, Mark, WriteStatus, next_to_free, next_to_hold
from services.core.decisions import Assignment
from services.core.objects import GangId, NodeName, TransactionId, Uid
from services.core.reasons import Reason, ReasonCode
from services.core.transaction_values import (
    Allocate,
    Allocated,
    ClaimAnswer,
    ClaimVerdict,
    Free,
    Freed,
    Prepare,
    Prepared,
)

SHARED = "shared"
TRANSACTION = TransactionId("t")
NO = Reason(code=ReasonCode.CLAIM_REFUSED, message="no", count=1)

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ClaimCopy:
    """A write on its way."""

    name: str
    step: Mark | WriteStatus


@dataclass(slots=True)
class ModelClaims:
    """All claims; `pick` draws one of some words, `chance` an event that happens once in so many times."""

    gang: GangId
    pick: Callable[[list[str]], str]
    chance: Callable[[int], bool]
    claims: dict[str, Body] = field(default_factory=dict)
    copies: list[ClaimCopy] = field(default_factory=list)

    def add(self, names: Iterable[str]) -> None:
        """Create claims."""
        for name in names:
            metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "annotations": {}}
            spec = {"devices": {"requests": [{"name": "main", "exactly": {"deviceClassName": "c"}}]}}
            self.claims[name] = {"metadata": metadata, "spec": spec, "status": {}}

    def proposed(self, assignments: Iterable[Assignment], *, round_number: int) -> tuple[ClaimAllocation, ...]:
        """Return what a placer would allocate: an own claim for each, and one that all share, where that is free."""
        given = tuple(assignments)
        found = [
            ClaimAllocation(
                ref=ClaimRef(namespace="team-a", name=f"own-{one.uid}"),
                consumers=(one.uid,),
                results=(self._device(f"gpu-{one.uid}-{round_number}"),),
                node=one.node,
            )
            for one in given
            if f"own-{one.uid}" in self.claims
        ]
        if SHARED in self.claims and given:
            is_free = not self.claims[SHARED]["status"].get("allocation")
            results = (self._device(f"net-{round_number}"),) if is_free else ()
            ref = ClaimRef(namespace="team-a", name=SHARED)
            consumers = tuple(one.uid for one in given)
            found.append(ClaimAllocation(ref=ref, consumers=consumers, results=results))
        return tuple(found)

    def _device(self, name: str) -> DeviceResult:
        conditions = ("attached",) if self.chance(3) else ()
        failures = ("failed",) if conditions else ()
        return DeviceResult(
            request="main",
            driver="d",
            pool="p",
            device=name,
            binding_conditions=conditions,
            binding_failure_conditions=failures,
        )

    def answer(self, instruction: Allocate | Prepare | Free) -> Allocated | Prepared | Freed:
        """Carry out an instruction."""
        match instruction:
            case Allocate(targets=targets):
                held = {one.key: self._until_done(self._hold_steps(instruction, one.key), one.key) for one in targets}
                return Allocated(answers=held)
            case Prepare(targets=targets):
                refused = ClaimAnswer(verdict=ClaimVerdict.REFUSED, reason=NO)
                return Prepared(failures={one.key: refused for one in targets if self.chance(4)})
            case Free(targets=targets):
                for one in targets:
                    self._until_done(self._free_steps(instruction, one.key), one.key, may_refuse=False)
                return Freed(keys=frozenset(one.key for one in targets))

    def half(self, instruction: Allocate | Free) -> None:
        """Carry out a part of it, the last of which may be on its way."""
        for one in instruction.targets:
            steps = (
                self._free_steps(instruction, one.key)
                if isinstance(instruction, Free)
                else self._hold_steps(instruction, one.key)
            )
            for fate in iter(lambda: self.pick(["stop", "late", "done", "done"]), "stop"):
                step = steps()
                if isinstance(step, Done):
                    break
                assert isinstance(step, Mark | WriteStatus)
                if fate == "late":
                    self.copies.append(ClaimCopy(one.key, step))
                    break
                self.apply(one.key, step)

    def land(self) -> None:
        """Let some copies arrive."""
        for copy in tuple(self.copies):
            if self.chance(8):
                self.copies.remove(copy)
                self.apply(copy.name, copy.step)

    def apply(self, name: str, step: ClaimStep) -> bool:
        """Write as the API server does: in the same version, and an allocation once."""
        assert isinstance(step, Mark | WriteStatus)
        claim, body = self.claims[name], dict(step.body)
        metadata = body.pop("metadata")
        if metadata["resourceVersion"] != claim["metadata"]["resourceVersion"]:
            return False
        status = {**claim["status"], **body.get("status", {})}
        before, after = claim["status"].get("allocation"), status.get("allocation")
        assert not (before and after and before != after), "an allocation is written once"
        assert after or not status.get("reservedFor"), "nobody may be reserved without an allocation"
        notes = {**claim["metadata"]["annotations"], **metadata.get("annotations", {})}
        claim["metadata"] |= {name: value for name, value in metadata.items() if name != "annotations"}
        claim["metadata"]["annotations"] = {name: value for name, value in notes.items() if value is not None}
        claim["metadata"]["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        claim["status"] = {name: value for name, value in status.items() if value is not None}
        return True

    def users(self, name: str) -> set[Uid]:
        """Return whom a claim is reserved for."""
        return {one["uid"] for one in self.claims[name]["status"].get("reservedFor", ())}

    def is_usable(self, uid: Uid, *, node: NodeName) -> bool:
        """Tell whether a pod has all its claims, on its node."""
        for name in (f"own-{uid}", SHARED):
            if name not in self.claims:
                continue
            allocation = self.claims[name]["status"].get("allocation")
            if not allocation or uid not in self.users(name):
                return False
            selector = allocation.get("nodeSelector")
            if selector and selector["nodeSelectorTerms"][0]["matchFields"][0]["values"] != [node]:
                return False
        return True

    def _hold_steps(self, instruction: Allocate, key: str) -> Callable[[], ClaimStep]:
        target = next(one for one in instruction.targets if one.key == key)
        deal = Deal(transaction=TRANSACTION, gang=self.gang, classes={}, now="2026-01-01T00:00:00Z")
        return lambda: next_to_hold(self.claims[key], target=target, name=key, deal=deal)

    def _free_steps(self, instruction: Free, key: str) -> Callable[[], ClaimStep]:
        target = next(one for one in instruction.targets if one.key == key)
        return lambda: next_to_free(self.claims[key], target=target, transaction=TRANSACTION)

    def _until_done(self, steps: Callable[[], ClaimStep], name: str, *, may_refuse: bool = True) -> ClaimAnswer:
        """Write until the answer is definite; copies of lost writes may stay on their way."""
        while True:
            step = steps()
            if isinstance(step, Done):
                return step.answer
            assert isinstance(step, Mark | WriteStatus)
            match self.pick(["taken", "taken", "taken", "cut", "late", "refused"]):
                case "late":
                    self.copies.append(ClaimCopy(name, step))
                case "refused" if may_refuse:
                    return ClaimAnswer(verdict=ClaimVerdict.REFUSED, reason=NO)
                case _:
                    self.apply(name, step)
