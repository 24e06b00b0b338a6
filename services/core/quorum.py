"""Why a gang cannot be tried at all: what is missing, in its way, or cannot be read, before any node is looked at."""

from services.core.gang_sizes import KUEUE_COUNT_ANNOTATION
from services.core.gangs import MAX_MEMBERS, Gang
from services.core.membership import controller_of
from services.core.names import SCHEDULER_NAME
from services.core.objects import Pod
from services.core.reasons import Reason, ReasonCode


def quorum_reasons(gang: Gang) -> tuple[Reason, ...]:
    """Return why the gang cannot be tried at all; empty where enough members are here.

    Gated and foreign members never hold back the others: they only explain why too few are left.
    """
    if not gang.is_declared:
        return _undeclared(gang)
    if gang.is_suspended:
        text = f"{_declaration(gang)} is suspended; its pods are placed when spec.suspend is false"
        return (Reason(code=ReasonCode.SUSPENDED, message=text),)
    if gang.problem:
        return (Reason(code=ReasonCode.MISCONFIGURED, message=gang.problem),)
    if len(gang.open) > MAX_MEMBERS:
        return (crowd_reason(len(gang.open)),)
    unsupported = (*_unreadable_reasons(gang), *_unsupported_reasons(gang))
    if unsupported:
        return unsupported
    if gang.existing >= gang.min_count:
        return ()
    if gang.unverified and gang.id.startswith("pod/"):
        return _unverified(gang)
    missing = Reason(
        code=ReasonCode.MEMBERS_MISSING,
        message=f"{gang.existing} of the {gang.min_count} needed pods exist",
        count=gang.min_count - gang.existing,
    )
    reasons = [missing]
    if gang.gated:
        text = f"{_pods(gang.gated)} still {'carry' if len(gang.gated) > 1 else 'carries'} scheduling gates"
        reasons.insert(0, Reason(code=ReasonCode.MEMBERS_GATED, message=text, count=len(gang.gated)))
    if gang.foreign:
        others = ", ".join(sorted({pod.scheduler_name for pod in gang.foreign}))
        text = f"{_pods(gang.foreign)} of the group {'name' if len(gang.foreign) > 1 else 'names'} another scheduler"
        reasons.insert(
            0,
            Reason(
                code=ReasonCode.MIXED_SCHEDULERS,
                message=f"{text} ({others}); all members must name {SCHEDULER_NAME}",
                count=len(gang.foreign),
                subject=others,
            ),
        )
    return (*_unverified(gang), *reasons)


def crowd_reason(count: int) -> Reason:
    """Return that more members wait than one placement can have."""
    text = f"{count} members wait; at most {MAX_MEMBERS} can be placed in one transaction"
    return Reason(code=ReasonCode.GANG_TOO_LARGE, message=text, count=count)


def trusted_owners(gang: Gang) -> tuple[Reason, ...]:
    """Return the note that owners were taken at their word, for a plan of files that do not state them."""
    if not gang.trusted:
        return ()
    shown = ", ".join(gang.trusted[:3]) + (", …" if len(gang.trusted) > 3 else "")  # noqa: PLR2004 - a line's worth
    text = f"{shown}: not given, so the pods' word for their owner is taken, and the pods that exist are all that count"
    return (Reason(code=ReasonCode.OWNER_NOT_SEEN, message=text, count=len(gang.trusted), subject=gang.trusted[0]),)


def _undeclared(gang: Gang) -> tuple[Reason, ...]:
    """Return that nothing declares the gang, as far as is known."""
    unverified = _unverified(gang)
    if unverified and not gang.open:
        return unverified
    word, namespace, name = gang.id.split("/")
    kind = _KINDS.get(word, word)
    text = f"{kind} {name} does not exist in namespace {namespace}; {len(gang.open)} pods name it"
    return (Reason(code=ReasonCode.GROUP_NOT_FOUND, message=text, count=len(gang.open), subject=name),)


def _unverified(gang: Gang) -> tuple[Reason, ...]:
    """Return that pods say they belong to the gang, and are not believed."""
    pods = gang.unverified
    if not pods:
        return ()
    if gang.id.startswith("kueue/"):
        text = f"{_pods(pods)} of the group, such as {pods[0].metadata.name}, state another {KUEUE_COUNT_ANNOTATION}"
        return (Reason(code=ReasonCode.MISCONFIGURED, message=text, count=len(pods), subject=KUEUE_COUNT_ANNOTATION),)
    owner = controller_of(pods[0].metadata)
    named = "an owner" if owner is None else f"{owner.kind} {owner.name} (uid {owner.uid})"
    text = f"{_pods(pods)}, such as {pods[0].metadata.name}, {_name(pods)} {named} or its owner, which was not seen yet"
    subject = "" if owner is None else owner.name
    return (Reason(code=ReasonCode.OWNER_NOT_SEEN, message=text, count=len(pods), subject=subject),)


def _declaration(gang: Gang) -> str:
    word, _, name = gang.id.split("/")
    return f"{_KINDS.get(word, word)} {name if gang.source is None else gang.source.metadata.name}"


def _name(pods: tuple[Pod, ...]) -> str:
    return "name" if len(pods) > 1 else "names"


_KINDS = {
    "podgroup": "PodGroup",
    "coscheduling": "PodGroup (scheduling.x-k8s.io)",
    "volcano": "PodGroup (scheduling.volcano.sh)",
    "lws": "LeaderWorkerSet",
    "jobset": "JobSet",
    "raycluster": "RayCluster",
    "pytorchjob": "PyTorchJob",
    "tfjob": "TFJob",
    "mpijob": "MPIJob",
    "job": "Job",
}
"""What people call the object that declares a gang, by the first word of the gang's id."""

GANG_KINDS = frozenset({*_KINDS, "kueue", "pod"})
"""The first words that gang ids have."""


def _unreadable_reasons(gang: Gang) -> tuple[Reason, ...]:
    """Return the fields of members that cannot be read, each once: what such a member asks for is unknown."""
    problems: dict[str, list[Pod]] = {}
    for pod in gang.open:
        if pod.unreadable:
            problems.setdefault(pod.unreadable, []).append(pod)
    return tuple(
        Reason(
            code=ReasonCode.UNREADABLE_FIELD,
            message=f"pod {pods[0].metadata.name}{f' and {len(pods) - 1} more' if len(pods) > 1 else ''}: {problem}",
            count=len(pods),
            subject=problem.partition(":")[0],
        )
        for problem, pods in sorted(problems.items())
    )


def _unsupported_reasons(gang: Gang) -> tuple[Reason, ...]:
    fields: dict[str, int] = {}
    for pod in gang.open:
        for path in pod.unsupported:
            fields[path] = fields.get(path, 0) + 1
    return tuple(
        Reason(
            code=ReasonCode.UNSUPPORTED_CONSTRAINT,
            message=f"{count} pod{'s use' if count > 1 else ' uses'} {path}, which this release cannot honour",
            count=count,
            subject=path,
        )
        for path, count in sorted(fields.items())
    )


def _pods(pods: tuple[Pod, ...]) -> str:
    return f"{len(pods)} pod{'s' if len(pods) > 1 else ''}"
