"""What can be asked of the placer's state: pure functions from a decider to an answer."""

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from datetime import datetime

from services.contracts.manifest_files import Manifests
from services.core.decider import Decider
from services.core.decisions import Decision, Degraded, Refused, RolledBack, Waiting
from services.core.gangs import Gang
from services.core.kin import kin_in
from services.core.membership import SourceKey
from services.core.objects import GangId, NodeName, Pod, kind_of
from services.core.plan import GangPlan, gangs_of, imagine, joined, plan
from services.core.quorum import quorum_reasons
from services.core.reasons import Reason, ReasonCode
from services.core.undo_cost import undo_warnings

MAX_PODS = 4096
ANY_KIND = "*"
"""Stands for the kind in the id of a gang that is asked for by name."""


class NotSynced(Exception):
    """The cluster is not followed to the end: an answer could be wrong."""


class TooMany(ValueError):
    """More pods than one question may hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAnswer:
    """Outcome by gang."""

    plans: dict[GangId, GangPlan]
    revision: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All that is known of one gang. `finished` counts placed members.

    `position` counts from 1 in the order of waiting gangs; it is 0 where the gang does not wait.
    """

    gang: GangId
    state: str
    min_count: int = 0
    existing: int = 0
    placed: int = 0
    finished: int = 0
    reasons: tuple[Reason, ...] = ()
    nodes: dict[str, NodeName] = field(default_factory=dict)
    transaction: str = ""
    since: datetime | None = None
    revision: int = 0
    position: int = 0
    warnings: tuple[Reason, ...] = ()


def plan_question(manifests: Manifests, *, takes_all_schedulers: bool) -> Callable[[Decider], PlanAnswer]:
    """Return the question where the manifests' pods would go now.

    Raises TooMany; the question raises NotSynced.
    """
    pods = [item for item in manifests.objects if isinstance(item, Pod)]
    given = {(kind_of(item), item.metadata.namespace, item.metadata.name) for item in manifests.objects}
    if len(pods) > MAX_PODS:
        raise TooMany(f"expected at most {MAX_PODS} pods, got {len(pods)}")

    def question(decider: Decider) -> PlanAnswer:
        unsynced = decider.cluster.unsynced()
        if unsynced:
            raise NotSynced(f"the watcher does not follow yet: {', '.join(unsynced)}")
        imagined = decider.cluster.imagined()
        imagine(imagined, manifests.objects, takes_all_schedulers=takes_all_schedulers)
        promised = {uid: one.node for uid, one in decider.cluster.promises().items()}
        gangs = [
            joined(gang, live=decider.cluster.gang(gang.id), promised=promised) if _is_live(gang, given) else gang
            for gang in gangs_of(imagined)
        ]
        return PlanAnswer(
            plans=plan(
                gangs,
                inventory=imagined.inventory,
                topology=decider.policy.topology,
                kin_of=kin_in(decider.cluster) if decider.policy.preempts else None,
            ),
            revision=decider.cluster.revision,
            skipped=manifests.skipped,
        )

    return question


def _is_live(gang: Gang, given: Container[SourceKey]) -> bool:
    """Tell whether a gang of the question is one of the cluster: nothing that was given declares it."""
    declaration = gang.group or gang.source
    if declaration is None:
        return not gang.id.startswith("pod/")
    return (kind_of(declaration), declaration.metadata.namespace, declaration.metadata.name) not in given


def explanation(decider: Decider, *, gang_id: GangId) -> Explanation | None:
    """Return all that is known of a gang, or None where it was never seen.

    For a pod that is a member of a group the answer is about the group.
    """
    gang_id = _group_of_member(decider, gang_id)
    crowd = decider.cluster.crowd(gang_id)
    gang = decider.cluster.gang(gang_id, is_crowd=bool(crowd))
    transaction = decider.ledger.of_gang(gang_id)
    last = decider.ledger.last(gang_id)
    if gang is None and transaction is None and last is None:
        return None
    revision = decider.cluster.revision
    if gang is None:
        return Explanation(
            gang=gang_id,
            state="unknown",
            revision=revision,
            transaction="" if transaction is None else transaction.id,
            since=None if last is None else last.decided_at,
        )
    nodes = {pod.metadata.name: pod.node for pod in gang.placed if pod.node}
    if transaction is not None:
        nodes |= {one.pod: one.node for one in transaction.assignments}
    answer, since = decider.answer(gang_id)
    fallen = decider.ledger.degraded(gang_id)
    state = _state(gang, is_open=transaction is not None, is_repairing=bool(transaction and transaction.repairing))
    if state == "waiting" and fallen is not None:
        state, since = "degraded", fallen.decided_at
    is_lacking = state in {"waiting", "degraded"}
    return Explanation(
        gang=gang_id,
        state=state,
        min_count=gang.min_count,
        existing=crowd or gang.existing,
        placed=len(gang.placed),
        finished=sum(pod.is_finished for pod in gang.placed),
        reasons=_reasons(decider, gang, answered=() if answer is None else answer.reasons) if is_lacking else (),
        warnings=undo_warnings(gang, job_of=decider.cluster.job) if gang.open else (),
        nodes=dict(sorted(nodes.items())),
        transaction="" if transaction is None else transaction.id,
        since=_since(state, waits_since=since, last=last),
        revision=revision,
        position=_position(decider, gang_id) if is_lacking else 0,
    )


def _group_of_member(decider: Decider, gang_id: GangId) -> GangId:
    kind, namespace, name = gang_id.split("/")
    cluster = decider.cluster
    if kind == ANY_KIND:
        named = {one for one in cluster.gang_ids() if one.endswith(f"/{namespace}/{name}")}
        group = GangId(f"podgroup/{namespace}/{name}")
        lone = GangId(f"pod/{namespace}/{name}")
        gang_id = (
            group if group in named else min(named - {lone}, default=lone if cluster.pod(namespace, name) else group)
        )
        kind = gang_id.partition("/")[0]
    pod = cluster.pod(namespace, name) if kind == "pod" else None
    if kind != "pod" and cluster.gang(gang_id, is_crowd=bool(cluster.crowd(gang_id))) is None:
        # Perhaps its pods are members of another object's gang: a JobSet's Job is no gang by itself.
        owned = [one for one in cluster.pods() if one.metadata.namespace == namespace and _is_owned(one, kind, name)]
        pod = min(owned, key=lambda one: one.metadata.name, default=None)
    return gang_id if pod is None else cluster.gang_id_of(pod)


def _is_owned(pod: Pod, kind: str, name: str) -> bool:
    return any(owner.kind.lower() == kind.lower() and owner.name == name for owner in pod.metadata.owners)


def _state(gang: Gang, *, is_open: bool, is_repairing: bool) -> str:
    if is_repairing:
        return "repairing"
    if is_open:
        return "proposed"
    if len(gang.placed) >= gang.min_count and not gang.open:
        return "finished" if gang.placed and all(pod.is_finished for pod in gang.placed) else "running"
    return "waiting"


def _since(state: str, *, waits_since: datetime | None, last: Decision | None) -> datetime | None:
    """Return since when the state holds; when pods finish is not kept."""
    if state == "finished":
        return None
    return waits_since if state in {"waiting", "degraded"} and waits_since is not None else _decided_at(last)


def _decided_at(last: Decision | None) -> datetime | None:
    """Return when the last thing was decided about a gang that does not wait."""
    return None if last is None or isinstance(last.event, Waiting) else last.decided_at


def _reasons(decider: Decider, gang: Gang, *, answered: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """Return why a gang waits: the last answer, or why there is none yet."""
    unsynced = decider.cluster.unsynced()
    if unsynced:
        text = f"the watcher does not follow yet: {', '.join(unsynced)}"
        return (Reason(code=ReasonCode.CLUSTER_NOT_SYNCED, message=text),)
    fallen = decider.ledger.degraded(gang.id)
    if fallen is not None and isinstance(fallen.event, Degraded):
        return (*fallen.event.reasons, *answered)
    if answered:
        return answered
    last = decider.ledger.last(gang.id)
    if last is not None and isinstance(last.event, Refused | RolledBack):
        return last.event.reasons
    short = quorum_reasons(gang)
    if short:
        return short
    text = f"{gang.existing} pods exist; the group is placed when no more arrive"
    return (Reason(code=ReasonCode.MEMBERS_ARRIVING, message=text, count=gang.existing),)


def _position(decider: Decider, gang_id: GangId) -> int:
    orders: dict[GangId, tuple[int, datetime, str]] = {}
    for one, record in decider.records().items():
        if decider.answer(one)[0] is None:
            continue
        # A standby that tried none has no orders noted.
        found = None if record.order is not None else decider.cluster.gang(one)
        order = record.order if found is None else found.order
        if order is not None:
            orders[one] = order
    mine = orders.get(gang_id)
    return 0 if mine is None else sum(order <= mine for order in orders.values())
