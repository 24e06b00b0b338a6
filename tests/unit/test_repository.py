"""Rules of the repository that no linter knows. CONTRIBUTING.md gives their reasons."""

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.suites.table import MOST_MINUTES, MOST_SETUP_MINUTES, ROOT, SUITES, UnknownSuite, selected

MOST_FILE_LINES = 400
MOST_FUNCTION_LINES = 60
"""The aim is 50; a table or a long docstring may need a little more."""
MOST_MAIN_LINES = 20
MOST_HELP_COLUMNS = 100
BANNED_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "manager", "base", "info", "misc"})

_GENERATED = "services/contracts/pb/"
_FROM_THE_FIELD = ("tests/cases/", "bench/traces/")
"""Inputs that are kept byte for byte as they were met."""

_MACHINE_PATH = re.compile(r"(?<![\w.$})\]>-])/(?:work|root|tmp|Users|home)/(?!nonroot\b|phalanx\b)\w+")
_REGISTRY_HOST = re.compile(
    r"\b(?:pypi\.org|pythonhosted\.org|(?:proxy|sum)\.golang\.org|registry\.npmjs\.org)\b|--(?:extra-)?index-url \S"
)

_CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(<?([^)>\s]+)")
_ELSEWHERE = re.compile(r"[a-z][a-z+.-]*:")


@cache
def tracked() -> tuple[str, ...]:
    """Paths of all files under version control."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    return tuple(path for path in listed.stdout.split("\0") if path and (ROOT / path).is_file())


def texts() -> Iterator[tuple[str, str]]:
    """Path and text of every tracked file that is ours and is text."""
    for path in tracked():
        if path.startswith(_FROM_THE_FIELD) or path == str(Path(__file__).relative_to(ROOT)):
            continue
        try:
            yield path, (ROOT / path).read_text()
        except UnicodeDecodeError:
            continue


def modules(*folders: str) -> Iterator[str]:
    """Paths of our own Python files below the folders."""
    for path in tracked():
        if path.endswith(".py") and path.startswith(folders) and not path.startswith(_GENERATED):
            yield path


def found(pattern: re.Pattern[str]) -> list[str]:
    """`path:line: text` of every place where the pattern occurs."""
    return [
        f"{path}:{number}: {match[0]}"
        for path, text in texts()
        for number, line in enumerate(text.splitlines(), start=1)
        for match in [pattern.search(line)]
        if match
    ]


def test_no_path_of_one_machine() -> None:
    """What works only where it was written is a bug for everybody else."""
    assert found(_MACHINE_PATH) == []


def test_no_registry_of_packages() -> None:
    """Where packages come from is decided by each machine, so that a mirror works unchanged."""
    assert found(_REGISTRY_HOST) == []


def test_links_between_pages_lead_somewhere() -> None:
    """A page or file that was moved takes its links along."""
    broken = []
    for path, text in texts():
        if not path.endswith(".md"):
            continue
        for link in _LINK.findall(_CODE.sub("", text)):
            target = link.partition("#")[0]
            if target and not _ELSEWHERE.match(target) and not (ROOT / path).parent.joinpath(target).exists():
                broken.append(f"{path}: {link}")
    assert broken == []


def test_help_of_make_fits_a_terminal() -> None:
    """A line that wraps hides which target it is about."""
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    assert [line for line in shown.stdout.splitlines() if len(line) > MOST_HELP_COLUMNS] == []


def test_nothing_is_stored_that_is_ignored() -> None:
    """An environment or a cache that one machine has would take the place of everybody else's."""
    command = ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    assert shown.stdout == ""


def test_files_are_short() -> None:
    """A file is read in one sitting."""
    long = {path: len((ROOT / path).read_text().splitlines()) for path in modules("services/")}
    assert {path: lines for path, lines in long.items() if lines > MOST_FILE_LINES} == {}


def test_functions_are_short() -> None:
    """A function does one thing."""
    long = [
        f"{path}:{node.lineno}: {node.name} has {(node.end_lineno or node.lineno) - node.lineno + 1} lines"
        for path in modules("services/")
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= MOST_FUNCTION_LINES
    ]
    assert long == []


def test_every_module_says_why_it_exists() -> None:
    """Packages too: their docstring is the map of the folder."""
    silent = [
        path
        for path in modules("services/", "tests/", "bench/", "proto/")
        if ast.get_docstring(ast.parse((ROOT / path).read_text())) is None
    ]
    assert silent == []


def test_modules_are_named_for_their_subject() -> None:
    """A name that fits everything attracts everything."""
    parts = {path: set(Path(path).with_suffix("").parts) for path in modules("services/", "tests/", "bench/")}
    assert [path for path, names in parts.items() if names & BANNED_NAMES] == []


def test_services_start_in_a_few_lines() -> None:
    """What can be composed is in `app.py`, where tests reach it; `__main__.py` only runs it."""
    apps = [Path(path).parent for path in modules("services/") if path.endswith("/app.py")]
    lengths = {
        str(folder): len((ROOT / folder / "__main__.py").read_text().splitlines())
        if (ROOT / folder / "__main__.py").exists()
        else "missing"
        for folder in apps
    }
    assert apps
    assert {
        folder: lines for folder, lines in lengths.items() if not isinstance(lines, int) or lines > MOST_MAIN_LINES
    } == {}


def test_every_test_belongs_to_a_suite() -> None:
    """What no suite runs is not tested."""
    roots = tuple(path + "/" for suite in SUITES for step in suite.steps for path in step.paths)
    tests = [path for path in modules("tests/") if Path(path).name.startswith("test_")]
    assert [path for path in tests if not path.startswith(roots)] == []


@pytest.mark.parametrize(
    ("chosen", "most"),
    [
        pytest.param(lambda suite: not suite.is_setup, MOST_MINUTES, id="suites"),
        pytest.param(lambda suite: suite.is_setup, MOST_SETUP_MINUTES, id="set-up"),
    ],
)
def test_the_suites_fit_in_their_time(chosen: Callable[[object], bool], most: float) -> None:
    """Even if every suite took all of its time, a run would end within what is promised."""
    assert sum(suite.minutes for suite in SUITES if chosen(suite)) <= most


def test_suites_bring_their_set_up() -> None:
    """Naming one suite selects what it needs, in the table's order."""
    assert [suite.name for suite in selected(["contract-kubernetes"])] == ["kubernetes", "contract-kubernetes"]
    assert selected([]) == SUITES


def test_a_suite_that_does_not_exist_is_refused_with_the_list() -> None:
    """A typing error runs nothing, and says what there is."""
    with pytest.raises(UnknownSuite, match=r"no suite is named unti; there are: check, unit, .*cases"):
        selected(["unti"])
