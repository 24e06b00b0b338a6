"""Claims that a lost transaction left allocated: their devices are held for pods that nobody is about to bind.

As after the loss of a NATS volume between claims and bindings. Whether a claim is such a one is told by its annotation
and its consumers alone, so that it needs no memory of the transaction.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from services.core.allocations import ClaimAllocation, ClaimRef, ExtendedRequest
from services.core.claim_bodies import (
    EXTENDED_ANNOTATION,
    POD_GROUPS,
    Manifest,
    metadata_of,
    results_of,
    status_of,
    transaction_of,
)
from services.core.cluster import Cluster
from services.core.decisions import Assignment
from services.core.ledger import Ledger
from services.core.objects import GangId, NodeName, Pod, TransactionId, Uid
from services.core.transaction_values import FreeTarget

_ANY_REQUEST = ExtendedRequest(name="", container="", resource="", device_class="", count=0)
"""Says that a claim stands for extended resources, and is to be deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """A claim as it was read, and how to free it."""

    claim: Manifest
    transaction: TransactionId
    target: FreeTarget


def leaked_claims(
    claims: Iterable[Manifest], *, cluster: Cluster, ledger: Ledger, live: Mapping[Uid, Pod]
) -> tuple[Leak, ...]:
    """Return the claims that a transaction of ours allocated, which is over, and that no pod on a node uses.

    `claims` were read live before `live`, the pods of our scheduler that are on nodes: so a pod that was bound in
    between is seen. What an open transaction promises is about to be used, whoever allocated it.
    """
    promised = {one.uid for transaction in ledger.open() for one in transaction.held}
    promised |= {one.uid for transaction in ledger.open() for one in transaction.assignments}
    return tuple(
        _leak(claim)
        for claim in claims
        if _is_of_the_past(claim, ledger) and not _is_used(claim, cluster=cluster, live=live, promised=promised)
    )


def _is_of_the_past(claim: Manifest, ledger: Ledger) -> bool:
    transaction = transaction_of(claim)
    is_allocated = bool(results_of(claim)) and not metadata_of(claim).get("deletionTimestamp")
    return bool(transaction) and is_allocated and ledger.transaction(transaction) is None


def _is_used(claim: Manifest, *, cluster: Cluster, live: Mapping[Uid, Pod], promised: set[Uid]) -> bool:
    """Tell whether a consumer is on a node or about to be. One that is gone is the claim controller's to take off."""
    namespace = str(metadata_of(claim).get("namespace"))
    consumers = status_of(claim).get("reservedFor") or ()
    for one in consumers:
        uid, name = Uid(str(one.get("uid"))), str(one.get("name"))
        if one.get("resource") == POD_GROUPS:
            gang = cluster.gang(GangId(f"podgroup/{namespace}/{name}"))
            if (
                gang is None
                or gang.placed
                or any(pod.metadata.uid in live or pod.metadata.uid in promised for pod in gang.open)
            ):
                return True
            continue
        pod = cluster.pod(namespace, name)
        is_known = pod is not None and pod.metadata.uid == uid
        if uid in live or uid in promised or not is_known or (pod is not None and pod.node):
            return True
    # A claim without consumers was allocated by hand, or is shared between pods that come and go.
    return not consumers


def _leak(claim: Manifest) -> Leak:
    metadata = metadata_of(claim)
    consumers = status_of(claim).get("reservedFor") or ()
    leaving = tuple(
        Assignment(pod=str(one.get("name")), uid=Uid(str(one.get("uid"))), node=NodeName("")) for one in consumers
    )
    is_extended = (metadata.get("annotations") or {}).get(EXTENDED_ANNOTATION) == "true"
    allocation = ClaimAllocation(
        ref=ClaimRef(
            namespace=str(metadata.get("namespace")), name=str(metadata["name"]), uid=Uid(str(metadata["uid"]))
        ),
        consumers=tuple(one.uid for one in leaving),
        is_of_group=any(one.get("resource") == POD_GROUPS for one in consumers),
        extended=(_ANY_REQUEST,) if is_extended else (),
    )
    target = FreeTarget(key=str(metadata["uid"]), allocation=allocation, leaving=leaving)
    return Leak(claim=claim, transaction=transaction_of(claim), target=target)
