"""The whole table."""

from tests.contract.kubernetes_api.rows import Row, Side
from tests.contract.kubernetes_api.themes import (
    binding,
    claims,
    controllers,
    deletes,
    discovery,
    dry_run,
    lists,
    objects_life,
    other_kinds,
    patches,
    podgroups,
    pods,
    quotas,
    subresources,
    watches,
)

ROWS: tuple[Row, ...] = tuple(
    row
    for theme in (
        discovery,
        objects_life,
        lists,
        watches,
        patches,
        deletes,
        subresources,
        dry_run,
        podgroups,
        pods,
        binding,
        claims,
        other_kinds,
        quotas,
        controllers,
    )
    for row in theme.ROWS
)


def rows_of(side: Side) -> tuple[Row, ...]:
    """The rows that must be true on a side."""
    return tuple(row for row in ROWS if row.only in {None, side})
