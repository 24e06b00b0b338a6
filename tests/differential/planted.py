"""Planted bugs: our side sees a cluster that is not quite the one it is asked about.

Nothing in the services knows of these. Each is a planner around the real one, and stands for a kind of mistake that the
comparison has to notice by itself.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace

from tests.differential.native import Observation
from tests.differential.ours import Answer, Planner, plan, plan_objects
from tests.differential.scenarios import Manifest


def taints_ignored(observation: Observation) -> Answer:
    """Nodes without their taints."""
    objects = tuple(_without(item, "taints") if item["kind"] == "Node" else item for item in observation.objects)
    return plan(replace(observation, objects=objects))


def terminating_counted_free(observation: Observation) -> Answer:
    """A cluster without the pods whose deletion was asked for, which still run."""
    objects = tuple(
        item for item in observation.objects if item["kind"] != "Pod" or not item["metadata"].get("deletionTimestamp")
    )
    return plan(replace(observation, objects=objects))


def siblings_forgotten_in_spread(observation: Observation) -> Answer:
    """Members with spread constraints are placed one by one; those before them hold their room, but are not counted."""
    if not any(pod["spec"].get("topologySpreadConstraints") for pod in observation.members):
        return plan(observation)
    objects = list(observation.objects)
    nodes: dict[str, str] = {}
    reasons: list[str] = []
    for member in observation.members:
        alone = copy.deepcopy(member)
        alone["spec"].pop("schedulingGroup", None)
        name = alone["metadata"]["name"]
        answer = plan_objects([*objects, alone], gang=f"{alone['metadata']['namespace']}/{name}")
        reasons.extend(answer.reasons)
        if name in answer.nodes:
            nodes[name] = answer.nodes[name]
            alone["spec"]["nodeName"] = nodes[name]
            alone["metadata"]["labels"] = {}
            objects.append(alone)
    if len(nodes) < observation.case.wanted:
        return Answer(reasons=tuple(reasons))
    return Answer(nodes=nodes)


def _without(item: Manifest, field: str) -> Manifest:
    return {**item, "spec": {key: value for key, value in item["spec"].items() if key != field}}


PLANTED: Mapping[str, Planner] = {
    "taints-ignored": taints_ignored,
    "siblings-forgotten-in-spread": siblings_forgotten_in_spread,
    "terminating-counted-free": terminating_counted_free,
}
