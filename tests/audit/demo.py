"""`make demo-audit`: real control planes, broken on purpose, and what the audit finds of what there is to find."""

import asyncio
import sys

from rich.console import Console
from rich.table import Table

from tests.audit.states import SETTINGS, Setting, evidence_of, found_in, report_of
from tests.kubernetes import build


async def main() -> int:
    """Audit every setting; exit code 1 where something was missed, or found and not expected."""
    console = Console()
    if build.missing():
        console.print("the control plane is not built: run `make kubernetes`")
        return 1
    wanted = found = 0
    surprises: list[tuple[str, str]] = []
    for setting in SETTINGS:
        with console.status(f"{setting.name}: a control plane starts, is broken, and audited…"):
            seen = found_in(report_of(await evidence_of(setting)))
        wanted += len(setting.finds)
        found += len(seen & setting.finds)
        surprises += sorted(seen - setting.finds)
        console.print(_table(setting, seen))
    for check, subject in surprises:
        console.print(f"found and not expected: {check} on {subject}", style="red", markup=False)
    console.print(f"audit: {found} of {wanted} found", style="bold")
    return 0 if found == wanted and not surprises else 1


def _table(setting: Setting, seen: frozenset[tuple[str, str]]) -> Table:
    table = Table(title=setting.name, title_justify="left", box=None, padding=(0, 2), show_header=False)
    for check, subject in sorted(setting.finds):
        is_found = (check, subject) in seen
        table.add_row("✔ found" if is_found else "✘ missed", check, subject, style="" if is_found else "bold red")
    if not setting.finds:
        table.add_row("✔ silent" if not seen else "✘ not silent", "", "nothing is wrong here")
    return table


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
