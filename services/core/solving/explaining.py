"""Why members cannot be placed: of those that are left, what keeps them from each node, counted."""

import numpy as np

from services.core.devices.demands import NO_DEMAND
from services.core.node_rules import REASON_OF_VERDICT, TEXT_OF_VERDICT, Verdict
from services.core.quantities import shown
from services.core.reasons import Reason, ReasonCode
from services.core.solving.board import Board
from services.core.solving.device_reasons import device_reasons
from services.core.solving.device_room import admitted_by_devices
from services.core.solving.finding import Aim, Finding
from services.core.solving.rules import Flags

_TEXT_OF_RULE: dict[ReasonCode, str] = {
    ReasonCode.HOST_PORT_IN_USE: "in use by other pods at a host port that these pods need",
    ReasonCode.VOLUME_IN_USE: "closed to a volume that one pod or one node may use, and that is in use",
    ReasonCode.POD_ANTI_AFFINITY_MISMATCH: "in a domain with pods that have to be apart from these",
    ReasonCode.TOPOLOGY_SPREAD_MISMATCH: "where one more pod would make the spread too uneven",
    ReasonCode.POD_AFFINITY_MISMATCH: "in no domain with the pods that these have to be near to",
    ReasonCode.VOLUME_LIMIT_EXCEEDED: "at the limit of volumes that can be attached",
    ReasonCode.DEVICES_INSUFFICIENT: "without enough free devices for what these pods claim",
}


def reasons_of(board: Board, finding: Finding, aim: Aim) -> tuple[Reason, ...]:
    """Return why fewer than needed can be placed. The board holds the best that was found afterwards."""
    board.replay(finding.moves)
    reasons = [
        Reason(
            code=ReasonCode.INSUFFICIENT_CAPACITY,
            message=f"{finding.placed} of the {aim.needed} needed pods can be placed",
            count=finding.placed,
        )
    ]
    if not board.snapshot.node_count:
        return (*reasons, Reason(code=ReasonCode.NO_NODES, message="the cluster has no nodes"))
    if finding.failed_label:
        reasons.append(_level_reason(board, finding.failed_label))
    seen: set[tuple[ReasonCode, str]] = set()
    for group, left in enumerate(board.left):
        if not left:
            continue
        for reason in _reasons_of_class(board, group):
            if (reason.code, reason.subject) not in seen:
                seen.add((reason.code, reason.subject))
                reasons.append(reason)
    if finding.was_searched:
        reasons.append(_search_reason(is_proved=finding.is_proved))
    return tuple(reasons)


def text_of_rule(code: ReasonCode) -> str:
    """Return what a node is that breaks a rule among pods, as the end of a sentence."""
    return _TEXT_OF_RULE[code]


def _level_reason(board: Board, label: str) -> Reason:
    codes = board.snapshot.judgements.domains(label).codes[: len(board.snapshot.names)]
    count = len(np.unique(codes[codes >= 0]))
    what = f"none of the {count} domains of {label} holds all pods" if count else f"no node has the label {label}"
    return Reason(code=ReasonCode.TOPOLOGY_PLACEMENT_FAILED, message=what, count=count, subject=label)


def _search_reason(*, is_proved: bool) -> Reason:
    if is_proved:
        text = "every placement was looked at or excluded: none places as many pods as are needed"
        return Reason(code=ReasonCode.NO_PLACEMENT_EXISTS, message=text)
    text = "the search for a placement gave up at its bound; one may exist"
    return Reason(code=ReasonCode.SEARCH_BUDGET_EXHAUSTED, message=text)


def _reasons_of_class(board: Board, group: int) -> list[Reason]:
    one = board.classes[group]
    refusals = (*one.storage.refusals, *one.demand.problems)
    if refusals:
        return list(refusals)
    admitted: Flags = board.snapshot.verdicts_for(one.constraints)[: len(board.snapshot.names)] == Verdict.ADMITTED
    return [
        *_shortages(board, group, admitted),
        *_devices(board, group, admitted),
        *_broken_rules(board, group),
        *_verdicts(board, group),
    ]


def _shortages(board: Board, group: int, admitted: Flags) -> list[Reason]:
    total = int(admitted.sum())
    if not total:
        return []
    reasons = []
    for resource, amount in board.classes[group].requests:
        column = board.snapshot.columns.get(resource)
        free = np.zeros(total, dtype=np.int64) if column is None else np.maximum(board.free[admitted, column], 0)
        if resource in board.classes[group].demand.extended:
            # Elsewhere it stands for devices, which are told of by themselves.
            free = free[board.snapshot.offers(resource)[admitted]] if column is not None else free[:0]
        short = int((free < amount).sum())
        if not short:
            continue
        most, asked = shown(int(free.max()), resource=resource), shown(amount, resource=resource)
        what = (
            f"no node has {asked} free {resource}"
            if short == total
            else f"{short} of {total} nodes have less than {asked} free {resource}"
        )
        reasons.append(
            Reason(
                code=ReasonCode.INSUFFICIENT_RESOURCE,
                message=f"{what} (largest free is {most})",
                count=short,
                subject=resource,
            )
        )
    return reasons


def _devices(board: Board, group: int, admitted: Flags) -> list[Reason]:
    """Return what is known of the devices by themselves, and how many nodes can never host the class for them."""
    demand = board.classes[group].demand
    if demand == NO_DEMAND:
        return []
    hosts = admitted_by_devices(board.snapshot, demand)
    found = device_reasons(board.snapshot.devices, demand)
    closed = 0 if hosts is None else int((admitted & ~hosts).sum())
    if not closed:
        return found
    if any(claim.pinned is not None for claim in demand.claims):
        text = _counted(closed, "out of reach of devices that claims of these pods have already")
        return [*found, Reason(code=ReasonCode.CLAIM_NODE_MISMATCH, message=text, count=closed)]
    text = _counted(closed, "without devices that these pods could use")
    return [*found, Reason(code=ReasonCode.DEVICES_INSUFFICIENT, message=text, count=closed, subject="none")]


def _broken_rules(board: Board, group: int) -> list[Reason]:
    """Return the rules among pods that admitted nodes break beside what could be placed; of each node the first."""
    rules = board.rules[group]
    asks = board.devices is not None and board.devices.asks(group)
    if not (rules.forbidden or rules.spreads or rules.near or board.classes[group].storage.attached or asks):
        return []
    counts = board.refusals(group)
    return [
        Reason(code=code, message=_counted(counts[code], text), count=counts[code])
        for code, text in _TEXT_OF_RULE.items()
        if counts.get(code)
    ]


def _verdicts(board: Board, group: int) -> list[Reason]:
    one = board.classes[group]
    verdicts = board.snapshot.verdicts_for(one.constraints)[: len(board.snapshot.names)]
    reasons = []
    for kind, code in REASON_OF_VERDICT.items():
        count = int((verdicts == kind).sum())
        if kind is Verdict.EXCLUDED:
            count = sum(name in board.snapshot.rows for name in one.excluded_nodes)
        if count:
            reasons.append(Reason(code=code, message=_counted(count, TEXT_OF_VERDICT[kind]), count=count))
    return reasons


def _counted(count: int, what: str) -> str:
    return f"{count} node{'s are' if count > 1 else ' is'} {what}"
