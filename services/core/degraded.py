"""Gangs that were committed and have fewer members left than they need, whatever took them.

A node that is lost, a taint that evicts, somebody who deletes a pod, a kubelet that rejects one: the gang is repaired
around its survivors, ahead of every newcomer, and room is held for its missing members, for a bounded time. After that
it is kept as it is, or released whole, as its policy says.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from services.core.decisions import Assignment, Decision, Degraded, DegradedPolicy, Proposed
from services.core.durations import DurationError, parse_duration
from services.core.gangs import Gang
from services.core.names import ALLOW_DELETE_ANNOTATION, DEGRADED_POLICY_ANNOTATION, DEGRADED_TIMEOUT_ANNOTATION
from services.core.objects import NodeName, Pod, Uid
from services.core.pod_devices import anew
from services.core.reasons import Reason, ReasonCode
from services.core.rejections import is_rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class DegradedTerms:
    """How a degraded gang is treated, where its annotations say nothing else.

    A gang that is deleted goes pod by pod; `settle` is how long it must have been below its quorum before that is told.
    """

    settle: timedelta = timedelta(seconds=1)
    timeout: timedelta = timedelta(minutes=5)
    policy: DegradedPolicy = DegradedPolicy.KEEP


def survivors(gang: Gang) -> tuple[Pod, ...]:
    """Return the members that are on nodes and have not finished."""
    return tuple(pod for pod in gang.placed if pod.node and not pod.is_finished)


def is_degraded(gang: Gang, *, commit: Decision | None) -> bool:
    """Tell whether fewer members are left than the gang needs, and some are. `commit` is its last Committed.

    That of an earlier gang of the same name is older than all members. Where it is not kept any more, the condition
    that was written on the group after the last binding says as much.
    """
    left = survivors(gang)
    # The pods of one that was suspended are taken away on purpose.
    if not left or len(gang.placed) >= gang.min_count or gang.is_suspended:
        return False
    if gang.group is not None and gang.group.initially_scheduled == "True":
        return True
    return commit is not None and any(pod.metadata.created_at <= commit.decided_at for pod in left)


def stand_ins(gang: Gang) -> tuple[Pod, ...]:
    """Return pods like the survivors, as many as are missing and were not made anew yet, to hold room for them."""
    left = survivors(gang)
    count = gang.min_count - len(gang.placed) - len(gang.open)
    if count <= 0 or not left:
        return ()
    # What the missing ones asked for is not kept: most members of a gang ask for the same.
    asked = Counter(tuple(sorted(pod.requests.items())) for pod in left)
    usual = next(pod for pod in left if tuple(sorted(pod.requests.items())) == asked.most_common(1)[0][0])
    return tuple(
        replace(
            usual,
            node=NodeName(""),
            phase="Pending",
            devices=anew(usual.devices),
            metadata=replace(usual.metadata, name=f"missing-{number}", uid=Uid(f"missing {number} of {gang.id}")),
        )
        for number in range(count)
    )


def degraded(gang: Gang, *, revision: int, since: datetime, terms: DegradedTerms, rejected: Iterable[Pod]) -> Degraded:
    """Return what is to be told of a degraded gang."""
    return Degraded(
        revision=revision,
        min_count=gang.min_count,
        placed=len(gang.placed),
        until=since + timeout_of(gang, terms=terms),
        policy=policy_of(gang, terms=terms),
        reasons=(_quorum_lost(gang), *_rejection_reasons(rejected)),
    )


def expired(known: Degraded, gang: Gang, *, revision: int) -> Degraded:
    """Return what is to be told of a gang whose time is over, and that is kept."""
    text = "it could not be repaired in time; what is left of it keeps running, and room is held for it no longer"
    orphans = orphans_of(gang)
    kept: tuple[Reason, ...] = ()
    if known.policy is DegradedPolicy.RELEASE and orphans:
        kept_text = (
            f"{len(orphans)} of the {len(survivors(gang))} pods that are left have no controller that would recreate "
            "them, so they are not released; delete them, or set the annotation "
            f'{ALLOW_DELETE_ANNOTATION}: "true" on the PodGroup'
        )
        kept = (Reason(code=ReasonCode.KEPT_WITHOUT_CONTROLLER, message=kept_text, count=len(orphans)),)
    late = Reason(code=ReasonCode.DEGRADED_TOO_LONG, message=text)
    return replace(
        known, revision=revision, placed=len(gang.placed), reasons=(_quorum_lost(gang), late, *kept), is_over=False
    )


def recovered(known: Degraded, gang: Gang | None, *, revision: int) -> Degraded:
    """Return what is to be told of a gang that is degraded no more."""
    return replace(
        known,
        revision=revision,
        placed=0 if gang is None else len(gang.placed),
        min_count=known.min_count if gang is None else gang.min_count,
        is_over=True,
        reasons=(),
    )


def release(gang: Gang, *, revision: int, deadline: datetime) -> Proposed | None:
    """Return the proposal to take back what is left of the gang; None where nobody would recreate some of it."""
    if orphans_of(gang):
        return None
    left = sorted(survivors(gang), key=lambda pod: pod.metadata.name)
    return Proposed(
        revision=revision,
        deadline=deadline,
        min_count=gang.min_count,
        assignments=tuple(Assignment(pod=one.metadata.name, uid=one.metadata.uid, node=one.node) for one in left),
        already_placed=len(gang.placed) - len(left),
        is_release=True,
    )


def orphans_of(gang: Gang) -> tuple[Pod, ...]:
    """Return the survivors that nobody would recreate, and that may not be deleted therefore."""
    if gang.annotations.get(ALLOW_DELETE_ANNOTATION) == "true":
        return ()
    return tuple(pod for pod in survivors(gang) if not any(owner.is_controller for owner in pod.metadata.owners))


def timeout_of(gang: Gang, *, terms: DegradedTerms) -> timedelta:
    """Return for how long the gang is repaired ahead of others."""
    text = gang.annotations.get(DEGRADED_TIMEOUT_ANNOTATION)
    try:
        return terms.timeout if text is None else parse_duration(text)
    except DurationError:
        return terms.timeout


def policy_of(gang: Gang, *, terms: DegradedTerms) -> DegradedPolicy:
    """Return what happens to the gang then."""
    text = gang.annotations.get(DEGRADED_POLICY_ANNOTATION)
    return DegradedPolicy(text) if text in set(DegradedPolicy) else terms.policy


def terms_reasons(gang: Gang) -> tuple[Reason, ...]:
    """Return what is wrong with the gang's annotations about this; empty where nothing is."""
    found: list[tuple[str, str]] = []
    policy, timeout = (
        gang.annotations.get(DEGRADED_POLICY_ANNOTATION),
        gang.annotations.get(DEGRADED_TIMEOUT_ANNOTATION),
    )
    if policy is not None and policy not in set(DegradedPolicy):
        found.append((DEGRADED_POLICY_ANNOTATION, f"expected keep or release, got {policy[:64]!r}"))
    if timeout is not None:
        try:
            parse_duration(timeout)
        except DurationError as error:
            found.append((DEGRADED_TIMEOUT_ANNOTATION, str(error)))
    return tuple(
        Reason(code=ReasonCode.MISCONFIGURED, message=f"annotation {name}: {text}", subject=name)
        for name, text in found
    )


def _quorum_lost(gang: Gang) -> Reason:
    text = f"{len(gang.placed)} of the {gang.min_count} needed pods are left"
    return Reason(code=ReasonCode.QUORUM_LOST, message=text, count=gang.min_count - len(gang.placed))


def _rejection_reasons(pods: Iterable[Pod]) -> tuple[Reason, ...]:
    found: dict[tuple[NodeName, str], int] = {}
    for pod in pods:
        if is_rejected(pod):
            found[pod.node, pod.failure] = found.get((pod.node, pod.failure), 0) + 1
    return tuple(
        Reason(
            code=ReasonCode.KUBELET_REJECTED,
            message=f"the kubelet of node {node} rejected {count} pod{'s' if count > 1 else ''}: {failure}",
            count=count,
            subject=node,
        )
        for (node, failure), count in sorted(found.items())
    )[:MAX_REJECTIONS_TOLD]


MAX_REJECTIONS_TOLD = 5
"""Rejections that one message names."""
