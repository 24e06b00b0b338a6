"""A fake of the pod API that keeps pods, and a fake bus: both can be told to fail."""

from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.binder.ports import Changed, Manifest, NoAnswer
from services.core.decisions import Victim
from services.core.names import FENCE_ANNOTATION, TRANSACTION_ANNOTATION
from services.core.objects import TransactionId
from services.core.transaction_answers import ApiAnswer
from services.core.transaction_values import Target
from services.runtime.bus import Batch, BusUnavailable, Message, StaleWrite

LOST_BEFORE = "lost before"
"""The request never arrived."""
LOST_AFTER = "lost after"
"""The request had its effect; its answer was lost."""

Script = ApiAnswer | str


def manifest(name: str, *, uid: str = "", version: int = 1, **spec: Any) -> dict[str, Any]:
    """A pod of our scheduler, controlled by a Job."""
    owner = {"kind": "Job", "name": "j", "uid": "j", "controller": True, "apiVersion": "batch/v1"}
    return {
        "metadata": {
            "name": name,
            "namespace": "a",
            "uid": uid or f"u-{name}",
            "resourceVersion": str(version),
            "annotations": {},
            "ownerReferences": [owner],
        },
        "spec": {"schedulerName": "phalanx", **spec},
        "status": {"phase": "Pending"},
    }


@dataclass(slots=True)
class FakePods:
    """Satisfies `services.binder.ports.PodApi`. `script` has answers for the next calls of a method."""

    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    script: dict[str, deque[Script]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    #: Whether somebody changes a pod before every read.
    is_restless: bool = False

    def add(self, *names: str, **spec: Any) -> list[dict[str, Any]]:
        """Add pods."""
        self.pods |= {name: manifest(name, **spec) for name in names}
        return [self.pods[name] for name in names]

    def fail(self, method: str, *script: Script) -> None:
        """Script the next calls of a method."""
        self.script.setdefault(method, deque()).extend(script)

    def touch_from_outside(self, name: str) -> None:
        """Somebody else changes a pod."""
        metadata = self.pods[name]["metadata"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)

    async def read(self, namespace: str, *, names: Sequence[str]) -> Mapping[str, Manifest]:  # noqa: ARG002 - one namespace
        """Return those that exist."""
        self._scripted("read")
        for name in names if self.is_restless else ():
            self.touch_from_outside(name)
        return {name: self.pods[name] for name in names if name in self.pods}

    async def bind(
        self,
        namespace: str,  # noqa: ARG002 - one namespace
        *,
        target: Target,
        transaction: TransactionId,
        is_dry_run: bool,
    ) -> ApiAnswer:
        """Bind as the API server does."""
        scripted = self._scripted("bind")
        if isinstance(scripted, ApiAnswer):
            return scripted
        refusal = self._refusal(target)
        pod = self.pods.get(target.pod)
        if refusal is None and pod is not None and pod["spec"].get("nodeName"):
            refusal = ApiAnswer(status=409, message="already assigned")
        if refusal is None and pod is not None and not is_dry_run:
            pod["spec"]["nodeName"] = target.node
            pod["metadata"]["annotations"][TRANSACTION_ANNOTATION] = transaction
            self.touch_from_outside(target.pod)
        return self._answered(scripted, refusal or ApiAnswer(status=201))

    async def touch(self, namespace: str, *, target: Target, mark: str) -> Changed:  # noqa: ARG002 - one namespace
        """Change an annotation."""
        scripted = self._scripted("touch")
        if isinstance(scripted, ApiAnswer):
            return Changed(answer=scripted)
        pod = self.pods.get(target.pod)
        if pod is None:
            return Changed(answer=ApiAnswer(status=404))
        pod["metadata"]["annotations"][FENCE_ANNOTATION] = mark
        self.touch_from_outside(target.pod)
        return Changed(answer=self._answered(scripted, ApiAnswer(status=200)), manifest=pod)

    async def announce_end(self, namespace: str, *, target: Target, message: str) -> Changed:  # noqa: ARG002
        """Set DisruptionTarget."""
        scripted = self._scripted("announce_end")
        if isinstance(scripted, ApiAnswer):
            return Changed(answer=scripted)
        pod = self.pods.get(target.pod)
        if pod is None or pod["metadata"]["uid"] != target.uid:
            return Changed(answer=ApiAnswer(status=404))
        pod["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]
        self.touch_from_outside(target.pod)
        return Changed(answer=self._answered(scripted, ApiAnswer(status=200)), manifest=pod)

    async def delete(self, namespace: str, *, target: Target) -> ApiAnswer:  # noqa: ARG002 - one namespace
        """Delete in this version."""
        scripted = self._scripted("delete")
        if isinstance(scripted, ApiAnswer):
            return scripted
        refusal = self._refusal(target)
        if refusal is None:
            del self.pods[target.pod]
        return self._answered(scripted, refusal or ApiAnswer(status=200))

    async def evict(self, victim: Victim, *, is_dry_run: bool) -> ApiAnswer:
        """Evict a pod of that uid."""
        scripted = self._scripted("dry eviction" if is_dry_run else "evict")
        if isinstance(scripted, ApiAnswer):
            return scripted
        pod = self.pods.get(victim.pod)
        if pod is None:
            return self._answered(scripted, ApiAnswer(status=404))
        if pod["metadata"]["uid"] != victim.uid:
            return self._answered(scripted, ApiAnswer(status=409))
        if not is_dry_run:
            del self.pods[victim.pod]
        return self._answered(scripted, ApiAnswer(status=201))

    def _refusal(self, target: Target) -> ApiAnswer | None:
        pod = self.pods.get(target.pod)
        if pod is None:
            return ApiAnswer(status=404)
        metadata = pod["metadata"]
        is_same = (metadata["uid"], metadata["resourceVersion"]) == (target.uid, target.version)
        return None if is_same else ApiAnswer(status=409, message="Precondition failed")

    def _scripted(self, method: str) -> Script | None:
        self.calls[method] += 1
        waiting = self.script.get(method)
        scripted = waiting.popleft() if waiting else None
        if scripted == LOST_BEFORE:
            raise NoAnswer(scripted)
        return scripted

    @staticmethod
    def _answered(scripted: Script | None, answer: ApiAnswer) -> ApiAnswer:
        if scripted == LOST_AFTER:
            raise NoAnswer(LOST_AFTER)
        return answer


@dataclass(slots=True)
class FakeBus:
    """Satisfies `services.binder.ports.DecisionBus` for writing. `script` has what the next publishes do."""

    stored: list[Message] = field(default_factory=list)
    script: deque[str] = field(default_factory=deque)

    def follow(
        self, stream: str, *, subjects: str | Sequence[str], last_per_subject: bool = True
    ) -> AsyncIterator[Batch]:
        """Nothing is read in unit tests."""
        raise NotImplementedError(stream, subjects, last_per_subject)

    async def publish(
        self,
        subject: str,
        *,
        data: bytes,
        headers: Mapping[str, str],
        expected_sequence: int | None = None,
        expected_subject: str = "",
        ttl_s: float | None = None,  # noqa: ARG002 - decisions have none
    ) -> int:
        """Store on the condition that the subject's last sequence is the expected one."""
        scripted = self.script.popleft() if self.script else ""
        if scripted == LOST_BEFORE:
            raise BusUnavailable(scripted)
        last = await self.last("", subject=expected_subject or subject)
        if expected_sequence != (0 if last is None else last.sequence):
            raise StaleWrite(subject)
        self.stored.append(Message(subject=subject, data=data, headers=headers, sequence=len(self.stored) + 1))
        if scripted == LOST_AFTER:
            raise BusUnavailable(scripted)
        return len(self.stored)

    async def last(self, stream: str, *, subject: str) -> Message | None:  # noqa: ARG002 - one stream
        """Return the last message of a subject, or of a pattern."""
        return next((one for one in reversed(self.stored) if _matches(one.subject, subject)), None)


def _matches(subject: str, pattern: str) -> bool:
    return subject == pattern or (pattern.endswith(".>") and subject.startswith(pattern[:-1]))
