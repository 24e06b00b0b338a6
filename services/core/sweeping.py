"""What nothing explains: gangs that a transaction left half bound, of which neither stream nor journal knows any more.

As after the loss of a NATS volume in the middle of a burst. Such a transaction is opened again under its own name, with
its bound members where they are, and goes on as every repair does: the placer finds nodes for the others, and when the
window is over, what is bound is taken back whole. It was our act that left it so; it is never kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from services.core.cluster import Cluster
from services.core.decisions import Assignment, Proposed
from services.core.degraded import is_degraded
from services.core.gangs import Gang, MemberState, state_of
from services.core.ledger import Ledger
from services.core.names import TRANSACTION_ANNOTATION
from services.core.objects import GangId, Pod, TransactionId, Uid
from services.core.trying import repair_window

DEFAULT_WINDOW = timedelta(seconds=30)
"""Repair window of a gang whose annotation says nothing else: what it was told before is lost."""

DEADLINE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A gang that is half bound, the transaction that left it so, and the members that this one bound."""

    gang: GangId
    transaction: TransactionId
    members: tuple[Assignment, ...]
    already_placed: int
    min_count: int
    repair_window: timedelta

    def reopened(self, *, revision: int, now: datetime) -> Proposed:
        """Return the first round of the transaction, as far as it is known still."""
        return Proposed(
            revision=revision,
            deadline=now + DEADLINE,
            min_count=self.min_count,
            assignments=self.members,
            already_placed=self.already_placed,
            repair_window=self.repair_window,
            is_reopened=True,
        )


def leftovers(cluster: Cluster, ledger: Ledger, *, live: Mapping[Uid, Pod]) -> tuple[Leftover, ...]:
    """Return what is half bound and unexplained.

    `live` are the pods of our scheduler that are on nodes, as the API server has them now: followed state alone may be
    late, or end with a watcher that has died.
    """
    found = (leftover_of(cluster, ledger, gang=gang, live=live) for gang in sorted(cluster.gang_ids()))
    return tuple(one for one in found if one is not None)


def leftover_of(cluster: Cluster, ledger: Ledger, *, gang: GangId, live: Mapping[Uid, Pod]) -> Leftover | None:
    """Return what is half bound and unexplained of one gang, or None."""
    if ledger.of_gang(gang) is not None:
        return None
    followed = cluster.gang(gang)
    if followed is None or followed.min_count <= 1 or not (followed.open or followed.placed):
        return None
    members = (*followed.open, *followed.placed)
    placed = [pod for one in members if (pod := live.get(one.metadata.uid)) and state_of(pod) is MemberState.PLACED]
    if not placed or len(placed) >= followed.min_count:
        return None
    if is_degraded(_as_placed(followed, placed), commit=ledger.last_commit(gang)):
        # It was committed: what became of it since is not our doing, and the placer repairs it.
        return None
    ours = [pod for pod in placed if pod.metadata.annotations.get(TRANSACTION_ANNOTATION) and not pod.is_finished]
    # Ids sort by time: what was left earlier is beside it, and has its turn when this one has ended.
    transaction = max((pod.metadata.annotations[TRANSACTION_ANNOTATION] for pod in ours), default="")
    if not transaction or ledger.has_ended(TransactionId(transaction)):
        return None
    bound = sorted(
        (pod for pod in ours if pod.metadata.annotations[TRANSACTION_ANNOTATION] == transaction),
        key=lambda pod: pod.metadata.name,
    )
    return Leftover(
        gang=gang,
        transaction=TransactionId(transaction),
        members=tuple(Assignment(pod=one.metadata.name, uid=one.metadata.uid, node=one.node) for one in bound),
        already_placed=len(placed) - len(bound),
        min_count=followed.min_count,
        repair_window=repair_window(followed, default=DEFAULT_WINDOW),
    )


def _as_placed(gang: Gang, placed: list[Pod]) -> Gang:
    """Return the gang with the members that are placed as the API server has them."""
    uids = {pod.metadata.uid for pod in placed}
    still_open = tuple(pod for pod in gang.open if pod.metadata.uid not in uids)
    return replace(gang, open=still_open, placed=tuple(placed))
