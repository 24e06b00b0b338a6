"""Which of the nodes that can take a pod should: the one whose room stays most useful to the sizes seen lately.

A node's expected waste is read from an outlook (`services.core.outlook`): what CPU or memory will strand, and what will
be left over of shared devices. A node's score for a pod is by how much the pod raises that waste, so the node with the
lowest score is best. Ties are left to the caller, who knows names.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core.outlook import (
    CPU_UNIT,
    MEMORY_UNIT,
    REMAINDER_UNIT,
    REMAINDERS,
    Floats,
    Ints,
    Outlook,
    remainder_waste,
    stranded,
)
from services.core.sizes import Size

DECIMALS = 9
"""Scores are rounded to this, so that the last bits of a processor's arithmetic decide nothing."""
WHOLE = -1
"""In place of a column of shares: a device that is free entirely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What is free on nodes, a row for each. `shares_milli` has the free shares of devices that are in use, 0 for none.

    It has as many columns as the node with the most shared devices needs, and none where no device is shared.
    """

    cpu_milli: Ints
    memory_bytes: Ints
    whole_devices: Ints
    shares_milli: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """For each node how much waste a pod would add, in devices; infinite where it does not fit.

    `device` is the column of the shared device that a share should be taken from, or WHOLE.
    """

    waste: Floats
    device: Ints


def rivals_of(room: Room) -> Ints:
    """Return how many devices have each share free, in units of remainders; those that are free entirely are none."""
    shares = room.shares_milli[room.shares_milli > 0] // REMAINDER_UNIT
    rivals: Ints = np.bincount(shares, minlength=REMAINDERS + 1)
    return rivals


def score(room: Room, *, size: Size, outlook: Outlook, counts: NDArray[np.int64] | int = 1) -> Scores:
    """Score nodes for `counts` pods of a size on each of them, or one pod where it takes a share of a device.

    The result is of all pods of a node together; where they do not fit together it is infinite.
    """
    remainders = remainder_waste(outlook, rivals=rivals_of(room))
    cpu, memory = room.cpu_milli - size.cpu_milli * counts, room.memory_bytes - size.memory_bytes * counts
    whole = room.whole_devices - size.devices * counts
    free_milli = 1000 * room.whole_devices + room.shares_milli.sum(axis=1)
    fits = (cpu >= 0) & (memory >= 0) & (whole >= 0)
    added = -remainders[REMAINDERS] * size.devices * np.broadcast_to(counts, cpu.shape)
    device = np.full(len(cpu), WHOLE, dtype=np.int64)
    if size.share_milli:
        added, device = _share(room, remainders, share_milli=size.share_milli)
    before = _stranded(outlook, cpu=room.cpu_milli, memory=room.memory_bytes, device_milli=free_milli)
    after = _stranded(outlook, cpu=cpu, memory=memory, device_milli=free_milli - size.device_milli * counts)
    waste = np.where(fits, np.round(added + after - before, DECIMALS), np.inf)
    return Scores(waste=waste, device=device)


def _share(room: Room, remainders: Floats, *, share_milli: int) -> tuple[Floats, Ints]:
    """Return the waste that taking a share adds at the best device of each node, and that device."""
    free_milli = np.arange(REMAINDERS + 1) * REMAINDER_UNIT
    left = (free_milli - share_milli) // REMAINDER_UNIT
    added = np.where(left >= 0, remainders[left] - remainders, np.inf)
    by_device = np.concatenate(
        (
            # A device in use is at most nearly free, and one that is free entirely has its own column.
            added[np.minimum(room.shares_milli // REMAINDER_UNIT, REMAINDERS)],
            np.where(room.whole_devices > 0, added[REMAINDERS], np.inf)[:, None],
        ),
        axis=1,
    )
    device = by_device.argmin(axis=1)
    best = np.take_along_axis(by_device, device[:, None], axis=1)[:, 0]
    return best, np.where(device == room.shares_milli.shape[1], WHOLE, device)


def _stranded(outlook: Outlook, *, cpu: Ints, memory: Ints, device_milli: Ints) -> Floats:
    """Return the devices that CPU or memory will strand, whichever is the scarcer."""
    by_cpu = stranded(outlook.stranded_by_cpu, rows=cpu / CPU_UNIT, device_milli=device_milli)
    by_memory = stranded(outlook.stranded_by_memory, rows=memory / MEMORY_UNIT, device_milli=device_milli)
    return np.maximum(by_cpu, by_memory)
