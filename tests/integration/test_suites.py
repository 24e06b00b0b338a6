"""The runner of the suites, on small suites of its own: what it counts, when it stops, and what it says at the end."""

import io
import json
import os
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from tests.suites import document, report
from tests.suites.results import Counts, Outcome, SuiteResult, counted
from tests.suites.running import Runner
from tests.suites.table import ROOT, Step, Suite

_TESTS = """
import pytest
def test_good(): pass
def test_bad(): assert 1 == 2, "one is not two"
@pytest.mark.skip(reason="no such machine")
def test_away(): pass
"""


def runner(folder: Path, output: io.StringIO) -> Runner:
    """A runner that writes to text."""
    return Runner(folder=folder, console=Console(file=output, soft_wrap=True), environment=dict(os.environ))


def suite(*steps: Step, minutes: float = 1.0) -> Suite:
    """A suite of those steps."""
    return Suite(name="small", about="for this test", minutes=minutes, steps=steps)


def python(code: str, *, name: str = "step") -> Step:
    """A step that runs some code."""
    return Step(name=name, command=(sys.executable, "-c", code))


def test_a_pytest_step_is_counted_by_its_report(tmp_path: Path) -> None:
    """Passed, failed and skipped tests are told apart, with the reasons; the log of a failure is shown."""
    tests = tmp_path / "test_three.py"
    tests.write_text(_TESTS)
    command = (sys.executable, "-m", "pytest", "-q", "--junitxml={junit}", "-p", "no:cacheprovider", str(tests))
    output = io.StringIO()

    result = runner(tmp_path, output).run(suite(Step(name="pytest", command=command, is_pytest=True)))

    assert (result.counts.passed, result.counts.skips) == (1, ("no such machine",))
    (failure,) = result.counts.failures
    assert "test_bad: AssertionError: one is not two" in failure
    assert "end of small-pytest.log" in output.getvalue()


def test_a_plain_step_is_one_test(tmp_path: Path) -> None:
    """Its exit code decides, and later steps run all the same."""
    steps = (python("raise SystemExit(3)", name="bad"), python("pass", name="good"))

    result = runner(tmp_path, io.StringIO()).run(suite(*steps))

    assert result.counts == Counts(passed=1, failures=("bad ended with 3",))


def test_a_suite_that_takes_too_long_is_ended_with_all_its_processes(tmp_path: Path) -> None:
    """The limit counts as a failure, and a child of the step does not outlive it."""
    code = (
        "import subprocess, sys, pathlib; "
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
        f"pathlib.Path({str(tmp_path / 'child')!r}).write_text(str(child.pid)); child.wait()"
    )
    started_s = time.monotonic()

    result = runner(tmp_path, io.StringIO()).run(suite(python(code), minutes=2 / 60))

    assert time.monotonic() - started_s < 30
    assert result.counts.failures == (f"step: killed after the {2 / 60:g} minutes that the suite may take",)
    child = int((tmp_path / "child").read_text())
    # A killed process is gone a moment after the kill.
    until_s = time.monotonic() + 10
    while _is_running(child):
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_a_path_that_does_not_exist_is_a_failure(tmp_path: Path) -> None:
    """A renamed folder must not turn a suite into one that tests nothing."""
    step = Step(name="pytest", command=("never-run",), is_pytest=True, paths=("tests/nowhere",))

    result = runner(tmp_path, io.StringIO()).run(suite(step))

    assert result.outcome is Outcome.FAILED
    assert not (ROOT / "tests/nowhere").exists()


def test_a_report_that_is_missing_is_a_failure(tmp_path: Path) -> None:
    """A test run that died before it could report has not passed."""
    assert counted(tmp_path / "none.xml").outcome is Outcome.FAILED


def test_the_end_names_failures_and_skips_before_one_closing_line(tmp_path: Path) -> None:
    """The last line is the verdict; the same stands in the report for programs."""
    results = [
        SuiteResult(name="one", counts=Counts(passed=3), duration_s=1, allowed_s=60),
        SuiteResult(name="two", counts=Counts(failures=("t: broken",)), duration_s=1, allowed_s=60),
        SuiteResult(name="three", counts=Counts(skips=("no cluster", "no cluster")), duration_s=0, allowed_s=60),
        SuiteResult(name="tools", counts=Counts(passed=1), duration_s=9, allowed_s=60, is_setup=True),
    ]
    output = io.StringIO()

    report.show(results, console=Console(file=output, soft_wrap=True), duration_s=11.04)
    report.write(results, folder=tmp_path, duration_s=11.04)

    *_, failed, skipped, closing = output.getvalue().splitlines()
    assert failed == "FAILED two: t: broken"
    assert skipped == "SKIPPED three: 2 times no cluster"
    assert closing == "3 passed, 1 failed, 2 skipped in 11.0 s"
    document = json.loads((tmp_path / "test-report.json").read_text())
    assert document["closing"] == closing
    assert [one["outcome"] for one in document["suites"]] == ["passed", "failed", "skipped", "passed"]
    assert (tmp_path / "closing-line.txt").read_text() == closing + "\n"


@pytest.mark.parametrize(
    ("counts", "usual", "required"),
    [
        pytest.param(Counts(passed=1), True, True, id="passed"),
        pytest.param(Counts(passed=1, skips=("why",)), True, False, id="one skipped"),
        pytest.param(Counts(skips=("why",)), True, False, id="all skipped"),
        pytest.param(Counts(passed=1, failures=("why",)), False, False, id="failed"),
        pytest.param(Counts(), False, False, id="nothing ran"),
    ],
)
def test_a_skip_is_a_failure_only_where_all_is_required(counts: Counts, *, usual: bool, required: bool) -> None:
    """What is skipped is excused on a developer's machine, not in continuous integration."""
    results = [SuiteResult(name="one", counts=counts, duration_s=1, allowed_s=60)]
    assert report.is_good(results, requires_all=False) is usual
    assert report.is_good(results, requires_all=True) is required


def _is_running(pid: int) -> bool:
    """Whether the process exists and is not merely waiting to be reaped by somebody else."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_the_documented_table_is_the_one_in_code() -> None:
    """ARCHITECTURE.md names every suite with its minutes; only the times of the last run may differ."""
    page = document.PAGE.read_text()
    told = page.partition("<!-- suites:begin -->\n")[2].partition("<!-- suites:end -->")[0]
    expected = document.rows({})
    assert [line.rpartition(" |")[0].rpartition("|")[0] for line in told.splitlines()[2:]] == [
        line.rpartition(" |")[0].rpartition("|")[0] for line in expected.splitlines()[2:]
    ], "run `make suites-table`"


def test_times_come_from_whole_runs_only(tmp_path: Path) -> None:
    """A run of two suites says nothing about the others."""
    results = [SuiteResult(name="unit", counts=Counts(passed=1), duration_s=1, allowed_s=60)]
    report.write(results, folder=tmp_path, duration_s=1)
    assert document.last_durations_s(tmp_path / "test-report.json") == {}
    assert document.last_durations_s(tmp_path / "none.json") == {}
