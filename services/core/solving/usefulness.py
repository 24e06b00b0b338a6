"""How useful a node's room stays when members of a class take some of it: `services.core.scoring` for the solver.

Devices that DRA shares out will come here as `Room.shares_milli`; extended resources are whole devices.
"""

import numpy as np

from services.core.outlook import outlook_of
from services.core.quantities import CPU
from services.core.scoring import Room, score
from services.core.sizes import size_of
from services.core.solving.board import Board, Rows
from services.core.solving.rules import Counts

PRECISION = 1_000_000
"""Parts of a device by which nodes are told apart."""


def waste_keys(board: Board, group: int, *, rows: Rows, counts: Counts) -> list[Counts]:
    """Return a sort key of the rows where `counts` members of a class go there: what they waste, smallest is best.

    Members that take no device are scored by the devices that they strand, of each resource that is asked for. There is
    no key where nobody asks for devices.
    """
    mix, columns = board.snapshot.mix, board.snapshot.columns
    size = size_of(board.classes[group].members[0])
    resources = [size.resource] if size.resource else sorted({one.resource for one in mix})
    wasted = np.zeros(len(rows))
    free = board.free[rows]
    nothing = np.zeros((len(rows), 0), dtype=np.int64)
    for resource in resources:
        if resource not in columns:
            continue
        room = Room(
            cpu_milli=free[:, columns[CPU]] if CPU in columns else np.zeros(len(rows), dtype=np.int64),
            memory_bytes=free[:, columns["memory"]] if "memory" in columns else np.zeros(len(rows), dtype=np.int64),
            whole_devices=free[:, columns[resource]],
            shares_milli=nothing,
        )
        wasted += score(room, size=size, outlook=outlook_of(mix, resource=resource), counts=counts).waste
    return [np.rint(np.nan_to_num(wasted, posinf=0.0) * PRECISION).astype(np.int64)] if mix and resources else []
