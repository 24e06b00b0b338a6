"""Placements that cannot be carried out, published on the stream by hand: each is refused once, with its reason.

None is tried again, none stops the binder, and after each it binds a good gang.
"""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from services.contracts.dead_letters import DeadLetter, decode_letter
from services.contracts.decision_codec import decision_subject, encode_decision
from services.contracts.streams import DEAD_LETTERS_STREAM, MAX_MESSAGE_BYTES
from services.core.decisions import Assignment, Committed, Decision, Proposed, Refused, Waiting
from services.core.gangs import MAX_MEMBERS
from services.core.objects import GangId, NodeName, TransactionId, Uid
from services.core.reasons import Reason, ReasonCode
from services.runtime.leader_key import leader_subject
from tests.integration.binder.harness import Binder, Scene

ENDED = "phalanx_transactions_total"
BAD = GangId("podgroup/team-a/bad")


@pytest.fixture
async def binder(scene: Scene) -> AsyncIterator[Binder]:
    """A binder, and a group `bad` of two pods that exist. At the end it has to bind a good gang still."""
    scene.gang("bad", size=2)
    scene.pods("bad", size=2)
    found = await scene.start_binder()
    await scene.until(lambda: found.runtime.readiness.is_ready)
    yield found
    gang = scene.gang("good", size=3)
    scene.pods("good", size=3)
    nodes = {f"good-{number}": f"node-00{number + 1}" for number in range(3)}
    await scene.propose(gang, nodes, transaction="good")
    await scene.decision(Committed, transaction="good")
    assert {name: node for name, node in scene.bound().items() if name.startswith("good")} == nodes


def assignments(scene: Scene, count: int = 2) -> list[Assignment]:
    """The members of `bad` on one node; from the third on they do not exist."""
    found = []
    for number in range(count):
        pod = scene.pod(f"bad-{number}")
        uid = pod["metadata"]["uid"] if pod else f"u-{number}"
        found.append(Assignment(pod=f"bad-{number}", uid=Uid(uid), node=NodeName("node-008")))
    return found


async def proposal(scene: Scene, members: Sequence[Assignment] | None = None) -> Proposed:
    """A placement of `bad`, on everything that the cluster stream has."""
    await scene.settled()
    given = tuple(assignments(scene) if members is None else members)
    deadline = datetime.now(UTC) + timedelta(seconds=30)
    return Proposed(revision=scene.revision, deadline=deadline, min_count=len(given) or 1, assignments=given)


async def tell(scene: Scene, event: Proposed, *, transaction: str = "t1", epoch: int = 0) -> None:
    """Publish a placement, as whoever may publish."""
    decision = Decision(
        gang=BAD, event=event, decided_at=datetime.now(UTC), transaction=TransactionId(transaction), epoch=epoch
    )
    await scene.publish(decision)


async def refusal(scene: Scene, event: Proposed, *, binder: Binder, transaction: str = "t1", epoch: int = 0) -> Reason:
    """Publish a placement, and return the first reason of its refusal, which is one, counted, and told on the group."""
    await tell(scene, event, transaction=transaction, epoch=epoch)
    refused = await scene.decision(Refused, transaction=transaction)
    reason = refused.reasons[0]
    assert len(scene.endings(transaction)) == 1
    await scene.until(lambda: binder.count(ENDED, outcome="refused", cause=reason.code.value) == 1)
    await scene.until(lambda: ("PodGroup", "Warning", reason.code.value, 1) in scene.events())
    assert [name for name in scene.bound() if name.startswith("bad")] == []
    return reason


async def letter(scene: Scene) -> DeadLetter:
    """Wait for the dead letter of the binder."""
    async for batch in scene.bus.follow(DEAD_LETTERS_STREAM.name, subjects=DEAD_LETTERS_STREAM.subjects[0]):
        for message in batch.messages:
            return decode_letter(message.data)
    raise AssertionError("the bus was closed")


async def test_unknown_pods(scene: Scene, binder: Binder) -> None:
    """Neither their names nor their uids exist."""
    members = [replace(one, pod=f"ghost-{number}") for number, one in enumerate(assignments(scene))]
    reason = await refusal(scene, await proposal(scene, members), binder=binder)
    assert reason.code is ReasonCode.MEMBER_GONE


async def test_pods_of_another_uid(scene: Scene, binder: Binder) -> None:
    """A pod of the same name is another pod."""
    members = [replace(one, uid=Uid(f"old-{one.uid}")) for one in assignments(scene)]
    reason = await refusal(scene, await proposal(scene, members), binder=binder)
    assert reason.code is ReasonCode.MEMBER_GONE


async def test_an_unknown_node(scene: Scene, binder: Binder) -> None:
    """The reason names it."""
    members = [replace(one, node=NodeName("node-404")) for one in assignments(scene)]
    reason = await refusal(scene, await proposal(scene, members), binder=binder)
    assert (reason.code, reason.subject) == (ReasonCode.PLACEMENT_STALE, "node-404")


async def test_an_expired_one(scene: Scene, binder: Binder) -> None:
    """Its deadline was over when it came."""
    event = replace(await proposal(scene), deadline=datetime.now(UTC) - timedelta(seconds=5))
    reason = await refusal(scene, event, binder=binder)
    assert reason.code is ReasonCode.DEADLINE_EXCEEDED


async def test_one_that_rests_on_what_never_comes(scene: Scene, binder: Binder) -> None:
    """Its revision is not reached by its deadline."""
    deadline = datetime.now(UTC) + timedelta(seconds=1)
    event = replace(await proposal(scene), revision=10**9, deadline=deadline)
    reason = await refusal(scene, event, binder=binder)
    assert reason.code is ReasonCode.DEADLINE_EXCEEDED


async def test_a_second_one_beside_an_open_one(scene: Scene, binder: Binder) -> None:
    """A gang has one transaction at a time; the first is not disturbed."""
    waits = replace(await proposal(scene), revision=10**9, deadline=datetime.now(UTC) + timedelta(minutes=10))
    await tell(scene, waits, transaction="first")
    reason = await refusal(scene, await proposal(scene), binder=binder, transaction="second")
    assert (reason.code, reason.subject) == (ReasonCode.PLACEMENT_SUPERSEDED, "first")
    assert scene.endings("first") == []


async def test_one_whose_transaction_has_ended(scene: Scene, binder: Binder) -> None:
    """It is passed over and counted: its transaction has one end, and keeps it."""
    event = replace(await proposal(scene), deadline=datetime.now(UTC) - timedelta(seconds=5))
    await refusal(scene, event, binder=binder)
    late = Decision(
        gang=BAD, event=await proposal(scene), decided_at=datetime.now(UTC), transaction=TransactionId("t1")
    )
    await scene.bus.publish(decision_subject(late), data=encode_decision(late), headers={})
    await scene.until(lambda: binder.count("phalanx_proposals_superseded_total") == 1)
    assert len(scene.endings()) == 1


async def show_epoch(scene: Scene, epoch: int) -> None:
    """Let a placer of an epoch have decided something about another gang."""
    event = Waiting(revision=1, min_count=1, existing=1, placeable=0, reasons=())
    other = GangId("podgroup/team-a/other")
    await scene.publish(Decision(gang=other, event=event, decided_at=datetime.now(UTC), epoch=epoch))


async def test_one_of_an_old_epoch(scene: Scene, binder: Binder) -> None:
    """A placer that lost the election wrote late: what it sold may be sold again."""
    await show_epoch(scene, 9)
    reason = await refusal(scene, await proposal(scene), binder=binder, epoch=5)
    assert reason.code is ReasonCode.PLACEMENT_SUPERSEDED
    assert "epoch 5" in reason.message
    await tell(scene, await proposal(scene), transaction="t2", epoch=9)
    await scene.decision(Committed, transaction="t2")


async def test_epochs_may_begin_anew(scene: Scene, binder: Binder) -> None:
    """The bucket of leaders was lost: who leads by the key now is believed, although its epoch is lower."""
    assert binder is not None
    await show_epoch(scene, 900)
    key = {"instance": "placer-1", "epoch": 3, "acquired_at": "", "candidate": "c"}
    await scene.bus.publish(leader_subject("placer"), data=json.dumps(key).encode(), headers={})
    await tell(scene, await proposal(scene), epoch=3)
    await scene.decision(Committed)


@pytest.mark.parametrize(
    ("subject", "body", "problem"),
    [
        ("podgroup.team-a.bad.proposed", b"\xff\xff", "expected a phalanx.placement.v1.Decision"),
        ("podgroup.team-a.bad.proposed", b"", "carries no event"),
        ("podgroup.team-a.bad.proposed", "nameless", "such as podgroup/team-a/train"),
        ("podgroup.team-a.bad.proposed", "unnumbered", "names no transaction"),
        ("podgroup.team-a.another.proposed", "sound", "has another subject"),
    ],
)
async def test_one_that_cannot_be_read(
    scene: Scene, binder: Binder, subject: str, body: bytes | str, problem: str
) -> None:
    """Nobody can answer it, so it is counted and becomes a dead letter with all that it was."""
    sound = Decision(
        gang=BAD, event=await proposal(scene), decided_at=datetime.now(UTC), transaction=TransactionId("t1")
    )
    bodies = {
        "sound": sound,
        "nameless": replace(sound, gang=GangId("bad")),
        "unnumbered": replace(sound, transaction=TransactionId("")),
    }
    data = body if isinstance(body, bytes) else encode_decision(bodies[body])
    await scene.bus.publish(f"phalanx.placement.v1.{subject}", data=data, headers={"ce-id": "x"})
    found = await letter(scene)
    assert found.id.startswith("binder/PHALANX_PLACEMENT/")
    assert problem in found.problem
    assert (found.body, dict(found.headers)) == (data, {"ce-id": "x"})
    assert binder.count("phalanx_binder_unreadable_messages_total") == 1
    await scene.until(lambda: binder.count("phalanx_dead_letters_total", stream="PHALANX_PLACEMENT") == 1)
    assert scene.bound() == {}


async def test_too_many_members(scene: Scene, binder: Binder) -> None:
    """One more than can be bound at once."""
    event = await proposal(scene, assignments(scene, MAX_MEMBERS + 1))
    reason = await refusal(scene, event, binder=binder)
    assert (reason.code, reason.count) == (ReasonCode.GANG_TOO_LARGE, MAX_MEMBERS + 1)


async def test_too_many_bytes(scene: Scene, binder: Binder) -> None:
    """Few members with long names; the bus takes twice as much as we publish."""
    members = [replace(one, pod=one.pod + "x" * (MAX_MESSAGE_BYTES // 2)) for one in assignments(scene)]
    reason = await refusal(scene, await proposal(scene, members), binder=binder)
    assert reason.code is ReasonCode.GANG_TOO_LARGE
    assert "bytes" in reason.message


@pytest.mark.parametrize("flaw", ["no members", "a member twice", "a member without a node", "min_count 0", "for ever"])
async def test_one_that_cannot_be_meant(scene: Scene, binder: Binder, flaw: str) -> None:
    """It could be read, and yet nobody can carry it out; the reason says what is wrong."""
    sound = await proposal(scene)
    first, second = sound.assignments
    flawed, said = {
        "no members": (replace(sound, assignments=()), "names no members"),
        "a member twice": (replace(sound, assignments=(first, second, first)), "stands in it 2 times"),
        "a member without a node": (
            replace(sound, assignments=(first, replace(second, node=NodeName("")))),
            "expected pod, uid and node",
        ),
        "min_count 0": (replace(sound, min_count=0), "min_count is 0"),
        "for ever": (replace(sound, deadline=datetime(9999, 1, 1, tzinfo=UTC)), "is more than 7200 s away"),
    }[flaw]
    reason = await refusal(scene, flawed, binder=binder)
    assert reason.code is ReasonCode.PLACEMENT_MALFORMED
    assert said in reason.message


async def test_a_restarted_binder_refuses_nothing_again(scene: Scene, binder: Binder) -> None:
    """What was refused has ended in the stream; a successor finds it so."""
    await refusal(scene, replace(await proposal(scene), assignments=()), binder=binder)
    await binder.kill()
    second = await scene.start_binder()
    await scene.until(lambda: second.runtime.readiness.is_ready)
    assert len(scene.endings()) == 1
    assert second.count(ENDED, outcome="refused", cause=ReasonCode.PLACEMENT_MALFORMED.value) == 0
