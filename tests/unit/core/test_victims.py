"""Pods of lower priority make room for a gang that has no place otherwise: as few, and as unimportant, as possible."""

from dataclasses import replace

from services.core.cluster import Cluster
from services.core.gangs import Gang
from services.core.kin import kin_in
from services.core.objects import GangId, Pod, PodGroup
from services.core.solver import Placement, Refusal
from services.core.trying import try_gang
from tests.builders import applied, gang, node, pod, pod_group


def cluster(*objects: Pod | PodGroup, nodes: int = 2, gpus: int = 8) -> Cluster:
    """Nodes of eight GPUs, with these objects."""
    made = Cluster()
    for index in range(nodes):
        made.apply(applied(node(f"n{index}", gpus=gpus)), revision=1)
    for one in objects:
        made.apply(applied(one), revision=1)
    return made


def runs(name: str, *, on: str, gpus: int = 8, priority: int = 1, group: str = "", age: int = 0) -> Pod:
    """A pod that runs."""
    found = pod(name, namespace="b", node=on, gpus=gpus, priority=priority, group=group)
    return replace(
        found, metadata=replace(found.metadata, created_at=found.metadata.created_at.replace(minute=30 - age))
    )


def placed(item: Gang, where: Cluster) -> Placement:
    """The placement of a gang that gets room."""
    snapshot = where.snapshot(item.open)
    answer = try_gang(item, snapshot, kin_of=kin_in(where))
    assert isinstance(answer, Placement)
    return answer


def victims(item: Gang, where: Cluster) -> list[str]:
    """The names of the pods that have to go for a gang."""
    return sorted(one.pod for one in placed(item, where).victims)


def test_those_of_the_lowest_priority_that_suffices_go() -> None:
    """Three nodes are held; the least important pods are evicted, and the more important one is left alone."""
    where = cluster(
        runs("low", on="n0", priority=1),
        runs("high", on="n1", priority=50),
        runs("middle", on="n2", priority=10),
        nodes=3,
    )
    assert victims(gang(size=1, gpus=8, priority=100), where) == ["low"]
    assert victims(gang(size=2, gpus=8, priority=100), where) == ["low", "middle"]


def test_nobody_goes_whose_place_is_not_needed() -> None:
    """Of four pods on a node one GPU is needed beside what is free: the youngest of the least important goes."""
    where = cluster(
        *(runs(f"small-{index}", on="n0", gpus=2, priority=1 + index // 2, age=index) for index in range(4)), nodes=1
    )
    assert victims(gang(size=1, gpus=1, priority=100), where) == ["small-0"]
    assert victims(gang(size=1, gpus=3, priority=100), where) == ["small-0", "small-1"]


def test_nobody_goes_where_there_is_room() -> None:
    """A free node is taken before anybody is evicted."""
    where = cluster(runs("low", on="n0"))
    assert placed(gang(size=1, gpus=8, priority=100), where).victims == ()


def test_nobody_goes_in_vain() -> None:
    """Where it would not be enough, nobody is evicted."""
    where = cluster(runs("low", on="n0"), runs("vital", on="n1", priority=1000))
    item = gang(size=2, gpus=8, priority=100)
    assert isinstance(try_gang(item, where.snapshot(item.open), kin_of=kin_in(where)), Refusal)


def test_a_gang_goes_whole() -> None:
    """Two members are needed by their gang: with the one whose place is taken the other goes too, by its gang."""
    where = cluster(
        pod_group("two", namespace="b", min_count=2, priority=1),
        runs("two-0", on="n0", group="two"),
        runs("two-1", on="n1", group="two"),
    )
    found = placed(gang(size=1, gpus=8, priority=100), where).victims
    assert sorted((one.pod, one.node, one.gang) for one in found) == [
        ("two-0", "n0", GangId("podgroup/b/two")),
        ("two-1", "n1", GangId("podgroup/b/two")),
    ]


def test_members_beyond_what_a_gang_needs_go_alone() -> None:
    """An elastic gang of three that needs two gives up one."""
    where = cluster(
        pod_group("elastic", namespace="b", min_count=2, priority=1),
        *(runs(f"elastic-{index}", on=f"n{index}", group="elastic") for index in range(3)),
        nodes=3,
    )
    assert len(victims(gang(size=1, gpus=8, priority=100), where)) == 1


def test_a_group_that_is_disrupted_as_one_goes_whole() -> None:
    """`disruptionMode: PodGroup`, although its members need nobody."""
    group = replace(pod_group("all", namespace="b", min_count=1, priority=1), disrupts_all=True)
    where = cluster(group, runs("all-0", on="n0", group="all"), runs("all-1", on="n1", group="all"))
    assert victims(gang(size=1, gpus=8, priority=100), where) == ["all-0", "all-1"]


def test_a_single_pod_goes_before_a_gang() -> None:
    """Of equal priority the one whose going ends the fewest pods."""
    where = cluster(
        pod_group("two", namespace="b", min_count=2, priority=1),
        runs("two-0", on="n0", gpus=4, group="two"),
        runs("two-1", on="n1", group="two"),
        runs("alone", on="n0", gpus=4),
    )
    assert victims(gang(size=1, gpus=4, priority=100), where) == ["alone"]


def test_a_busy_gang_is_left_alone() -> None:
    """Its transaction, or its repair, goes on."""
    where = cluster(runs("low", on="n0"), nodes=1)
    item = gang(size=1, gpus=8, priority=100)
    kin_of = kin_in(where, is_busy=lambda _gang: True)
    assert isinstance(try_gang(item, where.snapshot(item.open), kin_of=kin_of), Refusal)


def test_places_that_are_promised_are_nobody_elses() -> None:
    """On one snapshot the next gang does not get the same victims, and evicts nobody who is not there."""
    where = cluster(runs("low", on="n0"), runs("lower", on="n1", priority=0))
    first, second = gang("one", size=1, gpus=8, priority=100), gang("two", size=1, gpus=8, priority=100)
    third = gang("three", size=1, gpus=8, priority=100)
    snapshot = where.snapshot((*first.open, *second.open, *third.open))
    answers = [try_gang(one, snapshot, kin_of=kin_in(where)) for one in (first, second, third)]
    names = [[each.pod for each in one.victims] for one in answers if isinstance(one, Placement)]
    assert names == [["lower"], ["low"]]
    assert isinstance(answers[2], Refusal)


def test_a_large_gang_is_looked_at_once() -> None:
    """However many of its members are in the way: else the time would grow with the square of their number."""
    looks: list[GangId] = []

    class Counted(Cluster):
        """Notes which gangs are put together."""

        def gang(self, gang: GangId, *, is_crowd: bool = False) -> Gang | None:
            """Return a gang, and note it."""
            looks.append(gang)
            return super().gang(gang, is_crowd=is_crowd)

    where = Counted()
    for item in (node("n0", gpus=8), pod_group("all", namespace="b", min_count=8, priority=1)):
        where.apply(applied(item), revision=1)
    for index in range(8):
        where.apply(applied(runs(f"all-{index}", on="n0", gpus=1, group="all")), revision=1)
    assert len(victims(gang(size=8, gpus=1, priority=100), where)) == 8
    assert looks == [GangId("podgroup/b/all")]
