"""The decider in a world that is late, repeats itself and kills it: nothing is sold twice and nobody waits in vain."""

import random
from datetime import timedelta
from typing import Any

import pytest

from services.core.decisions import Proposed
from services.core.objects import GangId
from services.core.plan import PlanOutcome, plan
from tests.builders import seconds
from tests.property.decider_world import World

STEPS = 120
SEEDS = 300
ROUNDS_TO_REST = 200
QUIET_ROUNDS = 3
WATCH = seconds(400)
"""Longer than any back-off."""


def check(world: World) -> None:
    """What holds after every step."""
    assert world.oversold() == {}
    promised = [one.uid for one in world.promised()]
    assert len(promised) == len(set(promised)), "a member is promised in two transactions, or twice in one"
    for one in world.promised():
        bound = world.bound_by.get(one.uid) if world.pod_of(one.uid) is not None else None
        assert bound is None or bound[1] == one.node, "a bound member is promised to another node"


def step(world: World) -> None:
    """Let one thing happen."""
    rng = world.rng
    world.now += timedelta(milliseconds=rng.choice((0, 0, 1, 60, 5000)))
    match rng.randrange(12):
        case 0 | 1 | 2:
            world.disturb()
        case 3 | 4:
            world.publish_changes(rng.randint(1, 4))
        case 5:
            world.read_cluster(rng.randint(1, 6))
        case 6:
            world.read_placement(rng.randint(1, 3))
        case 7 | 8:
            world.decide()
        case 9 | 10:
            world.bind()
        case _:
            if rng.random() < 0.3:
                world.restart(reads_placement_first=rng.random() < 0.5)


def come_to_rest(world: World) -> None:
    """Let everything be told, and every transaction end, until nothing is decided any more."""
    quiet = 0
    for _ in range(ROUNDS_TO_REST):
        before = (len(world.placement_log), len(world.cluster_log))
        world.now += WATCH
        world.bind(is_honest=True)
        world.publish_changes(10_000)
        world.read_cluster(10_000)
        world.read_placement(10_000)
        world.decide()
        check(world)
        is_told = world.binder_read == len(world.placement_log) and not world.work
        is_quiet = is_told and before == (len(world.placement_log), len(world.cluster_log))
        # What arrived in one round is settled in the next.
        quiet = quiet + 1 if is_quiet else 0
        if quiet == QUIET_ROUNDS:
            return
    raise AssertionError("the world does not come to rest")


def overlooked(world: World) -> dict[GangId, Any]:
    """Gangs with open members that a plan of the same state would place."""
    cluster = world.decider.cluster
    gangs = [gang for name in cluster.gang_ids() if (gang := cluster.gang(name)) is not None and gang.open]
    plans = {gang.id: plan([gang], inventory=cluster.inventory)[gang.id] for gang in gangs}
    return {gang: one.bound for gang, one in plans.items() if one.outcome is PlanOutcome.PLACED}


def known(world: World) -> dict[str, Any]:
    """What a decider holds that a successor must know."""
    decider = world.decider
    return {
        "open": {one.id: (one.proposal, one.repairing) for one in decider.ledger.open()},
        "promises": {uid: promise.node for uid, promise in decider.cluster.promises().items()},
    }


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_nothing_is_sold_twice_and_nobody_waits_in_vain(first: int) -> None:
    """Whatever is late, repeated, refused or killed, the world comes to rest with everybody placed who fits."""
    for seed in range(first, first + 50):
        world = World(rng=random.Random(seed))
        try:
            for _ in range(STEPS):
                step(world)
                check(world)
            come_to_rest(world)
            assert world.decider.cluster.promises() == {}
            assert not list(world.decider.ledger.open())
            assert overlooked(world) == {}
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_state_rebuilt_equals_state_followed(first: int) -> None:
    """A decider that has read everything and its successor owe and hold the same, and the successor decides nothing."""
    for seed in range(first, first + 50):
        world = World(rng=random.Random(seed))
        for _ in range(STEPS):
            step(world)
        world.publish_changes(10_000)
        world.read_cluster(10_000)
        world.read_placement(10_000)
        world.now += WATCH
        world.decide()
        followed = known(world)
        world.restart(reads_placement_first=bool(seed % 2))
        assert known(world) == followed, f"seed {seed}"
        world.now += WATCH
        assert not [one for one in world.decide() if isinstance(one.event, Proposed)], f"seed {seed}"
