"""Our answer: `phalanx plan` on the objects that kube-scheduler had before it."""

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from click.testing import CliRunner

from services.cli.main import main
from tests.differential.native import Observation
from tests.differential.scenarios import Manifest

_BAD_INPUT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Where members would go, by pod name, or why they would not."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()


Planner = Callable[[Observation], Answer]


def plan(observation: Observation) -> Answer:
    """Ask the command, as anybody would with the output of kubectl in a file."""
    case = observation.case
    return plan_objects(observation.input, gang=f"{observation.members[0]['metadata']['namespace']}/{case.name}")


def plan_objects(objects: Iterable[Manifest], *, gang: str) -> Answer:
    """Ask about one gang of the objects. Input that the command refuses is a no with its sentence."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "objects.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
        runner = CliRunner(env={"PHALANX_PLACER": None})
        result = runner.invoke(main, ["plan", "-f", str(path), "-o", "json", "--all-schedulers"])
    if result.exit_code == _BAD_INPUT or not result.output.startswith("{"):
        return Answer(reasons=(f"exit code {result.exit_code}: {result.output.strip() or result.exception}",))
    groups = json.loads(result.output).get("groups", {})
    found = groups.get(gang)
    if found is None:
        return Answer(reasons=(f"no answer about {gang} among {sorted(groups)}",))
    reasons = tuple(f"{one['code'].removeprefix('REASON_CODE_')}: {one['message']}" for one in found.get("reasons", ()))
    return Answer(nodes=found.get("bound", {}), reasons=reasons)
