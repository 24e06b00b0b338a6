"""What the API server's answers to bindings mean, and what a live member means to a transaction.

The text of an answer is only read where nothing else tells answers apart: every conflict is settled by looking at the
pod itself.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from services.core.gangs import MemberState, state_of
from services.core.names import TRANSACTION_ANNOTATION
from services.core.objects import Pod, TransactionId, Uid
from services.core.reasons import Reason, ReasonCode
from services.core.transaction_values import Answer, Found, Profile, Reading, Target, Verdict

INDEX_LABELS = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "controller-revision-hash",
        "jobset.sigs.k8s.io/job-index",
        "leaderworkerset.sigs.k8s.io/worker-index",
        "pod-template-hash",
        "statefulset.kubernetes.io/pod-name",
    }
)
"""Labels that differ from pod to pod or rollout to rollout; no admission rule is expected to look at them."""

MAX_MESSAGE_CHARACTERS = 300
"""The API's words that a reason quotes."""


class Meaning(StrEnum):
    """What an answer to a binding calls for."""

    TAKEN = "taken"
    """It is written, or the dry run passed."""
    LOOK = "look"
    """The pod is not as it was thought to be: read it."""
    LATER = "later"
    """The server is busy; the write had no effect."""
    LOST = "lost"
    """Whether the write happened is unknown: repeat it."""
    UNSURE = "unsure"
    """A fault inside the server: repeat a few times, then believe it."""
    FORBIDDEN = "forbidden"
    """We lack the permission."""
    REFUSED = "refused"


_NO_PERMISSION = re.compile(r"cannot \w+ resource \"")
_LATER = frozenset({429})
_LOST = frozenset({401, 408, 502, 503, 504})
_LOOK = frozenset({404, 409, 410})


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAnswer:
    """An answer to a write, as the API server gave it."""

    status: int
    reason: str = ""
    message: str = ""
    retry_after_s: float | None = None


def meaning_of(answer: ApiAnswer) -> Meaning:
    """Return what an answer to a binding calls for."""
    status = answer.status
    if status < 400:  # noqa: PLR2004 - HTTP success
        return Meaning.TAKEN
    if status in _LATER:
        return Meaning.LATER
    if status in _LOST:
        return Meaning.LOST
    if status in _LOOK:
        return Meaning.LOOK
    # RBAC and admission both say 403; only RBAC names the verb that the user cannot use.
    if status == 403 and _NO_PERMISSION.search(answer.message):  # noqa: PLR2004 - Forbidden
        return Meaning.FORBIDDEN
    return Meaning.UNSURE if status >= 500 else Meaning.REFUSED  # noqa: PLR2004 - server errors


def settled(reading: Reading, *, target: Target) -> Answer | None:
    """Return the definite answer that a live member gives, or None where it can still be bound.

    A member that is unchanged since the write was refused cannot be bound for another reason, which the caller knows.
    """
    match reading.found:
        case Found.BOUND:
            return _placed(Verdict.BOUND, reading)
        case Found.ELSEWHERE:
            return _placed(Verdict.ELSEWHERE, reading)
        case Found.GONE:
            text = f"pod {target.pod} was deleted, replaced or has failed"
            reason = Reason(code=ReasonCode.MEMBER_GONE, message=text, count=1)
            return Answer(verdict=Verdict.GONE, reason=reason)
        case Found.UNBINDABLE:
            text = f"pod {target.pod} carries scheduling gates or names another scheduler"
            return refused(text, target=target)
        case Found.READY:
            return None


def refused(message: str, *, target: Target, is_in_doubt: bool = False) -> Answer:
    """Return the answer of an API server that will not bind this member to this node."""
    text = f"the API refused to bind pod {target.pod} to node {target.node}: {message[:MAX_MESSAGE_CHARACTERS]}"
    reason = Reason(code=ReasonCode.BINDING_REFUSED, message=text, count=1, subject=target.node)
    return Answer(verdict=Verdict.REFUSED, reason=reason, is_in_doubt=is_in_doubt)


def node_gone(target: Target) -> Answer:
    """Return the answer for a member whose node went away before its binding was sent. It is not sent."""
    text = f"node {target.node} went away before pod {target.pod} was bound to it"
    reason = Reason(code=ReasonCode.PLACEMENT_STALE, message=text, count=1, subject=target.node)
    return Answer(verdict=Verdict.REFUSED, reason=reason)


def forbidden(message: str, *, is_in_doubt: bool = False) -> Answer:
    """Return the answer of an API server that lets us bind nothing."""
    text = (
        f"the binder may not create bindings: {message[:MAX_MESSAGE_CHARACTERS]}; "
        "grant verb create on resource pods/binding to its service account"
    )
    reason = Reason(code=ReasonCode.FORBIDDEN, message=text, count=1, subject="pods/binding")
    return Answer(verdict=Verdict.FORBIDDEN, reason=reason, is_in_doubt=is_in_doubt)


def reading_of(pod: Pod | None, *, uid: Uid, transaction: TransactionId, service_account: str = "") -> Reading:
    """Return what a live pod means to the transaction; None stands for a pod that does not exist."""
    if pod is None or pod.metadata.uid != uid:
        return Reading(found=Found.GONE)
    state = state_of(pod)
    has_controller = any(owner.is_controller for owner in pod.metadata.owners)
    found = {
        MemberState.GONE: Found.GONE,
        MemberState.OPEN: Found.READY,
        MemberState.GATED: Found.UNBINDABLE,
        MemberState.FOREIGN: Found.UNBINDABLE,
        MemberState.PLACED: Found.BOUND
        if pod.metadata.annotations.get(TRANSACTION_ANNOTATION) == transaction
        else Found.ELSEWHERE,
    }[state]
    return Reading(
        found=found,
        node=pod.node,
        version=pod.metadata.resource_version,
        profile=_profile(pod, service_account=service_account),
        has_controller=has_controller,
        is_finished=pod.is_finished,
    )


def service_account_of(manifest: Mapping[str, Any]) -> str:
    """Return the service account of a pod's JSON; empty where it names none."""
    spec = manifest.get("spec")
    name = spec.get("serviceAccountName") if isinstance(spec, Mapping) else None
    return name if isinstance(name, str) else ""


def _profile(pod: Pod, *, service_account: str) -> Profile:
    owner = next((owner.uid for owner in pod.metadata.owners if owner.is_controller), "")
    labels = tuple(sorted((key, value) for key, value in pod.metadata.labels.items() if key not in INDEX_LABELS))
    return (owner, service_account, labels)


def _placed(verdict: Verdict, reading: Reading) -> Answer:
    return Answer(verdict=verdict, node=reading.node, version=reading.version, is_finished=reading.is_finished)
