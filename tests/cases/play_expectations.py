"""What a step or a whole case expects, judged on the running system: a sentence for each thing that does not hold."""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from services.contracts.decision_codec import decode_reasons
from services.core.names import CONDITION_INITIALLY_SCHEDULED, SCHEDULER_NAME
from services.core.objects import Applied
from services.sandbox.objects import name_of, status, uid_of
from tests.cases.check import UnknownWord
from tests.cases.play_stage import GPU, Stage
from tests.cases.play_steps import listed

Problems = Iterable[str]
Judge = Callable[[Stage, Any], Awaitable[Problems]]

_FACTS = re.compile(r"\d+|\w+\.\w+/\w+")
_CREATED = 201


async def judge(stage: Stage, expectations: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each expectation that does not hold now."""
    problems: list[str] = []
    for word, wanted in expectations.items():
        judgement = JUDGEMENTS.get(word)
        if judgement is None:
            raise UnknownWord(f"{stage.script.case.id}: the expectation {word!r} cannot be judged yet")
        value = {"pods": expectations.get("bound", ()), "nodes": wanted} if word == "onNodes" else wanted
        problems += await judgement(stage, value)
    return problems


async def _planned(stage: Stage, wanted: list[str] | Mapping[str, str]) -> Problems:
    # The first bindings may have been sent before anybody looked.
    planned = stage.planned()
    if set(planned) != set(wanted):
        return [f"planned: expected {sorted(wanted)}, got {dict(planned)}"]
    if isinstance(wanted, Mapping) and sorted(planned.values()) != sorted(wanted.values()):
        return [f"planned: expected the nodes {sorted(wanted.values())} in any order, got {dict(planned)}"]
    return []


async def _bound(stage: Stage, wanted: list[str] | Mapping[str, Any]) -> Problems:
    problems = []
    for pod in wanted:
        node = stage.node_of(pod)
        allowed = wanted[pod] if isinstance(wanted, Mapping) else "any"
        if not node or (allowed != "any" and node not in listed(allowed)):
            problems.append(f"pod {pod}: expected bound on {allowed}, got {node or 'no node'}")
    return problems


async def _unbound(stage: Stage, wanted: list[str]) -> Problems:
    return [f"pod {pod}: expected unbound, got {node}" for pod in wanted if (node := stage.node_of(pod))]


async def _on_nodes(stage: Stage, wanted: Mapping[str, Any]) -> Problems:
    found = {pod: stage.node_of(pod) for pod in wanted["pods"]}
    strange = {pod: node for pod, node in found.items() if node not in wanted["nodes"]}
    return [f"expected on {wanted['nodes']}, got {strange}"] if strange else []


async def _distinct_nodes(stage: Stage, wanted: list[str]) -> Problems:
    nodes = [stage.node_of(pod) for pod in wanted]
    return [] if len(set(nodes)) == len(nodes) else [f"expected distinct nodes for {wanted}, got {nodes}"]


async def _groups(stage: Stage, wanted: Mapping[str, str]) -> Problems:
    problems = []
    for group, outcome in wanted.items():
        members = [pod for pod in stage.manifests if pod.startswith("Pod/") and stage.gang_of(pod[4:]).endswith(group)]
        names = [ref.partition("/")[2] for ref in members if stage.pod(ref.partition("/")[2])]
        bound = [name for name in names if stage.node_of(name)]
        if outcome not in {"all", "none"}:
            raise UnknownWord(f"groups: {group}: {outcome!r}")
        if (outcome == "all" and len(bound) != len(names)) or (outcome == "none" and bound):
            problems.append(f"group {group}: expected {outcome} of {names} bound, got {bound}")
        if outcome == "none" and set(stage.promised()) & set(names):
            problems.append(f"group {group}: expected nothing held, got {dict(stage.promised())}")
    return problems


async def _reserved(stage: Stage, wanted: int | Mapping[str, int]) -> Problems:
    """What is promised and not bound, and whether the placer's free GPUs agree with the API's objects beside it."""
    promised = stage.promised()
    problems = []
    if isinstance(wanted, int):
        if len(promised) != wanted:
            problems.append(f"reserved: expected {wanted} promised members, got {dict(promised)}")
        nodes = set(stage.unbound_gpus()) if wanted == 0 else set()
    else:
        for node, count in wanted.items():
            found = [pod for pod, where in promised.items() if where == node]
            if len(found) != count:
                problems.append(f"reserved on {node}: expected {count} members, got {found}")
        nodes = {node for node, count in wanted.items() if count == 0}
    free = {node: gpus for node, gpus in stage.unbound_gpus().items() if node in nodes}
    return [*problems, *await _free_gpu(stage, free)]


async def _free_gpu(stage: Stage, wanted: Mapping[str, int]) -> Problems:
    """Ask the placer where single-GPU pods would go that are pinned to each node."""
    problems = []
    for node, count in wanted.items():
        total = next(
            int(status(one)["allocatable"].get(GPU, 0))
            for one in stage.system.apiserver.store.objects("nodes")
            if name_of(one) == node
        )
        probes = [_probe(f"probe-{number}", node=node) for number in range(total)]
        answer = await stage.system.plan(json.dumps({"kind": "List", "items": probes}).encode())
        found = sum(plan.outcome == "placed" for plan in answer.groups.values())
        if found != count:
            problems.append(f"free GPUs of {node}: expected {count}, the placer says {found}")
    return problems


def _probe(name: str, *, node: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "registry.example.com/none:1",
        "resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}},
    }
    spec = {
        "schedulerName": SCHEDULER_NAME,
        "nodeSelector": {"kubernetes.io/hostname": node},
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "probes"}, "spec": spec}


async def _members(stage: Stage, wanted: int | Mapping[str, int]) -> Problems:
    if isinstance(wanted, int):
        groups = [ref.partition("/")[2] for ref in stage.manifests if ref.startswith("PodGroup/")]
        if len(groups) != 1:
            raise UnknownWord(f"members: expected a count by group, because there are several: {groups}")
        wanted = {groups[0]: wanted}
    problems = []
    for group, count in wanted.items():
        found = (await stage.system.explain(stage.gang(group))).existing
        if found != count:
            problems.append(f"group {group}: expected {count} members, the placer counts {found}")
    return problems


async def _exists(stage: Stage, wanted: list[str]) -> Problems:
    """The objects are there, as the same objects, and the cluster stream says so too."""
    problems = []
    streamed = {
        (change.kind.value, change.metadata.name): change.metadata.uid
        for change in stage.system.recorder.objects.values()
        if isinstance(change, Applied) and change.metadata.namespace == stage.script.namespace
    }
    for ref in wanted:
        kind, _, name = ref.partition("/")
        found = await stage.api.find(kind, name)
        uid = stage.notes.get("stored", {}).get(ref) or uid_of(stage.witness.versions[ref][-1])
        if found is None or found["metadata"]["uid"] != uid or "deletionTimestamp" in found["metadata"]:
            problems.append(f"{ref}: expected to exist with uid {uid}, got {found and found['metadata']}")
        if streamed.get((kind.lower(), name)) != uid:
            problems.append(f"{ref}: the cluster stream does not have it with uid {uid}")
    return problems


async def _report(stage: Stage, wanted: Mapping[str, str]) -> Problems:
    """A single word is the reason of the group's condition; the numbers and names of a sentence stand in what is told.

    What is told are the messages of the group's conditions, and for a waiting gang also what the placer explains.
    """
    problems = []
    for group, text in wanted.items():
        shown = await stage.api.find("PodGroup", group)
        conditions = {one["type"]: one for one in ((shown or {}).get("status") or {}).get("conditions") or ()}
        if " " not in text:
            reason = conditions.get(CONDITION_INITIALLY_SCHEDULED, {}).get("reason")
            if reason != text:
                problems.append(f"group {group}: expected the condition's reason {text}, got {reason}")
            continue
        told = {"the group's conditions": " ".join(one.get("message", "") for one in conditions.values())}
        explained = await stage.system.explain(stage.gang(group))
        if explained.state == "waiting":
            told["Explain"] = " ".join(reason.message for reason in decode_reasons(explained.reasons))
        for place, words in told.items():
            missing = [fact for fact in _FACTS.findall(text) if fact not in _FACTS.findall(words)]
            if missing:
                problems.append(f"group {group}: {place} have to say {text!r} (missing {missing}), got {words!r}")
    return problems


async def _replicas(stage: Stage, wanted: int) -> Problems:
    (ref,) = [ref for ref in stage.manifests if ref.startswith("Deployment/")]
    found = (await stage.api.get(*ref.split("/")))["spec"].get("replicas")
    return [] if found == wanted else [f"{ref}: expected {wanted} replicas, got {found}"]


async def _scale_writes(stage: Stage, wanted: int) -> Problems:
    found = [ref for ref in stage.witness.scalings if ref.startswith("Deployment/")]
    return [] if len(found) == wanted else [f"expected {wanted} changes of replicas, got {len(found)}"]


async def _evictions(stage: Stage, wanted: int) -> Problems:
    found = [
        write.name
        for write in stage.system.apiserver.traffic.writes
        if write.resource == "pods/eviction" and write.code == _CREATED
    ]
    survivor = stage.notes.get("successor")
    problems = [] if len(found) == wanted else [f"expected {wanted} evictions, got {found}"]
    if survivor and survivor not in {uid_of(pod) for pod in stage.pods()}:
        problems.append("the successor of the evicted pod is gone")
    return problems


async def _pod_groups(stage: Stage, wanted: list[str]) -> Problems:
    found = [item["metadata"]["name"] for item in await stage.api.list("PodGroup")]
    return [] if sorted(found) == sorted(wanted) else [f"expected the groups {wanted}, got {found}"]


async def _stray(stage: Stage, wanted: int) -> Problems:
    """What Phalanx still believes in although the API does not have it, or holds for nobody."""
    uids = {uid_of(pod) for pod in stage.pods()}
    promised = [one.uid for open_one in stage.system.recorder.open() for one in open_one.assignments]
    found = [*stage.system.differences(), *(uid for uid in promised if uid not in uids)]
    return [] if len(found) == wanted else [f"expected {wanted} strays, got {found}"]


async def _no_bind_to(stage: Stage, wanted: str) -> Problems:
    """Since the node was deleted nothing was bound to it."""
    gone = [one.revision for one in stage.witness.deletions if one.ref == f"Node/{wanted}"]
    late = [one.pod for one in stage.witness.bindings if one.node == wanted and gone and one.revision > gone[0]]
    return [f"bound to {wanted} after its deletion: {late}"] if late else []


JUDGEMENTS: Mapping[str, Judge] = {
    "bound": _bound,
    "distinctNodes": _distinct_nodes,
    "evictions": _evictions,
    "exists": _exists,
    "freeGPU": _free_gpu,
    "groups": _groups,
    "members": _members,
    "noBindTo": _no_bind_to,
    "onNodes": _on_nodes,
    "planned": _planned,
    "podGroups": _pod_groups,
    "replicas": _replicas,
    "report": _report,
    "reserved": _reserved,
    "scaleWrites": _scale_writes,
    "scheduled": _bound,
    "stray": _stray,
    "unbound": _unbound,
}
