"""Lost answers, interference by others, missing permissions, and ends in the middle."""

import asyncio
import socket
from datetime import UTC, datetime

import grpc.aio

from services.contracts.pb.binding.v1 import transaction_pb2 as pb
from services.contracts.pb.binding.v1 import transaction_pb2_grpc as pb_grpc
from services.core.decisions import Committed, Refused, Repairing, RolledBack
from services.core.names import FENCE_ANNOTATION, TRANSACTION_ANNOTATION
from services.core.reasons import ReasonCode
from services.runtime import telemetry
from services.sandbox.faults import Action, Answer, Match
from tests.integration.binder.harness import Binder, Scene
from tests.integration.binder.test_repair_and_undo import refuse

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def ready(scene: Scene, binder: Binder) -> Binder:
    """Wait until the binder has read both streams and heard from the API server."""
    await scene.until(lambda: binder.runtime.readiness.is_ready)
    return binder


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_lost_answers_are_resolved_by_asking_again(scene: Scene) -> None:
    """Every connection is cut once after the binding was stored, and once before: each member is bound once."""
    gang = scene.gang("train", size=16)
    scene.pods("train", size=16)
    await ready(scene, await scene.start_binder())
    real = Match(method="POST", path="/binding$")
    scene.sandbox.faults.add(real, Action(cut="after"), nth=2, times=8)
    scene.sandbox.faults.add(real, Action(cut="before"), nth=12, times=6)
    nodes = {f"train-{number}": f"node-{number % 4 + 1:03d}" for number in range(16)}
    await scene.propose(gang, nodes)
    committed = await scene.decision(Committed)
    assert scene.bound() == nodes
    assert (len(committed.members), committed.accepted, committed.open) == (16, 0, 0)


async def test_a_doubtful_member_is_fenced_before_it_gets_another_node(scene: Scene) -> None:
    """The first answer is lost, the second a refusal: the pod is changed before Repairing is published."""
    gang = scene.gang("train", size=2)
    scene.pods("train", size=2)
    await ready(scene, await scene.start_binder())
    match = Match(method="POST", path="/pods/train-1/binding$")
    refusal = Answer(code=422, reason="Invalid", message="no")
    scene.sandbox.faults.add(match, Action(cut="before"))
    scene.sandbox.faults.add(match, Action(answer=refusal), nth=2, times=None)
    await scene.propose(gang, {"train-0": "node-001", "train-1": "node-001"})
    await scene.decision(Repairing)
    pod = scene.pod("train-1")
    assert pod is not None
    assert pod["metadata"]["annotations"][FENCE_ANNOTATION].startswith("t1/")
    other = scene.pod("train-0")
    assert other is not None
    assert FENCE_ANNOTATION not in other["metadata"]["annotations"]


async def test_a_member_that_somebody_else_bound_is_accepted_there(scene: Scene) -> None:
    """It counts on the node where it is."""
    gang = scene.gang("train", size=2)
    pods = scene.pods("train", size=2)
    await ready(scene, await scene.start_binder())
    hold = scene.sandbox.faults.add(Match(method="POST", path="/pods/train-1/binding$"), Action(hold=True))
    await scene.propose(gang, {"train-0": "node-001", "train-1": "node-001"})
    await hold.wait_used()
    body = {"metadata": {"name": "train-1"}, "target": {"kind": "Node", "name": "node-005"}}
    scene.sandbox.cluster.subresources.bind(body, namespace="team-a", name=pods[1]["metadata"]["name"])
    hold.release()
    committed = await scene.decision(Committed)
    assert committed.accepted == 1
    assert {one.pod: one.node for one in committed.members} == {"train-0": "node-001", "train-1": "node-005"}


async def test_a_member_that_changed_meanwhile_is_bound_in_its_new_version(scene: Scene) -> None:
    """Somebody labels the pod between read and binding: the conflict is settled by reading again."""
    gang = scene.gang("train", size=2)
    scene.pods("train", size=2)
    await ready(scene, await scene.start_binder())
    hold = scene.sandbox.faults.add(Match(method="POST", path="/pods/train-1/binding$"), Action(hold=True))
    await scene.propose(gang, {"train-0": "node-001", "train-1": "node-001"})
    await hold.wait_used()
    cluster = scene.sandbox.cluster
    stored = cluster.store.get(cluster.store.kind("pods"), namespace="team-a", name="train-1")
    assert stored is not None
    cluster.writer.commit(stored, stored.obj | {"metadata": stored.obj["metadata"] | {"labels": {"touched": "1"}}})
    hold.release()
    committed = await scene.decision(Committed)
    assert (len(committed.members), committed.open) == (2, 0)


async def test_a_deleted_member_is_never_waited_for(scene: Scene) -> None:
    """Deleted between read and binding; the others are enough."""
    gang = scene.gang("train", size=3, min_count=2)
    scene.pods("train", size=3)
    await ready(scene, await scene.start_binder())
    hold = scene.sandbox.faults.add(Match(method="POST", path="/pods/train-2/binding$"), Action(hold=True))
    await scene.propose(gang, {f"train-{number}": "node-001" for number in range(3)}, min_count=2)
    await hold.wait_used()
    cluster = scene.sandbox.cluster
    stored = cluster.store.get(cluster.store.kind("pods"), namespace="team-a", name="train-2")
    assert stored is not None
    cluster.remover.force(stored)
    hold.release()
    committed = await scene.decision(Committed)
    assert {one.pod for one in committed.members} == {"train-0", "train-1"}
    assert committed.open == 0


async def test_a_recreated_member_joins_in_the_next_round(scene: Scene) -> None:
    """A Job's pod dies during the transaction; its successor is promised a node and bound."""
    gang = scene.gang("train", size=2)
    scene.job("train", size=2)
    first = [pod["metadata"]["name"] for pod in await scene.members(2)]
    await ready(scene, await scene.start_binder())
    hold = scene.sandbox.faults.add(Match(method="POST", path=f"/pods/{first[1]}/binding$"), Action(hold=True))
    await scene.propose(gang, dict.fromkeys(first, "node-001"))
    await hold.wait_used()
    cluster = scene.sandbox.cluster
    stored = cluster.store.get(cluster.store.kind("pods"), namespace="team-a", name=first[1])
    assert stored is not None
    cluster.remover.force(stored)
    hold.release()
    repairing = await scene.decision(Repairing)
    assert repairing.open == ()
    successor = (await scene.members(1))[0]["metadata"]["name"]
    await scene.answer(repairing, gang=gang, nodes={successor: "node-002"})
    committed = await scene.decision(Committed)
    assert {one.pod for one in committed.members} == {first[0], successor}


async def test_a_new_binder_finishes_what_a_killed_one_began(scene: Scene) -> None:
    """Half of the bindings are written when the first binder dies; the second writes the rest, and commits once."""
    gang = scene.gang("train", size=12)
    scene.pods("train", size=12)
    first = await ready(scene, await scene.start_binder(bind_concurrency=4))
    hold = scene.sandbox.faults.add(Match(method="POST", path="/binding$"), Action(hold=True), nth=8, times=None)
    nodes = {f"train-{number}": f"node-{number % 3 + 1:03d}" for number in range(12)}
    await scene.propose(gang, nodes)
    await hold.wait_used()
    await scene.until(lambda: len(scene.bound()) >= 6)
    await first.kill()
    assert scene.endings() == []
    scene.sandbox.faults.clear()
    await scene.start_binder()
    committed = await scene.decision(Committed)
    assert scene.bound() == nodes
    assert len(committed.members) == 12
    assert len(scene.endings()) == 1


async def test_a_new_binder_goes_on_with_the_repair(scene: Scene) -> None:
    """It knows the end of the window and the excluded node from the stream, and takes the next round."""
    gang = scene.gang("train", size=2)
    scene.job("train", size=2)
    names = [pod["metadata"]["name"] for pod in await scene.members(2)]
    first = await ready(scene, await scene.start_binder())
    refuse(scene, names[1], node="node-001", is_probed=False)
    await scene.propose(gang, dict.fromkeys(names, "node-001"))
    repairing = await scene.decision(Repairing)
    await first.kill()
    await scene.start_binder()
    await scene.answer(repairing, gang=gang, nodes={names[1]: "node-002"})
    committed = await scene.decision(Committed)
    assert committed.repaired == 1
    assert scene.bound() == {names[0]: "node-001", names[1]: "node-002"}


async def test_a_new_binder_ends_a_repair_whose_window_has_passed(scene: Scene) -> None:
    """Nobody was there when it did: what is bound is undone now."""
    gang = scene.gang("train", size=2)
    scene.job("train", size=2)
    names = [pod["metadata"]["name"] for pod in await scene.members(2)]
    first = await ready(scene, await scene.start_binder())
    refuse(scene, names[1], is_probed=False)
    await scene.propose(gang, dict.fromkeys(names, "node-001"), repair_window_s=0.5)
    repairing = await scene.decision(Repairing)
    await first.kill()
    await scene.until(lambda: datetime.now(UTC) > repairing.until)
    await scene.start_binder()
    undone = await scene.decision(RolledBack)
    assert [one.pod for one in undone.undone] == [names[0]]
    assert scene.bound() == {}


async def test_a_stop_finishes_the_burst_and_leaves_the_rest(scene: Scene) -> None:
    """SIGTERM during a burst: its answers are awaited, and the successor commits."""
    gang = scene.gang("train", size=4)
    scene.pods("train", size=4)
    first = await ready(scene, await scene.start_binder())
    hold = scene.sandbox.faults.add(Match(method="POST", path="/pods/train-3/binding$"), Action(hold=True))
    nodes = {f"train-{number}": "node-001" for number in range(4)}
    await scene.propose(gang, nodes)
    await hold.wait_used()
    stopping = asyncio.create_task(first.stop())
    await scene.until(first.runtime.stopping.is_set)
    hold.release()
    await stopping
    assert scene.bound() == nodes
    await scene.start_binder()
    await scene.decision(Committed)
    assert len(scene.endings()) == 1


async def test_a_missing_permission_is_named_and_waited_for(scene: Scene) -> None:
    """RBAC says no: readiness names verb and resource; once it is granted, the gang is bound."""
    gang = scene.gang("train", size=2)
    scene.pods("train", size=2)
    binder = await ready(scene, await scene.start_binder())
    message = (
        'pods "train-0" is forbidden: User "system:serviceaccount:phalanx-system:phalanx-binder" cannot create '
        'resource "pods/binding" in API group "" in the namespace "team-a"'
    )
    scene.sandbox.faults.add(
        Match(method="POST", path="/binding$"),
        Action(answer=Answer(code=403, reason="Forbidden", message=message)),
        times=None,
    )
    await scene.propose(gang, {"train-0": "node-001", "train-1": "node-001"})
    await scene.until(lambda: not binder.runtime.readiness.is_ready)
    detail = next(one.detail for one in binder.runtime.readiness.conditions if one.name == "permissions")
    assert "grant verb create on resource pods/binding" in detail
    scene.sandbox.faults.clear()
    await scene.decision(Committed)
    await scene.until(lambda: binder.runtime.readiness.is_ready)


async def test_a_permission_that_is_never_granted_refuses_by_the_deadline(scene: Scene) -> None:
    """Nothing is written, and the reason names what is missing."""
    gang = scene.gang("train", size=1)
    scene.pods("train", size=1)
    await ready(scene, await scene.start_binder())
    message = 'pods "train-0" is forbidden: User "x" cannot create resource "pods/binding" in API group ""'
    scene.sandbox.faults.add(
        Match(method="POST", path="/binding$"),
        Action(answer=Answer(code=403, reason="Forbidden", message=message)),
        times=None,
    )
    await scene.propose(gang, {"train-0": "node-001"}, deadline_s=1)
    refused = await scene.decision(Refused)
    assert ReasonCode.FORBIDDEN in {one.code for one in refused.reasons}


async def test_an_api_server_that_is_away_is_waited_for(scene: Scene) -> None:
    """Every request is cut for a while; the gang is bound when the server is back."""
    gang = scene.gang("train", size=2)
    scene.pods("train", size=2)
    binder = await ready(scene, await scene.start_binder())
    fault = scene.sandbox.faults.add(Match(), Action(cut="before"), times=None)
    await scene.propose(gang, {"train-0": "node-001", "train-1": "node-001"})
    await fault.wait_used()
    await scene.until(lambda: not binder.runtime.readiness.is_ready)
    scene.sandbox.faults.clear()
    await scene.decision(Committed)
    assert len(scene.bound()) == 2


async def test_an_api_server_that_stays_away_refuses_by_the_deadline(scene: Scene) -> None:
    """Nothing was written: the reason says that there was no answer."""
    gang = scene.gang("train", size=1)
    scene.pods("train", size=1)
    await ready(scene, await scene.start_binder())
    scene.sandbox.faults.add(Match(), Action(cut="before"), times=None)
    await scene.propose(gang, {"train-0": "node-001"}, deadline_s=0.5)
    refused = await scene.decision(Refused)
    assert [one.code for one in refused.reasons] == [ReasonCode.DEADLINE_EXCEEDED, ReasonCode.API_UNAVAILABLE]


async def test_a_busy_api_server_sets_the_pace(scene: Scene) -> None:
    """429 with Retry-After: nothing is lost, nothing counts as refused."""
    gang = scene.gang("train", size=8)
    scene.pods("train", size=8)
    await ready(scene, await scene.start_binder())
    busy = Answer(code=429, reason="TooManyRequests", message="slow down", retry_after_s=1)
    scene.sandbox.faults.add(Match(method="POST", path="/binding$"), Action(answer=busy), nth=3, times=3)
    await scene.propose(gang, {f"train-{number}": "node-001" for number in range(8)})
    committed = await scene.decision(Committed)
    assert (len(committed.members), committed.open) == (8, 0)


async def test_open_transactions_are_listed(scene: Scene) -> None:
    """Phase and members of a gang in repair, over gRPC."""
    gang = scene.gang("train", size=2)
    scene.pods("train", size=2)
    address = f"127.0.0.1:{free_port()}"
    await ready(scene, await scene.start_binder(grpc_address=address))
    refuse(scene, "train-1", is_probed=False)
    await scene.propose(gang, {"train-0": "node-001", "train-1": "node-001"})
    await scene.decision(Repairing)
    async with grpc.aio.insecure_channel(address) as channel:
        stub = pb_grpc.BindingServiceStub(channel)
        answer = await stub.ListTransactions(pb.ListTransactionsRequest(gang=gang))
        other = await stub.ListTransactions(pb.ListTransactionsRequest(gang="podgroup/team-a/other"))
    assert len(other.transactions) == 0
    (transaction,) = answer.transactions
    assert (transaction.id, transaction.gang, transaction.phase) == ("t1", gang, pb.PHASE_REPAIRING)
    states = {one.pod: one.state for one in transaction.members}
    assert states == {"train-0": pb.MEMBER_STATE_BOUND, "train-1": pb.MEMBER_STATE_OPEN}


async def test_one_trace_leads_from_the_proposal_to_each_binding(scene: Scene) -> None:
    """The transaction continues the proposal's trace, and the commit message carries it on."""
    gang = scene.gang("train", size=2)
    scene.pods("train", size=2)
    await ready(scene, await scene.start_binder())
    await scene.propose(gang, {"train-0": "node-001", "train-1": "node-002"}, traceparent=PARENT)
    await scene.decision(Committed)
    await scene.until(lambda: any(one.name == telemetry.SPAN_TRANSACTION for one in scene.spans.get_finished_spans()))
    spans = scene.spans.get_finished_spans()
    transaction = next(one for one in spans if one.name == telemetry.SPAN_TRANSACTION)
    assert transaction.context is not None
    assert transaction.parent is not None
    assert f"{transaction.context.trace_id:032x}" == PARENT.split("-")[1]
    assert f"{transaction.parent.span_id:016x}" == PARENT.split("-")[2]
    bindings = [one for one in spans if one.name == telemetry.SPAN_BINDING]
    assert {(dict(one.attributes or {})[telemetry.ATTR_POD]) for one in bindings} == {"train-0", "train-1"}
    assert {dict(one.attributes or {})["phalanx.outcome"] for one in bindings} == {"bound"}
    phases = {one.name for one in spans if one.parent and one.parent.span_id == transaction.context.span_id}
    assert phases == {
        telemetry.SPAN_TRANSACTION_CHECK,
        telemetry.SPAN_TRANSACTION_DRY_RUN,
        telemetry.SPAN_TRANSACTION_BIND,
    }
    assert scene.traceparents[-1].split("-")[1:3] == [
        f"{transaction.context.trace_id:032x}",
        f"{transaction.context.span_id:016x}",
    ]


async def test_numbers_are_kept(scene: Scene) -> None:
    """Outcomes of transactions and bindings, repairs, and what is open."""
    gang = scene.gang("train", size=2)
    scene.pods("train", size=2)
    binder = await ready(scene, await scene.start_binder())
    refuse(scene, "train-1", node="node-001", is_probed=False)
    await scene.propose(gang, {"train-0": "node-001", "train-1": "node-001"})
    repairing = await scene.decision(Repairing)
    assert binder.count("phalanx_transactions_open") == 1
    await scene.answer(repairing, gang=gang, nodes={"train-1": "node-002"})
    await scene.decision(Committed)
    await scene.until(lambda: binder.count("phalanx_transactions_open") == 0)
    assert binder.count("phalanx_transactions_total", outcome="committed", cause="") == 1
    assert binder.count("phalanx_bindings_total", outcome="bound") == 2
    assert binder.count("phalanx_bindings_total", outcome="refused") == 1
    assert binder.count("phalanx_transaction_repairs_total") == 1
    assert binder.count("phalanx_transaction_duration_seconds_count", outcome="committed") == 1


async def test_a_slow_transaction_blocks_no_other(scene: Scene) -> None:
    """While one gang waits in repair and another for its API answers, a third is bound."""
    first = scene.gang("first", size=1)
    scene.pods("first", size=1)
    second = scene.gang("second", size=1)
    scene.pods("second", size=1)
    third = scene.gang("third", size=2)
    scene.pods("third", size=2)
    await ready(scene, await scene.start_binder())
    refuse(scene, "first-0")
    hold = scene.sandbox.faults.add(Match(method="POST", path="/pods/second-0/binding$"), Action(hold=True))
    await scene.propose(first, {"first-0": "node-001"}, transaction="t1")
    await scene.propose(second, {"second-0": "node-001"}, transaction="t2")
    await hold.wait_used()
    await scene.decision(Repairing, transaction="t1")
    await scene.propose(third, {"third-0": "node-001", "third-1": "node-002"}, transaction="t3")
    await scene.decision(Committed, transaction="t3")
    assert scene.endings("t1") == scene.endings("t2") == []
    hold.release()
    await scene.decision(Committed, transaction="t2")


async def test_a_placement_that_rests_on_more_than_is_known_waits_for_it(scene: Scene) -> None:
    """The proposal names a revision that the binder has not read: it is checked when that has come."""
    gang = scene.gang("train", size=1)
    scene.pods("train", size=1)
    await ready(scene, await scene.start_binder())
    await scene.settled()
    scene.revision += 1
    await scene.propose(gang, {"train-0": "node-001"})
    # Nothing may happen before; the next change of the cluster is the revision that is waited for.
    assert scene.sandbox.traffic.total(verb="create", resource="pods/binding") == 0
    scene.create("Pod", {"metadata": {"name": "other"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    await scene.decision(Committed)


async def test_two_promises_of_the_same_room_are_not_both_bound(scene: Scene) -> None:
    """Another transaction's promise counts in the check."""
    first = scene.gang("first", size=2)
    scene.pods("first", size=2, gpus=4)
    second = scene.gang("second", size=1)
    scene.pods("second", size=1, gpus=4)
    await ready(scene, await scene.start_binder())
    hold = scene.sandbox.faults.add(Match(method="POST", path="/pods/first-0/binding$"), Action(hold=True))
    await scene.propose(first, {"first-0": "node-001", "first-1": "node-001"}, transaction="t1")
    await hold.wait_used()
    await scene.propose(second, {"second-0": "node-001"}, transaction="t2")
    refused = await scene.decision(Refused, transaction="t2")
    assert refused.reasons[0].code is ReasonCode.PLACEMENT_STALE
    assert "node-001 has 0 free nvidia.com/gpu" in refused.reasons[0].message
    hold.release()
    await scene.decision(Committed, transaction="t1")


async def test_every_write_is_fenced(scene: Scene) -> None:
    """Uid and version in each binding, and the transaction in its annotations."""
    gang = scene.gang("train", size=2)
    scene.pods("train", size=2)
    await ready(scene, await scene.start_binder())
    await scene.propose(gang, {"train-0": "node-001", "train-1": "node-001"})
    await scene.decision(Committed)
    writes = [one for one in scene.sandbox.traffic.writes if one.resource == "pods/binding"]
    assert len(writes) == 3
    for write in writes:
        assert b'"uid":"' in write.body
        assert b'"resourceVersion":"' in write.body
        assert f'"{TRANSACTION_ANNOTATION}":"t1"'.encode() in write.body


async def test_a_new_binder_finishes_an_undo(scene: Scene) -> None:
    """The first dies with some members deleted; the second takes the others back too."""
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
    scene.sandbox.faults.remove(hold.id)
    await scene.start_binder()
    undone = await scene.decision(RolledBack)
    assert {one.pod for one in undone.undone} <= set(names[:3])
    assert not set(names) & scene.bound().keys()
    assert len(scene.endings()) == 1


async def test_a_stop_begins_none_of_the_transactions_that_wait_for_their_turn(scene: Scene) -> None:
    """One at a time: the second begins when the first has ended, and nothing is lost by a stop in between."""
    one = scene.gang("one", size=1)
    scene.pods("one", size=1)
    two = scene.gang("two", size=1)
    scene.pods("two", size=1)
    first = await ready(scene, await scene.start_binder(max_transactions=1))
    hold = scene.sandbox.faults.add(Match(method="POST", path="/pods/one-0/binding$"), Action(hold=True), nth=2)
    await scene.propose(one, {"one-0": "node-001"}, transaction="t1")
    await hold.wait_used()
    await scene.propose(two, {"two-0": "node-001"}, transaction="t2")
    await scene.until(lambda: first.count("phalanx_transactions_open") == 2)
    stop = asyncio.create_task(first.stop())
    await scene.until(first.runtime.stopping.is_set)
    hold.release()
    await stop
    assert scene.bound() == {"one-0": "node-001"}
    await scene.start_binder(max_transactions=1)
    await scene.decision(Committed, transaction="t1")
    await scene.decision(Committed, transaction="t2")


async def test_a_transaction_that_waits_for_another_placement_keeps_nobody_from_its_turn(scene: Scene) -> None:
    """One at a time, and the first is being repaired: the second is bound meanwhile, the first after it."""
    one = scene.gang("one", size=1)
    scene.pods("one", size=1)
    two = scene.gang("two", size=1)
    scene.pods("two", size=1)
    await ready(scene, await scene.start_binder(max_transactions=1))
    refuse(scene, "one-0")
    await scene.propose(one, {"one-0": "node-001"}, transaction="t1")
    repairing = await scene.decision(Repairing, transaction="t1")
    await scene.propose(two, {"two-0": "node-001"}, transaction="t2")
    await scene.decision(Committed, transaction="t2")
    scene.sandbox.faults.clear()
    await scene.answer(repairing, gang=one, nodes={"one-0": "node-002"}, transaction="t1")
    await scene.decision(Committed, transaction="t1")
