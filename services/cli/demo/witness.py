"""An independent witness: it watches pods at the API and decisions on the bus, and notes what it saw and when.

It shares nothing with the services but the API and the bus, so that what the demo claims is what anybody could see.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from services.cli.demo.objects import NAMESPACE
from services.contracts.decision_codec import decode_decision
from services.contracts.streams import PLACEMENT_STREAM
from services.core.decisions import Decision, Proposed, Waiting
from services.runtime.bus import Bus
from services.runtime.clock import Clock
from services.runtime.kube import Gone, KubeClient, KubeFault

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
RETRY_S = 0.1


@dataclass(slots=True, kw_only=True)
class PodRecord:
    """What was seen of one pod. Times in seconds on the witness's clock, None for what was not seen."""

    uid: str
    name: str
    gang: str
    created_s: float
    node: str = ""
    bound_s: float | None = None
    finished_s: float | None = None
    #: From the deletion request on, the pod counts for nothing.
    leaving_s: float | None = None
    gone_s: float | None = None

    def counts_at(self, moment_s: float) -> bool:
        """Tell whether the pod counted as placed at that moment."""
        if self.bound_s is None or moment_s < self.bound_s:
            return False
        left_s = min((one for one in (self.leaving_s, self.gone_s) if one is not None), default=None)
        has_finished = self.finished_s is not None and (left_s is None or self.finished_s <= left_s)
        return has_finished or left_s is None or moment_s < left_s

    @property
    def is_taken_back(self) -> bool:
        """True for a pod that was deleted before its end; what its containers say after that counts for nothing."""
        return self.leaving_s is not None and (self.finished_s is None or self.leaving_s <= self.finished_s)

    def holds_gpu_at(self, moment_s: float) -> bool:
        """Tell whether the pod held its GPU at that moment."""
        if self.bound_s is None or moment_s < self.bound_s:
            return False
        end_s = min((one for one in (self.finished_s, self.gone_s) if one is not None), default=None)
        return end_s is None or moment_s < end_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A decision, and when it was heard."""

    at_s: float
    decision: Decision
    subject: str


@dataclass(slots=True, kw_only=True)
class Witness:
    """Everything that was seen, in order. `changed` is set with each new observation."""

    clock: Clock
    pods: dict[str, PodRecord] = field(default_factory=dict)
    heard: list[Heard] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _seen_ids: set[str] = field(default_factory=set)

    async def watch_pods(self, client: KubeClient) -> None:
        """Follow the demo's pods until cancelled."""
        while True:
            try:
                version = await self._list(client)
                while True:
                    version = await self._follow(client, version)
            except (Gone, KubeFault):
                await self.clock.sleep(RETRY_S)

    async def hear_decisions(self, bus: Bus) -> None:
        """Follow the placement stream until cancelled."""
        async for batch in bus.follow(
            PLACEMENT_STREAM.name, subjects=PLACEMENT_STREAM.subjects[0], last_per_subject=False
        ):
            for message in batch.messages:
                message_id = message.headers["ce-id"]
                if message_id not in self._seen_ids:
                    self._seen_ids.add(message_id)
                    self.hear(decode_decision(message.data), subject=message.subject)

    def hear(self, decision: Decision, *, subject: str) -> None:
        """Note a decision."""
        self.heard.append(Heard(at_s=self.clock.monotonic(), decision=decision, subject=subject))
        self.changed.set()

    def see(self, event_type: str, pod: dict[str, Any]) -> None:
        """Note a pod event."""
        now_s = self.clock.monotonic()
        metadata = pod["metadata"]
        uid = metadata["uid"]
        record = self.pods.get(uid)
        if record is None:
            group = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName", "")
            record = PodRecord(uid=uid, name=metadata["name"], gang=group, created_s=now_s)
            self.pods[uid] = record
        node = pod["spec"].get("nodeName", "")
        if node and record.bound_s is None:
            record.node, record.bound_s = node, now_s
        if pod.get("status", {}).get("phase") in {"Succeeded", "Failed"} and record.finished_s is None:
            record.finished_s = now_s
        if metadata.get("deletionTimestamp") and record.leaving_s is None:
            record.leaving_s = now_s
        if event_type == "DELETED":
            record.gone_s = now_s
        self.changed.set()

    def of_gang(self, name: str) -> list[PodRecord]:
        """Return the pods of a gang, oldest first."""
        return sorted((pod for pod in self.pods.values() if pod.gang == name), key=lambda pod: pod.created_s)

    def decisions(self, gang: str, kind: type | None = None) -> list[Heard]:
        """Return what was decided about a PodGroup of the demo, oldest first."""
        gang_id = f"podgroup/{NAMESPACE}/{gang}"
        return [
            one
            for one in self.heard
            if one.decision.gang == gang_id and (kind is None or isinstance(one.decision.event, kind))
        ]

    def has_open_transaction(self, gang: str) -> bool:
        """Tell whether the gang's last transaction has not ended."""
        events = [one.decision for one in self.decisions(gang) if not isinstance(one.decision.event, Waiting)]
        return bool(events) and not events[-1].ends_transaction

    async def until(self, condition: Callable[[], bool], *, timeout_s: float, what: str) -> None:
        """Wait until the condition holds. Raises TimeoutError that names what was waited for."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    self.changed.clear()
                    # Some conditions depend on time alone: look again now and then.
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self.changed.wait(), timeout=0.1)
        except TimeoutError as error:
            raise TimeoutError(f"waited {timeout_s:g} s for: {what}") from error

    async def _list(self, client: KubeClient) -> str:
        version = ""
        seen = set()
        async for page in client.list_pages(PODS):
            for pod in page.items:
                seen.add(pod["metadata"]["uid"])
                self.see("LISTED", pod)
            version = page.resource_version
        for record in self.pods.values():
            if record.uid not in seen and record.gone_s is None:
                record.gone_s = self.clock.monotonic()
        return version

    async def _follow(self, client: KubeClient, version: str) -> str:
        async with contextlib.aclosing(client.watch(PODS, resource_version=version)) as events:
            async for event in events:
                version = event.object["metadata"]["resourceVersion"]
                if event.type != "BOOKMARK":
                    self.see(event.type, event.object)
        return version


def proposed_for(witness: Witness, gang: str) -> bool:
    """Tell whether a placement was proposed for the gang."""
    return bool(witness.decisions(gang, Proposed))
