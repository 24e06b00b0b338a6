"""What an undo would cost the owner of a gang, told before anything is bound."""

from collections.abc import Sequence
from typing import Any

import pytest

from services.core.gangs import Gang
from services.core.names import ALLOW_DELETE_ANNOTATION
from services.core.objects import Job, Metadata, Owner, Uid
from services.core.reasons import Reason, ReasonCode
from services.core.undo_cost import undo_warnings
from tests.builders import NAMESPACE, gang

OWNER = Owner(kind="Job", name="train", uid=Uid("j"), is_controller=True, api_version="batch/v1")
GOOD: dict[str, Any] = {"is_indexed": True, "ignores_disruption_target": True, "backoff_limit_per_index": 6}


def job(*, uid: str = "j", **fields: Any) -> Job:
    """The Job that owns the members."""
    return Job(metadata=Metadata(name="train", namespace=NAMESPACE, uid=Uid(uid)), **fields)


def owned(*, size: int = 64, min_count: int | None = None, owners: tuple[Owner, ...] = (OWNER,)) -> Gang:
    """A gang whose members a Job owns."""
    return gang("g", size=size, min_count=min_count, owners=owners)


def warned(found: Job | None, *, of: Gang | None = None) -> Sequence[Reason]:
    """The warnings of a gang, where this Job is known."""
    return undo_warnings(of or owned(), job_of=lambda _namespace, name: found if name == "train" else None)


def test_the_default_of_a_job_is_fatal_for_a_gang_of_64() -> None:
    """Up to 63 are bound when it is undone, and six failed pods are survived; the fields that help are named."""
    (warning,) = warned(job(is_indexed=True))
    assert (warning.code, warning.subject, warning.count) == (ReasonCode.UNDO_FATAL, "spec.backoffLimit", 63)
    for word in ("up to 63 pods of Job train", "survives 6", "spec.podFailurePolicy", "spec.backoffLimitPerIndex"):
        assert word in warning.message


def test_a_job_that_is_prepared_is_not_warned_of() -> None:
    """It ignores disruptions, and each index waits for itself."""
    assert warned(job(**GOOD)) == ()


@pytest.mark.parametrize(
    ("fields", "code", "subject"),
    [
        ({"backoff_limit": 63}, ReasonCode.UNDO_SLOW, "spec.backoffLimitPerIndex"),
        ({"backoff_limit": 63, "failed": 1}, ReasonCode.UNDO_FATAL, "spec.backoffLimit"),
        ({"backoff_limit": 0, "ignores_disruption_target": True}, ReasonCode.UNDO_SLOW, "spec.backoffLimitPerIndex"),
        ({"fails_on_disruption_target": True, "backoff_limit": 1000}, ReasonCode.UNDO_FATAL, "spec.podFailurePolicy"),
        ({"backoff_limit_per_index": 0}, ReasonCode.UNDO_FATAL, "spec.backoffLimitPerIndex"),
    ],
)
def test_each_setting_has_its_own_cost(fields: dict[str, Any], code: ReasonCode, subject: str) -> None:
    """Fatal where the Job would fail, slow where it would wait for minutes."""
    assert [(one.code, one.subject) for one in warned(job(**fields))] == [(code, subject)]


def test_one_failure_of_each_index_that_is_allowed_is_no_warning() -> None:
    """It costs a try of each index, and no more."""
    assert warned(job(is_indexed=True, backoff_limit_per_index=1, backoff_limit=2**31 - 1)) == ()


def test_what_the_api_asks_for_is_said() -> None:
    """A limit of each index needs Indexed, and a failure policy pods that are not restarted."""
    (warning,) = warned(job(restart_policy="OnFailure"))
    assert "completionMode Indexed" in warning.message
    assert "restartPolicy Never" in warning.message


@pytest.mark.parametrize(
    "of", [owned(size=1), owned(size=8, min_count=1)], ids=["a gang of one", "one member is enough"]
)
def test_a_gang_that_cannot_be_undone_is_not_warned_of(of: Gang) -> None:
    """As soon as one is bound it is whole."""
    assert warned(job(), of=of) == ()


def test_a_small_gang_costs_little() -> None:
    """Two pods that fail are survived, and the Job waits for seconds only."""
    assert warned(job(), of=owned(size=3)) == ()


@pytest.mark.parametrize("found", [None, job(uid="another")], ids=["not followed", "another of the same name"])
def test_of_an_unknown_job_nothing_is_said(found: Job | None) -> None:
    """A guess would mislead."""
    assert warned(found) == ()


def test_pods_that_nobody_would_recreate_are_told_of() -> None:
    """Unless their group lets them be deleted."""
    (warning,) = warned(None, of=owned(size=4, owners=()))
    assert (warning.code, warning.count) == (ReasonCode.KEPT_WITHOUT_CONTROLLER, 4)
    assert ALLOW_DELETE_ANNOTATION in warning.message
