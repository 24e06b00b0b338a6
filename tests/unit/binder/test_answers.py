"""What the API server's answers mean, and what live pods mean."""

import pytest

from services.core.names import TRANSACTION_ANNOTATION
from services.core.objects import Metadata, NodeName, Owner, Pod, TransactionId, Uid
from services.core.reasons import ReasonCode
from services.core.transaction_answers import (
    ApiAnswer,
    Meaning,
    forbidden,
    meaning_of,
    reading_of,
    refused,
    service_account_of,
    settled,
)
from services.core.transaction_values import Found, Reading, Target, Verdict

T = TransactionId("t1")
TARGET = Target(pod="w-0", uid=Uid("u"), node=NodeName("n1"), version="7")
RBAC = 'pods "w-0" is forbidden: User "x" cannot create resource "pods/binding" in API group "" in the namespace "a"'


def pod(*, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, **fields: object) -> Pod:
    """A pod of our scheduler with uid u in version 9, controlled by a Job."""
    owner = Owner(kind="Job", name="j", uid=Uid("j"), is_controller=True)
    metadata = Metadata(
        name="w-0",
        namespace="a",
        uid=Uid("u"),
        resource_version="9",
        annotations=annotations or {},
        labels=labels or {},
        owners=(owner,),
        deleted_at=fields.pop("deleted_at", None),  # type: ignore[arg-type]
    )
    return Pod(metadata=metadata, scheduler_name="phalanx", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "message", "meaning"),
    [
        (201, "", Meaning.TAKEN),
        (200, "", Meaning.TAKEN),
        (400, "name in URL does not match name in Binding object", Meaning.REFUSED),
        (401, "Unauthorized", Meaning.LOST),
        (403, RBAC, Meaning.FORBIDDEN),
        (403, 'pods "w-0" is forbidden: exceeded quota', Meaning.REFUSED),
        (403, 'admission webhook "q" denied the request: cannot create more', Meaning.REFUSED),
        (404, 'pods "w-0" not found', Meaning.LOOK),
        (408, "timeout", Meaning.LOST),
        (409, "already assigned", Meaning.LOOK),
        (410, "expired", Meaning.LOOK),
        (422, "Invalid", Meaning.REFUSED),
        (429, "too many requests", Meaning.LATER),
        (500, "target.name: Invalid value", Meaning.UNSURE),
        (502, "bad gateway", Meaning.LOST),
        (503, "unavailable", Meaning.LOST),
        (504, "timeout", Meaning.LOST),
    ],
)
def test_the_meaning_of_an_answer(status: int, message: str, meaning: Meaning) -> None:
    """Every status that a binding can be answered with."""
    assert meaning_of(ApiAnswer(status=status, message=message)) is meaning


class TestReading:
    """A live pod, as the transaction sees it."""

    def test_a_missing_or_replaced_pod_is_gone(self) -> None:
        """The name alone says nothing."""
        assert reading_of(None, uid=Uid("u"), transaction=T).found is Found.GONE
        assert reading_of(pod(), uid=Uid("other"), transaction=T).found is Found.GONE

    def test_an_unbound_pod_is_ready_in_its_version(self) -> None:
        """The version fences the write."""
        reading = reading_of(pod(), uid=Uid("u"), transaction=T)
        assert (reading.found, reading.version, reading.has_controller) == (Found.READY, "9", True)

    @pytest.mark.parametrize(("annotated", "found"), [("t1", Found.BOUND), ("t0", Found.ELSEWHERE)])
    def test_the_annotation_says_whose_binding_it_is(self, annotated: str, found: Found) -> None:
        """Another transaction's binding is not ours to undo."""
        bound = pod(node=NodeName("n1"), annotations={TRANSACTION_ANNOTATION: annotated})
        reading = reading_of(bound, uid=Uid("u"), transaction=T)
        assert (reading.found, reading.node) == (found, "n1")

    def test_a_gated_pod_cannot_be_bound(self) -> None:
        """It is there, and nobody may bind it."""
        assert reading_of(pod(is_gated=True), uid=Uid("u"), transaction=T).found is Found.UNBINDABLE

    def test_finished_pods(self) -> None:
        """Succeeded counts where it was; Failed before its start counts for nothing."""
        ours = {TRANSACTION_ANNOTATION: "t1"}
        done = reading_of(pod(phase="Succeeded", annotations=ours), uid=Uid("u"), transaction=T)
        assert (done.found, done.is_finished) == (Found.BOUND, True)
        rejected = pod(phase="Failed", node=NodeName("n1"), annotations=ours)
        assert reading_of(rejected, uid=Uid("u"), transaction=T).found is Found.GONE

    def test_profiles_differ_by_owner_account_and_labels_only(self) -> None:
        """Index labels differ from pod to pod, and no admission rule is expected to read them."""

        def profile(account: str = "a", **labels: str) -> object:
            given = {key.replace("__", "/").replace("_", "-"): value for key, value in labels.items()}
            return reading_of(pod(labels=given), uid=Uid("u"), transaction=T, service_account=account).profile

        assert profile(app="x") == profile(app="x")
        assert profile(app="x") != profile(app="y")
        assert profile("a") != profile("b")
        index = {"batch.kubernetes.io/job-completion-index": "3", "app": "x"}
        assert reading_of(pod(labels=index), uid=Uid("u"), transaction=T, service_account="a").profile == profile(
            app="x"
        )

    def test_the_service_account_of_any_manifest(self) -> None:
        """What is missing or of another type names none."""
        assert service_account_of({"spec": {"serviceAccountName": "x"}}) == "x"
        assert service_account_of({"spec": {"serviceAccountName": 3}}) == ""
        assert service_account_of({}) == ""


class TestSettled:
    """The answer that a live pod gives."""

    @pytest.mark.parametrize(
        ("found", "verdict"),
        [
            (Found.BOUND, Verdict.BOUND),
            (Found.ELSEWHERE, Verdict.ELSEWHERE),
            (Found.GONE, Verdict.GONE),
            (Found.UNBINDABLE, Verdict.REFUSED),
        ],
    )
    def test_definite(self, found: Found, verdict: Verdict) -> None:
        """Everything but an unbound pod."""
        answer = settled(Reading(found=found, node=NodeName("n3")), target=TARGET)
        assert answer is not None
        assert answer.verdict is verdict

    def test_unbound_is_not_an_answer(self) -> None:
        """It can still be bound, in the version that it has now."""
        assert settled(Reading(found=Found.READY, version="8"), target=TARGET) is None


class TestReasons:
    """What people read."""

    def test_a_refusal_quotes_the_server(self) -> None:
        """Pod, node and the API's words, shortened."""
        reason = refused("quota exceeded " * 100, target=TARGET).reason
        assert reason is not None
        assert reason.code is ReasonCode.BINDING_REFUSED
        assert reason.message.startswith("the API refused to bind pod w-0 to node n1: quota exceeded")
        assert len(reason.message) < 400

    def test_a_missing_permission_says_what_to_grant(self) -> None:
        """Verb and resource."""
        reason = forbidden(RBAC).reason
        assert reason is not None
        assert reason.code is ReasonCode.FORBIDDEN
        assert "grant verb create on resource pods/binding" in reason.message
