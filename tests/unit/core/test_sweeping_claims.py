"""Which claims a lost transaction left: told by annotation and consumers alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.core.cluster import Cluster
from services.core.decisions import Assignment, Decision, Proposed
from services.core.ledger import Ledger
from services.core.objects import Applied, GangId, NodeName, Pod, TransactionId, Uid
from services.core.sweeping_claims import leaked_claims
from tests.builders import pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GANG = GangId("podgroup/team-a/train")


def claim(*, transaction: str = "t-lost", users: tuple[str, ...] = ("m-0",), **metadata: Any) -> dict[str, Any]:
    """A claim that a transaction allocated for pods."""
    annotations = {"phalanx.dev/transaction": transaction} if transaction else {}
    return {
        "metadata": {
            "name": "c",
            "namespace": "team-a",
            "uid": "uid-c",
            "resourceVersion": "7",
            "annotations": annotations,
            "finalizers": ["resource.kubernetes.io/delete-protection"],
            **metadata,
        },
        "status": {
            "allocation": {
                "devices": {"results": [{"request": "main", "driver": "d", "pool": "p", "device": "gpu-0"}]}
            },
            "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in users],
        },
    }


def world(*members: Pod, proposed: tuple[str, ...] = (), transaction: str = "t-open") -> tuple[Cluster, Ledger]:
    """A cluster with these pods, and perhaps an open transaction with pods."""
    cluster, ledger = Cluster(), Ledger()
    for number, one in enumerate(members):
        cluster.apply(Applied(object=one), revision=number + 1)
    if proposed:
        event = Proposed(
            revision=1,
            deadline=NOW + timedelta(seconds=60),
            min_count=1,
            assignments=tuple(Assignment(pod=name, uid=Uid(f"uid-{name}"), node=NodeName("n")) for name in proposed),
        )
        ledger.apply(Decision(gang=GANG, transaction=TransactionId(transaction), event=event, decided_at=NOW))
    return cluster, ledger


def member(name: str, *, node: str = "") -> Pod:
    """A pod of ours."""
    return pod(name, namespace="team-a", uid=f"uid-{name}", node=node)


def leaks(given: dict[str, Any], *members: Pod, live: tuple[str, ...] = (), **open_one: Any) -> bool:
    """Whether a claim counts as left over."""
    cluster, ledger = world(*members, **open_one)
    pods = {Uid(f"uid-{name}"): member(name, node="n") for name in live}
    return bool(leaked_claims([given], cluster=cluster, ledger=ledger, live=pods))


def test_a_claim_of_a_waiting_pod_and_a_transaction_that_is_over_is_left_over() -> None:
    """Nobody is about to bind the pod."""
    assert leaks(claim(), member("m-0"))


@pytest.mark.parametrize(
    ("given", "live", "open_one", "why"),
    [
        (claim(transaction=""), (), {}, "it is not ours"),
        (claim(), ("m-0",), {}, "its pod runs, as a live read says"),
        (claim(), (), {"proposed": ("m-0",)}, "another transaction is about to use it"),
        (claim(transaction="t-open"), (), {"proposed": ("m-9",)}, "its transaction is open"),
        (claim(users=("gone",)), (), {}, "its pod is gone, which the claim controller sees to"),
        (claim(users=()), (), {}, "nobody uses it, as between two pods of a shared claim"),
        (claim(deletionTimestamp="2026-01-01T00:00:00Z"), (), {}, "it is being deleted"),
        (claim(users=("m-0", "m-1")), ("m-1",), {}, "one of its users runs"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_others_are_left_alone(
    given: dict[str, Any], live: tuple[str, ...], open_one: dict[str, Any], why: str
) -> None:
    """Each for a reason of its own."""
    assert not leaks(given, member("m-0"), member("m-1"), live=live, **open_one), why


def test_followed_state_that_shows_its_pod_on_a_node_is_believed_too() -> None:
    """Pods of other schedulers are not among those that are read live."""
    assert not leaks(claim(), member("m-0", node="n"))
