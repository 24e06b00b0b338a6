"""A gRPC channel to the placer, and its errors as sentences."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

import click
import grpc

from services.cli.certificates import own_material, server_name
from services.contracts.pb.placement.v1.placement_service_pb2_grpc import PlacementServiceStub
from services.runtime.rpc_channel import options_for
from services.runtime.tls import channel_credentials

T = TypeVar("T")

EXIT_BAD_INPUT = 2
EXIT_NO_ANSWER = 3
_CALLERS_FAULT = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED})

DEFAULT_TARGET = "127.0.0.1:50051"
TIMEOUT_S = 30.0

placer_option = click.option(
    "--placer",
    "target",
    default=DEFAULT_TARGET,
    envvar="PHALANX_PLACER",
    show_default=True,
    show_envvar=True,
    help="Address of the placer's gRPC interface.",
)


class WrongQuestion(click.ClickException):
    """The placer says what is wrong with the question."""

    exit_code = EXIT_BAD_INPUT


class NothingKnown(WrongQuestion):
    """The placer has never seen what is asked about."""


class NoAnswer(click.ClickException):
    """The placer cannot be reached, or cannot answer now."""

    exit_code = EXIT_NO_ANSWER


def ask_placer(target: str, question: Callable[[PlacementServiceStub], T]) -> T:
    """Ask one question. Raises WrongQuestion, its special case NothingKnown, and NoAnswer."""
    scheme, is_url, rest = target.partition("://")
    if is_url and scheme in {"http", "https"}:
        raise WrongQuestion(
            f"--placer: expected the address of a gRPC interface, as {rest.partition('/')[0] or DEFAULT_TARGET}, "
            f"got {target}: leave {scheme}:// out"
        )
    with _channel(target) as channel:
        try:
            return question(PlacementServiceStub(channel))
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
            if code is grpc.StatusCode.UNAVAILABLE:
                raise NoAnswer(
                    f"the placer at {target} cannot be reached ({details}); in a cluster: "
                    "kubectl -n phalanx-system port-forward svc/phalanx-placer 50051"
                ) from error
            if code is grpc.StatusCode.NOT_FOUND:
                raise NothingKnown(str(details)) from error
            refusal = WrongQuestion if code in _CALLERS_FAULT else NoAnswer
            raise refusal(str(details)) from error


@contextlib.contextmanager
def _channel(target: str) -> Iterator[grpc.Channel]:
    """A channel with the caller's certificates, where there are any."""
    material = own_material()
    if material is None:
        with grpc.insecure_channel(target) as channel:
            yield channel
        return
    credentials, options = channel_credentials(material), options_for(server_name())
    with grpc.secure_channel(target, credentials, options=options) as channel:
        yield channel
