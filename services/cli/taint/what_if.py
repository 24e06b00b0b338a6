"""What a taint rule would break, and whether what it breaks fits elsewhere.

The cluster is imagined as it will be afterwards: pods that are deleted and their claims are gone, the rule is there,
and successors wait, with claims of their own from the same templates. What is asked then is what `phalanx plan` asks.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from services.cli.taint.world import World
from services.core.blast import Blast, Team, Victim, blast_of, users_of
from services.core.cluster import Cluster
from services.core.names import PREFIX, SCHEDULER_NAME
from services.core.objects import DeviceObject, GangId, Kind, KubernetesObject, Pod
from services.core.plan import GangPlan, PlanOutcome, gangs_of, imagine
from services.core.plan import plan as solve_plan
from services.core.policy import TopologyPolicy
from services.core.reasons import ReasonCode, summary
from services.core.reduce import reduce

Manifest = Mapping[str, Any]

_UNDECIDED = frozenset(
    {
        ReasonCode.UNSUPPORTED_CONSTRAINT,
        ReasonCode.SELECTOR_NOT_SUPPORTED,
        ReasonCode.CLAIM_NOT_SUPPORTED,
        ReasonCode.SEARCH_BUDGET_EXHAUSTED,
    }
)


class Verdict(StrEnum):
    """Whether what a gang loses fits elsewhere. `partly` is enough for its minCount, and not for all."""

    FITS = "fits"
    PARTLY = "partly"
    LACKS = "does not fit"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """The answer for one gang, or for a pod by itself; `nodes` counts its successors by node."""

    gang: GangId
    verdict: Verdict
    why: str = ""
    nodes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """All that is known of a rule before it is written."""

    blast: Blast
    elsewhere: tuple[Elsewhere, ...] = ()
    for_good: tuple[Victim, ...] = ()
    """Pods without a controller: nobody recreates them."""
    problems: tuple[str, ...] = ()

    @property
    def is_harmless(self) -> bool:
        """Whether nothing is lost that does not fit elsewhere, as far as all is known."""
        fits = all(one.verdict in {Verdict.FITS, Verdict.PARTLY} for one in self.elsewhere)
        return not self.problems and (not self.blast.is_deadly or (fits and not self.for_good))


def what_if(world: World, rule: Manifest, *, topology: TopologyPolicy | None = None) -> WhatIf:
    """Return what a rule would do to a cluster."""
    cluster = Cluster(trusts_unseen=True)
    imagine(cluster, world.objects, takes_all_schedulers=False)
    blast = blast_of(
        rule,
        claims=world.manifests(Kind.RESOURCE_CLAIM),
        slices=world.manifests(Kind.RESOURCE_SLICE),
        pods=world.manifests(Kind.POD),
        teams=_teams(cluster),
    )
    if not blast.is_deadly:
        return WhatIf(blast=blast, problems=world.problems)
    victims = {one.uid for one in blast.victims}
    dying = [pod for pod in world.manifests(Kind.POD) if pod["metadata"]["uid"] in victims]
    lonely = {pod["metadata"]["uid"] for pod in dying if not _has_controller(pod)}
    successors = [pod for pod in dying if pod["metadata"]["uid"] not in lonely]
    return WhatIf(
        blast=blast,
        elsewhere=tuple(_elsewhere(world, rule, lost=victims, successors=successors, topology=topology)),
        for_good=tuple(one for one in blast.victims if one.uid in lonely),
        problems=world.problems,
    )


def _teams(cluster: Cluster) -> Iterator[Team]:
    """Yield the gangs with the members that have a place; a pod by itself is none."""
    for gang in gangs_of(cluster):
        if not gang.id.startswith("pod/"):
            members = frozenset(str(pod.metadata.uid) for pod in gang.placed)
            yield Team(name=gang.id, min_count=gang.min_count, members=members)


def _elsewhere(
    world: World,
    rule: Manifest,
    *,
    lost: set[str],
    successors: list[Manifest],
    topology: TopologyPolicy | None,
) -> Iterator[Elsewhere]:
    """Ask the solver about each gang that has successors."""
    cluster = Cluster(trusts_unseen=True)
    imagine(cluster, _remaining(world, lost=lost), takes_all_schedulers=False)
    templates = {
        (one["metadata"].get("namespace"), one["metadata"]["name"]): one
        for one in world.manifests(Kind.RESOURCE_CLAIM_TEMPLATE)
    }
    coming = [item for pod in successors for item in _successor(pod, templates=templates)]
    tainted = reduce(Kind.DEVICE_TAINT_RULE, {**rule, "metadata": {**rule["metadata"], "uid": "imagined"}})
    imagine(cluster, (tainted, *coming), takes_all_schedulers=True)
    pods = [one for one in coming if isinstance(one, Pod)]
    wanted = {cluster.gang_id_of(pod) for pod in pods}
    gangs = [gang for gang in gangs_of(cluster) if gang.id in wanted]
    plans = solve_plan(gangs, inventory=cluster.inventory, topology=topology)
    for gang_id, plan in sorted(plans.items()):
        count = sum(cluster.gang_id_of(pod) == gang_id for pod in pods)
        if world.problems:
            yield Elsewhere(gang=gang_id, verdict=Verdict.UNKNOWN, why="not everything could be read")
        else:
            yield _verdict(gang_id, plan, successors=count)


def _verdict(gang_id: GangId, plan: GangPlan, *, successors: int) -> Elsewhere:
    if plan.outcome is PlanOutcome.PLACED:
        nodes = list(plan.bound.values())
        counts = tuple((str(node), nodes.count(node)) for node in sorted(set(nodes)))
        if len(nodes) >= successors:
            return Elsewhere(gang=gang_id, verdict=Verdict.FITS, nodes=counts)
        why = f"{len(nodes)} of {successors}, enough for its minCount"
        return Elsewhere(gang=gang_id, verdict=Verdict.PARTLY, why=why, nodes=counts)
    is_undecided = any(reason.code in _UNDECIDED for reason in plan.reasons)
    verdict = Verdict.UNKNOWN if is_undecided else Verdict.LACKS
    return Elsewhere(gang=gang_id, verdict=verdict, why=summary(plan.reasons))


def _remaining(world: World, *, lost: set[str]) -> Iterator[KubernetesObject]:
    """Yield what is left when the victims are gone: claims made for them, and allocations that only they use."""
    claims = {one["metadata"]["uid"]: one for one in world.manifests(Kind.RESOURCE_CLAIM)}
    for item in world.objects:
        uid = str(item.metadata.uid)
        if isinstance(item, Pod) and uid in lost:
            continue
        claim = claims.get(uid) if isinstance(item, DeviceObject) and item.kind is Kind.RESOURCE_CLAIM else None
        if claim is None:
            yield item
        elif not {str(owner.get("uid")) for owner in claim["metadata"].get("ownerReferences") or ()} & lost:
            users = users_of(claim)
            is_freed = bool(users) and users <= lost
            yield reduce(Kind.RESOURCE_CLAIM, {**claim, "status": {}}) if is_freed else item


def _successor(pod: Manifest, *, templates: Mapping[tuple[Any, str], Manifest]) -> Iterator[KubernetesObject]:
    """Yield the pod that a controller would create in place of one, and the claims that would be made for it."""
    old = pod["metadata"]
    annotations = {key: value for key, value in (old.get("annotations") or {}).items() if not key.startswith(PREFIX)}
    uid = f"successor-of-{old['uid']}"
    kept = ("name", "namespace", "labels", "ownerReferences", "creationTimestamp")
    metadata = {name: old[name] for name in kept if name in old} | {"uid": uid, "annotations": annotations}
    statuses = []
    for number, entry in enumerate((pod.get("spec") or {}).get("resourceClaims") or ()):
        template = templates.get((old.get("namespace"), str(entry.get("resourceClaimTemplateName"))))
        if template is None:
            continue
        name = f"{old['name']}-{number}-successor"
        statuses.append({"name": entry.get("name"), "resourceClaimName": name})
        yield reduce(Kind.RESOURCE_CLAIM, _claim(template, name=name, pod=metadata))
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    yield reduce(
        Kind.POD,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": spec | {"schedulerName": SCHEDULER_NAME},
            "status": {"phase": "Pending", "resourceClaimStatuses": statuses},
        },
    )


def _claim(template: Manifest, *, name: str, pod: Manifest) -> Manifest:
    """Return the claim that is made from a template for a pod."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"], "controller": True}
    metadata = {
        "name": name,
        "namespace": pod.get("namespace", ""),
        "uid": f"{pod['uid']}-{name}",
        "ownerReferences": [owner],
        "creationTimestamp": pod.get("creationTimestamp"),
    }
    inner = (template.get("spec") or {}).get("spec") or {}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": inner}


def _has_controller(pod: Manifest) -> bool:
    return any(owner.get("controller") for owner in pod["metadata"].get("ownerReferences") or ())


def as_json(found: WhatIf) -> str:
    """Return what would happen as JSON, with stable fields."""
    blast = found.blast
    document = {
        "effect": blast.effect,
        "devices": {"selected": blast.selected, "published": blast.published},
        "claims": list(blast.claims),
        "podsDeleted": [_pod(one) for one in (blast.victims if blast.is_deadly else ())],
        "podsTolerating": blast.tolerant,
        "gangs": [
            {"gang": one.name, "minCount": one.min_count, "loses": one.lost, "left": one.left, "breaks": one.is_broken}
            for one in (blast.losses if blast.is_deadly else ())
        ],
        "elsewhere": [
            {"gang": one.gang, "verdict": one.verdict.value, "why": one.why, "nodes": dict(one.nodes)}
            for one in found.elsewhere
        ],
        "notRecreated": [_pod(one) for one in found.for_good],
        "problems": list(found.problems),
    }
    return json.dumps(document, indent=2)


def _pod(victim: Victim) -> Mapping[str, Any]:
    return {"namespace": victim.namespace, "name": victim.name, "afterSeconds": victim.after_s}


def names_of(victims: Iterable[Victim]) -> tuple[str, ...]:
    """Return pods as people write them."""
    return tuple(f"{one.namespace}/{one.name}" for one in victims)
