"""What holds for every score: only what fits is scored, and neither order nor history matters."""

from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from services.core.outlook import outlook_of
from services.core.scoring import WHOLE, Room, score
from services.core.sizes import Size, SizeMix

GPU = "example.com/gpu"
GIB = 2**30
START = datetime(2026, 1, 1, tzinfo=UTC)

SHARES = st.integers(1, 99).map(lambda tenths: 10 * tenths)
SIZES = st.builds(
    lambda cpu, memory, kind: Size(
        cpu_milli=cpu,
        memory_bytes=memory * GIB,
        resource=GPU if any(kind) else "",
        devices=kind[0],
        share_milli=kind[1],
    ),
    st.integers(0, 40_000),
    st.integers(0, 300),
    st.one_of(st.just((0, 0)), st.tuples(st.integers(1, 8), st.just(0)), st.tuples(st.just(0), SHARES)),
)
NODES = st.tuples(
    st.integers(-1000, 300_000),
    st.integers(0, 2000),
    st.integers(0, 16),
    st.lists(st.one_of(st.just(0), SHARES), max_size=4),
)
MIXES = st.dictionaries(SIZES, st.integers(1, 100), max_size=6)


def room_of(nodes: list[tuple[int, int, int, list[int]]]) -> Room:
    """Return the nodes as arrays."""
    return Room(
        cpu_milli=np.array([cpu for cpu, _, _, _ in nodes]),
        memory_bytes=np.array([memory * GIB for _, memory, _, _ in nodes]),
        whole_devices=np.array([whole for _, _, whole, _ in nodes]),
        shares_milli=np.array([[*shares, *[0] * (4 - len(shares))] for _, _, _, shares in nodes]),
    )


@given(nodes=st.lists(NODES, min_size=1, max_size=8), size=SIZES, mix=MIXES)
def test_finite_means_that_it_fits(
    nodes: list[tuple[int, int, int, list[int]]], size: Size, mix: dict[Size, int]
) -> None:
    """A score is finite exactly where CPU, memory and devices suffice, and it names a device that does."""
    scores = score(room_of(nodes), size=size, outlook=outlook_of(mix, resource=GPU))
    for row, (cpu, memory, whole, shares) in enumerate(nodes):
        fits = cpu >= size.cpu_milli and memory * GIB >= size.memory_bytes and whole >= size.devices
        if size.share_milli:
            fits = fits and (whole > 0 or max(shares, default=0) >= size.share_milli)
        assert np.isfinite(scores.waste[row]) == fits
        device = int(scores.device[row])
        if fits and size.share_milli:
            assert whole > 0 if device == WHOLE else shares[device] >= size.share_milli


@given(nodes=st.lists(NODES, min_size=2, max_size=8), size=SIZES, mix=MIXES, data=st.data())
def test_equal_nodes_score_equally_in_any_order(
    nodes: list[tuple[int, int, int, list[int]]], size: Size, mix: dict[Size, int], data: st.DataObject
) -> None:
    """A node's score does not depend on its row."""
    outlook = outlook_of(mix, resource=GPU)
    order = data.draw(st.permutations(range(len(nodes))))
    straight = score(room_of(nodes), size=size, outlook=outlook).waste
    turned = score(room_of([nodes[row] for row in order]), size=size, outlook=outlook).waste
    assert turned.tolist() == straight[list(order)].tolist()


@given(
    pods=st.lists(st.tuples(SIZES, st.integers(0, 100), st.booleans()), max_size=30),
    data=st.data(),
)
def test_a_mix_rebuilt_equals_one_that_followed(pods: list[tuple[Size, int, bool]], data: st.DataObject) -> None:
    """Pods that are gone leave nothing behind, and those that stay count the same in any order."""
    followed, rebuilt = SizeMix(), SizeMix()
    for size, hour, _ in pods:
        followed.add(size, created_at=START + timedelta(hours=hour))
    for size, hour, stays in pods:
        if not stays:
            followed.remove(size, created_at=START + timedelta(hours=hour))
    for size, hour, stays in data.draw(st.permutations(pods)):
        if stays:
            rebuilt.add(size, created_at=START + timedelta(hours=hour))
    assert list(followed.coarse().items()) == list(rebuilt.coarse().items())
