"""Runs one suite: its steps one after another, within its time, with signs of life, and nothing left behind."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tests.suites.results import Counts, SuiteResult, counted
from tests.suites.table import ROOT, Step, Suite

_SIGN_OF_LIFE_S = 30.0
_GRACE_S = 10.0
_TAIL_LINES = 120
_NOTHING_COLLECTED = 5
"""Pytest's exit code where it found no test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Runs suites with the same surroundings; logs and reports go to `folder`."""

    folder: Path
    console: Console
    environment: Mapping[str, str]

    def run(self, suite: Suite) -> SuiteResult:
        """Run all steps of a suite, also after one failed; what is left when the time is over counts as failed."""
        started_s = time.monotonic()
        deadline_s = started_s + suite.minutes * 60
        counts = Counts()
        self.console.print(f"{suite.name}: {suite.about}…")
        for step in suite.steps:
            counts += self._step(suite, step, deadline_s=deadline_s)
        duration_s = time.monotonic() - started_s
        result = SuiteResult(
            name=suite.name,
            counts=counts,
            duration_s=duration_s,
            allowed_s=suite.minutes * 60,
            is_setup=suite.is_setup,
        )
        self.console.print(f"{suite.name}: {result.outcome.value}, {counts.total} tests in {duration_s:.1f} s")
        return result

    def _step(self, suite: Suite, step: Step, *, deadline_s: float) -> Counts:
        absent = [path for path in step.paths if not (ROOT / path).exists()]
        if absent:
            return Counts(
                failures=(f"{suite.name}: {', '.join(absent)} does not exist; correct tests/suites/table.py",)
            )
        started_s = time.monotonic()
        label = f"{suite.name}-{step.name}"
        log, junit = self.folder / f"{label}.log", self.folder / f"{label}.xml"
        junit.unlink(missing_ok=True)
        command = [part.format(junit=junit) if "{junit}" in part else part for part in step.command]
        code = self._wait(command, label=label, log=log, deadline_s=deadline_s, is_streamed=suite.is_setup)
        counts = _verdict(step, code=code, junit=junit, allowed_minutes=suite.minutes)
        if len(suite.steps) > 1:
            word = "failed" if counts.failures else "passed"
            self.console.print(f"  {step.name}: {word} in {time.monotonic() - started_s:.1f} s")
        if counts.failures and log.exists():
            self._show(log)
        return counts

    def _wait(self, command: list[str], *, label: str, log: Path, deadline_s: float, is_streamed: bool) -> int | None:
        """Return the exit code, or None where the time was over first."""
        with contextlib.ExitStack() as stack:
            # Set-up shows its own progress: the terminal is its own.
            output = None if is_streamed else stack.enter_context(log.open("wb"))
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=None if output is None else subprocess.STDOUT,
                start_new_session=True,
            )
            stack.callback(_end, process)
            with self._signs_of_life(label, is_streamed=is_streamed):
                return self._watched(process, label=label, deadline_s=deadline_s, is_streamed=is_streamed)

    def _watched(
        self, process: subprocess.Popen[bytes], *, label: str, deadline_s: float, is_streamed: bool
    ) -> int | None:
        started_s = time.monotonic()
        while True:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return None
            try:
                return process.wait(timeout=min(left_s, _SIGN_OF_LIFE_S))
            except subprocess.TimeoutExpired:
                if not self.console.is_terminal and not is_streamed:
                    spent_s = time.monotonic() - started_s
                    self.console.print(f"  {label}: {spent_s:.0f} s so far, at most {left_s:.0f} s more")

    def _signs_of_life(self, label: str, *, is_streamed: bool) -> contextlib.AbstractContextManager[object]:
        if is_streamed or not self.console.is_terminal:
            return contextlib.nullcontext()
        return self.console.status(f"{label} is running…")

    def _show(self, log: Path) -> None:
        lines = log.read_text(errors="replace").splitlines()
        self.console.rule(f"end of {log.name}")
        for line in lines[-_TAIL_LINES:]:
            self.console.print(line, markup=False, highlight=False)
        self.console.rule()


def _verdict(step: Step, *, code: int | None, junit: Path, allowed_minutes: float) -> Counts:
    if code is None:
        late = Counts(failures=(f"{step.name}: killed after the {allowed_minutes:g} minutes that the suite may take",))
        return (counted(junit) if junit.exists() else Counts()) + late
    if not step.counts_itself:
        return Counts(passed=1) if code == 0 else Counts(failures=(f"{step.name} ended with {code}",))
    counts = counted(junit)
    if step.is_pytest and code == _NOTHING_COLLECTED:
        return Counts(failures=(f"no test was found in {', '.join(step.paths)}: {' '.join(step.command[1:])}",))
    if code != 0 and not counts.failures:
        return counts + Counts(failures=(f"{step.name} ended with {code} though no test failed",))
    return counts


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the step's whole process group: kindly where it still runs, so that it can clean up, then for good."""
    if process.poll() is None:
        with _if_gone():
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_GRACE_S)
    with _if_gone():
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def _if_gone() -> Iterator[None]:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        yield
