"""Numbers from scalers that speak KEDA's external-scaler protocol, so that its ecosystem can be asked as it is.

Such a scaler says whether there is work (IsActive), by which KEDA starts from zero, and how much (GetMetrics). One that
is not active is 0 whatever its number; one that is active is never 0, so that it starts one replica.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
from grpc import aio
from tenacity import AsyncRetrying, retry_if_exception, wait_random_exponential

from services.autoscaler.ports import SourceFailed
from services.contracts.pb.externalscaler.v1 import external_scaler_pb2 as pb
from services.core.metric_readings import Sample
from services.core.metric_sources import ExternalScalerSource, SourceSpec
from services.runtime.clock import Clock
from services.runtime.stopping import cancelled

SERVICE = "externalscaler.ExternalScaler"
REQUEST_TIMEOUT_S = 5.0
MAX_VALUES = 1000
LEAST = 0.001
"""What an active scaler has at least: one thousandth, of which every target makes one replica."""
LONGEST_PAUSE_S = 15.0
"""Between two attempts to listen to a scaler; it is read all the while."""

_NO_PUSH = frozenset({grpc.StatusCode.UNIMPLEMENTED})


class ExternalScalers:
    """Satisfies `services.autoscaler.ports.Queues` for ExternalScalerSource, with one channel to each scaler."""

    def __init__(self, *, clock: Clock) -> None:
        """Connect to nobody yet."""
        self._clock = clock
        self._channels: dict[tuple[str, bool, bytes], aio.Channel] = {}

    async def __aenter__(self) -> Self:
        """Channels are made when they are needed."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all channels."""
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    async def read(self, source: SourceSpec) -> Sequence[Sample]:
        """Return the numbers of the scaler's metric. Raises SourceFailed."""
        assert isinstance(source, ExternalScalerSource)
        try:
            channel = self._channel(source)
            active: pb.IsActiveResponse = await _asked(
                channel, "IsActive", request=_reference(source), answer=pb.IsActiveResponse
            )
            if not active.result:
                return (Sample(value=0.0, taken_at=self._clock.now()),)
            return self._samples(await self._values(channel, source=source))
        except aio.AioRpcError as error:
            raise SourceFailed(f"gave no answer ({source}): {error.code().name}: {error.details()}") from error
        except OSError as error:
            raise SourceFailed(f"cannot be asked ({source}): {error}") from error

    @contextlib.asynccontextmanager
    async def listening(self, source: SourceSpec, *, hint: Callable[[], None]) -> AsyncIterator[bool]:
        """Listen to the scaler's push where it has one. It is read often all the same: nobody promises the push."""
        assert isinstance(source, ExternalScalerSource)
        listener = asyncio.create_task(self._listen(source, hint=hint), name=f"listening to {source}")
        try:
            yield False
        finally:
            await cancelled([listener])

    async def _listen(self, source: ExternalScalerSource, *, hint: Callable[[], None]) -> None:
        """Hint whenever the scaler says that there is work; end where it has no push."""
        patient = AsyncRetrying(
            wait=wait_random_exponential(multiplier=0.2, max=LONGEST_PAUSE_S),
            retry=retry_if_exception(_may_push),
            sleep=self._clock.sleep,
        )
        with contextlib.suppress(aio.AioRpcError):
            async for attempt in patient:
                with attempt:
                    await self._pushed(source, hint=hint)

    async def _pushed(self, source: ExternalScalerSource, *, hint: Callable[[], None]) -> None:
        """Follow one stream. Raises AioRpcError and OSError where it breaks, ConnectionError where it is ended."""
        call = self._channel(source).unary_stream(
            f"/{SERVICE}/StreamIsActive",
            request_serializer=pb.ScaledObjectRef.SerializeToString,
            response_deserializer=pb.IsActiveResponse.FromString,
        )(_reference(source))
        async for message in call:
            if message.result:
                hint()
        raise ConnectionError("the scaler ended its stream")

    async def _values(self, channel: aio.Channel, *, source: ExternalScalerSource) -> Sequence[pb.MetricValue]:
        name = source.metric_name or await self._only_metric(channel, source=source)
        request = pb.GetMetricsRequest(scaled_object_ref=_reference(source), metric_name=name)
        answer: pb.GetMetricsResponse = await _asked(
            channel, "GetMetrics", request=request, answer=pb.GetMetricsResponse
        )
        if len(answer.metric_values) > MAX_VALUES:
            raise SourceFailed(f"gave {len(answer.metric_values)} numbers, expected at most {MAX_VALUES} ({source})")
        return answer.metric_values

    @staticmethod
    async def _only_metric(channel: aio.Channel, *, source: ExternalScalerSource) -> str:
        answer: pb.GetMetricSpecResponse = await _asked(
            channel, "GetMetricSpec", request=_reference(source), answer=pb.GetMetricSpecResponse
        )
        names = [spec.metric_name for spec in answer.metric_specs[:MAX_VALUES]]
        if len(names) != 1:
            listed = ", ".join(sorted(names)[:5]) or "none"
            raise SourceFailed(f"has {len(names)} metrics ({source}): {listed}; say metricName")
        return names[0]

    def _samples(self, values: Sequence[pb.MetricValue]) -> Sequence[Sample]:
        now = self._clock.now()
        samples = [
            Sample(
                value=value.metric_value_float or float(value.metric_value),
                taken_at=now,
                labels=(("metricName", value.metric_name),),
            )
            for value in values
        ]
        if samples and all(sample.value == 0 for sample in samples):
            return (Sample(value=LEAST, taken_at=now),)
        return tuple(samples)

    def _channel(self, source: ExternalScalerSource) -> aio.Channel:
        """Return the channel to a scaler. Raises OSError where the file of its authority cannot be read."""
        authority = Path(source.ca_file).read_bytes() if source.ca_file else b""
        place = (source.address, source.tls, authority)
        if place not in self._channels:
            self._channels[place] = (
                aio.secure_channel(source.address, grpc.ssl_channel_credentials(authority or None))
                if source.tls
                else aio.insecure_channel(source.address)
            )
        return self._channels[place]


async def _asked(channel: aio.Channel, method: str, *, request: Any, answer: Any) -> Any:
    """Return the answer to one call. Raises AioRpcError."""
    call = channel.unary_unary(
        f"/{SERVICE}/{method}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=answer.FromString,
    )
    return await call(request, timeout=REQUEST_TIMEOUT_S)


def _reference(source: ExternalScalerSource) -> pb.ScaledObjectRef:
    metadata: Mapping[str, str] = source.metadata
    return pb.ScaledObjectRef(name=source.name, namespace=source.namespace, scaler_metadata=metadata)


def _may_push(error: BaseException) -> bool:
    """Tell whether listening again may help: not where the scaler has no push."""
    if isinstance(error, aio.AioRpcError):
        return error.code() not in _NO_PUSH
    return isinstance(error, OSError)
