"""`bindReply`: the answers to bindings, one at a time.

Every binding of a pod that such a step names is held at the API server until the step says how it is answered. Refusals
are never invented: the step makes the API's objects such that the server itself refuses, and that it did is checked.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from services.sandbox.faults import Action, Fault, Match
from tests.cases.check import UnknownWord
from tests.cases.play_stage import Stage
from tests.cases.play_steps import Step, Verb
from tests.e2e.waiting import until

TIMEOUT = "timeout"


@dataclass(slots=True, kw_only=True)
class BindReplies:
    """Held bindings, by pod, in the order of their steps."""

    stage: Stage
    _held: dict[str, list[Fault]] = field(default_factory=dict)
    _answered: dict[str, int] = field(default_factory=dict)
    _cordoned: list[str] = field(default_factory=list)
    _late: list[Fault] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether every binding that the case holds has been answered."""
        return all(self._answered.get(pod, 0) == len(faults) for pod, faults in self._held.items())

    def hold(self) -> None:
        """Hold what the steps of the case will answer; before that pod's binding can be sent."""
        for step in self.stage.script.steps:
            if step.verb is not Verb.BIND_REPLY:
                continue
            (pod,) = self._pods(step)
            faults = self._held.setdefault(pod, [])
            is_cut = step.arguments["code"] == TIMEOUT
            is_late = self._change_before_next(step) is not None
            faults.append(
                self.stage.system.apiserver.faults.add(
                    Match(method="POST", path=f"/pods/{pod}/binding$", lacks="dryRun"),
                    Action(hold=True, cut="after" if is_cut else None, when="after" if is_late else "before"),
                    nth=len(faults) + 1,
                )
            )

    async def reply(self, step: Step) -> None:
        """Let the next binding of a pod be answered as the step says."""
        (pod,) = self._pods(step)
        number = self._answered.get(pod, 0)
        self._answered[pod] = number + 1
        fault = self._held[pod][number]
        await until(lambda: fault.held_count, what=f"binding {number + 1} of {pod} was sent")
        self._store(pod, step)
        if self._change_before_next(step) is not None:
            # The binding has taken effect; the binder hears of it when the change has come.
            self._late.append(fault)
            return
        fault.release()
        await until(lambda: len(self._codes(pod)) > number, what=f"binding {number + 1} of {pod} was answered")
        code = self._codes(pod)[number]
        wanted = 201 if step.arguments["code"] == TIMEOUT else step.arguments["code"]
        assert code == wanted, f"step {step.number}: expected binding of {pod} to be answered {wanted}, got {code}"
        if self.is_done:
            await uncordon(self.stage, self._cordoned)
            self._cordoned.clear()

    def is_before_next(self, step: Step) -> bool:
        """Tell whether a change comes before the next binding is sent: the answer to the last one waits for it."""
        return str(step.arguments.get("before", "")).startswith("binding of ")

    def _change_before_next(self, step: Step) -> Step | None:
        following = (one for one in self.stage.script.steps if one.number == step.number + 1)
        return next((one for one in following if self.is_before_next(one)), None)

    async def let_go(self) -> None:
        """Give the answers that waited for a change, now that the binder has followed it."""
        await self.stage.system.binder_follows()
        for fault in self._late:
            fault.release()
        self._late.clear()

    async def force(self, pod: str) -> None:
        """Keep a replaced pod to the forced plan too, where that names its node, until all bindings are answered."""
        node = forced_plan(self.stage).get(pod)
        if node is None or self.is_done:
            return
        for other in [name for name, gpus in self.stage.unbound_gpus().items() if gpus and name != node]:
            await self.stage.api.patch("Node", other, {"spec": {"unschedulable": True}})
            self._cordoned.append(other)

    def _store(self, pod: str, step: Step) -> None:
        """Bind the pod elsewhere, where the step says that the API has it so and the held binding does not do it."""
        stored = step.arguments.get("stored") or {}
        if not stored or step.arguments["code"] == TIMEOUT:
            return
        binding = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": stored["nodeName"]}}
        self.stage.system.apiserver.cluster.subresources.bind(binding, namespace=self.stage.script.namespace, name=pod)

    def _codes(self, pod: str) -> list[int]:
        return [
            write.code
            for write in self.stage.system.apiserver.traffic.writes
            if write.resource == "pods/binding" and write.name == pod and "dryRun" not in write.query
        ]

    @staticmethod
    def _pods(step: Step) -> tuple[str, ...]:
        pods = tuple(ref.partition("/")[2] for ref in step.objects if ref.startswith("Pod/"))
        if len(pods) != 1:
            raise UnknownWord(f"step {step.number}: bindReply names one pod, got {step.objects}")
        return pods


def forced_plan(stage: Stage) -> Mapping[str, str]:
    """Return the plan that the case forces: the first that names nodes."""
    plans = [step.expectations["planned"] for step in stage.script.steps if "planned" in step.expectations]
    return plans[0] if plans and isinstance(plans[0], dict) else {}


def cordon_others(stage: Stage) -> list[str]:
    """Force the plan: load the nodes that it leaves out cordoned. Returns them, to be uncordoned once it stands."""
    wanted = set(forced_plan(stage).values())
    nodes = [ref.partition("/")[2] for ref in stage.manifests if ref.startswith("Node/")]
    others = [node for node in nodes if wanted and node not in wanted]
    for node in others:
        stage.manifests[f"Node/{node}"].setdefault("spec", {})["unschedulable"] = True
    return others


async def uncordon(stage: Stage, nodes: Iterable[str]) -> None:
    """Let the nodes be used again."""
    for node in nodes:
        await stage.api.patch("Node", node, {"spec": {"unschedulable": None}})
        stage.manifests[f"Node/{node}"].setdefault("spec", {}).pop("unschedulable", None)
