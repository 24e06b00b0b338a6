"""What the API server's errors mean to the signer."""

import contextlib
from collections.abc import Iterator

from services.runtime.kube import Gone, KubeError, KubeFault
from services.signer.ports import AnswerRefused, ApiFailed, HistoryGone, Overtaken

NOT_FOUND, CONFLICT, INVALID = 404, 409, 422
REQUEST_TIMEOUT_S = 10.0


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Turn the client's errors into those of the ports."""
    try:
        yield
    except Gone as error:
        raise HistoryGone(str(error)) from error
    except KubeFault as error:
        raise ApiFailed(str(error)) from error
    except (ValueError, KeyError, TypeError) as error:
        # Not with its text: an object that cannot be read may be the one with the keys.
        raise ApiFailed(f"an answer of the API server cannot be read ({type(error).__name__})") from None


@contextlib.contextmanager
def written() -> Iterator[None]:
    """As `told`, for a write that rests on a version."""
    with told():
        try:
            yield
        except KubeError as error:
            if error.status in {NOT_FOUND, CONFLICT}:
                raise Overtaken(str(error)) from error
            if error.status == INVALID:
                raise AnswerRefused(str(error)) from error
            raise
