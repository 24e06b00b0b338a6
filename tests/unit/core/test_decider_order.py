"""The decider where streams are late, answers come twice and places are lost: nothing is sold twice."""

from dataclasses import replace
from datetime import timedelta

from services.core.decisions import Committed, Decision, Proposed, RolledBack, Waiting
from services.core.objects import ClusterObject, Kind, NodeName, WatchPhase
from tests.builders import members, node, pod, pod_group, watch
from tests.unit.core.test_decider import Desk, bound, only, proposal, refused_at, repairing, waiting


def fold(desk: Desk, decision: Decision) -> None:
    """Let a decision be read, whoever made it."""
    desk.decider.observe_decision(decision, at=desk.now)


def test_promise_that_is_read_before_its_pod_holds_once_the_pod_is_seen() -> None:
    """Where the cluster stream is written anew, what open transactions promise is sold to nobody else."""
    desk = Desk(nodes=1, gpus=2)
    objects: tuple[ClusterObject, ...] = (pod_group("train", min_count=2), *members("train", count=2))
    desk.see(*objects)
    decision = only(desk.decide())
    successor = Desk(nodes=1, gpus=2)
    fold(successor, decision)
    successor.see(*objects, pod("eager", gpus=1))
    assert successor.decider.cluster.promises() == desk.decider.cluster.promises()
    assert waiting(only(successor.decide())).placeable == 0


def test_committed_members_hold_where_their_proposal_was_overwritten() -> None:
    """A later transaction of the gang hides the first one's proposal; its end alone tells where members are bound."""
    desk = Desk(nodes=1, gpus=2)
    desk.see(pod_group("train", min_count=1), *members("train", count=1))
    first = only(desk.decide())
    successor = Desk(nodes=1, gpus=2)
    successor.see(pod_group("train", min_count=1), *members("train", count=1))
    fold(successor, replace(first, event=Committed(members=proposal(first).assignments)))
    assert successor.decider.cluster.promises().keys() == {proposal(first).assignments[0].uid}
    assert successor.decide() == ()


def test_repeated_repairing_takes_nothing_back_from_the_next_round() -> None:
    """A Repairing that is delivered again after it was answered changes nothing."""
    desk = Desk(nodes=2, gpus=1)
    desk.see(pod_group("train", min_count=1), *members("train", count=1))
    first = only(desk.decide())
    event = repairing(
        first, bound_members=(), open_members=(refused_at(proposal(first).assignments[0], NodeName("n0")),)
    )
    desk.hear(first, event)
    only(desk.decide(after=timedelta()))
    held = dict(desk.decider.cluster.promises())
    assert held
    desk.hear(first, event)
    assert desk.decider.cluster.promises() == held


def test_late_member_is_placed_once_the_others_are_seen() -> None:
    """The end of the next transaction would hide where members are bound that the stream does not show yet."""
    desk = Desk(nodes=2, gpus=2)
    early = pod("train-0", group="train")
    desk.see(pod_group("train", min_count=1), early)
    first = only(desk.decide())
    desk.hear(first, Committed(members=proposal(first).assignments))
    desk.see(pod("train-1", group="train"))
    assert desk.decide() == ()
    desk.see(bound(early, to=proposal(first).assignments[0].node))
    assert [one.pod for one in proposal(only(desk.decide())).assignments] == ["train-1"]


def test_room_that_a_repair_held_in_vain_wakes_whom_it_kept_away() -> None:
    """When the repair is over, a gang that was refused because of the room held for it is tried at once."""
    desk = Desk(nodes=2, gpus=1)
    desk.see(pod_group("train", min_count=2), *members("train", count=2))
    first = only(desk.decide())
    nodes = [one.node for one in proposal(first).assignments]
    opened = tuple(refused_at(one, nodes[0]) for one in proposal(first).assignments)
    desk.hear(first, repairing(first, bound_members=(), open_members=opened))
    desk.decide()
    desk.see(pod("eager"), node(nodes[0], gpus=1, version="2", is_unschedulable=True))
    assert isinstance(only(desk.decide()).event, Waiting)
    desk.hear(first, RolledBack(reasons=()))
    outcomes = desk.decide(after=timedelta())
    assert [one.decision.gang for one in outcomes if isinstance(one.decision.event, Proposed)] == ["pod/team-a/eager"]


def test_rejected_round_leaves_the_transaction_open() -> None:
    """What earlier rounds promised is still held when a later one could not be published."""
    desk = Desk(nodes=3, gpus=1)
    desk.see(pod_group("train", min_count=2), *members("train", count=2))
    first = only(desk.decide())
    stays, moves = proposal(first).assignments
    desk.hear(first, repairing(first, bound_members=(stays,), open_members=(refused_at(moves, moves.node),)))
    desk.decider.reject(only(desk.decide(after=timedelta())))
    assert desk.decider.cluster.promises().keys() == {stays.uid}
    assert proposal(only(desk.decide(after=timedelta()))).round == 1


def test_tombstone_of_an_unseen_successor_ends_what_it_replaced() -> None:
    """A pod that was deleted, made again and deleted is gone, though only the last of these was left to read."""
    desk = Desk(nodes=1, gpus=1)
    desk.see(pod("train-0", node="n0"))
    desk.lose(pod("train-0", uid="uid-successor", version="9"))
    assert desk.decider.cluster.pod("team-a", "train-0") is None
    assert desk.decider.cluster.inventory.free_on(NodeName("n0"))["nvidia.com/gpu"] == 1


def test_tombstone_of_a_predecessor_ends_nothing() -> None:
    """A deletion that is read again after the object was made anew changes nothing."""
    desk = Desk(nodes=1, gpus=1)
    desk.see(pod("train-0", uid="uid-successor", version="9"))
    desk.lose(pod("train-0", uid="uid-first", version="3"))
    assert desk.decider.cluster.pod("team-a", "train-0") is not None


def test_nothing_is_due_while_the_cluster_is_not_followed() -> None:
    """A gang that arrives meanwhile does not keep the placer busy."""
    desk = Desk()
    desk.see(pod("train-0"), watch(Kind.POD, phase=WatchPhase.LISTING))
    assert desk.decide() == ()
    assert desk.decider.next_due(desk.now) is None


def test_clock_that_is_set_back_makes_nobody_wait() -> None:
    """A gang settles by the time that passed, not until the clock is where it was."""
    desk = Desk()
    desk.decide()
    desk.see(pod_group("train", min_count=1), pod("train-0", group="train"))
    desk.now -= timedelta(hours=1)
    assert desk.decide(after=timedelta()) == ()
    assert proposal(only(desk.decide()))


def test_member_that_joins_a_waiting_gang_is_told_why_it_waits() -> None:
    """The reasons are those that the others were told; the node autoscaler acts on conditions of each pod."""
    desk = Desk(nodes=0)
    desk.see(pod_group("train", min_count=1), pod("train-0", group="train"))
    assert isinstance(only(desk.decide()).event, Waiting)
    desk.now += timedelta(minutes=5)
    desk.see(pod("train-1", group="train", created_at=desk.now))
    assert waiting(only(desk.decide())).existing == 2
    desk.see(pod_group("train", min_count=1, version="2", priority=1))
    assert desk.decide() == ()


def test_what_a_gang_was_told_is_forgotten_with_it_across_a_restart() -> None:
    """A gang that went while it waited, and comes again under its name, is told its reasons anew."""
    desk = Desk(nodes=0)
    desk.see(pod("train"))
    told = only(desk.decide())
    successor = Desk(nodes=0)
    fold(successor, told)
    successor.decide()
    assert successor.decider.ledger.last(told.gang) is None
    successor.see(pod("train", uid="uid-again"))
    assert isinstance(only(successor.decide()).event, Waiting)


def test_restart_tells_no_waiting_gang_again() -> None:
    """Nobody is told twice because the placer was started anew."""
    desk = Desk(nodes=0)
    desk.now += timedelta(minutes=5)
    desk.see(pod("train"))
    told = only(desk.decide())
    successor = Desk(nodes=0)
    successor.now = desk.now + timedelta(minutes=5)
    successor.see(pod("train"))
    fold(successor, told)
    assert successor.decide() == ()
