"""Scenarios of which node should take a pod, with values that can be worked out by hand."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from services.core.outlook import REMAINDERS, outlook_of, remainder_waste, stranded
from services.core.scoring import WHOLE, Room, rivals_of, score
from services.core.sizes import COARSE_TOTAL, Size, SizeMix

GPU = "example.com/gpu"
GIB = 2**30
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NO_RIVALS = np.zeros(REMAINDERS + 1, dtype=np.int64)


def whole(*, cpu: int, gpus: int = 1, memory_gib: int = 4) -> Size:
    """Return a size that takes whole GPUs."""
    return Size(cpu_milli=1000 * cpu, memory_bytes=memory_gib * GIB, resource=GPU, devices=gpus)


def share(milli: int, *, cpu: int = 1) -> Size:
    """Return a size that takes a share of one GPU."""
    return Size(cpu_milli=1000 * cpu, memory_bytes=GIB, resource=GPU, share_milli=milli)


def room(*rows: tuple[int, int], shares: tuple[tuple[int, ...], ...] | None = None) -> Room:
    """Return nodes with these free CPUs and GPUs, 512 GiB each."""
    return Room(
        cpu_milli=np.array([1000 * cpu for cpu, _ in rows]),
        memory_bytes=np.array([512 * GIB for _ in rows]),
        whole_devices=np.array([gpus for _, gpus in rows]),
        shares_milli=np.array(shares if shares is not None else [() for _ in rows], dtype=np.int64),
    )


def test_a_heavy_pod_goes_where_cpu_is_plenty() -> None:
    """A pod of 20 CPUs would strand GPUs of a node with 12 CPUs for each, and none of one with 52."""
    outlook = outlook_of({whole(cpu=12): 4, whole(cpu=20): 1}, resource=GPU)
    scores = score(room((96, 8), (104, 2)), size=whole(cpu=20), outlook=outlook)
    assert scores.waste.argmin() == 1
    assert scores.waste[1] <= 0


def test_a_pod_without_gpus_goes_where_it_strands_none() -> None:
    """A pod of 16 CPUs takes the CPUs of one GPU of the first node; the second has no GPU left to strand."""
    outlook = outlook_of({whole(cpu=12): 1}, resource=GPU)
    scores = score(room((96, 8), (96, 0)), size=Size(cpu_milli=16_000), outlook=outlook)
    assert scores.waste.tolist() == [pytest.approx(2.0, abs=0.35), 0.0]


def test_a_share_completes_a_gpu_rather_than_opening_one() -> None:
    """Of a GPU with exactly the share free, one with more, and one that is free, the first is best."""
    outlook = outlook_of({share(300): 1, share(700): 1, whole(cpu=1): 1}, resource=GPU)
    nodes = room((64, 0), (64, 0), (64, 1), shares=((300,), (700,), (0,)))
    scores = score(nodes, size=share(300), outlook=outlook)
    assert scores.waste.argmin() == 0
    assert scores.device.tolist() == [0, 0, WHOLE]


def test_the_gpu_of_a_node_is_chosen_too() -> None:
    """Of a node's shared GPUs the one that is left with nothing is taken, whatever its place."""
    outlook = outlook_of({share(300): 1, share(500): 1}, resource=GPU)
    scores = score(room((64, 1), shares=((500, 300, 0),)), size=share(300), outlook=outlook)
    assert scores.device.tolist() == [1]


@pytest.mark.parametrize(
    "size",
    [whole(cpu=9), whole(cpu=1, gpus=3), whole(cpu=1, memory_gib=513), share(600, cpu=9)],
    ids=["cpu", "gpus", "memory", "share and cpu"],
)
def test_what_does_not_fit_is_infinite(size: Size) -> None:
    """CPU, memory and GPUs are hard limits, each by itself."""
    scores = score(room((8, 2)), size=size, outlook=outlook_of({size: 1}, resource=GPU))
    assert np.isinf(scores.waste).all()


def test_a_share_does_not_fit_on_two_gpus_together() -> None:
    """600 thousandths are free, on two GPUs."""
    nodes = room((8, 0), shares=((300, 300),))
    assert np.isinf(score(nodes, size=share(600), outlook=outlook_of({share(600): 1}, resource=GPU)).waste).all()


def test_whole_pods_are_scored_together() -> None:
    """Counts are of all pods of a node: four of two GPUs fit on eight, five do not."""
    outlook = outlook_of({whole(cpu=2, gpus=2): 1}, resource=GPU)
    scores = score(room((64, 8), (64, 8)), size=whole(cpu=2, gpus=2), outlook=outlook, counts=np.array([4, 5]))
    assert np.isfinite(scores.waste).tolist() == [True, False]


def test_without_a_mix_every_gpu_counts_as_wasted_until_it_is_taken() -> None:
    """Nothing has arrived: each GPU that is taken is one less to be wasted, on every node alike."""
    scores = score(room((96, 8), (10, 1)), size=whole(cpu=1), outlook=outlook_of({}, resource=GPU))
    assert scores.waste[0] == scores.waste[1]


def test_nodes_larger_than_the_table_are_scaled() -> None:
    """Sixteen GPUs with twice the CPUs strand twice as many as eight."""
    table = outlook_of({whole(cpu=12): 1}, resource=GPU).stranded_by_cpu
    small, large = stranded(table, rows=np.array([24.0, 48.0]), device_milli=np.array([8000, 16000]))
    assert small == pytest.approx(6.0)
    assert large == pytest.approx(12.0)


def test_rivals_take_the_hope_of_a_remainder() -> None:
    """Beside many equal remainders a rare filler helps little; the one that is left counts as lost."""
    outlook = outlook_of({share(100): 1, share(900): 99}, resource=GPU)
    rivals = NO_RIVALS.copy()
    rivals[10] = 1000
    lonely, crowded = remainder_waste(outlook, rivals=NO_RIVALS)[10], remainder_waste(outlook, rivals=rivals)[10]
    assert lonely < 0.05
    assert crowded > 0.09


def test_rivals_are_counted_by_what_is_free() -> None:
    """GPUs that are full or entirely free are nobody's rivals."""
    rivals = rivals_of(room((8, 1), (8, 0), shares=((190, 0), (190, 500))))
    assert rivals[19] == 2
    assert rivals[50] == 1
    assert rivals.sum() == 3


def test_the_mix_is_that_of_the_pods_that_exist() -> None:
    """Whatever came and went, and in whatever order, equal pods make an equal mix."""
    one, other = SizeMix(), SizeMix()
    for size in (whole(cpu=1), whole(cpu=2), whole(cpu=3)):
        one.add(size, created_at=NOON)
    for size in (whole(cpu=3), whole(cpu=2), whole(cpu=9), whole(cpu=1)):
        other.add(size, created_at=NOON)
    other.remove(whole(cpu=9), created_at=NOON)
    assert one.coarse() == other.coarse() == dict.fromkeys((whole(cpu=1), whole(cpu=2), whole(cpu=3)), 32)


def test_an_old_pod_weighs_less() -> None:
    """A pod of a day ago weighs half of one of now, and one of two months ago nothing."""
    mix = SizeMix()
    mix.add(whole(cpu=1), created_at=NOON)
    mix.add(whole(cpu=2), created_at=NOON - timedelta(days=1))
    mix.add(whole(cpu=3), created_at=NOON - timedelta(days=60))
    coarse = mix.coarse()
    assert coarse[whole(cpu=1)] == 2 * coarse[whole(cpu=2)]
    assert whole(cpu=3) not in coarse


def test_pods_without_devices_are_not_in_the_mix() -> None:
    """Nothing has to be kept for them but what devices need."""
    mix = SizeMix()
    mix.add(Size(cpu_milli=8000), created_at=NOON)
    assert not mix.coarse()


def test_a_copy_is_a_mix_of_its_own() -> None:
    """What is imagined leaves the cluster's mix as it is."""
    mix = SizeMix()
    mix.add(whole(cpu=1), created_at=NOON)
    twin = mix.copy()
    twin.add(whole(cpu=2), created_at=NOON)
    assert set(mix.coarse()) == {whole(cpu=1)}
    assert set(twin.coarse()) == {whole(cpu=1), whole(cpu=2)}


def test_few_of_many_pods_do_not_change_the_coarse_mix() -> None:
    """Another pod beside thousands leaves the mix as it was, so that nothing is computed anew."""
    mix = SizeMix()
    for _ in range(5000):
        mix.add(whole(cpu=1), created_at=NOON)
    before = mix.coarse()
    mix.add(whole(cpu=2), created_at=NOON)
    assert mix.coarse() == before
    assert COARSE_TOTAL // 2 <= sum(before.values()) <= COARSE_TOTAL
