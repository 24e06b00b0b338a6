"""Times and durations between datetime and protobuf."""

from datetime import datetime, timedelta

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from services.core.objects import EPOCH_START


class TimeOutOfRange(ValueError):
    """A time or duration that no calendar holds: the message is damaged or not ours."""


def to_timestamp(moment: datetime) -> Timestamp:
    """Return the moment as a protobuf Timestamp."""
    elapsed = moment - EPOCH_START
    return Timestamp(seconds=elapsed.days * 86_400 + elapsed.seconds, nanos=elapsed.microseconds * 1000)


def from_timestamp(stamp: Timestamp) -> datetime:
    """Return the Timestamp as an aware datetime, to the microsecond. Raises TimeOutOfRange."""
    try:
        return EPOCH_START + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)
    except OverflowError as error:
        raise TimeOutOfRange(f"expected a time between the years 1 and 9999, got {stamp.seconds} s") from error


def to_duration(span: timedelta) -> Duration:
    """Return the span as a protobuf Duration."""
    return Duration(seconds=span.days * 86_400 + span.seconds, nanos=span.microseconds * 1000)


def from_duration(duration: Duration) -> timedelta:
    """Return the Duration as a timedelta, to the microsecond. Raises TimeOutOfRange."""
    try:
        return timedelta(seconds=duration.seconds, microseconds=duration.nanos // 1000)
    except OverflowError as error:
        raise TimeOutOfRange(
            f"expected a duration of at most {timedelta.max.days} days, got {duration.seconds} s"
        ) from error
