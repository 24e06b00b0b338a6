"""To which gang a pod belongs: what it says, and whether the objects that it names agree.

The table, of which the first row that matches wins; docs/gangs.md is its page:

============  ======================================================  ==========================================
gang          the pod carries                                         and is believed because
============  ======================================================  ==========================================
podgroup      `spec.schedulingGroup.podGroupName`                     naming a group of its namespace is the API
coscheduling  label `scheduling.x-k8s.io/pod-group`                   as above
kueue         label `kueue.x-k8s.io/pod-group-name`                   as above
volcano       annotation `scheduling.k8s.io/group-name`               as above
lws           labels `leaderworkerset.sigs.k8s.io/{name,group-index}` its owners lead to that LeaderWorkerSet
jobset        label `jobset.sigs.k8s.io/jobset-name`                  its owners lead to that JobSet
raycluster    label `ray.io/cluster`                                  its owners lead to that RayCluster
pytorchjob …  label `training.kubeflow.org/job-name`                  its owners lead to that job
job           label `phalanx.dev/gang: "true"` on it or on its Job    its owner is that Job
pod           nothing of these                                        it is alone
============  ======================================================  ==========================================

Owners are followed by name in the pod's own namespace, and each must have the uid that was named, so that a label alone
neither joins nor blocks a gang. Where an owner was not seen yet, or is another one of the same name, the pod waits.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from services.core.names import GANG_LABEL, VOLCANO_GROUP_ANNOTATION
from services.core.objects import GangId, GroupSource, Job, Kind, Metadata, Owner, Pod, kind_of
from services.core.reduce_sources import FOLLOWERS, LAUNCHER, LEADER, WORKER

SourceKey = tuple[Kind, str, str]
"""Kind, namespace and name of an object that groups or owns pods."""
Source = GroupSource | Job | Pod
"""What can own a pod: a LeaderWorkerSet's workers belong to their leader pod."""

COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
KUEUE_GROUP_LABEL = "kueue.x-k8s.io/pod-group-name"
LWS_NAME_LABEL = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP_LABEL = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER_LABEL = "leaderworkerset.sigs.k8s.io/worker-index"
LWS_SUBGROUP_LABEL = "leaderworkerset.sigs.k8s.io/subgroup-index"
JOB_SET_LABEL = "jobset.sigs.k8s.io/jobset-name"
JOB_SET_ROLE_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
RAY_CLUSTER_LABEL = "ray.io/cluster"
RAY_NODE_TYPE_LABEL = "ray.io/node-type"
RAY_GROUP_LABEL = "ray.io/group"
TRAINING_NAME_LABEL = "training.kubeflow.org/job-name"
TRAINING_OPERATOR_LABEL = "training.kubeflow.org/operator-name"
TRAINING_ROLE_LABELS = ("training.kubeflow.org/replica-type", "training.kubeflow.org/job-role")
_NAMING_LABELS = frozenset({LWS_NAME_LABEL, JOB_SET_LABEL, RAY_CLUSTER_LABEL, TRAINING_NAME_LABEL})
COMPLETION_INDEX_LABEL = "batch.kubernetes.io/job-completion-index"

_OWNER_KINDS: Mapping[tuple[str, str], Kind] = {
    ("", "Pod"): Kind.POD,
    ("batch", "Job"): Kind.JOB,
    ("apps", "StatefulSet"): Kind.STATEFUL_SET,
    ("jobset.x-k8s.io", "JobSet"): Kind.JOB_SET,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): Kind.LEADER_WORKER_SET,
    ("ray.io", "RayCluster"): Kind.RAY_CLUSTER,
    ("kubeflow.org", "PyTorchJob"): Kind.PYTORCH_JOB,
    ("kubeflow.org", "TFJob"): Kind.TF_JOB,
    ("kubeflow.org", "MPIJob"): Kind.MPI_JOB,
}
_API_NAMES: Mapping[Kind, str] = {kind: name for (_, name), kind in _OWNER_KINDS.items()} | {
    Kind.COSCHEDULING_GROUP: "PodGroup",
    Kind.VOLCANO_GROUP: "PodGroup",
}
_TRAINING_OPERATORS: Mapping[str, Kind] = {
    "pytorchjob-controller": Kind.PYTORCH_JOB,
    "tfjob-controller": Kind.TF_JOB,
    "mpijob-controller": Kind.MPI_JOB,
    "mpi-operator": Kind.MPI_JOB,
}
_TRAINING_KINDS = frozenset(_TRAINING_OPERATORS.values())
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
"""A DNS subdomain (RFC 1123), as the names of all objects that can group pods are."""
_LONGEST_CHAIN = 8
"""Owners of owners that are followed; the longest that exists, of a LeaderWorkerSet's worker, has four."""


class Standing(StrEnum):
    """How sure it is that a pod belongs to its gang."""

    SURE = "sure"
    TRUSTED = "trusted"
    """An owner is not to be had: its kind is not served, or a plan's files do not state it."""
    UNSEEN = "unseen"
    """An owner was not seen yet, or is another one of the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The gang of a pod. `source` declares it, None where nothing but the pods does.

    `consulted` are the objects whose changes could change this answer; `missing` is the owner that was not seen.
    """

    gang: GangId
    source: SourceKey | None = None
    standing: Standing = Standing.SURE
    consulted: tuple[SourceKey, ...] = ()
    missing: Owner | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    """What a pod's labels say: a gang, and the object that must be among its owners."""

    gang: GangId
    source: SourceKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """What is known of owners. `is_absent` tells kinds of which nothing can be known."""

    find: Callable[[SourceKey], Source | None]
    is_absent: Callable[[Kind], bool]


@dataclass(slots=True, kw_only=True)
class _Chain:
    """The owners of a pod, as far as they are known. `missing` is the first that is not the one that was named."""

    items: dict[SourceKey, Source] = field(default_factory=dict)
    consulted: list[SourceKey] = field(default_factory=list)
    missing: Owner | None = None
    is_trusted: bool = False


def nowhere(_key: SourceKey) -> None:
    """Find nothing: the books at hand are all there are."""


def named_gang(pod: Pod) -> Membership | None:
    """Return the gang that a pod names itself, without regard to its owners; None where it names none."""
    metadata = pod.metadata
    for _, name in names_of_groups(metadata, group=pod.group):
        if not is_name(name):
            return None
        break
    if pod.group:
        return _named(metadata, "podgroup", Kind.POD_GROUP, pod.group)
    coscheduled = metadata.labels.get(COSCHEDULING_LABEL)
    if coscheduled:
        return _named(metadata, "coscheduling", Kind.COSCHEDULING_GROUP, coscheduled)
    kueue = metadata.labels.get(KUEUE_GROUP_LABEL)
    if kueue:
        return Membership(gang=GangId(f"kueue/{metadata.namespace}/{kueue}"))
    volcano = metadata.annotations.get(VOLCANO_GROUP_ANNOTATION)
    if volcano:
        return _named(metadata, "volcano", Kind.VOLCANO_GROUP, volcano)
    return None


def names_of_groups(metadata: Metadata, *, group: str) -> Iterator[tuple[str, str]]:
    """Yield the fields in which a pod names its group, with what they say, the one that counts first.

    `group` is that of `spec.schedulingGroup`.
    """
    given = (
        ("spec.schedulingGroup.podGroupName", group),
        (f"metadata.labels[{COSCHEDULING_LABEL}]", metadata.labels.get(COSCHEDULING_LABEL)),
        (f"metadata.labels[{KUEUE_GROUP_LABEL}]", metadata.labels.get(KUEUE_GROUP_LABEL)),
        (f"metadata.annotations[{VOLCANO_GROUP_ANNOTATION}]", metadata.annotations.get(VOLCANO_GROUP_ANNOTATION)),
    )
    for field_path, name in given:
        if name:
            yield field_path, name


def is_name(text: str) -> bool:
    """Tell whether an object may be named so: annotations are free text, and gang ids become subjects of the bus."""
    return _NAME.fullmatch(text) is not None


def membership_of(pod: Pod, *, lookup: Lookup) -> Membership:
    """Return the gang of a pod: a function of the pod and of the owners that are known, in whatever order they came."""
    named = named_gang(pod)
    if named is not None:
        return named
    alone = Membership(gang=GangId(f"pod/{pod.metadata.namespace}/{pod.metadata.name}"))
    controller = controller_of(pod.metadata)
    if controller is None or owner_kind(controller) is None:
        return alone
    chain = _chain_of(pod, lookup=lookup)
    consulted = tuple(chain.consulted)
    for claim in _claims(pod, controller=controller, chain=chain):
        if claim.source in chain.items:
            return Membership(gang=claim.gang, source=claim.source, consulted=consulted)
        if chain.missing is not None:
            return Membership(
                gang=claim.gang,
                source=claim.source,
                standing=Standing.TRUSTED if chain.is_trusted else Standing.UNSEEN,
                consulted=(*consulted, claim.source),
                missing=chain.missing,
            )
    if chain.missing is controller and owner_kind(controller) is Kind.JOB and not chain.is_trusted:
        # Its Job may say that it is a gang.
        return Membership(gang=alone.gang, standing=Standing.UNSEEN, consulted=consulted, missing=controller)
    return Membership(gang=alone.gang, consulted=consulted)


def reference_to(source: Source, *, api_version: str) -> Owner:
    """Return an object that declares a gang as others refer to it, in the version in which it is followed."""
    metadata = source.metadata
    return Owner(kind=_API_NAMES[kind_of(source)], name=metadata.name, uid=metadata.uid, api_version=api_version)


def controller_of(metadata: Metadata) -> Owner | None:
    """Return the owner that manages an object, or None."""
    return next((owner for owner in metadata.owners if owner.is_controller), None)


def owner_kind(owner: Owner) -> Kind | None:
    """Return the kind of an owner that is followed, or None for others."""
    group, slash, _ = owner.api_version.partition("/")
    return _OWNER_KINDS.get((group if slash else "", owner.kind)) if owner.api_version else None


def role_of(pod: Pod, *, source: Source | None) -> str:
    """Return the role of a pod in its group, empty where the group has no roles."""
    labels = pod.metadata.labels
    if not isinstance(source, GroupSource) or not source.roles:
        return ""
    match source.kind:
        case Kind.LEADER_WORKER_SET:
            return LEADER if labels.get(LWS_WORKER_LABEL) == "0" else WORKER
        case Kind.JOB_SET:
            name = labels.get(JOB_SET_ROLE_LABEL, "")
            follower = name + FOLLOWERS
            is_follower = labels.get(COMPLETION_INDEX_LABEL) != "0" and any(
                role.name == follower for role in source.roles
            )
            return follower if is_follower else name
        case Kind.RAY_CLUSTER:
            is_head = labels.get(RAY_NODE_TYPE_LABEL) == "head"
            return "head" if is_head else labels.get(RAY_GROUP_LABEL, "")
        case _:
            given = next((labels[key] for key in TRAINING_ROLE_LABELS if labels.get(key)), "")
            return given.lower()


def _named(metadata: Metadata, word: str, kind: Kind, name: str) -> Membership:
    source = (kind, metadata.namespace, name)
    # A PodGroup tells its gang itself, whether it has pods or not.
    consulted = () if kind is Kind.POD_GROUP else (source,)
    return Membership(gang=GangId(f"{word}/{metadata.namespace}/{name}"), source=source, consulted=consulted)


def _claims(pod: Pod, *, controller: Owner, chain: _Chain) -> Iterator[_Claim]:
    # What no object can be named claims nothing.
    labels = {key: value for key, value in pod.metadata.labels.items() if key not in _NAMING_LABELS or is_name(value)}
    namespace = pod.metadata.namespace
    lws, index = labels.get(LWS_NAME_LABEL), labels.get(LWS_GROUP_LABEL)
    # The leader is named after its group, and the StatefulSet of its workers too.
    if lws and index and index.isdecimal() and f"{lws}-{index}" in {pod.metadata.name, controller.name}:
        source = (Kind.LEADER_WORKER_SET, namespace, lws)
        yield _Claim(gang=GangId(f"lws/{namespace}/{lws}-{index}"), source=source)
    job_set = labels.get(JOB_SET_LABEL)
    if job_set:
        yield _claim("jobset", Kind.JOB_SET, namespace, job_set)
    ray = labels.get(RAY_CLUSTER_LABEL)
    if ray:
        yield _claim("raycluster", Kind.RAY_CLUSTER, namespace, ray)
    training = labels.get(TRAINING_NAME_LABEL)
    kind = _training_kind(pod, controller=controller)
    if training and kind is not None:
        yield _claim(kind.value, kind, namespace, training)
    if owner_kind(controller) is Kind.JOB:
        job = chain.items.get((Kind.JOB, namespace, controller.name))
        sayings = (labels, {} if job is None else job.metadata.labels)
        if any(one.get(GANG_LABEL) == "true" for one in sayings):
            yield _claim("job", Kind.JOB, namespace, controller.name)


def _claim(word: str, kind: Kind, namespace: str, name: str) -> _Claim:
    return _Claim(gang=GangId(f"{word}/{namespace}/{name}"), source=(kind, namespace, name))


def _training_kind(pod: Pod, *, controller: Owner) -> Kind | None:
    kind = owner_kind(controller)
    if kind in _TRAINING_KINDS:
        return kind
    operator = _TRAINING_OPERATORS.get(pod.metadata.labels.get(TRAINING_OPERATOR_LABEL, ""))
    if operator is not None:
        return operator
    # The MPI operator's launcher is made by a Job of the MPIJob's.
    role = next((pod.metadata.labels[key] for key in TRAINING_ROLE_LABELS if key in pod.metadata.labels), "")
    return Kind.MPI_JOB if kind is Kind.JOB and role == LAUNCHER else None


def _chain_of(pod: Pod, *, lookup: Lookup) -> _Chain:
    """Follow the owners of a pod upwards, until one is of a kind that is not followed or was not seen."""
    chain = _Chain()
    namespace = pod.metadata.namespace
    owner = controller_of(pod.metadata)
    while owner is not None and len(chain.consulted) < _LONGEST_CHAIN:
        kind = owner_kind(owner)
        if kind is None:
            break
        key = (kind, namespace, owner.name)
        chain.consulted.append(key)
        item = lookup.find(key)
        if item is None or item.metadata.uid != owner.uid:
            chain.missing = owner
            chain.is_trusted = item is None and lookup.is_absent(kind)
            break
        chain.items[key] = item
        owner = controller_of(item.metadata)
    return chain
