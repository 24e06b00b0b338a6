"""What the decider remembers of each gang, and the rules of when a gang deserves to be tried again."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from services.core.decisions import Decision, Refused, RolledBack, Waiting
from services.core.degraded import DegradedTerms
from services.core.gangs import Gang
from services.core.objects import GangId, Pod, TransactionId, Uid
from services.core.policy import TopologyPolicy
from services.core.quantities import Resources
from services.core.reasons import Reason, ReasonCode, codes, summary

MAX_LINKS = 127
"""Causes that are remembered for each gang; OpenTelemetry keeps 128 links of a span."""

CREATION_STEP = timedelta(seconds=1)
"""Resolution of creation times in the Kubernetes API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPolicy:
    """How gangs are decided.

    `settle` is how long a group must have stopped arriving before it is placed with fewer members than may come, but
    at most `patience` is spent on that. `deadline` is when a proposal must have ended. A gang whose transactions fail
    waits `backoff`, doubled each time up to `max_backoff`; the first refusal before anything was written costs no wait.
    """

    settle: timedelta = timedelta(milliseconds=50)
    patience: timedelta = timedelta(seconds=10)
    deadline: timedelta = timedelta(seconds=60)
    repair_window: timedelta = timedelta(seconds=30)
    backoff: timedelta = timedelta(seconds=1)
    max_backoff: timedelta = timedelta(minutes=5)
    epoch: int = 0
    degraded: DegradedTerms = field(default_factory=DegradedTerms)
    #: How long a node whose kubelet rejected a member is excluded for those that ask for the same.
    rejection_memory: timedelta = timedelta(minutes=5)
    #: Levels that gangs may ask to be together in.
    topology: TopologyPolicy = field(default_factory=TopologyPolicy)
    #: Pods of lower priority are evicted where a gang has no place otherwise.
    preempts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A decision with the trace contexts of the event that made it possible and of the other members' events."""

    decision: Decision
    cause: str = ""
    links: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class GangRecord:
    """What the decider remembers of one gang."""

    #: When the first open member since the last attempt appeared, and the last one.
    first_at: datetime | None = None
    arrived_at: datetime | None = None
    #: Trace context of the event that woke the gang last.
    cause: str = ""
    #: Trace contexts of its members' events, newest last.
    links: dict[Uid, str] = field(default_factory=dict)
    #: Transactions that failed in a row.
    failures: int = 0
    #: Since when its pods say that they belong to an owner that was not seen.
    doubted_at: datetime | None = None
    #: Not tried again before.
    retry_at: datetime | None = None
    #: The smallest amounts that one open member asks for, and how many members are needed: the least that could help.
    least: Resources | None = None
    needed: int = 0
    #: Whether other pods, or storage, may decide on its members: then amounts alone do not say what could help.
    minds_pods: bool = False
    minds_storage: bool = False
    minds_devices: bool = False
    minds_classes: bool = False
    #: The last answer, with present numbers.
    answer: Waiting | None = None
    since: datetime | None = None
    #: Its place in the queue when it was tried last.
    order: tuple[int, datetime, str] | None = None

    def note_arrival(self, uid: Uid, *, at: datetime, cause: str) -> None:
        """Note that an open member has appeared."""
        self.first_at = self.first_at or at
        self.arrived_at = at
        self.links[uid] = cause
        if len(self.links) > MAX_LINKS:
            del self.links[next(iter(self.links))]

    def note_answer(self, event: Waiting, *, gang: Gang, known: Decision | None, now: datetime) -> bool:
        """Note why a gang waits; tell whether the stream's last word about it, `known`, says the same to all of it."""
        told = known is not None and isinstance(known.event, Waiting) and codes(known.event.reasons)
        is_told = told == codes(event.reasons)
        if self.answer is None or codes(self.answer.reasons) != codes(event.reasons):
            self.since = known.decided_at if is_told and known is not None else now
        self.answer, self.order = event, gang.order
        return is_told and known is not None and not self.has_untold(gang.open, told_at=known.decided_at)

    def has_answer(self, reasons: tuple[Reason, ...], *, existing: int) -> bool:
        """Tell whether the gang waits for these reasons already; then their present numbers are noted."""
        if self.answer is None or codes(self.answer.reasons) != codes(reasons):
            return False
        self.answer = replace(self.answer, existing=existing, reasons=reasons)
        return True

    def note_end(self, decision: Decision, *, is_release: bool, at: datetime, policy: DecisionPolicy) -> None:
        """Note how a transaction ended: one that failed lets the gang wait, longer each time."""
        is_done = isinstance(decision.event, RolledBack) and is_release
        if isinstance(decision.event, Refused | RolledBack) and not is_done:
            self.failures += 1
            self.retry_at = retry_at(decision, failures=self.failures, at=at, policy=policy)
        else:
            self.failures, self.retry_at = 0, None

    def has_untold(self, pods: Iterable[Pod], *, told_at: datetime) -> bool:
        """Tell whether an open member came after the gang's answer was told, so that nobody told it yet.

        A restarted process sees all of them arrive anew: their creation tells, in whole seconds of another clock.
        """
        if self.arrived_at is None or self.arrived_at <= told_at:
            return False
        return any(pod.metadata.created_at + CREATION_STEP > told_at for pod in pods)

    def shift(self, by: timedelta) -> None:
        """Move what was noted to a clock that was set."""
        self.first_at = self.first_at and self.first_at + by
        self.arrived_at = self.arrived_at and self.arrived_at + by
        self.retry_at = self.retry_at and self.retry_at + by
        self.doubted_at = self.doubted_at and self.doubted_at + by

    def not_before(self, policy: DecisionPolicy) -> datetime | None:
        """Return when the gang may be tried, or None where nothing holds it back."""
        moments = [] if self.retry_at is None else [self.retry_at]
        if self.doubted_at is not None:
            moments.append(self.doubted_at + policy.patience)
        if self.arrived_at is not None and self.first_at is not None:
            moments.append(min(self.arrived_at + policy.settle, self.first_at + policy.patience))
        return max(moments, default=None)


def retry_at(decision: Decision, *, failures: int, at: datetime, policy: DecisionPolicy) -> datetime | None:
    """Return when a gang whose transaction failed may be tried again, or None for at once."""
    free_tries = 1 if isinstance(decision.event, Refused) else 0
    steps = failures - free_tries
    if steps <= 0:
        return None
    delay = min(policy.backoff * float(2 ** min(steps - 1, 20)), policy.max_backoff)
    # Jitter without randomness: gangs that fail together come back apart.
    spread = int(hashlib.blake2s(decision.transaction.encode()).hexdigest()[:4], 16) / 0xFFFF
    return at + delay * (0.75 + 0.5 * spread)


def backing_off(record: GangRecord, *, last: Decision | None) -> Reason:
    """Return the reason of a gang that failed several times in a row and waits before it is tried again."""
    why = summary(last.event.reasons) if last is not None and isinstance(last.event, Refused | RolledBack) else ""
    moment = "" if record.retry_at is None else f"; tried again at {record.retry_at:%H:%M:%S} UTC"
    text = f"{record.failures} placements failed in a row{moment}" + (f": {why}" if why else "")
    return Reason(code=ReasonCode.BACKING_OFF, message=text, count=record.failures)


def transaction_id(gang: GangId, *, revision: int, at: datetime, serial: int) -> TransactionId:
    """Return an id that is unique for ever and sorts by time. `serial` tells decisions of one moment apart."""
    digest = hashlib.blake2s(f"{gang} {revision} {at.isoformat()} {serial}".encode()).hexdigest()[:12]
    return TransactionId(f"{at:%Y%m%dT%H%M%S%f}-{digest}")
