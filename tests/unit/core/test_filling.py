"""Large classes, which are not placed one by one: by turns or in lumps, and by the same rules."""

from hypothesis import given
from hypothesis import strategies as st

from services.core.constraints import LabelSelector, NodeRequirement, PodRules, PodTerm, SpreadConstraint
from services.core.constraints import WeightedPodTerm as Weighted
from services.core.inventory import Inventory
from services.core.objects import Node, Pod
from services.core.reasons import ReasonCode
from services.core.solver import MAX_KINDS, Placement, Refusal, solve
from services.core.solving.board import Board
from services.core.solving.classes import classes_of
from services.core.solving.compiling import compiled
from services.core.solving.filling import MAX_STEPWISE, Filling, fill
from services.core.solving.ordering import can_take
from tests.builders import node, pod

HOST, ZONE = "kubernetes.io/hostname", "zone"
APP = LabelSelector(requirements=(NodeRequirement(key="app", operator="In", values=("a",)),))
APART = PodTerm(topology_key=HOST, selector=APP, namespaces=("team-a",))
IN_ZONE = PodTerm(topology_key=ZONE, selector=APP, namespaces=("team-a",))


def spread(key: str, *, skew: int = 1, is_hard: bool = True) -> SpreadConstraint:
    """Pods of the gang, evenly over the values of a label."""
    return SpreadConstraint(topology_key=key, max_skew=skew, selector=APP, is_hard=is_hard)


def members(count: int, *, rules: PodRules) -> list[Pod]:
    """Equal members of one GPU."""
    return [pod(f"w-{index}", labels={"app": "a"}, rules=rules) for index in range(count)]


def cluster(rooms: list[tuple[int, int]]) -> list[Node]:
    """A node for each pair of a zone and its GPUs."""
    return [node(f"n{index:04}", gpus=gpus, labels={ZONE: f"z{zone}"}) for index, (zone, gpus) in enumerate(rooms)]


def board_of(nodes: list[Node], pods: list[Pod]) -> Board:
    """A board on which nothing is placed."""
    inventory = Inventory()
    for item in nodes:
        inventory.put_node(item)
    snapshot = inventory.snapshot(pods)
    return compiled(snapshot, classes_of(pods, snapshot=snapshot, excluded_nodes={}, subgroups={}))


def filled(board: Board, *, most_stepwise: int) -> int:
    """How many are placed; each is admitted beside those before it."""
    fill(board, Filling(order=(0,), most_stepwise=most_stepwise))
    count, moves = board.placed_count, tuple(board.moves)
    board.back_to(0)
    for move in moves:
        for _ in range(move.count):
            assert can_take(board, move.group, move.row)
            board.put(move.group, row=move.row)
    board.back_to(0)
    return count


ROOMS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=6)
RULES = st.sampled_from(
    [
        PodRules(spread=(spread(ZONE),)),
        PodRules(spread=(spread(ZONE, skew=2), spread(HOST, skew=2))),
        PodRules(spread=(spread(HOST),)),
        PodRules(spread=(spread(ZONE),), anti_affinity=(APART,)),
        PodRules(affinity=(IN_ZONE,)),
        PodRules(affinity=(IN_ZONE,), spread=(spread(HOST),)),
        PodRules(anti_affinity=(IN_ZONE,)),
        PodRules(spread=(spread(ZONE, is_hard=False),)),
        PodRules(spread=(spread(ZONE, is_hard=False), spread(HOST, is_hard=False)), anti_affinity=(APART,)),
        PodRules(preferred_pods=(Weighted(weight=5, term=IN_ZONE),), spread=(spread(ZONE, skew=3),)),
    ]
)


@given(rooms=ROOMS, rules=RULES, count=st.integers(1, 9))
def test_every_member_is_admitted_beside_those_before_it(
    rooms: list[tuple[int, int]], rules: PodRules, count: int
) -> None:
    """By turns and in lumps as well as one by one."""
    board = board_of(cluster(rooms), members(count, rules=rules))
    for most in (0, 1, 3, MAX_STEPWISE):
        assert filled(board, most_stepwise=most) <= count


@given(rooms=ROOMS, count=st.integers(1, 9), skew=st.integers(1, 3))
def test_turns_place_as_many_as_a_spread_allows(rooms: list[tuple[int, int]], count: int, skew: int) -> None:
    """The emptiest domain first: the fullest may have as many more as the skew says, and no order places more."""
    board = board_of(cluster(rooms), members(count, rules=PodRules(spread=(spread(ZONE, skew=skew),))))
    sums: dict[int, int] = {}
    for zone, gpus in rooms:
        sums[zone] = sums.get(zone, 0) + gpus
    ceiling = min(sums.values()) + skew
    assert filled(board, most_stepwise=0) == min(count, sum(min(one, ceiling) for one in sums.values()))


@given(rooms=ROOMS, count=st.integers(1, 9))
def test_what_is_only_preferred_costs_no_place(rooms: list[tuple[int, int]], count: int) -> None:
    """In lumps of any size, as many are placed as amounts allow."""
    board = board_of(cluster(rooms), members(count, rules=PodRules(spread=(spread(ZONE, is_hard=False),))))
    for most in (0, 1, 2):
        assert filled(board, most_stepwise=most) == min(count, sum(gpus for _, gpus in rooms))


def test_a_large_gang_is_spread_evenly_where_that_is_preferred() -> None:
    """Three thousand members over three zones: in lumps, and as even as lumps can be."""
    nodes = cluster([(index % 3, 8) for index in range(600)])
    pods = members(3000, rules=PodRules(spread=(spread(ZONE, is_hard=False),)))
    inventory = Inventory()
    for item in nodes:
        inventory.put_node(item)
    answer = solve(inventory.snapshot(pods), members=pods, needed=3000)
    assert isinstance(answer, Placement)
    zones = {item.metadata.name: item.metadata.labels[ZONE] for item in nodes}
    counts = [[zones[name] for name in answer.nodes.values()].count(zone) for zone in ("z0", "z1", "z2")]
    assert max(counts) - min(counts) <= -(-3000 // MAX_STEPWISE)


def test_a_large_gang_obeys_a_spread_that_is_required() -> None:
    """By turns: the counts differ by one at most."""
    nodes = cluster([(index % 3, 8) for index in range(300)])
    pods = members(1000, rules=PodRules(spread=(spread(ZONE), spread(HOST, skew=2))))
    inventory = Inventory()
    for item in nodes:
        inventory.put_node(item)
    answer = solve(inventory.snapshot(pods), members=pods, needed=1000)
    assert isinstance(answer, Placement)
    zones = {item.metadata.name: item.metadata.labels[ZONE] for item in nodes}
    counts = sorted([zones[name] for name in answer.nodes.values()].count(zone) for zone in ("z0", "z1", "z2"))
    assert counts == [333, 333, 334]


def test_very_many_kinds_with_rules_are_refused_by_counting() -> None:
    """Each kind would be asked about every other: the limit has its reason, and without rules there is none."""
    inventory = Inventory()
    inventory.put_node(node("n1", gpus=0, cpu=10**9, pods=10_000))
    kinds = range(MAX_KINDS + 1)
    ruled = [pod(f"w-{i}", gpus=0, cpu=1 + i, rules=PodRules(anti_affinity=(APART,))) for i in kinds]
    refusal = solve(inventory.snapshot(ruled), members=ruled, needed=len(ruled))
    assert isinstance(refusal, Refusal)
    assert [reason.code for reason in refusal.reasons] == [ReasonCode.GANG_TOO_LARGE]
    free = [pod(f"w-{i}", gpus=0, cpu=1 + i) for i in kinds]
    assert isinstance(solve(inventory.snapshot(free), members=free, needed=len(free)), Placement)
