"""What the autoscaler needs of the world, as its own interfaces."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from services.core.cold_start import PodStage
from services.core.fitting import Fit
from services.core.front_proxy import FrontProxy, Requester
from services.core.metric_readings import MetricKey, Sample
from services.core.metric_sources import SourceSpec
from services.core.metrics_registration import Registration
from services.core.reasons import Reason
from services.core.scaling import Autoscaler, TargetRef
from services.core.scaling_reports import Told
from services.runtime.bus import Batch


class DecisionStream(Protocol):
    """The placement stream, as the autoscaler reads it; `services.runtime.bus.Bus` is the real one."""

    def follow(
        self, stream: str, *, subjects: str | Sequence[str], last_per_subject: bool = True
    ) -> AsyncIterator[Batch]:
        """Yield stored messages, then new ones."""


class ScalingStream(Protocol):
    """The stream of scaling decisions, as the autoscaler writes it; `services.runtime.bus.Bus` is the real one."""

    async def publish(self, subject: str, *, data: bytes, headers: Mapping[str, str]) -> int:
        """Store a message. Raises BusUnavailable."""


class Leading(Protocol):
    """Whether this process is the one that acts; `services.runtime.leadership.Leadership` is the real one."""

    @property
    def epoch(self) -> int | None:
        """The epoch that is led now; None for a standby."""

    async def changed(self, *, since: int | None) -> int | None:
        """Wait until the epoch is another than `since`, and return it."""


class ApiFailed(Exception):
    """The API server gave no definite answer, or one that may be another soon: ask again."""


class HistoryGone(Exception):
    """The version to go on from is too old: list again."""


class WriteConflict(Exception):
    """The object is another than the one that was read: look again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The scale subresource of a target, as it was read. `replicas` is `spec.replicas`."""

    path: str
    replicas: int
    document: Mapping[str, Any]

    @property
    def selector(self) -> str:
        """Label selector of the target's pods, as the API takes it; empty where the target does not say."""
        return str((self.document.get("status") or {}).get("selector") or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class HpaEvent:
    """What a watch said of one HPA; a bookmark has only its version."""

    is_deleted: bool
    is_bookmark: bool
    manifest: Mapping[str, Any]


class HpaApi(Protocol):
    """HorizontalPodAutoscalers and their targets. Everything raises ApiFailed."""

    async def listed(self) -> tuple[Sequence[Mapping[str, Any]], str]:
        """Return all HPAs, and the version of the list."""

    def watched(self, version: str) -> AsyncIterator[HpaEvent]:
        """Yield what happened after a version until the server closes the watch. Raises HistoryGone."""

    async def scale_of(self, namespace: str, target: TargetRef) -> Scale | Reason:
        """Return how many replicas a target is asked to have, or why that cannot be known."""

    async def set_replicas(self, scale: Scale, *, replicas: int) -> Reason | None:
        """Ask for replicas, where nothing changed since the scale was read; a Reason where that is refused.

        Raises WriteConflict.
        """

    async def hpa(self, autoscaler: Autoscaler) -> Autoscaler | None:
        """Return the HPA as it is now; None where it is gone, replaced by another, or cannot be read."""

    async def disarm(self, autoscaler: Autoscaler, *, is_fenced: bool) -> None:
        """Write `ScaledToZero` False; `is_fenced` only onto the version that was seen. Raises WriteConflict."""

    async def show(self, autoscaler: Autoscaler, *, told: Told) -> None:
        """Write our condition; nothing where the HPA is gone."""

    async def tell(self, autoscaler: Autoscaler, *, reason: str, message: str, is_warning: bool) -> None:
        """Create an Event about the HPA."""


class Placer(Protocol):
    """Who knows where pods would go."""

    async def fit(self, autoscaler: Autoscaler, *, scale: Scale, replicas: int) -> Fit:
        """Return whether the pods of so many replicas have a place now; what goes wrong makes that unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSeen:
    """A pod of a target, as it is seen; `stage` is None for one that is gone or going."""

    uid: str
    stage: PodStage | None


class TargetPods(Protocol):
    """The pods of a target that has just been woken."""

    def pods(self, namespace: str, *, selector: str) -> AsyncGenerator[PodSeen, None]:
        """Yield the pods that are there, and then what happens to them, for ever. Raises ApiFailed where it may not."""


class Deliveries(Protocol):
    """How many messages the readers of a queue were given so far."""

    def last_delivered(self, key: MetricKey) -> int | None:
        """Return the count as of the last reading; None where the queue does not tell."""

    async def delivered(self, key: MetricKey) -> int | None:
        """Return the count; None where the queue does not tell. Raises SourceFailed."""


class SourceFailed(Exception):
    """A source cannot be read; the message goes on from its name: "does not exist"."""


class Queues(Protocol):
    """Where the lengths of queues come from."""

    async def read(self, source: SourceSpec) -> Sequence[Sample]:
        """Return the length of a queue now. Raises SourceFailed."""

    def listening(self, source: SourceSpec, *, hint: Callable[[], None]) -> AbstractAsyncContextManager[bool]:
        """Call `hint` whenever something may have been put into the queue. Raises SourceFailed.

        Entering tells whether hints can be relied on: where they cannot, the source is to be read often.
        """


class AccessApi(Protocol):
    """What an aggregated API asks of the API server about those who ask it. Everything raises ApiFailed."""

    async def front_proxy(self) -> FrontProxy:
        """Return how the API server's front proxy is known. Raises FrontProxyError where it cannot be."""

    async def reviewed(self, requester: Requester, *, namespace: str, metric: str) -> bool:
        """Tell whether somebody may list a metric of a namespace."""


class RegistrationApi(Protocol):
    """The one APIService of the metrics API. Everything raises ApiFailed."""

    async def registration(self) -> Mapping[str, Any] | None:
        """Return the APIService; None where there is none."""

    async def write_ca_bundle(self, registration: Registration) -> None:
        """Write the authority of our certificate, onto the version that was read. Raises WriteConflict."""
