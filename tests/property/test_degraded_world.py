"""Gangs that lose members again and again, to nodes, kubelets and people, in a late world that kills its decider."""

import random
from datetime import timedelta

import pytest

from services.core.decisions import Degraded
from services.core.objects import Kind, Pod
from tests import builders
from tests.property.decider_world import GROUPS, JOB, NODES, World
from tests.property.test_decider_world import check, come_to_rest, overlooked

STEPS = 150
SEEDS = 40
QUORUM = 3


def make_anew(world: World) -> None:
    """Let the Jobs make the members that are missing, all of one size."""
    for group in GROUPS[:2]:
        alive = {pod.metadata.name for pod in world.pods() if pod.group == group and not pod.is_finished}
        for number in range(QUORUM):
            name = f"{group}-{number}"
            if name not in alive:
                world.truth.pop((Kind.POD, name), None)
                world.write(builders.pod(name, group=group, uid=world.uid(name), owners=(JOB,)))


def step(world: World) -> None:
    """Let one thing happen."""
    rng = world.rng
    world.now += timedelta(milliseconds=rng.choice((0, 1, 60, 1500)))
    match rng.randrange(12):
        case 0:
            rng.choice((world.lose_node, world.reject_pod, world.drop_pod, world.make_node))()
        case 1:
            make_anew(world)
        case 2 | 3:
            world.publish_changes(rng.randint(1, 9))
        case 4 | 5:
            world.read_cluster(rng.randint(1, 9))
        case 6:
            world.read_placement(rng.randint(1, 5))
        case 7 | 8:
            world.decide()
        case 9 | 10:
            world.bind()
        case _:
            if rng.random() < 0.1:
                world.restart(reads_placement_first=rng.random() < 0.5)


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_what_is_lost_is_made_good_where_there_is_room(first: int) -> None:
    """Nothing is sold twice meanwhile; at rest everybody is placed who fits, and what was told is taken back."""
    told = 0
    for seed in range(first, first + 20):
        world = World(rng=random.Random(seed))
        for group in GROUPS[:2]:
            world.write(builders.pod_group(group, min_count=QUORUM, uid=f"uid-{group}"))
        make_anew(world)
        try:
            for _ in range(STEPS):
                step(world)
                check(world)
            for name in NODES:
                if (Kind.NODE, name) not in world.truth:
                    world.write(builders.node(name, gpus=4, uid=world.uid(name)))
            for _ in range(3):
                make_anew(world)
                come_to_rest(world)
            assert overlooked(world) == {}
            unplaced = [pod for pod in world.truth.values() if isinstance(pod, Pod) and pod.group and not pod.node]
            assert not unplaced
            assert not world.decider.ledger.degraded_gangs()
            assert world.decider.mending.count == 0
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        told += sum(isinstance(one.event, Degraded) for one in world.placement_log)
    assert told, "no gang was ever degraded: the test looks at nothing"
