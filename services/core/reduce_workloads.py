"""Reducers of the objects that own pods: of each only what placement and its undo need to know of the owner."""

from collections.abc import Mapping
from typing import Any

from services.core.manifests import condition, flag_at, integer_at, mapping_at, numbered, text_at
from services.core.objects import Job, Metadata

_POLICY = "spec.podFailurePolicy"


def reduce_job(metadata: Metadata, manifest: Mapping[str, Any]) -> Job:
    """Return a batch/v1 Job; defaults are those of the API server. Raises FieldError."""
    spec = mapping_at(manifest, "spec", at="spec")
    status = mapping_at(manifest, "status", at="status")
    template = mapping_at(mapping_at(spec, "template", at="spec.template"), "spec", at="spec.template.spec")
    action = _disruption_action(spec)
    return Job(
        metadata=metadata,
        parallelism=integer_at(spec, "parallelism", at="spec.parallelism", default=1),
        completions=_limit(spec, "completions"),
        is_suspended=flag_at(spec, "suspend", at="spec.suspend"),
        is_indexed=text_at(spec, "completionMode", at="spec.completionMode") == "Indexed",
        backoff_limit=integer_at(spec, "backoffLimit", at="spec.backoffLimit", default=6),
        backoff_limit_per_index=_limit(spec, "backoffLimitPerIndex"),
        max_failed_indexes=_limit(spec, "maxFailedIndexes"),
        ignores_disruption_target=action == "Ignore",
        fails_on_disruption_target=action == "FailJob",
        pod_replacement_policy=text_at(
            spec, "podReplacementPolicy", at="spec.podReplacementPolicy", default="TerminatingOrFailed"
        ),
        restart_policy=text_at(template, "restartPolicy", at="spec.template.spec.restartPolicy", default="Never"),
        failed=integer_at(status, "failed", at="status.failed"),
        is_finished=any(condition(status, kind).get("status") == "True" for kind in ("Complete", "Failed")),
    )


def _limit(spec: Mapping[str, Any], key: str) -> int | None:
    return None if spec.get(key) is None else integer_at(spec, key, at=f"spec.{key}")


def _disruption_action(spec: Mapping[str, Any]) -> str:
    """Return what the first rule that holds for the condition DisruptionTarget does, or nothing.

    The controller takes the first rule that holds. A rule about exit codes may come before it and hold too, for
    containers that ran and were told to end; which codes those will be is not known in advance.
    """
    policy = mapping_at(spec, "podFailurePolicy", at=_POLICY)
    for path, rule in numbered(policy, "rules", at=f"{_POLICY}.rules"):
        for at, pattern in numbered(rule, "onPodConditions", at=f"{path}.onPodConditions"):
            kind = text_at(pattern, "type", at=f"{at}.type")
            if kind == "DisruptionTarget" and text_at(pattern, "status", at=f"{at}.status", default="True") == "True":
                return text_at(rule, "action", at=f"{path}.action")
    return ""
