"""What a gang asks of its topology, read from groups and annotations into `services.core.topology`.

PodGroups say it in `schedulingConstraints.topology`, a whole gang in one domain. Kueue's annotations stand on pods,
and each set of alike pods is kept together for itself. LeaderWorkerSet and JobSet give each group, subgroup or Job a
domain.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from services.core.membership import LWS_SUBGROUP_LABEL, Source, controller_of
from services.core.names import (
    JOB_SET_EXCLUSIVE_ANNOTATION,
    LWS_EXCLUSIVE_ANNOTATION,
    LWS_SUBGROUP_EXCLUSIVE_ANNOTATION,
)
from services.core.objects import Pod, PodGroup, Uid
from services.core.policy import TopologyPolicy
from services.core.reasons import Reason, ReasonCode
from services.core.topology import NO_WISH, TopologyRequest, TopologyWish

KUEUE_REQUIRED = "kueue.x-k8s.io/podset-required-topology"
KUEUE_PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
KUEUE_PODSET_GROUP = "kueue.x-k8s.io/podset-group-name"

_READ = frozenset(
    {
        KUEUE_REQUIRED,
        KUEUE_PREFERRED,
        LWS_EXCLUSIVE_ANNOTATION,
        LWS_SUBGROUP_EXCLUSIVE_ANNOTATION,
        JOB_SET_EXCLUSIVE_ANNOTATION,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedRequest:
    """A request, and the field or annotation where it is stated."""

    request: TopologyRequest
    field: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedTopology:
    """All that a gang states."""

    stated: tuple[StatedRequest, ...] = ()
    wish: TopologyWish = NO_WISH


NOTHING_STATED = StatedTopology()


def topology_of(
    *, group: PodGroup | None, source: Source | None, members: Sequence[Pod], roles: Mapping[Uid, str]
) -> StatedTopology:
    """Return what group, source and members ask for, in a fixed order."""
    of_source = {} if source is None else source.metadata.annotations
    asks = (group is not None and bool(group.topology_keys)) or not _READ.isdisjoint(of_source)
    if not asks and all(_READ.isdisjoint(pod.metadata.annotations) for pod in members):
        return NOTHING_STATED
    subgroups: dict[Uid, str] = {}
    found: set[tuple[str, str, bool, str]] = set()
    for place, key in enumerate(() if group is None else group.topology_keys):
        found.add(("", key, True, f"spec.schedulingConstraints.topology[{place}].key"))
    for pod in members:
        subgroup, stated = _of_pod(pod, of_source=of_source, role=roles.get(pod.metadata.uid, ""))
        if subgroup:
            subgroups[pod.metadata.uid] = subgroup
        found.update(stated)
    stated_requests = tuple(
        StatedRequest(
            request=TopologyRequest(level_label=label, is_required=is_required, subgroup=subgroup), field=field
        )
        for subgroup, label, is_required, field in sorted(found)
    )
    distinct = tuple(dict.fromkeys(one.request for one in stated_requests))
    return StatedTopology(stated=stated_requests, wish=TopologyWish(requests=distinct, subgroups=subgroups))


def topology_reasons(stated: StatedTopology, *, policy: TopologyPolicy) -> tuple[Reason, ...]:
    """Return what is asked for that is no configured level. Where none is configured any label of nodes is one."""
    levels = [level.node_label for level in policy.levels]
    if not levels:
        return ()
    known = ", ".join(
        level.node_label if level.name == level.node_label else f"{level.node_label} ({level.name})"
        for level in policy.levels
    )
    unknown = {(one.field, one.request.level_label) for one in stated.stated if one.request.level_label not in levels}
    return tuple(
        Reason(
            code=ReasonCode.MISCONFIGURED,
            message=f"{field}: expected the node label of a configured topology level ({known}), got {label!r}",
            subject=field,
        )
        for field, label in sorted(unknown)
    )


def _of_pod(pod: Pod, *, of_source: Mapping[str, str], role: str) -> tuple[str, Iterator[tuple[str, str, bool, str]]]:
    """Return the subgroup of a pod, and what it states as (subgroup, label, is required, where)."""
    given = pod.metadata.annotations
    if JOB_SET_EXCLUSIVE_ANNOTATION in of_source or JOB_SET_EXCLUSIVE_ANNOTATION in given:
        owner = controller_of(pod.metadata)
        name = "" if owner is None else owner.name
        return name, _stated({**of_source, **given}, JOB_SET_EXCLUSIVE_ANNOTATION, subgroup=name, is_required=True)
    if LWS_EXCLUSIVE_ANNOTATION in {*of_source, *given} or LWS_SUBGROUP_EXCLUSIVE_ANNOTATION in {*of_source, *given}:
        subgroup = pod.metadata.labels.get(LWS_SUBGROUP_LABEL, "")
        return subgroup, _of_lws({**of_source, **given}, subgroup=subgroup)
    subgroup = given.get(KUEUE_PODSET_GROUP, role) if KUEUE_REQUIRED in given or KUEUE_PREFERRED in given else ""
    return subgroup, _of_kueue(given, subgroup=subgroup)


def _of_lws(given: Mapping[str, str], *, subgroup: str) -> Iterator[tuple[str, str, bool, str]]:
    yield from _stated(given, LWS_EXCLUSIVE_ANNOTATION, subgroup="", is_required=True)
    if subgroup:
        yield from _stated(given, LWS_SUBGROUP_EXCLUSIVE_ANNOTATION, subgroup=subgroup, is_required=True)


def _of_kueue(given: Mapping[str, str], *, subgroup: str) -> Iterator[tuple[str, str, bool, str]]:
    yield from _stated(given, KUEUE_REQUIRED, subgroup=subgroup, is_required=True)
    if KUEUE_REQUIRED not in given:
        yield from _stated(given, KUEUE_PREFERRED, subgroup=subgroup, is_required=False)


def _stated(
    given: Mapping[str, str], annotation: str, *, subgroup: str, is_required: bool
) -> Iterator[tuple[str, str, bool, str]]:
    label = given.get(annotation, "")
    if label:
        yield (subgroup, label, is_required, f"annotation {annotation}")
