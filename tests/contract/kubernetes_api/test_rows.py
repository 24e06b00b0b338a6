"""The contract: every row is true on the real API server and on the sandbox."""

import pytest

from tests.contract.kubernetes_api.conftest import Sides
from tests.contract.kubernetes_api.rows import SIDES, Row, Side
from tests.contract.kubernetes_api.table import ROWS, rows_of

_FEWEST_ROWS = 80


def _cases() -> list[object]:
    marks = {"sandbox": (), "kubernetes": (pytest.mark.kubernetes,)}
    return [
        pytest.param(side, row, id=f"{side}-{row.name}", marks=marks[side]) for side in SIDES for row in rows_of(side)
    ]


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(("side", "row"), _cases())
async def test_row(sides: Sides, side: Side, row: Row) -> None:
    """The API answers, and its watches show, what the row says."""
    performances = await sides.performances(side)
    await performances[row.name]


def test_table_is_wide_enough() -> None:
    """The contract has at least eighty rows, each under a name of its own."""
    names = [row.name for row in ROWS]
    assert len(names) >= _FEWEST_ROWS
    assert len(set(names)) == len(names)


def test_one_sided_rows_say_why() -> None:
    """Only a stated reason excuses a row from one side, and such rows stay rare."""
    one_sided = [row for row in ROWS if row.only]
    assert [row.name for row in one_sided if not row.because] == []
    assert [row.name for row in ROWS if row.because and not row.only] == []
    assert len(one_sided) <= len(ROWS) // 10
