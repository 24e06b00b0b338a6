"""How much of the devices that are free will be wasted, for a mix of sizes: the ground on which nodes are scored.

Two ways of waste are told apart. *Stranded* devices are free where CPU or memory has run out: for each pair of free CPU
(or memory) and free devices a table has the waste to be expected once the node has been filled. *Remainders* are shares
of a device that nobody asks for: for each remainder a table has the waste to be expected of it.

Both are expectations over fillings in which the next pod is drawn from the mix among those that fit. A placer does not
draw: it puts a pod where it wastes least. So fillings that waste less weigh more, by exp(-waste / temperature); at a
high temperature the table is the average over random fillings, at zero that of the best filling. In terms of
exp(-waste / temperature) the recursion is linear, which is what makes it cheap.

A remainder waits for a pod of the right size beside all other equal remainders. Each of them lowers the hope of the
others, so a share that everybody has left counts as lost, and a rare one as useful.

The idea of weighing what a placement wastes by the mix of sizes is that of fragmentation gradient descent (Weng et al.,
"Beware of Fragmentation", USENIX ATC 2023), which looks one pod ahead.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from services.core.sizes import Size

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CPU_UNIT = 1000
"""Milli-CPU of a row of the table."""
CPU_ROWS = 128
MEMORY_UNIT = 4 * 2**30
"""Bytes of a row of the table."""
MEMORY_ROWS = 256
STRAND_UNIT = 50
"""Thousandths of a device of a column of the tables."""
STRAND_COLUMNS = 160
"""Eight devices; larger nodes are scaled down to that."""
REMAINDER_UNIT = 10
"""Thousandths of a device by which remainders are told apart."""
REMAINDERS = 1000 // REMAINDER_UNIT

STRAND_TEMPERATURE = 0.1
REMAINDER_TEMPERATURE = 0.04
LEFT_ALONE = 0.005
"""Weight, beside all sizes together, of the case that nothing more comes for a remainder."""
REMEMBERED = 16
"""Outlooks that are kept."""
RIVALRY = 0.01
"""What each equal remainder adds to that weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Expected waste in devices, for one resource and one mix.

    `stranded_by_cpu` and `stranded_by_memory` have a row per unit of CPU or memory and a column per unit of devices.
    `sizes` and `weights` are the shares asked for, in units of remainders, for `remainder_waste`; `unrivalled` is what
    that gives where no device is shared.
    """

    stranded_by_cpu: Floats
    stranded_by_memory: Floats
    sizes: Ints
    weights: Floats
    unrivalled: Floats


def outlook_of(mix: Mapping[Size, int], *, resource: str) -> Outlook:
    """Return what is to be expected of this mix for one resource; sizes that take no device of it are passed over.

    The last few answers are remembered: a coarse mix is the same most of the time.
    """
    return _outlook(
        tuple(sorted(item for item in mix.items() if item[0].resource == resource and item[0].device_milli))
    )


@lru_cache(maxsize=REMEMBERED)
def _outlook(mix: tuple[tuple[Size, int], ...]) -> Outlook:
    asking = [size for size, _ in mix]
    weights = np.array([count for _, count in mix], dtype=np.float64)
    devices = _units([size.device_milli for size in asking], unit=STRAND_UNIT)
    single = _units([size.share_milli or 1000 for size in asking], unit=REMAINDER_UNIT)
    singles, place = np.unique(single, return_inverse=True)
    by_single = np.zeros(len(singles))
    np.add.at(by_single, place, weights)
    return Outlook(
        stranded_by_cpu=_stranded(
            _units([size.cpu_milli for size in asking], unit=CPU_UNIT), devices, weights, rows=CPU_ROWS
        ),
        stranded_by_memory=_stranded(
            _units([size.memory_bytes for size in asking], unit=MEMORY_UNIT), devices, weights, rows=MEMORY_ROWS
        ),
        sizes=singles,
        weights=by_single,
        unrivalled=_remainder_waste(singles, by_single, rivals=np.zeros(REMAINDERS + 1, dtype=np.int64)),
    )


def remainder_waste(outlook: Outlook, *, rivals: Ints) -> Floats:
    """Return the expected waste of a device by the share of it that is free, in units, from none to a whole one.

    `rivals` has the number of devices that have each share free.
    """
    return _remainder_waste(outlook.sizes, outlook.weights, rivals=rivals) if rivals.any() else outlook.unrivalled


def _remainder_waste(sizes: Ints, weights: Floats, *, rivals: Ints) -> Floats:
    alone = (float(weights.sum()) or 1.0) * (LEFT_ALONE + RIVALRY * rivals)
    as_it_is = np.exp(-np.arange(REMAINDERS + 1) / REMAINDERS / REMAINDER_TEMPERATURE)
    good = np.ones(REMAINDERS + 1)
    fitting = np.searchsorted(sizes, np.arange(REMAINDERS + 1), side="right")
    fitting_weight = np.concatenate(([0.0], np.cumsum(weights)))[fitting]
    for free in range(1, REMAINDERS + 1):
        some = fitting[free]
        filled = float(weights[:some] @ good[free - sizes[:some]])
        good[free] = (filled + alone[free] * as_it_is[free]) / (fitting_weight[free] + alone[free])
    waste: Floats = -REMAINDER_TEMPERATURE * np.log(good)
    return waste


def stranded(table: Floats, *, rows: Floats, device_milli: Ints) -> Floats:
    """Return the expected number of stranded devices of nodes, between the table's points by proportion.

    `rows` is what is free of CPU or memory, in the table's units.
    """
    scale = np.maximum(device_milli / (STRAND_UNIT * STRAND_COLUMNS), 1.0)
    across = np.maximum(device_milli / STRAND_UNIT, 0.0) / scale
    down = np.clip(rows / scale, 0.0, table.shape[0] - 1)
    row, column = down.astype(np.int64), across.astype(np.int64)
    lower, right = np.minimum(row + 1, table.shape[0] - 1), np.minimum(column + 1, STRAND_COLUMNS)
    part_down, part_across = down - row, across - column
    above = table[row, column] * (1 - part_across) + table[row, right] * part_across
    below = table[lower, column] * (1 - part_across) + table[lower, right] * part_across
    waste: Floats = (above * (1 - part_down) + below * part_down) * scale
    return waste


def _units(amounts: list[int], *, unit: int) -> Ints:
    """Return amounts in whole units, rounded up."""
    return -(-np.array(amounts, dtype=np.int64) // unit)


def _stranded(needs: Ints, devices: Ints, weights: Floats, *, rows: int) -> Floats:
    """Return expected stranded devices by free units of CPU or memory and of devices; shape (rows + 1, columns + 1).

    A size that needs more than the table holds fits nowhere in it.
    """
    possible = (needs <= rows) & (devices <= STRAND_COLUMNS)
    cells = devices[possible] * (rows + 1) + needs[possible]
    # Sizes that are equal in units are one.
    histogram = np.bincount(cells, weights[possible], minlength=(rows + 1) * (STRAND_COLUMNS + 1))
    kinds = np.flatnonzero(histogram)
    weight = histogram[kinds]
    device, need = np.divmod(kinds, rows + 1)
    fitting = histogram.reshape(STRAND_COLUMNS + 1, rows + 1).cumsum(axis=0).cumsum(axis=1)
    nothing_fits = np.exp(-np.arange(STRAND_COLUMNS + 1) * STRAND_UNIT / 1000 / STRAND_TEMPERATURE)
    # A margin of zeros stands for what does not fit, so that one look-up serves all sizes.
    width = 2 * rows + 1
    good = np.zeros((2 * STRAND_COLUMNS + 1) * width)
    by_devices = good.reshape(2 * STRAND_COLUMNS + 1, width)
    by_devices[STRAND_COLUMNS, rows:] = 1.0
    places = (STRAND_COLUMNS - device)[:, None] * width + np.arange(rows + 1) + (rows - need)[:, None]
    for column in range(1, STRAND_COLUMNS + 1):
        filled = weight @ good.take(places + column * width)
        fits = fitting[column]
        by_devices[STRAND_COLUMNS + column, rows:] = np.where(
            fits > 0, filled / np.maximum(fits, 1.0), nothing_fits[column]
        )
    waste: Floats = -STRAND_TEMPERATURE * np.log(by_devices[STRAND_COLUMNS:, rows:].T)
    return np.ascontiguousarray(waste)
