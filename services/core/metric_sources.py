"""Where the numbers of External metrics come from: the section `metricSources` of the configuration file, as values.

Limits in the metadata of fields are checked when the file is read; their docstrings are its reference. Secrets are not
in that file: it names files that have them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields

from services.core.field_limits import LABELS
from services.core.metric_readings import Labels

SourceProblem = tuple[tuple[str | int, ...], str]
"""Where something contradicts itself, from the entry on, and what."""

METRIC_NAME = {
    "pattern": r"^[A-Za-z0-9]([-A-Za-z0-9_.:]{0,251}[A-Za-z0-9])?$",
    "text": "a metric name, such as queue_depth",
}
"""Limits of the name of a metric; it is a part of a URL path in the API."""
JETSTREAM_NAME = {
    "pattern": r"^[^\s.*>/\\\x00-\x1f]{1,255}$",
    "text": "a name of up to 255 characters without spaces, '.', '*', '>', '/' or '\\'",
}
"""Limits of names of streams and consumers: those of the NATS server."""
URL = {
    "pattern": r"^https?://[^\s/@?#]+(/[^\s@#]*)?$",
    "text": "an http or https URL without credentials, such as http://prometheus.monitoring:9090",
}
"""Limits of a URL."""
ADDRESS = {
    "pattern": r"^([A-Za-z0-9._-]{1,253}|\[[0-9a-fA-F:]+\]):[0-9]{1,5}$",
    "text": "HOST:PORT, such as redis.team-a:6379",
}
"""Limits of an address."""
FILE = {"pattern": r"^(/[^\x00]*)?$", "text": "an absolute path"}
"""Limits of the path of a file, which may change while we run."""
QUERY = {"pattern": r"^[\s\S]{1,4096}$", "text": "a query of up to 4096 characters"}
"""Limits of a query."""
POINTER = {"pattern": r"^(/([^~]|~[01])*)?$", "text": "a JSON pointer, such as /queue/depth"}
"""Limits of a JSON pointer (RFC 6901)."""
REDIS_KEY = {"pattern": r"^[\s\S]{0,512}$", "text": "a key of up to 512 characters"}
"""Limits of keys and groups in Redis."""
SCALER_TEXT = {
    "pattern": r"^[\s\S]{0,4096}$",
    "text": "text of up to 4096 characters",
    "key_pattern": r"^[^\s]{1,253}$",
    "key_text": "a name without spaces",
}
"""Limits of what is passed on to an external scaler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JetStreamSource:
    """The length of a queue in NATS JetStream: messages of a consumer that wait, and those that are being worked on."""

    stream: str = field(metadata=JETSTREAM_NAME)
    """Name of the stream, on the NATS server that Phalanx itself uses."""

    consumer: str = field(metadata=JETSTREAM_NAME)
    """Name of its durable consumer. Phalanx never creates one."""

    def __str__(self) -> str:
        """Return it as people name it."""
        return f"consumer {self.consumer} of stream {self.stream}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusSource:
    """An instant query of Prometheus, or of what speaks its API. Several series are added up."""

    url: str = field(metadata=URL)
    """Address of the server, with the path before `/api/v1/query` where there is one."""

    query: str = field(metadata=QUERY)
    """The query. One without a result is unknown, not 0: write `… or vector(0)` where nothing is zero."""

    bearer_token_file: str = field(default="", metadata=FILE)
    """File with a token for the header Authorization."""

    ca_file: str = field(default="", metadata=FILE)
    """File with the authority of the server's certificate; without one, those of the system."""

    def __str__(self) -> str:
        """Return it as people name it."""
        return f"Prometheus at {self.url}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSource:
    """A number in a JSON document that a server answers to GET."""

    url: str = field(metadata=URL)
    """What is asked for."""

    pointer: str = field(default="", metadata=POINTER)
    """Where the number is, as a JSON pointer; empty where the document is the number."""

    bearer_token_file: str = field(default="", metadata=FILE)
    """File with a token for the header Authorization."""

    ca_file: str = field(default="", metadata=FILE)
    """File with the authority of the server's certificate; without one, those of the system."""

    def __str__(self) -> str:
        """Return it as people name it, without the query, in which there may be a secret."""
        return self.url.partition("?")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSource:
    """The length of a list in Redis, or of a stream: what a group has still to read, and what it works on."""

    address: str = field(metadata=ADDRESS)
    """Address of the server; not of a Sentinel or a cluster."""

    list_key: str = field(default="", metadata=REDIS_KEY)
    """Key of a list. One that does not exist is empty, as Redis sees it."""

    stream_key: str = field(default="", metadata=REDIS_KEY)
    """Key of a stream. Without a group, all its entries count."""

    group: str = field(default="", metadata=REDIS_KEY)
    """Consumer group of the stream: what it has not read yet and what it has not acknowledged. Never created."""

    database: int = field(default=0, metadata={"minimum": 0, "maximum": 65535})
    """Number of the database."""

    username: str = field(default="", metadata=REDIS_KEY)
    """User, where the server has several."""

    password_file: str = field(default="", metadata=FILE)
    """File with the password."""

    tls: bool = False
    """Whether the server speaks TLS."""

    ca_file: str = field(default="", metadata=FILE)
    """File with the authority of the server's certificate; without one, those of the system."""

    def __str__(self) -> str:
        """Return it as people name it."""
        group = f"group {self.group} of " if self.group else ""
        what = f"list {self.list_key}" if self.list_key else f"stream {self.stream_key}"
        return f"{group}{what} in Redis at {self.address}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalScalerSource:
    """A server that speaks the external-scaler protocol of KEDA over gRPC, with or without its push."""

    address: str = field(metadata=ADDRESS)
    """Address of the scaler."""

    metadata: Mapping[str, str] = field(default_factory=dict, metadata=SCALER_TEXT)
    """What the scaler wants to know, by its own names."""

    metric_name: str = field(default="", metadata=SCALER_TEXT)
    """Which of the scaler's metrics counts; it may be left out where there is only one."""

    name: str = field(default="phalanx", metadata=SCALER_TEXT)
    """Name of the scaled object that the scaler is told."""

    namespace: str = field(default="", metadata=SCALER_TEXT)
    """Namespace of the scaled object that the scaler is told."""

    tls: bool = False
    """Whether the scaler speaks TLS."""

    ca_file: str = field(default="", metadata=FILE)
    """File with the authority of the scaler's certificate; without one, those of the system."""

    def __str__(self) -> str:
        """Return it as people name it."""
        return f"scaler at {self.address}"


SourceSpec = JetStreamSource | PrometheusSource | HttpSource | RedisSource | ExternalScalerSource


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSource:
    """Where the numbers of one External metric of HorizontalPodAutoscalers come from: exactly one of the kinds."""

    metric: str = field(metadata=METRIC_NAME)
    """Name of the metric, as in `external.metric.name` of an HPA."""

    selector: Mapping[str, str] = field(default_factory=dict, metadata=LABELS)
    """Exactly the `matchLabels` of `external.metric.selector`; empty for a metric without a selector."""

    jetstream: JetStreamSource | None = None
    """The consumer whose messages are counted."""

    prometheus: PrometheusSource | None = None
    """The query whose result counts."""

    http: HttpSource | None = None
    """The document in which the number is."""

    redis: RedisSource | None = None
    """The list or stream whose entries are counted."""

    external_scaler: ExternalScalerSource | None = None
    """The scaler that is asked."""

    @property
    def spec(self) -> SourceSpec:
        """The source; a file in which there is not exactly one is refused."""
        (only,) = _given(self)
        return only

    @property
    def labels(self) -> Labels:
        """The selector as a value that can be compared."""
        return tuple(sorted(self.selector.items()))


KINDS = tuple(one.name for one in fields(MetricSource) if one.name not in {"metric", "selector"})
"""Names of the fields of which one is given."""


def problems_of_sources(sources: tuple[MetricSource, ...]) -> Iterator[SourceProblem]:
    """Yield what contradicts itself in entries whose values are right one by one."""
    known: dict[tuple[str, Labels], int] = {}
    for place, source in enumerate(sources):
        first = known.setdefault((source.metric, source.labels), place)
        if first != place:
            what = f"{source.metric!r} with the same selector is entry {first} already; expected one source for each"
            yield (place, "metric"), what
        given = len(_given(source))
        if given != 1:
            what = f"has {given} sources, expected exactly one of jetstream, prometheus, http, redis and externalScaler"
            yield (place,), what
        for path, what in _problems_of_kinds(source):
            yield (place, *path), what


def _problems_of_kinds(source: MetricSource) -> Iterator[SourceProblem]:
    redis, scaler = source.redis, source.external_scaler
    if redis is not None:
        if bool(redis.list_key) == bool(redis.stream_key):
            yield ("redis",), "expected either listKey or streamKey"
        if redis.group and not redis.stream_key:
            yield ("redis", "group"), "only streams have groups; expected streamKey beside it"
    for path, one in (("redis", redis), ("externalScaler", scaler)):
        if one is not None and one.ca_file and not one.tls:
            yield (path, "caFile"), "nothing is verified without TLS; add tls: true"


def _given(source: MetricSource) -> tuple[SourceSpec, ...]:
    found = (getattr(source, name) for name in KINDS)
    return tuple(one for one in found if one is not None)
