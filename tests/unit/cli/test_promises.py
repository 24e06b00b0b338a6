"""The demo's judgements: each promise is held by a story that goes well, and broken by one that does not."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from services.cli.demo import promises
from services.cli.demo.promises import GRACE_S, Promise
from services.core.decisions import Committed
from tests.unit.cli.scene import (
    OTHER,
    TRAIN,
    Scene,
    assignments,
    proposed,
    refused,
    repairing,
    rolled_back,
    waiting,
)

Story = Callable[[Scene], Promise]


def test_whole_placement() -> None:
    """Every member is bound, by one transaction."""
    scene = Scene()
    scene.place(TRAIN)
    promise = promises.placed_whole(scene.witness, TRAIN)
    assert promise.is_held
    assert promise.happened == "4 bound, 0 finished, commits: 1"


def partly_bound(scene: Scene) -> Promise:
    """One member was left out."""
    scene.create(TRAIN)
    scene.bind(TRAIN, 0, 1, 2)
    scene.hear(TRAIN, Committed(members=assignments(TRAIN, count=3)))
    return promises.placed_whole(scene.witness, TRAIN)


def committed_twice(scene: Scene) -> Promise:
    """It took two transactions."""
    scene.place(TRAIN)
    scene.hear(TRAIN, Committed(members=assignments(TRAIN)), transaction="again")
    return promises.placed_whole(scene.witness, TRAIN)


def never_committed(scene: Scene) -> Promise:
    """Nobody said that it was done."""
    scene.create(TRAIN)
    scene.bind(TRAIN)
    return promises.placed_whole(scene.witness, TRAIN)


def one_after_the_other(scene: Scene) -> Promise:
    """The gangs did not come mixed."""
    scene.create(TRAIN)
    scene.after(1)
    scene.create(OTHER)
    return promises.interleaved(scene.witness, TRAIN, OTHER)


def ran_beside_the_other(scene: Scene) -> Promise:
    """One pod was bound while the other gang still ran."""
    scene.place(TRAIN)
    scene.create(OTHER)
    scene.after(1)
    scene.finish(TRAIN, 0, 1, 2)
    scene.bind(OTHER, 0)
    scene.after(1)
    scene.finish(TRAIN, 3)
    return promises.waits_for(scene.witness, OTHER, TRAIN)


def waited_for_nothing(scene: Scene) -> Promise:
    """The other gang never ended."""
    scene.place(TRAIN)
    scene.create(OTHER)
    return promises.waits_for(scene.witness, OTHER, TRAIN)


def said_nothing_on_the_bus(scene: Scene) -> Promise:
    """Only the PodGroup says why."""
    scene.create(TRAIN)
    return promises.says_why(scene.witness, TRAIN, condition=CONDITION)


def said_nothing_in_the_cluster(scene: Scene) -> Promise:
    """Only the bus says why."""
    scene.create(TRAIN)
    scene.hear(TRAIN, waiting())
    return promises.says_why(scene.witness, TRAIN, condition={})


def said_that_it_runs(scene: Scene) -> Promise:
    """The condition says the opposite."""
    scene.create(TRAIN)
    scene.hear(TRAIN, waiting())
    return promises.says_why(scene.witness, TRAIN, condition=CONDITION | {"status": "True"})


def not_repaired(scene: Scene) -> Promise:
    """It committed with a member that never moved."""
    scene.place(TRAIN)
    return promises.repaired(scene.witness, TRAIN)


def repaired_with_a_loss(scene: Scene) -> Promise:
    """A bound pod was deleted on the way."""
    scene.create(TRAIN)
    scene.hear(TRAIN, proposed(TRAIN))
    scene.hear(TRAIN, repairing(TRAIN))
    scene.bind(TRAIN)
    scene.delete(TRAIN, 0)
    scene.hear(TRAIN, Committed(members=assignments(TRAIN), repaired=1))
    return promises.repaired(scene.witness, TRAIN)


def undone_in_part(scene: Scene) -> Promise:
    """A bound pod was left behind."""
    scene.create(TRAIN)
    scene.hear(TRAIN, proposed(TRAIN))
    scene.bind(TRAIN, 0, 1, 2)
    scene.delete(TRAIN, 0, 1)
    scene.hear(TRAIN, rolled_back(TRAIN, undone=2))
    return promises.undone_whole(scene.witness, TRAIN)


def undone_without_saying(scene: Scene) -> Promise:
    """The pods went, but no decision says so."""
    scene.create(TRAIN)
    scene.bind(TRAIN, 0, 1, 2)
    scene.delete(TRAIN)
    return promises.undone_whole(scene.witness, TRAIN)


def partial_before_its_transaction(scene: Scene) -> Promise:
    """Pods were bound while nobody had decided anything."""
    scene.create(TRAIN)
    scene.bind(TRAIN, 0)
    scene.after(GRACE_S + 0.1)
    scene.hear(TRAIN, proposed(TRAIN))
    return promises.never_partial(scene.witness, (TRAIN,))


def partial_after_its_transaction(scene: Scene) -> Promise:
    """The commit came, and one member was missing for longer than two connections disagree."""
    scene.create(TRAIN)
    scene.hear(TRAIN, proposed(TRAIN))
    scene.bind(TRAIN, 0, 1, 2)
    scene.hear(TRAIN, Committed(members=assignments(TRAIN, count=3)))
    scene.after(GRACE_S + 0.1)
    scene.bind(TRAIN, 3)
    return promises.never_partial(scene.witness, (OTHER, TRAIN))


def partial_after_an_undo(scene: Scene) -> Promise:
    """Half of it was deleted, and the rest stayed."""
    scene.place(TRAIN)
    scene.after(1)
    scene.delete(TRAIN, 0, 1)
    scene.after(GRACE_S + 0.1)
    scene.hear(OTHER, waiting())
    return promises.never_partial(scene.witness, (TRAIN,))


def sold_twice(scene: Scene) -> Promise:
    """Twelve pods of one GPU on a node of eight."""
    big = replace(TRAIN, members=12)
    scene.place(big)
    return promises.never_sold_twice(scene.witness)


def sold_nothing(scene: Scene) -> Promise:
    """A demo in which nothing ran proves nothing."""
    scene.create(TRAIN)
    return promises.never_sold_twice(scene.witness)


def never_ended(scene: Scene) -> Promise:
    """A transaction was begun and nothing more was heard of it."""
    scene.hear(TRAIN, proposed(TRAIN))
    return promises.ended_once(scene.witness)


def ended_twice(scene: Scene) -> Promise:
    """Two services disagree about how it ended."""
    scene.place(TRAIN)
    scene.hear(TRAIN, refused())
    return promises.ended_once(scene.witness)


CONDITION = {"status": "False", "message": "0 of the 4 needed pods can be placed; each needs 1 nvidia.com/gpu"}


@pytest.mark.parametrize(
    "story",
    [
        partly_bound,
        committed_twice,
        never_committed,
        one_after_the_other,
        ran_beside_the_other,
        waited_for_nothing,
        said_nothing_on_the_bus,
        said_nothing_in_the_cluster,
        said_that_it_runs,
        not_repaired,
        repaired_with_a_loss,
        undone_in_part,
        undone_without_saying,
        partial_before_its_transaction,
        partial_after_its_transaction,
        partial_after_an_undo,
        sold_twice,
        sold_nothing,
        never_ended,
        ended_twice,
    ],
)
def test_broken_promise_is_called_broken(story: Story) -> None:
    """Every judgement can fail; and it says what was promised and what happened."""
    promise = story(Scene())
    assert not promise.is_held
    assert promise.text
    assert promise.happened


def test_interleaved_arrival() -> None:
    """Neither gang came first as a whole."""
    scene = Scene()
    for index in range(4):
        scene.create(TRAIN, count=1, first=index)
        scene.after(0.1)
        scene.create(OTHER, count=1, first=index)
        scene.after(0.1)
    promise = promises.interleaved(scene.witness, TRAIN, OTHER)
    assert (promise.is_held, promise.happened) == (True, "they alternated 7 times")


def two_in_turn() -> Scene:
    """One gang runs; the other waits, says why, and then runs on the same GPUs."""
    scene = Scene()
    scene.place(TRAIN)
    scene.create(OTHER)
    scene.hear(OTHER, waiting())
    scene.after(3)
    scene.finish(TRAIN)
    scene.after(0.1)
    scene.hear(OTHER, proposed(OTHER), transaction="tx-2")
    scene.bind(OTHER)
    scene.hear(OTHER, Committed(members=assignments(OTHER)), transaction="tx-2")
    scene.after(1)
    scene.finish(OTHER)
    return scene


def test_two_gangs_in_turn() -> None:
    """A story that goes well holds everything that is promised about it."""
    witness = two_in_turn().witness
    judged = [
        promises.placed_whole(witness, TRAIN),
        promises.placed_whole(witness, OTHER),
        promises.waits_for(witness, OTHER, TRAIN),
        promises.says_why(witness, OTHER, condition=CONDITION),
        promises.never_partial(witness, (TRAIN, OTHER)),
        promises.never_sold_twice(witness),
        promises.ended_once(witness),
    ]
    assert [promise.text for promise in judged if not promise.is_held] == []


def test_times_of_two_gangs_in_turn() -> None:
    """From the last pod to the last binding, and from the last free GPU to the first binding."""
    witness = two_in_turn().witness
    bind = promises.bind_time(witness, TRAIN, goal_s=0.3)
    assert (round(bind.measured_s, 3), bind.goal_s) == (0.2, 0.3)
    take_over = promises.take_over_time(witness, OTHER, TRAIN, goal_s=None)
    assert (round(take_over.measured_s, 3), take_over.goal_s) == (0.1, None)


def test_repair_around_a_refusal() -> None:
    """One member moved, and nothing was lost."""
    scene = Scene()
    scene.create(TRAIN)
    scene.hear(TRAIN, proposed(TRAIN))
    scene.bind(TRAIN, 0, 1, 2)
    scene.hear(TRAIN, repairing(TRAIN))
    scene.after(2 * GRACE_S)
    scene.bind(TRAIN, 3, node="n2")
    scene.hear(TRAIN, Committed(members=assignments(TRAIN), repaired=1))
    assert promises.repaired(scene.witness, TRAIN).is_held
    # Partly bound for long, but inside its transaction.
    assert promises.never_partial(scene.witness, (TRAIN,)).is_held


def test_undo_of_a_gang_that_cannot_be_repaired() -> None:
    """All that was bound is taken back, and the next try is refused."""
    scene = Scene()
    scene.create(TRAIN)
    scene.hear(TRAIN, proposed(TRAIN))
    scene.bind(TRAIN, 0, 1, 2)
    scene.delete(TRAIN)
    scene.hear(TRAIN, rolled_back(TRAIN, undone=3))
    scene.hear(TRAIN, proposed(TRAIN), transaction="tx-2")
    scene.hear(TRAIN, refused(), transaction="tx-2")
    assert promises.undone_whole(scene.witness, TRAIN).is_held
    assert promises.ended_once(scene.witness).is_held


def test_short_disagreement_of_two_connections_is_no_fault() -> None:
    """The commit was heard before the last binding was seen."""
    scene = Scene()
    scene.create(TRAIN)
    scene.hear(TRAIN, proposed(TRAIN))
    scene.bind(TRAIN, 0, 1, 2)
    scene.hear(TRAIN, Committed(members=assignments(TRAIN)))
    scene.after(GRACE_S / 2)
    scene.bind(TRAIN, 3)
    assert promises.never_partial(scene.witness, (TRAIN,)).is_held


def test_finished_pods_hold_no_gpu() -> None:
    """The same node may be sold again after them, and after deleted ones once they are gone."""
    scene = Scene()
    big = replace(TRAIN, members=8)
    scene.place(big)
    scene.after(1)
    scene.finish(big, 0, 1, 2, 3)
    scene.delete(big, 4, 5, 6, 7)
    scene.after(1)
    scene.place(replace(OTHER, members=8), transaction="tx-2")
    promise = promises.never_sold_twice(scene.witness)
    assert (promise.is_held, promise.happened) == (True, "at most 8 in use, on n1")
