"""CloudEvents headers of our messages, binary content mode.

The NATS protocol binding's binary mode is a draft; ARCHITECTURE.md names the revision that is followed. Attributes are
`ce-*` headers, the body is the protobuf message alone, and `content-type` names its encoding.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

SPEC_VERSION = "1.0"
CONTENT_TYPE = "application/protobuf"

MAX_SUBJECT_LENGTH = 1024


class NotACloudEvent(ValueError):
    """Headers that lack a required attribute; the message is not ours or is damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventAttributes:
    """Attributes of one event.

    `type` is `<proto package>.<what>`, as `phalanx.placement.v1.proposed` or `phalanx.cluster.v1.pod.applied`;
    `source` is `/phalanx/<service>/<instance>`; `subject` the object's or gang's id.
    """

    id: str
    source: str
    type: str
    subject: str
    time: datetime


def headers(attributes: EventAttributes) -> dict[str, str]:
    """Return the headers of an event. `Nats-Msg-Id` repeats the id, so that the server drops quick repetitions."""
    return {
        "ce-specversion": SPEC_VERSION,
        "ce-id": attributes.id,
        "ce-source": attributes.source,
        "ce-type": attributes.type,
        "ce-subject": attributes.subject[:MAX_SUBJECT_LENGTH],
        "ce-time": attributes.time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "content-type": CONTENT_TYPE,
        "Nats-Msg-Id": attributes.id,
    }


def attributes_of(message_headers: Mapping[str, str] | None) -> EventAttributes:
    """Return the attributes that the headers state. Raises NotACloudEvent."""
    given = {name.lower(): value for name, value in (message_headers or {}).items()}
    missing = [name for name in ("ce-specversion", "ce-id", "ce-source", "ce-type") if not given.get(name)]
    if missing:
        raise NotACloudEvent(f"expected the headers {', '.join(missing)} of a CloudEvent")
    if given["ce-specversion"] != SPEC_VERSION:
        raise NotACloudEvent(f"expected ce-specversion {SPEC_VERSION}, got {given['ce-specversion']!r}")
    try:
        time = datetime.fromisoformat(given.get("ce-time", "1970-01-01T00:00:00Z"))
    except ValueError as error:
        raise NotACloudEvent(f"expected an RFC 3339 time in ce-time, got {given['ce-time']!r}") from error
    return EventAttributes(
        id=given["ce-id"],
        source=given["ce-source"],
        type=given["ce-type"],
        subject=given.get("ce-subject", ""),
        time=time,
    )
