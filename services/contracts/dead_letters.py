"""Letters about messages that a service could not read or handle, and their way to and from bytes.

A letter is about one stored message and by one service: `<service>/<stream>/<sequence>` is its identity, and its
subject. It keeps the message as it was, so that it can be delivered again when the cause is repaired.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from google.protobuf.message import DecodeError

from services.contracts.cloudevents import EventAttributes, headers
from services.contracts.pb.deadletter.v1 import dead_letter_pb2 as pb
from services.contracts.subjects import DEAD_LETTERS, dead_letter_subject
from services.contracts.timestamps import TimeOutOfRange, from_timestamp, to_timestamp
from services.runtime.bus import Message

MAX_BODY_BYTES = 8 * 2**20 - 2**16
"""Body and headers above this are not kept: the letter around them would be larger than the server takes."""
MAX_PROBLEM_CHARACTERS = 1000

MESSAGE_ID = "Nats-Msg-Id"
_OF_THE_SERVER = "nats-"


class UnreadableLetter(ValueError):
    """Bytes that are no letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One message that could not be read or handled. `count` is how often it was met, `instance` who met it last."""

    service: str
    instance: str
    stream: str
    sequence: int
    subject: str
    headers: Mapping[str, str]
    body: bytes
    problem: str
    first_at: datetime
    last_at: datetime
    count: int = 1
    is_body_omitted: bool = False

    @property
    def id(self) -> str:
        """What people call it."""
        return f"{self.service}/{self.stream}/{self.sequence}"


def letter_of(message: Message, *, service: str, instance: str, stream: str, problem: str, at: datetime) -> DeadLetter:
    """Return the letter about a message of a stream."""
    size = len(message.data) + sum(len(name) + len(value) + 8 for name, value in message.headers.items())
    is_too_large = size > MAX_BODY_BYTES
    return DeadLetter(
        service=service,
        instance=instance,
        stream=stream,
        sequence=message.sequence,
        subject=message.subject,
        headers={} if is_too_large else {_text(name): _text(value) for name, value in message.headers.items()},
        body=b"" if is_too_large else message.data,
        is_body_omitted=is_too_large,
        problem=_text(problem)[:MAX_PROBLEM_CHARACTERS],
        first_at=at,
        last_at=at,
    )


def met_again(letter: DeadLetter, *, earlier: DeadLetter) -> DeadLetter:
    """Return the letter about a message that had one already."""
    return replace(letter, first_at=earlier.first_at, count=earlier.count + 1)


def letter_subject(letter: DeadLetter) -> str:
    """Return the subject of a letter."""
    return dead_letter_subject(letter.service, stream=letter.stream, sequence=letter.sequence)


def letter_headers(letter: DeadLetter) -> dict[str, str]:
    """Return the headers of a letter. Its message id has the count: a repeated write of the same letter is dropped."""
    return headers(
        EventAttributes(
            id=f"{letter.id}/{letter.count}",
            source=f"/phalanx/{letter.service}/{letter.instance}",
            type=f"{DEAD_LETTERS}.letter",
            subject=letter.subject,
            time=letter.last_at,
        )
    )


def retry_headers(letter: DeadLetter) -> dict[str, str]:
    """Return the headers with which the message is delivered again.

    They are the original ones but for orders to the server: those were about the first delivery, and the old message id
    would have the server drop the new one silently.
    """
    kept = {name: value for name, value in letter.headers.items() if not name.lower().startswith(_OF_THE_SERVER)}
    return {**kept, MESSAGE_ID: f"{letter.stream}/{letter.sequence}/again"}


def encode_letter(letter: DeadLetter) -> bytes:
    """Return a letter as bytes."""
    return pb.DeadLetter(
        service=letter.service,
        instance=letter.instance,
        stream=letter.stream,
        sequence=letter.sequence,
        subject=letter.subject,
        headers=[pb.Header(name=name, value=value) for name, value in letter.headers.items()],
        body=letter.body,
        is_body_omitted=letter.is_body_omitted,
        problem=letter.problem,
        first_at=to_timestamp(letter.first_at),
        last_at=to_timestamp(letter.last_at),
        count=letter.count,
    ).SerializeToString(deterministic=True)


def decode_letter(data: bytes) -> DeadLetter:
    """Return the letter that `data` states. Raises UnreadableLetter."""
    message = pb.DeadLetter()
    try:
        message.ParseFromString(data)
        first_at, last_at = from_timestamp(message.first_at), from_timestamp(message.last_at)
    except (DecodeError, TimeOutOfRange) as error:
        raise UnreadableLetter(f"expected a phalanx.deadletter.v1.DeadLetter: {error}") from error
    return DeadLetter(
        service=message.service,
        instance=message.instance,
        stream=message.stream,
        sequence=message.sequence,
        subject=message.subject,
        headers={one.name: one.value for one in message.headers},
        body=message.body,
        is_body_omitted=message.is_body_omitted,
        problem=message.problem,
        first_at=first_at,
        last_at=last_at,
        count=message.count,
    )


def _text(text: str) -> str:
    """Return the text without what has no form in UTF-8, as a header of somebody else may hold it."""
    return text.encode(errors="replace").decode()
