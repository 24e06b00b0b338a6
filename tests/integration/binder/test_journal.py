"""The journal on a real server: a bucket, what a successor makes of it, and what it survives."""

import grpc.aio
import pytest
from nats.js.errors import NoKeysError

from services.contracts.pb.binding.v1 import transaction_pb2 as pb
from services.contracts.pb.binding.v1 import transaction_pb2_grpc as pb_grpc
from services.contracts.streams import TRANSACTIONS_STREAM
from services.contracts.subjects import TRANSACTIONS_BUCKET, transaction_subject
from services.core.decisions import Committed, Repairing, RolledBack
from services.core.objects import TransactionId
from services.sandbox.faults import Action, Match
from tests.integration.binder.harness import Binder, Scene
from tests.integration.binder.test_faults import free_port, ready
from tests.integration.binder.test_repair_and_undo import refuse

SUBJECT = transaction_subject(TransactionId("t1"))


async def entry(scene: Scene) -> pb.Transaction:
    """What the bucket says of the transaction."""
    last = await scene.bus.last(TRANSACTIONS_STREAM.name, subject=SUBJECT)
    return pb.Transaction.FromString(b"" if last is None else last.data)


async def killed_in_the_burst(scene: Scene) -> tuple[Binder, dict[str, str]]:
    """A binder that died with two of four bindings written."""
    gang = scene.gang("train", size=4)
    scene.pods("train", size=4)
    first = await ready(scene, await scene.start_binder())
    hold = scene.sandbox.faults.add(Match(method="POST", path="/binding$"), Action(hold=True), nth=4, times=None)
    nodes = {f"train-{number}": "node-001" for number in range(4)}
    await scene.propose(gang, nodes)
    await hold.wait_used()
    await scene.until(lambda: len(scene.bound()) == 2)
    await first.kill()
    scene.sandbox.faults.clear()
    return first, nodes


async def test_the_bucket_is_one_for_other_tools_too(scene: Scene) -> None:
    """A KV client sees the key of an open transaction, and no key once it has ended."""
    gang = scene.gang("train", size=2)
    scene.pods("train", size=2)
    binder = await ready(scene, await scene.start_binder())
    refuse(scene, "train-1", node="node-001", is_probed=False)
    await scene.propose(gang, {"train-0": "node-001", "train-1": "node-001"})
    repairing = await scene.decision(Repairing)
    bucket = await scene.bus._jetstream.key_value(TRANSACTIONS_BUCKET)
    assert await bucket.keys() == ["t1"]
    assert (await entry(scene)).phase == pb.PHASE_REPAIRING
    await scene.answer(repairing, gang=gang, nodes={"train-1": "node-002"})
    await scene.decision(Committed)
    await scene.until(lambda: binder.count("phalanx_journal_writes_total", result="removed") == 1)
    with pytest.raises(NoKeysError):
        await bucket.keys()


async def test_a_burst_is_journaled_before_it_is_written(scene: Scene) -> None:
    """The entry of the dead says that every member may have a late write; the successor commits."""
    _, nodes = await killed_in_the_burst(scene)
    left = await entry(scene)
    assert (left.phase, left.step, left.may_have_written) == (pb.PHASE_BINDING, pb.STEP_BINDING, True)
    assert all(one.is_in_doubt for one in left.members)
    second = await scene.start_binder()
    await scene.decision(Committed)
    assert scene.bound() == nodes
    assert second.count("phalanx_transactions_taken_up_total", source="journal") == 1


async def test_an_entry_that_cannot_be_read_is_no_obstacle(scene: Scene) -> None:
    """The transaction goes on from the stream, and the damage is counted."""
    _, nodes = await killed_in_the_burst(scene)
    await scene.bus.publish(SUBJECT, data=b"\xff\xff", headers={})
    second = await scene.start_binder()
    await scene.decision(Committed)
    assert scene.bound() == nodes
    assert second.count("phalanx_journal_unreadable_entries_total") >= 1
    assert second.count("phalanx_transactions_taken_up_total", source="stream") == 1


async def test_a_lost_bucket_is_no_obstacle(scene: Scene) -> None:
    """The transaction goes on from the stream."""
    _, nodes = await killed_in_the_burst(scene)
    await scene.bus._jetstream.delete_stream(TRANSACTIONS_STREAM.name)
    second = await scene.start_binder()
    await scene.decision(Committed)
    assert scene.bound() == nodes
    assert second.count("phalanx_transactions_taken_up_total", source="stream") == 1


async def test_an_undo_goes_on_although_a_repair_would_be_possible_again(scene: Scene) -> None:
    """The API server refuses nothing any more when the successor comes: it undoes all the same."""
    gang = scene.gang("train", size=4)
    scene.job("train", size=4)
    names = [pod["metadata"]["name"] for pod in await scene.members(4)]
    first = await ready(scene, await scene.start_binder())
    refuse(scene, names[3], is_probed=False)
    hold = scene.sandbox.faults.add(Match(method="DELETE", path="/pods/"), Action(hold=True), nth=2, times=None)
    await scene.propose(gang, dict.fromkeys(names, "node-001"), repair_window_s=0)
    await hold.wait_used()
    await scene.until(lambda: len(scene.bound()) == 2)
    await first.kill()
    scene.sandbox.faults.clear()
    address = f"127.0.0.1:{free_port()}"
    await scene.start_binder(grpc_address=address)
    undone = await scene.decision(RolledBack)
    assert {one.pod for one in undone.undone} == set(names[:3])
    assert not [one for one in scene.decisions if isinstance(one.event, Repairing)]
    async with grpc.aio.insecure_channel(address) as channel:
        stub = pb_grpc.BindingServiceStub(channel)
        answer = await stub.ListTransactions(pb.ListTransactionsRequest(gang=gang))
    assert {one.phase for one in answer.transactions} <= {pb.PHASE_ROLLED_BACK}


async def test_who_was_taken_over_from_stops(scene: Scene) -> None:
    """Another process writes the key in mid-repair: the next round is not bound by this one."""
    gang = scene.gang("train", size=2)
    scene.pods("train", size=2)
    binder = await ready(scene, await scene.start_binder())
    refuse(scene, "train-1", node="node-001", is_probed=False)
    await scene.propose(gang, {"train-0": "node-001", "train-1": "node-001"})
    repairing = await scene.decision(Repairing)
    left = await scene.bus.last(TRANSACTIONS_STREAM.name, subject=SUBJECT)
    assert left is not None
    await scene.bus.publish(SUBJECT, data=left.data, headers={"Phalanx-Writer": "another"})
    await scene.answer(repairing, gang=gang, nodes={"train-1": "node-002"})
    await scene.until(lambda: binder.count("phalanx_transactions_superseded_total") == 1)
    assert list(scene.bound()) == ["train-0"]
