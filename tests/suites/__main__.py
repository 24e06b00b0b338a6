"""`python -m tests.suites [--require all] [names…]`: runs suites and says what came of them."""

import os
import signal
import sys
import time
from collections.abc import Iterable

import click
from rich.console import Console

from tests.suites import report
from tests.suites.results import Counts, Outcome, SuiteResult
from tests.suites.running import Runner
from tests.suites.table import ROOT, Suite, UnknownSuite, selected

REQUIRE_VARIABLE = "REQUIRE"


@click.command()
@click.argument("names", nargs=-1)
@click.option(
    "--require",
    type=click.Choice(["all", ""]),
    envvar=REQUIRE_VARIABLE,
    default="",
    help="`all`: a skipped suite or test is a failure.",
)
def main(*, names: tuple[str, ...], require: str) -> None:
    """Run the named suites, or all of them."""
    try:
        suites = selected(names)
    except UnknownSuite as error:
        raise click.UsageError(str(error)) from error
    # Asked to end, this process ends what it started: SystemExit runs the clean-up that a signal would not.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    folder = ROOT / "build"
    logs = folder / "suites"
    logs.mkdir(parents=True, exist_ok=True)
    console = Console(soft_wrap=True, highlight=False)
    # The tests themselves read the variable: what they need and lack is a failure then, not a skip.
    environment = {key: value for key, value in os.environ.items() if key != REQUIRE_VARIABLE}
    runner = Runner(folder=logs, console=console, environment=environment | ({"REQUIRE": require} if require else {}))
    started_s = time.monotonic()
    results = _results(suites, runner=runner)
    duration_s = time.monotonic() - started_s
    report.write(results, folder=folder, duration_s=duration_s)
    report.show(results, console=console, duration_s=duration_s)
    sys.exit(0 if report.is_good(results, requires_all=require == "all") else 1)


def _results(suites: Iterable[Suite], *, runner: Runner) -> list[SuiteResult]:
    results: dict[str, SuiteResult] = {}
    for suite in suites:
        lacking = [name for name in suite.needs if results[name].outcome is not Outcome.PASSED]
        results[suite.name] = _skipped(suite, lacking, suites=suites) if lacking else runner.run(suite)
    return list(results.values())


def _skipped(suite: Suite, lacking: Iterable[str], *, suites: Iterable[Suite]) -> SuiteResult:
    how = {other.name: other.how_to_get for other in suites}
    reason = "; ".join(f"needs {name} ({how[name]}), which could not be made" for name in lacking)
    return SuiteResult(name=suite.name, counts=Counts(skips=(reason,)), duration_s=0, allowed_s=suite.minutes * 60)


if __name__ == "__main__":
    main()
