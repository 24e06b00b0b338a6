"""Objects that own or group pods, between the core's values and their messages in `phalanx.cluster.v1`."""

from services.contracts.pb.cluster.v1 import cluster_pb2 as pb
from services.core.objects import GroupSource, Job, Kind, Metadata, Role


def fill_job(event: pb.ClusterEvent, item: Job) -> None:
    """Put a Job into an event."""
    event.job.CopyFrom(
        pb.Job(
            parallelism=item.parallelism,
            completions=item.completions,
            suspend=item.is_suspended,
            indexed=item.is_indexed,
            backoff_limit=item.backoff_limit,
            backoff_limit_per_index=item.backoff_limit_per_index,
            max_failed_indexes=item.max_failed_indexes,
            ignores_disruption_target=item.ignores_disruption_target,
            fails_on_disruption_target=item.fails_on_disruption_target,
            pod_replacement_policy=item.pod_replacement_policy,
            restart_policy=item.restart_policy,
            failed=item.failed,
            finished=item.is_finished,
        )
    )


def read_job(metadata: Metadata, event: pb.ClusterEvent) -> Job:
    """Return the Job of an event."""
    job = event.job
    return Job(
        metadata=metadata,
        parallelism=job.parallelism,
        completions=job.completions if job.HasField("completions") else None,
        is_suspended=job.suspend,
        is_indexed=job.indexed,
        backoff_limit=job.backoff_limit,
        backoff_limit_per_index=job.backoff_limit_per_index if job.HasField("backoff_limit_per_index") else None,
        max_failed_indexes=job.max_failed_indexes if job.HasField("max_failed_indexes") else None,
        ignores_disruption_target=job.ignores_disruption_target,
        fails_on_disruption_target=job.fails_on_disruption_target,
        pod_replacement_policy=job.pod_replacement_policy,
        restart_policy=job.restart_policy,
        failed=job.failed,
        is_finished=job.finished,
    )


def fill_group_source(event: pb.ClusterEvent, item: GroupSource) -> None:
    """Put an object that groups pods into an event."""
    event.group_source.CopyFrom(
        pb.GroupSource(
            kind=item.kind.value,
            min_count=item.min_count,
            size=item.size,
            roles=[pb.Role(name=one.name, count=one.count, late=one.is_late) for one in item.roles],
            suspended=item.is_suspended,
        )
    )


def read_group_source(metadata: Metadata, event: pb.ClusterEvent) -> GroupSource:
    """Return the object that groups pods. Raises ValueError for a kind that is none."""
    source = event.group_source
    return GroupSource(
        metadata=metadata,
        kind=Kind(source.kind),
        min_count=source.min_count if source.HasField("min_count") else None,
        size=source.size,
        roles=tuple(Role(name=one.name, count=one.count, is_late=one.late) for one in source.roles),
        is_suspended=source.suspended,
    )
