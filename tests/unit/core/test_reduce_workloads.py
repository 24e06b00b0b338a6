"""Jobs reduced: what they ask for, and what becomes of them when pods of them are deleted."""

from typing import Any

import pytest

from services.core.objects import Job, Kind
from services.core.reduce import MalformedObject, reduce


def job(*, status: Any = None, **spec: Any) -> Job:
    """A Job as the API server sends it, reduced."""
    manifest = {"metadata": {"name": "a", "namespace": "b", "uid": "u"}, "spec": spec, "status": status or {}}
    reduced = reduce(Kind.JOB, manifest)
    assert isinstance(reduced, Job)
    return reduced


def rule(action: str, *, status: str = "True", kind: str = "DisruptionTarget") -> dict[str, Any]:
    """One rule about a pod's condition."""
    return {"action": action, "onPodConditions": [{"type": kind, "status": status}]}


EXIT_CODES = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}


def test_a_job_says_what_it_wants_and_what_it_survives() -> None:
    """Every field that is read."""
    reduced = job(
        parallelism=4,
        completions=8,
        suspend=True,
        completionMode="Indexed",
        backoffLimit=2**31 - 1,
        backoffLimitPerIndex=0,
        maxFailedIndexes=1,
        podReplacementPolicy="Failed",
        template={"spec": {"restartPolicy": "OnFailure"}},
        status={"failed": 3, "conditions": [{"type": "Complete", "status": "True"}]},
    )
    assert reduced == Job(
        metadata=reduced.metadata,
        parallelism=4,
        completions=8,
        is_suspended=True,
        is_indexed=True,
        backoff_limit=2**31 - 1,
        backoff_limit_per_index=0,
        max_failed_indexes=1,
        pod_replacement_policy="Failed",
        restart_policy="OnFailure",
        failed=3,
        is_finished=True,
    )


def test_what_a_job_does_not_say_is_what_the_api_server_would_fill_in() -> None:
    """Limits that are not set stay unset: zero would mean something else."""
    reduced = job(status={"conditions": [{"type": "Failed", "status": "False"}]})
    assert reduced == Job(metadata=reduced.metadata)
    assert (reduced.parallelism, reduced.completions, reduced.backoff_limit) == (1, None, 6)


@pytest.mark.parametrize(
    ("rules", "ignores", "fails"),
    [
        ([rule("Ignore")], True, False),
        ([EXIT_CODES, rule("Ignore")], True, False),
        ([rule("Ignore"), rule("FailJob")], True, False),
        ([rule("FailJob"), rule("Ignore")], False, True),
        ([rule("Count"), rule("Ignore")], False, False),
        ([rule("Ignore", status="False")], False, False),
        ([rule("Ignore", kind="ConfigIssue")], False, False),
        ([EXIT_CODES], False, False),
    ],
)
def test_the_first_rule_for_disruptions_counts(rules: list[dict[str, Any]], *, ignores: bool, fails: bool) -> None:
    """As the Job controller reads its policy."""
    reduced = job(podFailurePolicy={"rules": rules})
    assert (reduced.ignores_disruption_target, reduced.fails_on_disruption_target) == (ignores, fails)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"backoffLimitPerIndex": "one"}, "spec.backoffLimitPerIndex"),
        ({"podFailurePolicy": {"rules": [{"onPodConditions": [{"type": 1}]}]}},
         "spec.podFailurePolicy.rules[0].onPodConditions[0].type"),
        ({"template": {"spec": []}}, "spec.template.spec"),
    ],
)  # fmt: skip
def test_a_job_that_cannot_be_understood_is_named(spec: dict[str, Any], field: str) -> None:
    """With the path of the field."""
    with pytest.raises(MalformedObject) as caught:
        job(**spec)
    assert caught.value.field == field
