"""One attempt to place one gang on a snapshot: quorum, settings, then the solver."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from services.core.allocations import ClaimAllocation
from services.core.degraded import terms_reasons
from services.core.durations import DurationError, parse_duration
from services.core.gang_topology import topology_reasons
from services.core.gangs import Gang
from services.core.inventory import Snapshot
from services.core.kin import KinOf
from services.core.names import REPAIR_WINDOW_ANNOTATION
from services.core.objects import NodeName, Uid
from services.core.policy import TopologyPolicy
from services.core.preempting import make_room
from services.core.quorum import quorum_reasons
from services.core.reasons import Reason, ReasonCode
from services.core.solver import Placement, Refusal, solve

MAX_PLACEMENT_BYTES = 4 * 2**20
"""What a placement may take as one message; `services.contracts.streams` has the same limit for every message."""
LONGEST_NODE_NAME = 253
_BYTES_AROUND_MEMBER = 16
_BYTES_AROUND_TEXT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Hopeless:
    """The gang cannot be tried: members are missing, or something cannot be read."""

    reasons: tuple[Reason, ...]


def try_gang(
    gang: Gang,
    snapshot: Snapshot,
    *,
    excluded_nodes: Mapping[Uid, frozenset[NodeName]] | None = None,
    topology: TopologyPolicy | None = None,
    kin_of: KinOf | None = None,
) -> Placement | Refusal | Hopeless:
    """Place the gang's open members on the snapshot, all that fit and at least as many as it needs.

    `topology` are the levels that it may ask to be together in. The snapshot is changed only where the answer is a
    Placement. Pods of lower priority have to make room where `kin_of` says who goes with whom, else nobody has to.
    """
    levels = topology or TopologyPolicy()
    reasons = (
        *quorum_reasons(gang),
        *settings_reasons(gang),
        *terms_reasons(gang),
        *topology_reasons(gang.topology, policy=levels),
        *size_reasons(gang),
    )
    if reasons:
        return Hopeless(reasons=reasons)
    answer = solve(
        snapshot,
        members=gang.open,
        needed=gang.needed,
        excluded_nodes=excluded_nodes,
        wish=gang.topology.wish,
        levels=levels.levels,
        placed=gang.placed,
    )
    if isinstance(answer, Refusal) and all(one.code is not ReasonCode.GANG_TOO_LARGE for one in answer.reasons):
        found = make_room(gang, snapshot, kin_of=kin_of, excluded_nodes=excluded_nodes, topology=levels)
        if isinstance(found, Placement):
            return found
        return replace(answer, reasons=(*answer.reasons, *found))
    if isinstance(answer, Placement) and answer.claims:
        too_large = size_reasons(gang, claims=answer.claims)
        return Hopeless(reasons=too_large) if too_large else answer
    return answer


def settings_reasons(gang: Gang) -> tuple[Reason, ...]:
    """Return what is wrong with the gang's annotations; empty where nothing is."""
    text = gang.annotations.get(REPAIR_WINDOW_ANNOTATION)
    if text is None:
        return ()
    try:
        parse_duration(text)
    except DurationError as error:
        message = f"annotation {REPAIR_WINDOW_ANNOTATION}: {error}"
        return (Reason(code=ReasonCode.MISCONFIGURED, message=message, subject=REPAIR_WINDOW_ANNOTATION),)
    return ()


def size_reasons(gang: Gang, *, claims: Iterable[ClaimAllocation] = ()) -> tuple[Reason, ...]:
    """Return that the placement would be too large for one message, whatever its nodes; empty where it is not.

    How large devices make it shows when they are chosen: `claims` are those of the placement.
    """
    texts = sum(len(pod.metadata.name) + len(pod.metadata.uid) for pod in gang.open)
    size = texts + len(gang.open) * (LONGEST_NODE_NAME + _BYTES_AROUND_MEMBER) + sum(map(_claim_bytes, claims))
    if size <= MAX_PLACEMENT_BYTES:
        return ()
    text = (
        f"a placement of {len(gang.open)} members takes up to {size} bytes; at most {MAX_PLACEMENT_BYTES} can be told"
    )
    return (Reason(code=ReasonCode.GANG_TOO_LARGE, message=text, count=len(gang.open)),)


def _claim_bytes(claim: ClaimAllocation) -> int:
    """Return about how many bytes a claim takes in a message, rather more than less."""
    ref = claim.ref
    texts: list[str] = [ref.namespace, ref.name, ref.uid, ref.pod, ref.entry, claim.node, *claim.consumers]
    for one in claim.results:
        texts += [one.request, one.driver, one.pool, one.device, *one.binding_conditions]
        texts += [*one.binding_failure_conditions, *(text for pair in one.consumed for text in pair)]
        texts += [text for each in one.tolerations for text in (each.key, each.value, each.effect, each.operator)]
    for asked in claim.extended:
        texts += [asked.name, asked.container, asked.resource, asked.device_class]
    return sum(len(text) + _BYTES_AROUND_TEXT for text in texts) + len(claim.node_selector_json)


def repair_window(gang: Gang, *, default: timedelta) -> timedelta:
    """Return how long failed members of the gang are re-placed before it is undone."""
    text = gang.annotations.get(REPAIR_WINDOW_ANNOTATION)
    if text is None:
        return default
    try:
        return parse_duration(text)
    except DurationError:
        return default
