"""Reducers of other platforms' objects that group pods: of each, how many pods must run at once, and whether any may.

Defaults are those of their API servers or controllers. A role is late where its controller makes its pods only when
others run: to wait for them would be to wait for ever.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from services.core.manifests import INT32_LIMIT, FieldError, flag_at, integer_at, mapping_at, numbered, text_at
from services.core.names import JOB_SET_EXCLUSIVE_ANNOTATION, JOB_SET_NODE_SELECTOR_ANNOTATION, LWS_EXCLUSIVE_ANNOTATION
from services.core.objects import GroupSource, Kind, Metadata, Role

LEADER, WORKER = "leader", "worker"
"""Roles of a LeaderWorkerSet's group."""
HEAD = "head"
"""Role of a RayCluster's head pod."""
LAUNCHER = "launcher"
"""Role of an MPIJob's launcher, which may be made when the workers run."""
FOLLOWERS = "/followers"
"""Ending of the role of a replicatedJob's pods that JobSet makes only when the first one of their Job has a node."""

Spec = Mapping[str, Any]


def reduce_stateful_set(metadata: Metadata, _manifest: Mapping[str, Any]) -> GroupSource:
    """Return a StatefulSet: its owner alone matters, which may be a LeaderWorkerSet."""
    return GroupSource(metadata=metadata, kind=Kind.STATEFUL_SET)


def reduce_declared(kind: Kind) -> Callable[[Metadata, Mapping[str, Any]], GroupSource]:
    """Return the reducer of a PodGroup of the scheduler plugins or of Volcano: it states `spec.minMember`."""

    def declared(metadata: Metadata, manifest: Mapping[str, Any]) -> GroupSource:
        spec = mapping_at(manifest, "spec", at="spec")
        count = _count(spec, "minMember", at="spec.minMember", default=1)
        return GroupSource(metadata=metadata, kind=kind, min_count=count)

    return declared


def reduce_job_set(metadata: Metadata, manifest: Mapping[str, Any]) -> GroupSource:
    """Return a JobSet: a role for each replicatedJob. Raises FieldError."""
    spec = mapping_at(manifest, "spec", at="spec")
    startup = mapping_at(spec, "startupPolicy", at="spec.startupPolicy")
    in_order = text_at(startup, "startupPolicyOrder", at="spec.startupPolicy.startupPolicyOrder") == "InOrder"
    roles: list[Role] = []
    for path, item in numbered(spec, "replicatedJobs", at="spec.replicatedJobs"):
        is_late = bool(item.get("dependsOn")) or (in_order and bool(roles))
        roles.extend(_replicated_job(metadata, item, at=path, is_late=is_late))
    is_suspended = flag_at(spec, "suspend", at="spec.suspend")
    return _source(metadata, Kind.JOB_SET, roles, at="spec.replicatedJobs", is_suspended=is_suspended)


def _replicated_job(metadata: Metadata, item: Spec, *, at: str, is_late: bool) -> Iterator[Role]:
    name = text_at(item, "name", at=f"{at}.name")
    replicas = _count(item, "replicas", at=f"{at}.replicas", default=1)
    template = mapping_at(item, "template", at=f"{at}.template")
    job = mapping_at(template, "spec", at=f"{at}.template.spec")
    pods = _count(job, "parallelism", at=f"{at}.template.spec.parallelism", default=1)
    pods = min(pods, _count(job, "completions", at=f"{at}.template.spec.completions", default=pods))
    own = mapping_at(template, "metadata", at=f"{at}.template.metadata")
    given = dict(metadata.annotations)
    given |= mapping_at(own, "annotations", at=f"{at}.template.metadata.annotations")
    if JOB_SET_EXCLUSIVE_ANNOTATION in given and JOB_SET_NODE_SELECTOR_ANNOTATION not in given and pods > 1:
        yield Role(name=name, count=replicas, is_late=is_late)
        yield Role(name=f"{name}{FOLLOWERS}", count=replicas * (pods - 1), is_late=True)
    else:
        yield Role(name=name, count=replicas * pods, is_late=is_late)


def reduce_leader_worker_set(metadata: Metadata, manifest: Mapping[str, Any]) -> GroupSource:
    """Return a LeaderWorkerSet: the roles are those of one group, of which each is a gang. Raises FieldError."""
    spec = mapping_at(manifest, "spec", at="spec")
    at = "spec.leaderWorkerTemplate"
    size = _count(mapping_at(spec, "leaderWorkerTemplate", at=at), "size", at=f"{at}.size", default=1)
    if size < 1:
        raise FieldError(field=f"{at}.size", expected="at least 1", got=size)
    # With an exclusive domain the workers are made when the leader has a node, because that decides the domain.
    is_late = (
        text_at(spec, "startupPolicy", at="spec.startupPolicy") == "LeaderReady"
        or LWS_EXCLUSIVE_ANNOTATION in metadata.annotations
    )
    roles = [Role(name=LEADER, count=1), Role(name=WORKER, count=size - 1, is_late=is_late)]
    return _source(metadata, Kind.LEADER_WORKER_SET, roles, at=f"{at}.size")


def reduce_ray_cluster(metadata: Metadata, manifest: Mapping[str, Any]) -> GroupSource:
    """Return a RayCluster: the head, and each worker group with the workers that it may not go below.

    A group without such a limit needs all that it asks for, unless the autoscaler of Ray changes that number.
    """
    spec = mapping_at(manifest, "spec", at="spec")
    scales = flag_at(spec, "enableInTreeAutoscaling", at="spec.enableInTreeAutoscaling")
    roles, size = [Role(name=HEAD, count=1)], 1
    for path, item in numbered(spec, "workerGroupSpecs", at="spec.workerGroupSpecs"):
        if flag_at(item, "suspend", at=f"{path}.suspend"):
            continue
        hosts = _count(item, "numOfHosts", at=f"{path}.numOfHosts", default=1)
        replicas = _count(item, "replicas", at=f"{path}.replicas", default=0)
        least = _count(item, "minReplicas", at=f"{path}.minReplicas", default=0)
        needed = least or (0 if scales else replicas)
        roles.append(Role(name=text_at(item, "groupName", at=f"{path}.groupName"), count=needed * hosts))
        size += max(replicas, needed) * hosts
    is_suspended = flag_at(spec, "suspend", at="spec.suspend")
    return _source(metadata, Kind.RAY_CLUSTER, roles, at="spec.workerGroupSpecs", is_suspended=is_suspended, size=size)


def reduce_training_job(kind: Kind, *, replicas_key: str) -> Callable[[Metadata, Mapping[str, Any]], GroupSource]:
    """Return the reducer of a job of the training operator or of the MPI operator; a role for each replica type."""

    def training_job(metadata: Metadata, manifest: Mapping[str, Any]) -> GroupSource:
        spec = mapping_at(manifest, "spec", at="spec")
        run = mapping_at(spec, "runPolicy", at="spec.runPolicy")
        policy = mapping_at(run, "schedulingPolicy", at="spec.runPolicy.schedulingPolicy")
        elastic = mapping_at(spec, "elasticPolicy", at="spec.elasticPolicy")
        at = f"spec.{replicas_key}"
        roles: list[Role] = []
        size = 0
        for name, item in mapping_at(spec, replicas_key, at=at).items():
            if not isinstance(item, dict):
                raise FieldError(field=f"{at}.{name}", expected="an object", got=item)
            count = _count(item, "replicas", at=f"{at}.{name}.replicas", default=1)
            size += count
            if name == "Worker":
                count = min(count, _count(elastic, "minReplicas", at="spec.elasticPolicy.minReplicas", default=count))
            is_late = kind is Kind.MPI_JOB and name == "Launcher"
            roles.append(Role(name=name.lower(), count=count, is_late=is_late))
        available = "spec.runPolicy.schedulingPolicy.minAvailable"
        return _source(
            metadata,
            kind,
            roles,
            at=at,
            is_suspended=flag_at(run, "suspend", at="spec.runPolicy.suspend"),
            min_count=_count(policy, "minAvailable", at=available, default=0) or None,
            size=size,
        )

    return training_job


def _source(
    metadata: Metadata,
    kind: Kind,
    roles: list[Role],
    *,
    at: str,
    is_suspended: bool = False,
    min_count: int | None = None,
    size: int | None = None,
) -> GroupSource:
    whole = sum(role.count for role in roles)
    if whole >= INT32_LIMIT:
        raise FieldError(field=at, expected=f"fewer than {INT32_LIMIT} pods in all", got=whole)
    return GroupSource(
        metadata=metadata,
        kind=kind,
        min_count=min_count,
        size=min(whole if size is None else size, INT32_LIMIT - 1),
        roles=tuple(roles),
        is_suspended=is_suspended,
    )


def _count(parent: Spec, key: str, *, at: str, default: int) -> int:
    count = integer_at(parent, key, at=at, default=default)
    if count < 0:
        raise FieldError(field=at, expected="a count, not below 0", got=count)
    return count
