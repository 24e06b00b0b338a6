"""Run snapshot cases through the solver: `python -m tests.cases.check [C01 …]`.

A snapshot case is one placement decision on given objects. Its expectation is the YAML comment block on top of the
file; `tests/cases/README.md` defines the words. Every word is judged: one that this interpreter does not know fails.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from services.contracts.manifest_files import read_manifests
from services.core.cluster import Cluster
from services.core.names import SCHEDULER_NAME
from services.core.objects import Applied, GangId, Pod
from services.core.plan import GangPlan, PlanOutcome, plan
from services.placer.questions import gangs_of

FOLDER = Path(__file__).parent


class UnknownWord(ValueError):
    """An expectation that the interpreter does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case. `expectation` is what stands under `expect`."""

    id: str
    title: str
    path: Path
    is_snapshot: bool
    expectation: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the solver answered: node by pod name, and the plan of each group by its name."""

    bound: Mapping[str, str]
    groups: Mapping[str, GangPlan]


def load_case(path: Path) -> Case:
    """Read the comment block of a case file."""
    lines = []
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("# "))
    # `case: C01   type: (a)` holds two entries on one line.
    text = re.sub(r"^case: (\S+)\s+type: \((\w)\)", r"case: \1\ntype: \2", "\n".join(lines))
    text = re.sub(r"^(kind|source): (.*)$", lambda match: f"{match[1]}: {match[2]!r}", text, flags=re.MULTILINE)
    text = re.sub(r"^(\s+never: )(.*)$", lambda match: f"{match[1]}{match[2]!r}", text, flags=re.MULTILINE)
    text = re.sub(
        r"^(\s{4,}\w+:\s+)([A-Z][^\n{\[]*[:;][^\n]*)$",
        lambda match: f"{match[1]}{match[2]!r}",
        text,
        flags=re.MULTILINE,
    )
    header = yaml.safe_load(text)
    return Case(
        id=header["case"],
        title=header["kind"],
        path=path,
        is_snapshot=header["type"] == "a",
        expectation=header["expect"],
    )


def find_case(case_id: str) -> Case:
    """Return the case of that id."""
    found = sorted(FOLDER.glob(f"{case_id}-*.yaml"))
    if len(found) != 1:
        raise FileNotFoundError(f"expected one file {case_id}-*.yaml in tests/cases, found {len(found)}")
    return load_case(found[0])


def solve_case(case: Case) -> Result:
    """Place every gang of the case's objects, as if their pods named our scheduler."""
    cluster = Cluster()
    for item in read_manifests(case.path.read_bytes()).objects:
        is_waiting = isinstance(item, Pod) and not item.node
        given = replace(item, scheduler_name=SCHEDULER_NAME) if is_waiting and isinstance(item, Pod) else item
        cluster.apply(Applied(object=given), revision=0)
    plans = plan(gangs_of(cluster), inventory=cluster.inventory)
    bound = {pod: str(node) for one in plans.values() for pod, node in one.bound.items()}
    return Result(bound=bound, groups={_group_name(gang): one for gang, one in plans.items()})


def _group_name(gang: GangId) -> str:
    return gang.rpartition("/")[2]


def judge(case: Case, result: Result) -> list[str]:
    """Return a sentence for each expectation that does not hold."""
    problems: list[str] = []
    for word, wanted in case.expectation.items():
        judgement = JUDGEMENTS.get(word)
        if judgement is None:
            raise UnknownWord(f"{case.id}: the expectation {word!r} is not known to tests/cases/check.py")
        problems += judgement(wanted, result)
    return problems


def _groups(wanted: Mapping[str, str], result: Result) -> Iterable[str]:
    for name, outcome in wanted.items():
        found = result.groups[name]
        is_placed = found.outcome is PlanOutcome.PLACED
        if outcome not in {"all", "none"}:
            raise UnknownWord(f"groups: {name}: {outcome!r}")
        if is_placed != (outcome == "all"):
            yield f"group {name}: expected {outcome}, got {found.outcome} {[one.message for one in found.reasons]}"


def _bound(wanted: Mapping[str, Any], result: Result) -> Iterable[str]:
    for pod, allowed in wanted.items():
        node = result.bound.get(pod)
        if node is None or (allowed != "any" and node not in allowed):
            yield f"pod {pod}: expected on {allowed}, got {node}"


def _unbound(wanted: list[str], result: Result) -> Iterable[str]:
    return [f"pod {pod}: expected unbound, got {result.bound[pod]}" for pod in wanted if pod in result.bound]


def _distinct_nodes(wanted: list[str], result: Result) -> Iterable[str]:
    nodes = [result.bound.get(pod) for pod in wanted]
    return [] if len(set(nodes)) == len(nodes) else [f"expected distinct nodes for {wanted}, got {nodes}"]


def _report(wanted: Mapping[str, str], result: Result) -> Iterable[str]:
    """The numbers and resource names of a report have to stand in the group's reasons: meaning, not wording."""
    for name, text in wanted.items():
        told = " ".join(reason.message for reason in result.groups[name].reasons)
        meaning = text.partition(";")[2] or text
        facts = re.findall(r"\d+|\w+\.\w+/\w+", meaning)
        missing = [fact for fact in facts if fact not in re.findall(r"\d+|\w+\.\w+/\w+", told)]
        if missing or not told:
            yield f"group {name}: expected the report to say {meaning.strip()!r} (missing {missing}), got {told!r}"


def _never(_wanted: str, _result: Result) -> Iterable[str]:
    """A snapshot has one moment: what must never happen is covered by what must hold in it."""
    return ()


JUDGEMENTS: Mapping[str, Callable[[Any, Result], Iterable[str]]] = {
    "groups": _groups,
    "bound": _bound,
    "unbound": _unbound,
    "distinctNodes": _distinct_nodes,
    "report": _report,
    "never": _never,
}


def main() -> None:
    """Judge the given snapshot cases and print a line for each."""
    failed = 0
    for case_id in sys.argv[1:] or ["C01", "C02", "C07"]:
        case = find_case(case_id)
        problems = judge(case, solve_case(case))
        failed += bool(problems)
        print(f"{case.id} {'FAILED' if problems else 'ok'}: {case.title}")
        for problem in problems:
            print(f"    {problem}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
