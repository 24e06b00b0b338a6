"""BindingService: the open transactions, for people and for the command line."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import grpc.aio

from services.binder.ports import Journal
from services.contracts.decision_codec import encode_reasons
from services.contracts.pb.binding.v1 import transaction_pb2 as pb
from services.contracts.pb.binding.v1 import transaction_pb2_grpc as pb_grpc
from services.contracts.timestamps import to_timestamp
from services.core.transaction_members import Member
from services.core.transaction_state import Phase, TransactionState
from services.core.transaction_values import Stage

if TYPE_CHECKING:
    Call = grpc.aio.ServicerContext[pb.ListTransactionsRequest, pb.ListTransactionsResponse]

SERVICE = "phalanx.binding.v1.BindingService"
MAX_TRANSACTIONS = 200
"""Most transactions of one answer, which has to fit in one message; `gang` narrows it down."""

_PHASES = {phase: pb.Phase.Value(f"PHASE_{phase.name}") for phase in Phase}
_STATES = {
    Stage.PROMISED: pb.MEMBER_STATE_OPEN,
    Stage.OPEN: pb.MEMBER_STATE_OPEN,
    Stage.BOUND: pb.MEMBER_STATE_BOUND,
    Stage.ACCEPTED: pb.MEMBER_STATE_ACCEPTED,
    Stage.GONE: pb.MEMBER_STATE_GONE,
    Stage.UNDONE: pb.MEMBER_STATE_UNDONE,
}


class BindingService(pb_grpc.BindingServiceServicer):
    """Answers from the journal."""

    def __init__(self, journal: Journal) -> None:
        """Read from this journal."""
        self._journal = journal

    async def ListTransactions(  # noqa: N802 - the name is gRPC's
        self,
        request: pb.ListTransactionsRequest,
        context: "Call",  # noqa: ARG002 - gRPC's signature
    ) -> pb.ListTransactionsResponse:
        """Return the open transactions, oldest first."""
        chosen = [one for one in self._journal.open() if not request.gang or one.gang == request.gang]
        return pb.ListTransactionsResponse(transactions=[_transaction(one) for one in chosen[:MAX_TRANSACTIONS]])


def register(server: grpc.aio.Server, *, journal: Journal) -> Sequence[str]:
    """Add the service to a server, and return its full name."""
    pb_grpc.add_BindingServiceServicer_to_server(BindingService(journal), server)
    return (SERVICE,)


def _transaction(state: TransactionState) -> pb.Transaction:
    return pb.Transaction(
        id=state.id,
        gang=state.gang,
        phase=_PHASES[state.phase],  # type: ignore[arg-type]  # stubs call it int
        started_at=to_timestamp(state.started_at),
        deadline=to_timestamp(state.until or state.proposal.deadline),
        min_count=state.min_count,
        round=state.round_handled,
        members=[_member(one) for one in state.members.values()],
    )


def _member(member: Member) -> pb.Member:
    return pb.Member(
        pod=member.assignment.pod,
        uid=member.assignment.uid,
        node=member.assignment.node,
        state=_STATES[member.stage],
        reason=None if member.reason is None else encode_reasons([member.reason])[0],
    )
