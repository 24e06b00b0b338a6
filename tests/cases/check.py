"""Run snapshot cases through the solver: `python -m tests.cases.check [C01 …]`.

A snapshot case is one placement decision on given objects. Its expectation is the YAML comment block on top of the
file; `tests/cases/README.md` defines the words. Every word is judged: one that this interpreter does not know fails.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from services.contracts.manifest_files import read_manifests
from services.core.allocations import DeviceResult
from services.core.cluster import Cluster
from services.core.names import SCHEDULER_NAME
from services.core.objects import Applied, DeviceObject, GangId, KubernetesObject, NodeName, Pod
from services.core.plan import GangPlan, PlanOutcome, gangs_of, plan
from services.core.quantities import parse_quantity

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
    """What the solver answered: node by pod name, and the plan of each group by its name.

    `pods` are the pods that were to be placed, by name.
    """

    case: Case
    bound: Mapping[str, str]
    groups: Mapping[str, GangPlan]
    pods: Mapping[str, Pod]

    @property
    def devices(self) -> Mapping[str, tuple[DeviceResult, ...]]:
        """The devices that were chosen, by claim."""
        return {claim: results for one in self.groups.values() for claim, results in one.devices.items()}

    def of_group(self, group: str) -> list[str]:
        """Return the names of a group's pods."""
        return [name for name, pod in self.pods.items() if pod.group == group]


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


def solve_case(
    case: Case,
    *,
    removed: frozenset[str] = frozenset(),
    placed: Mapping[str, str] = MappingProxyType({}),
    came: Iterable[KubernetesObject] = (),
) -> Result:
    """Place every gang of the case's objects, as if their pods named our scheduler.

    For a later moment of the case: without the `removed` pods, with others `placed` on nodes, and with what `came`.
    """
    cluster = Cluster()
    pods: dict[str, Pod] = {}
    for item in (*read_manifests(case.path.read_bytes()).objects, *came):
        given = item
        if isinstance(item, Pod):
            name = item.metadata.name
            if name in removed:
                continue
            if not item.node:
                pods[name] = given = replace(item, scheduler_name=SCHEDULER_NAME, node=NodeName(placed.get(name, "")))
        cluster.apply(Applied(object=given), revision=0)
    plans = plan(gangs_of(cluster), inventory=cluster.inventory)
    bound = {pod: str(node) for one in plans.values() for pod, node in one.bound.items()}
    groups = {_group_name(gang): one for gang, one in plans.items()}
    return Result(case=case, bound=bound, groups=groups, pods=pods)


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


def _devices(wanted: Mapping[str, list[str]], result: Result) -> Iterable[str]:
    for claim, devices in wanted.items():
        chosen = [f"{one.driver}/{one.pool}/{one.device}" for one in result.devices.get(claim, ())]
        if chosen != devices:
            yield f"claim {claim}: expected {devices}, got {chosen}"


def _also(wanted: str, result: Result) -> Iterable[str]:
    """A fact about a claim's allocation, told in a sentence: so a function per sentence."""
    named = re.fullmatch(r"allocation result of claim (\S+) carries the toleration", wanted)
    if named is None:
        raise UnknownWord(f"{result.case.id}: tests/cases/check.py does not say what its `also` means: {wanted!r}")
    results = result.devices.get(named[1], ())
    if not results or not all(one.tolerations for one in results):
        yield f"claim {named[1]}: expected a toleration in its allocation, got {results}"


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


def _per_node(wanted: Mapping[str, Mapping[str, int]], result: Result) -> Iterable[str]:
    for group, counts in wanted.items():
        found = Counter(result.bound[pod] for pod in result.of_group(group) if pod in result.bound)
        if found != counts:
            yield f"group {group}: expected {dict(counts)} members on nodes, got {dict(found)}"


def _same_node(wanted: list[list[str]], result: Result) -> Iterable[str]:
    for pods in wanted:
        nodes = {result.bound.get(pod) for pod in pods}
        if len(nodes) > 1 or None in nodes:
            yield f"expected one node for {pods}, got {nodes}"


def _effective_cpu(wanted: str, result: Result) -> Iterable[str]:
    amount = parse_quantity(wanted, resource="cpu")
    found = {name: pod.requests.get("cpu") for name, pod in result.pods.items()}
    return [
        f"pod {name}: expected to need {amount} m of CPU, got {cpu}" for name, cpu in found.items() if cpu != amount
    ]


def _then(_wanted: str, result: Result) -> Iterable[str]:
    """A later moment of the case: what it is stands in a sentence, and so in a function per case."""
    if result.case.id not in LATER:
        raise UnknownWord(f"{result.case.id}: tests/cases/check.py does not say what its `then` means")
    return LATER[result.case.id](result)


def _after_the_end_of_old(result: Result) -> Iterable[str]:
    """C10: the terminating pod is gone, the single one runs, and only one node is free for the pair."""
    later = solve_case(result.case, removed=frozenset({"old"}), placed=result.bound)
    return [f"later: {problem}" for problem in _groups({"duo": "none"}, later)]


def _after_the_missing_slice(result: Result) -> Iterable[str]:
    """C15: the single one runs on its device; with the second slice of its pool the pair fits on c15-n1."""
    devices = {
        item.metadata.name: item
        for item in read_manifests(result.case.path.read_bytes()).objects
        if isinstance(item, DeviceObject)
    }
    slice_, taken = devices["c15-n1-new-0"], devices["solo"]
    spec = json.loads(slice_.spec_json)
    spec["devices"] = [{"name": "gpu-1"}]
    missing = replace(
        slice_, metadata=replace(slice_.metadata, name="c15-n1-new-1"), spec_json=json.dumps(spec).encode()
    )
    [solo] = result.devices["solo"]
    chosen = {"request": solo.request, "driver": solo.driver, "pool": solo.pool, "device": solo.device}
    claim = replace(taken, status_json=json.dumps({"allocation": {"devices": {"results": [chosen]}}}).encode())
    later = solve_case(result.case, placed=result.bound, came=[missing, claim])
    found = (*_groups({"pair": "all"}, later), *_bound({"pair-0": ["c15-n1"], "pair-1": ["c15-n1"]}, later))
    return [f"later: {problem}" for problem in found]


LATER: Mapping[str, Callable[[Result], Iterable[str]]] = {
    "C10": _after_the_end_of_old,
    "C15": _after_the_missing_slice,
}


WORDS_TOLD: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("C18", "broken"): ("broken-0", "selector 0", "c18-n2", "healthy"),
}
"""Words that a report has to have beside its numbers, by case and group."""


def _report(wanted: Mapping[str, str], result: Result) -> Iterable[str]:
    """The numbers and resource names of a report have to stand in the group's reasons: meaning, not wording."""
    for name, text in wanted.items():
        told = " ".join(reason.message for reason in result.groups[name].reasons)
        meaning = text.partition(";")[2] or text
        facts = re.findall(r"\d+|\w+\.\w+/\w+", meaning)
        said = {*re.findall(r"\d+", told), *re.findall(r"\w+\.\w+/\w+", told)}
        missing = [fact for fact in facts if fact not in said]
        missing += [one for one in WORDS_TOLD.get((result.case.id, name), ()) if one not in told]
        if missing or not told:
            yield f"group {name}: expected the report to say {meaning.strip()!r} (missing {missing}), got {told!r}"


def _nobody(wanted: Any, _result: Result) -> Iterable[str]:
    """A plan evicts and nominates nobody in this release; a case that asks for it is not in force."""
    if wanted:
        yield f"expected {wanted!r}, but nobody is evicted or nominated"


def _never(_wanted: str, _result: Result) -> Iterable[str]:
    """A snapshot has one moment: what must never happen is covered by what must hold in it."""
    return ()


JUDGEMENTS: Mapping[str, Callable[[Any, Result], Iterable[str]]] = {
    "also": _also,
    "devices": _devices,
    "groups": _groups,
    "bound": _bound,
    "effectiveCPU": _effective_cpu,
    "perNode": _per_node,
    "sameNode": _same_node,
    "then": _then,
    "unbound": _unbound,
    "distinctNodes": _distinct_nodes,
    "report": _report,
    "evict": _nobody,
    "nominate": _nobody,
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
