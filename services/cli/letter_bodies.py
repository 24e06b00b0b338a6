"""The body of a dead letter for people: as the message that it should be, as far as that can be read, else as bytes."""

from collections.abc import Callable, Mapping

from google.protobuf.message import DecodeError, Message
from google.protobuf.text_format import MessageToString

from services.contracts.dead_letters import DeadLetter
from services.contracts.pb.cluster.v1 import cluster_pb2
from services.contracts.pb.placement.v1 import decision_pb2
from services.contracts.streams import CLUSTER_STREAM, PLACEMENT_STREAM

MAX_LINES = 200
MAX_BYTES = 512
_ROW = 16

_MESSAGES: Mapping[str, Callable[[], Message]] = {
    CLUSTER_STREAM.name: cluster_pb2.ClusterEvent,
    PLACEMENT_STREAM.name: decision_pb2.Decision,
}


def body_text(letter: DeadLetter) -> str:
    """Return the body in lines."""
    kind = _MESSAGES.get(letter.stream)
    if kind is not None:
        message = kind()
        try:
            message.ParseFromString(letter.body)
        except DecodeError:
            return _bytes_text(letter.body)
        lines = MessageToString(message).splitlines()
        more = [f"… {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
        return "\n".join([*lines[:MAX_LINES], *more])
    return _bytes_text(letter.body)


def _bytes_text(body: bytes) -> str:
    shown = body[:MAX_BYTES]
    rows = []
    for start in range(0, len(shown), _ROW):
        row = shown[start : start + _ROW]
        rows.append(f"{start:08x}  {row.hex(' '):{3 * _ROW - 1}}  {''.join(map(_printable, row))}")
    more = [f"… {len(body) - MAX_BYTES} more bytes"] if len(body) > MAX_BYTES else []
    return "\n".join([*rows, *more])


def _printable(byte: int) -> str:
    return chr(byte) if 0x20 <= byte < 0x7F else "."  # noqa: PLR2004 - the printable part of ASCII
