"""Asks the placer where the pods of a target would go, from the target as it is live, at so many replicas."""

import itertools
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio
import orjson

from services.autoscaler.ports import Scale
from services.contracts.decision_codec import decode_reasons
from services.contracts.pb.placement.v1 import placement_service_pb2 as pb
from services.contracts.pb.placement.v1.placement_service_pb2_grpc import PlacementServiceStub
from services.core.fitting import DoesNotFit, Fit, Fits, FitUnknown
from services.core.scaling import Autoscaler
from services.runtime.kube import KubeClient, KubeFault
from services.runtime.rpc_channel import RenewedChannel
from services.runtime.tls import Tls

ASK_TIMEOUT_S = 1.0
"""For the target and for the placer, each: whoever wakes has no time for more, and goes on without an answer."""
_PLACED = "placed"
_SCALE = "/scale"
_KEPT_OF_METADATA = ("name", "namespace", "labels")


class PlacerFit:
    """Satisfies `services.autoscaler.ports.Placer`."""

    def __init__(self, client: KubeClient, *, target: str, tls: Tls | None = None) -> None:
        """Use an open client; the placer at `target` (HOST:PORT) is first asked when it is needed."""
        self._tls = tls
        self._client = client
        self._target = target
        self._channel: RenewedChannel | None = None

    async def __aenter__(self) -> Self:
        """Make the channel; it connects by itself, and again after each outage."""
        # The pause between two attempts to connect would else grow to minutes after a long outage.
        options = (("grpc.max_reconnect_backoff_ms", 1000),)
        self._channel = RenewedChannel(self._target, tls=self._tls, options=options)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the channel."""
        if self._channel is not None:
            await self._channel.close()

    async def fit(self, autoscaler: Autoscaler, *, scale: Scale, replicas: int) -> Fit:
        """Return whether the pods have a place now."""
        if self._channel is None:
            raise RuntimeError("the channel is not open: use `async with PlacerFit(...)`")
        try:
            reply = await self._client.request_ok("GET", scale.path.removesuffix(_SCALE), timeout_s=ASK_TIMEOUT_S)
            manifest = _unsubmitted(reply.json(), replicas=replicas)
        except KubeFault as error:
            return FitUnknown(why=f"was not asked, because {autoscaler.target} cannot be read: {error}")
        question = pb.PlanRequest(manifests=orjson.dumps(manifest), all_schedulers=True)
        try:
            async with self._channel.calling() as channel:
                answer = await PlacementServiceStub(channel).Plan(question, timeout=ASK_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            return FitUnknown(why=f"at {self._target} has no answer: {error.details() or error.code().name}")
        return _fit(answer)


def _unsubmitted(live: Mapping[str, Any], *, replicas: int) -> dict[str, Any]:
    """Return a workload as if it were new: one with a uid or a status would stand for the pods that it has."""
    metadata = {key: live["metadata"][key] for key in _KEPT_OF_METADATA if key in live["metadata"]}
    return {
        "apiVersion": live.get("apiVersion"),
        "kind": live.get("kind"),
        "metadata": metadata,
        "spec": {**(live.get("spec") or {}), "replicas": replicas},
    }


def _fit(answer: pb.PlanResponse) -> Fit:
    """Return what the plans of all groups say together."""
    groups = answer.groups.values()
    if not groups:
        return FitUnknown(why="cannot tell which pods a target of this kind would have")
    if all(group.outcome == _PLACED for group in groups):
        return Fits()
    waiting = [decode_reasons(group.reasons) for group in groups if group.outcome != _PLACED]
    placeable = sum(len(group.bound) for group in groups)
    return DoesNotFit(placeable=placeable, reasons=tuple(itertools.chain.from_iterable(waiting)))
