"""BindingService: the open transactions, for people and for the command line."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import grpc.aio

from services.binder.ports import OpenTransactions
from services.contracts.pb.binding.v1 import transaction_pb2 as pb
from services.contracts.pb.binding.v1 import transaction_pb2_grpc as pb_grpc
from services.contracts.transaction_codec import transaction_message

if TYPE_CHECKING:
    Call = grpc.aio.ServicerContext[pb.ListTransactionsRequest, pb.ListTransactionsResponse]

SERVICE = "phalanx.binding.v1.BindingService"
MAX_TRANSACTIONS = 200
"""Most transactions of one answer, which has to fit in one message; `gang` narrows it down."""


class BindingService(pb_grpc.BindingServiceServicer):
    """Answers from the journal."""

    def __init__(self, journal: OpenTransactions) -> None:
        """Read from this journal."""
        self._journal = journal

    async def ListTransactions(  # noqa: N802 - the name is gRPC's
        self,
        request: pb.ListTransactionsRequest,
        context: "Call",  # noqa: ARG002 - gRPC's signature
    ) -> pb.ListTransactionsResponse:
        """Return the open transactions, oldest first."""
        chosen = [one for one in self._journal.open() if not request.gang or one.gang == request.gang]
        return pb.ListTransactionsResponse(transactions=[transaction_message(one) for one in chosen[:MAX_TRANSACTIONS]])


def register(server: grpc.aio.Server, *, journal: OpenTransactions) -> Sequence[str]:
    """Add the service to a server, and return its full name."""
    pb_grpc.add_BindingServiceServicer_to_server(BindingService(journal), server)
    return (SERVICE,)
