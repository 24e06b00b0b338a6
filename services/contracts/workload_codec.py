"""Objects that own pods, between the core's values and their messages in `phalanx.cluster.v1`."""

from services.contracts.pb.cluster.v1 import cluster_pb2 as pb
from services.core.objects import Job, Metadata


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
