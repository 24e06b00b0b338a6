"""The suites: what each runs, how long it may take, and what it needs that a machine may lack.

A new suite is a row here; `make test` and continuous integration pick it up. All times are for two cores.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(sys.executable).parent
BASELINE = ROOT / "proto" / "baseline.txtpb"

MOST_SETUP_MINUTES = 17
MOST_MINUTES = 60
"""Of all suites together, without set-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One program that a suite runs: it counts as one test, unless `is_pytest` or it writes JUnit XML itself.

    `{junit}` in the command is replaced by the path of the XML that counts its tests.
    """

    name: str
    command: tuple[str, ...]
    is_pytest: bool = False
    paths: tuple[str, ...] = ()

    @property
    def counts_itself(self) -> bool:
        """Whether the step states its tests in JUnit XML."""
        return any("{junit}" in part for part in self.command)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Some steps with a time limit.

    An `is_setup` suite makes what others need or use. Where it fails, those that need it are skipped whole; those that
    use it run, and their tests that miss it skip themselves.
    """

    name: str
    about: str
    minutes: float
    steps: tuple[Step, ...]
    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    is_setup: bool = False
    how_to_get: str = ""


def _tool(name: str, *command: str) -> Step:
    """A step that runs a program of the environment."""
    return Step(name=name, command=(str(TOOLS / command[0]), *command[1:]))


def _python(name: str, *command: str) -> Step:
    return Step(name=name, command=(sys.executable, *command))


def _pytest(*paths: str, marks: str = "") -> Step:
    command = (sys.executable, "-m", "pytest", "-q", "--junitxml={junit}", *paths)
    return Step(name="pytest", command=(*command, "-m", marks) if marks else command, is_pytest=True, paths=paths)


def _check_steps() -> Iterable[Step]:
    yield _tool("format", "ruff", "format", "--check", "--quiet", ".")
    yield _tool("lint", "ruff", "check", "--quiet", ".")
    yield _tool("types", "mypy")
    yield _tool("imports", "lint-imports")
    yield _python("stubs", "proto/generate.py", "--check")
    yield _tool("buf-lint", "buf", "lint", "proto")
    if BASELINE.exists():
        # What has been released may only grow; before the first release there is nothing to break.
        yield _tool("buf-breaking", "buf", "breaking", "proto", "--against", str(BASELINE))


SUITES: tuple[Suite, ...] = (
    Suite(
        name="check",
        about="format, lint, types, imports, generated stubs",
        minutes=3,
        steps=tuple(_check_steps()),
    ),
    Suite(name="unit", about="core and handlers, no sockets", minutes=4, steps=(_pytest("tests/unit"),)),
    Suite(name="property", about="invariants, searched by hypothesis", minutes=3, steps=(_pytest("tests/property"),)),
    Suite(
        name="contract-sandbox",
        about="stored messages; the Kubernetes API as the sandbox serves it",
        minutes=3,
        steps=(_pytest("tests/contract", marks="not kubernetes"),),
    ),
    Suite(
        name="kubernetes",
        about="the pinned control plane, built once per machine",
        minutes=12,
        steps=(_python("build", "-m", "tests.kubernetes.build", "--programs"),),
        is_setup=True,
        how_to_get="make kubernetes",
    ),
    Suite(
        name="deploy-tools",
        about="kubectl and helm, built once per machine",
        minutes=5,
        steps=(_python("build", "-m", "tests.kubernetes.build", "--deploying"),),
        is_setup=True,
        how_to_get="make deploy-tools",
    ),
    Suite(
        name="deploy",
        about="the chart and the plain manifests, rendered by helm, judged by the real API server",
        minutes=2,
        steps=(_pytest("tests/deploy"),),
        needs=("kubernetes", "deploy-tools"),
    ),
    Suite(
        name="contract-kubernetes",
        about="the same rows on the real API server",
        minutes=3,
        steps=(_pytest("tests/contract", marks="kubernetes"),),
        needs=("kubernetes",),
    ),
    Suite(
        name="integration",
        about="one service or adapter with real NATS, gRPC and API servers",
        minutes=8,
        steps=(_pytest("tests/integration", "tests/kubernetes"),),
        uses=("kubernetes",),
    ),
    Suite(
        name="e2e-sandbox",
        about="all services on real NATS against the sandbox",
        minutes=5,
        steps=(_pytest("tests/e2e", marks="not kubernetes"),),
    ),
    Suite(
        name="e2e-kubernetes",
        about="all services on real NATS against the real control plane, with the rights of deploy/",
        minutes=8,
        steps=(_pytest("tests/e2e", marks="kubernetes"),),
        needs=("kubernetes",),
    ),
    Suite(
        name="chaos",
        about="whatever dies, and whenever: no gang is left in part, on the real control plane",
        minutes=10,
        steps=(_pytest("tests/chaos"),),
        needs=("kubernetes",),
    ),
    Suite(
        name="differential",
        about="our placements beside those of the real kube-scheduler, and the checker that judges both",
        minutes=3,
        steps=(_pytest("tests/differential"),),
        needs=("kubernetes",),
    ),
    Suite(
        name="audit",
        about="the audit of real control planes that are broken on purpose, and of a healthy one",
        minutes=3,
        steps=(_pytest("tests/audit"),),
        needs=("kubernetes",),
    ),
    Suite(
        name="demo",
        about="both stories of the demo command, in the sandbox",
        minutes=2,
        steps=(_tool("gangs", "phalanx", "demo"), _tool("devices", "phalanx", "demo", "--story", "devices")),
    ),
    Suite(
        name="cases",
        about="the faults from the field, replayed",
        minutes=3,
        steps=(_pytest("tests/cases"),),
    ),
)


class UnknownSuite(ValueError):
    """A name that is in no row; the message lists the names."""


def selected(names: Iterable[str]) -> tuple[Suite, ...]:
    """Return the named suites with the set-up that they need, in the table's order; all where no name is given."""
    wanted = set(names)
    unknown = wanted - {suite.name for suite in SUITES}
    if unknown:
        known = ", ".join(suite.name for suite in SUITES)
        raise UnknownSuite(f"no suite is named {', '.join(sorted(unknown))}; there are: {known}")
    if not wanted:
        return SUITES
    for suite in SUITES:
        if suite.name in wanted:
            wanted.update(suite.needs + suite.uses)
    return tuple(suite for suite in SUITES if suite.name in wanted)
