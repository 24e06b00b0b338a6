"""The act about waking: a Deployment that sleeps, one message, and what its cold start cost.

The queue is a JetStream consumer that the demo's own worker reads. Who puts a target to sleep is the controller of its
HorizontalPodAutoscaler, after five idle minutes; the demo writes the same in its place, because nobody wants to wait.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import nats
import yaml
from nats.aio.client import Client
from nats.js import api

from services.cli.demo.objects import NAMESPACE
from services.cli.demo.promises import Promise
from services.cli.demo.witness import Witness
from services.contracts.scaling_codec import decode_scaling
from services.contracts.streams import SCALING_STREAM
from services.core.cold_start import Phase
from services.core.decisions import Proposed
from services.core.names import CONDITION_SCALED_TO_ZERO, GROUP_SIZE_ANNOTATION, SCHEDULER_NAME
from services.core.scaling import ScalingEvent, Started, Woken
from services.runtime.bus import Bus
from services.runtime.kube import KubeClient

NAME = "infer"
REPLICAS = 8
STREAM = "DEMO_ORDERS"
SUBJECT = "demo.orders"
WAIT_S = 60.0
TAKE_S = 10

CONFIGURATION = yaml.safe_dump(
    {"metricSources": [{"metric": "queue_depth", "jetstream": {"stream": STREAM, "consumer": NAME}}]}
)
"""What the autoscaler is told: where the numbers of the HPA's metric come from."""

_APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
_HPAS = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"


@asynccontextmanager
async def queue(nats_url: str) -> AsyncIterator[Client]:
    """Make the queue, and yield a connection for who fills and reads it."""
    client = await nats.connect(nats_url)
    try:
        stream = client.jetstream()
        await stream.add_stream(name=STREAM, subjects=[SUBJECT])
        await stream.add_consumer(
            STREAM, api.ConsumerConfig(durable_name=NAME, ack_policy=api.AckPolicy.EXPLICIT, filter_subject=SUBJECT)
        )
        yield client
    finally:
        await client.close()


@dataclass(slots=True, kw_only=True)
class Waking:
    """The act, on a system that runs."""

    client: KubeClient
    witness: Witness
    bus: Bus
    queue: Client
    tell: Callable[[str], None]
    heard: list[ScalingEvent] = field(default_factory=list)

    @property
    def started(self) -> Started | None:
        """The cold start, once it is over."""
        return next((one for one in self.heard if isinstance(one, Started)), None)

    async def hear(self) -> None:
        """Follow the scaling decisions until cancelled."""
        stream, subjects = SCALING_STREAM.name, SCALING_STREAM.subjects[0]
        async for batch in self.bus.follow(stream, subjects=subjects, last_per_subject=False):
            self.heard += [decode_scaling(message.data).event for message in batch.messages]
            self.witness.changed.set()

    async def play(self) -> list[Promise]:
        """Let a Deployment fall asleep, wake it by one message, and judge what happened."""
        self.tell(f"{NAME}: a Deployment of one-GPU pods, and an HPA with minReplicas 0 on the length of a queue.")
        await self.client.request_ok("POST", _APPS, body=deployment_manifest(replicas=1))
        await self.client.request_ok("POST", _HPAS, body=hpa_manifest())
        await self.witness.until(lambda: self._bound() == 1, timeout_s=WAIT_S, what=f"one pod of {NAME} runs")
        await self._fall_asleep()
        await self.witness.until(lambda: self._left() == 0, timeout_s=WAIT_S, what=f"{NAME} sleeps")
        self.tell(f"{NAME} sleeps: its queue is empty, and it has no pods. Now one message comes.")
        await self.queue.jetstream().publish(SUBJECT, b"work")
        await self.witness.until(lambda: self._bound() == REPLICAS, timeout_s=WAIT_S, what=f"{NAME} is awake")
        await self._take_one()
        await self.witness.until(lambda: self.started is not None, timeout_s=WAIT_S, what="the cold start is over")
        # The API shows bindings a moment before the bus says that they are all there were to be.
        await self.witness.until(self._is_at_rest, timeout_s=WAIT_S, what=f"the transactions of {NAME} have ended")
        self.tell(f"{NAME}: {REPLICAS} replicas were started in one step, and the message has been taken.")
        return self.judge()

    def judge(self) -> list[Promise]:
        """Judge what was decided beside what was seen."""
        woken = [one.replicas for one in self.heard if isinstance(one, Woken)]
        phases = [] if self.started is None else [phase for phase in Phase if phase in self.started.ends_s]
        return [
            Promise(
                text=f"{NAME}: one message wakes the whole group of {REPLICAS}, in one step",
                happened=f"woken to {', '.join(map(str, woken)) or 'nothing'}; {self._bound()} bound",
                is_held=woken == [REPLICAS] and self._bound() == REPLICAS,
            ),
            Promise(
                text=f"{NAME}: its cold start is measured, phase by phase",
                happened=f"{len(phases)} of {len(Phase)} phases seen",
                is_held=len(phases) == len(Phase),
            ),
        ]

    async def _fall_asleep(self) -> None:
        """Write what the HPA's controller writes: no replicas, and that it was the HPA who did it."""
        await self.client.request_ok("PATCH", f"{_APPS}/{NAME}/scale", body=_replicas(0), content_type=_MERGE)
        condition = {
            "type": CONDITION_SCALED_TO_ZERO,
            "status": "True",
            "reason": CONDITION_SCALED_TO_ZERO,
            "message": "the queue has been empty",
            "lastTransitionTime": self.witness.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        body = {"status": {"conditions": [condition]}}
        await self.client.request_ok("PATCH", f"{_HPAS}/{NAME}/status", body=body, content_type=_STRATEGIC)

    async def _take_one(self) -> None:
        """Work as the program in the pods would: take the message, and acknowledge it."""
        subscription = await self.queue.jetstream().pull_subscribe_bind(stream=STREAM, consumer=NAME)
        with contextlib.suppress(nats.errors.TimeoutError):
            for message in await subscription.fetch(1, timeout=TAKE_S):
                await message.ack_sync()

    def _is_at_rest(self) -> bool:
        decisions = [one.decision for one in self.witness.heard if one.decision.transaction]
        begun = {one.transaction for one in decisions if isinstance(one.event, Proposed)}
        return begun <= {one.transaction for one in decisions if one.ends_transaction}

    def _bound(self) -> int:
        return sum(pod.bound_s is not None and pod.leaving_s is None for pod in self._pods())

    def _left(self) -> int:
        return sum(pod.gone_s is None for pod in self._pods())

    def _pods(self) -> list[Any]:
        return [pod for pod in self.witness.pods.values() if pod.name.startswith(f"{NAME}-")]


def deployment_manifest(*, replicas: int) -> dict[str, Any]:
    """Return the Deployment."""
    labels = {"app": NAME}
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "1"}},
    }
    pod = {"schedulerName": SCHEDULER_NAME, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def hpa_manifest() -> dict[str, Any]:
    """Return the HorizontalPodAutoscaler: an ordinary one, whose target wakes eight at a time."""
    metric = {
        "type": "External",
        "external": {
            "metric": {"name": "queue_depth"},
            "target": {"type": "AverageValue", "averageValue": "10"},
        },
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "annotations": {GROUP_SIZE_ANNOTATION: str(REPLICAS)},
        },
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
            "minReplicas": 0,
            "maxReplicas": 2 * REPLICAS,
            "metrics": [metric],
        },
    }


def _replicas(count: int) -> dict[str, Any]:
    return {"spec": {"replicas": count}}
