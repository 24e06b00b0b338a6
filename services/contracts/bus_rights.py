"""What each service does on the bus: the one table of which the permissions of a NATS server are made.

Every subject that a service publishes, and every stream that it reads or makes, stands here; a test runs all services
with exactly these permissions. Were a service taken over, it could do what is granted here and no more.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from services.contracts.streams import (
    CLUSTER_STREAM,
    DEAD_LETTERS_STREAM,
    PLACEMENT_STREAM,
    SCALING_STREAM,
    STREAMS,
    TRANSACTIONS_STREAM,
    Stream,
)
from services.contracts.subjects import CLUSTER, DEAD_LETTERS, PLACEMENT, SCALING, TRANSACTIONS_BUCKET
from services.core.metric_sources import MetricSource
from services.runtime.leader_key import LEADERS_STREAM, leader_subject
from services.runtime.nats_connection import inbox_of

_API = "$JS.API"
_BY_NAME: Mapping[str, Stream] = {stream.name: stream for stream in STREAMS}


@dataclass(frozen=True, slots=True, kw_only=True)
class BusRights:
    """Subjects that one user may publish to, and those that it may subscribe to."""

    publishes: tuple[str, ...]
    subscribes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What a service does on the bus.

    It publishes `subjects`, reads `streams` by consumers of its own and `looked_up` message by message, makes `made`
    where they do not exist, and stands for election where `is_elected`.
    """

    subjects: tuple[str, ...]
    streams: tuple[str, ...]
    looked_up: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    is_elected: bool = False


def _events(*names: str) -> tuple[str, ...]:
    return tuple(f"{PLACEMENT}.*.*.*.{name}" for name in names)


_ALL = tuple(stream.name for stream in STREAMS)

WORK: Mapping[str, _Work] = {
    "watcher": _Work(
        subjects=(f"{CLUSTER}.>",),
        streams=(CLUSTER_STREAM.name,),
        looked_up=(CLUSTER_STREAM.name,),
        made=(CLUSTER_STREAM.name,),
    ),
    "placer": _Work(
        subjects=(*_events("proposed", "waiting", "degraded"), f"{DEAD_LETTERS}.placer.>"),
        streams=(CLUSTER_STREAM.name, PLACEMENT_STREAM.name),
        looked_up=(PLACEMENT_STREAM.name, DEAD_LETTERS_STREAM.name),
        made=_ALL,
        is_elected=True,
    ),
    "binder": _Work(
        # `proposed` where half a gang is found that nothing explains: the transaction is opened again.
        subjects=(
            *_events("proposed", "repairing", "committed", "refused", "rolled_back"),
            f"$KV.{TRANSACTIONS_BUCKET}.>",
            f"{DEAD_LETTERS}.binder.>",
        ),
        streams=(CLUSTER_STREAM.name, PLACEMENT_STREAM.name, TRANSACTIONS_STREAM.name),
        looked_up=(PLACEMENT_STREAM.name, TRANSACTIONS_STREAM.name, DEAD_LETTERS_STREAM.name),
        made=(*_ALL, TRANSACTIONS_STREAM.name),
        is_elected=True,
    ),
    "autoscaler": _Work(
        subjects=(f"{SCALING}.>", f"{DEAD_LETTERS}.autoscaler.>"),
        streams=(PLACEMENT_STREAM.name,),
        looked_up=(SCALING_STREAM.name, DEAD_LETTERS_STREAM.name),
        made=_ALL,
        is_elected=True,
    ),
}
"""By service. The signer and the sandbox use no bus."""


def service_rights(service: str, *, sources: Iterable[MetricSource] = ()) -> BusRights:
    """Return the rights of a service. Those of the autoscaler depend on the queues that it is told to look at."""
    work = WORK[service]
    publishes = [*work.subjects, *_reading(work.streams), *_looking_up(work.looked_up)]
    publishes += [f"{_API}.STREAM.CREATE.{name}" for name in work.made]
    if work.is_elected:
        publishes += [
            leader_subject(service),
            f"{_API}.INFO",
            f"{_API}.STREAM.CREATE.{LEADERS_STREAM}",
            *_looking_up((LEADERS_STREAM,)),
        ]
    if service == "autoscaler":
        publishes += _measuring(sources)
    return BusRights(publishes=_unique(publishes), subscribes=(f"{inbox_of(service)}.>",))


def reader_rights(streams: Iterable[str], *, inbox: str) -> BusRights:
    """Return the rights of somebody who only reads: the streams by consumers, and their subjects as they come."""
    names = tuple(streams)
    subjects = [subject for name in names for subject in _BY_NAME[name].subjects]
    return BusRights(
        publishes=_unique([*_reading(names), *_looking_up(names), *(f"{_API}.STREAM.INFO.{name}" for name in names)]),
        subscribes=_unique([*subjects, f"{inbox}.>"]),
    )


def _reading(streams: Iterable[str]) -> Iterator[str]:
    """Yield what a reader asks for: a consumer of its own, what it brings, how it is, and its end."""
    for name in streams:
        yield f"{_API}.CONSUMER.CREATE.{name}"
        yield f"{_API}.CONSUMER.CREATE.{name}.>"
        for call in ("MSG.NEXT", "INFO", "DELETE"):
            yield f"{_API}.CONSUMER.{call}.{name}.*"


def _looking_up(streams: Iterable[str]) -> Iterator[str]:
    for name in streams:
        yield f"{_API}.STREAM.MSG.GET.{name}"


def _measuring(sources: Iterable[MetricSource]) -> Iterator[str]:
    # Other kinds of sources are not on the bus.
    for queue in (source.jetstream for source in sources if source.jetstream is not None):
        yield f"{_API}.CONSUMER.INFO.{queue.stream}.{queue.consumer}"
        yield f"{_API}.STREAM.INFO.{queue.stream}"


def _unique(subjects: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(subjects))
