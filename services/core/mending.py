"""Which gangs are degraded now, since when, and what was told of it: the decider's memory of falls."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from services.core.cluster import Cluster
from services.core.decisions import Degraded, DegradedPolicy
from services.core.degraded import DegradedTerms, degraded, expired, is_degraded, orphans_of, recovered, timeout_of
from services.core.gangs import Gang
from services.core.ledger import Ledger
from services.core.objects import GangId
from services.core.reasons import ReasonCode


@dataclass(slots=True, kw_only=True)
class Fall:
    """One gang below its quorum. `until` is when it is repaired ahead of others no longer."""

    since: datetime
    until: datetime
    told: Degraded | None = None

    @property
    def is_told_late(self) -> bool:
        """True once it was told that its time is over."""
        return self.told is not None and any(one.code is ReasonCode.DEGRADED_TOO_LONG for one in self.told.reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Gangs that are degraded and in no transaction, in the order of the queue; and what is over, to be told."""

    degraded: tuple[Gang, ...] = ()
    over: tuple[tuple[GangId, Degraded], ...] = ()


@dataclass(slots=True, kw_only=True)
class Mending:
    """Looks only at gangs that something happened to; a new process at all."""

    terms: DegradedTerms = field(default_factory=DegradedTerms)
    _falls: dict[GangId, Fall] = field(default_factory=dict)
    _touched: set[GangId] = field(default_factory=set)
    _is_new: bool = True

    def touch(self, gangs: Iterable[GangId]) -> None:
        """Note gangs that may have lost members, or have them again."""
        self._touched.update(gangs)

    def look(self, cluster: Cluster, ledger: Ledger, *, now: datetime) -> Findings:
        """Return what is degraded now."""
        looked_at = self._touched | self._falls.keys()
        if self._is_new:
            looked_at |= cluster.gang_ids() | ledger.degraded_gangs()
        self._is_new, self._touched = False, set()
        found: list[Gang] = []
        over: list[tuple[GangId, Degraded]] = []
        for gang_id in sorted(looked_at):
            # What becomes of it now is the transaction's affair; its end brings it to mind again. A large gang is not
            # put together with each of its bindings only to find that out.
            is_busy = ledger.of_gang(gang_id) is not None
            gang = None if is_busy or cluster.crowd(gang_id) else cluster.gang(gang_id)
            if is_busy or (gang is not None and _is_unseen(gang, cluster)):
                self._touched.add(gang_id)
                continue
            if cluster.crowd(gang_id):
                # It is refused for its size; whoever leaves it brings it to mind again.
                continue
            known = ledger.degraded(gang_id)
            event = known.event if known is not None and isinstance(known.event, Degraded) else None
            if gang is not None and is_degraded(gang, commit=ledger.last_commit(gang_id)):
                self._note(gang, event, now=now)
                found.append(gang)
                continue
            self._falls.pop(gang_id, None)
            if event is not None:
                over.append((gang_id, recovered(event, gang, revision=cluster.revision)))
        return Findings(degraded=tuple(sorted(found, key=lambda gang: gang.order)), over=tuple(over))

    def fall(self, gang: GangId) -> Fall | None:
        """Return what is known of a degraded gang."""
        return self._falls.get(gang)

    def is_ahead(self, gang: GangId, *, now: datetime) -> bool:
        """Tell whether a gang is repaired ahead of others."""
        fall = self._falls.get(gang)
        return fall is not None and now < fall.until

    def ahead(self, now: datetime) -> tuple[GangId, ...]:
        """Return the gangs that are repaired ahead of others."""
        return tuple(gang for gang in self._falls if self.is_ahead(gang, now=now))

    def word(self, gang: Gang, *, revision: int, now: datetime) -> Degraded | None:
        """Return what is to be told of a degraded gang now, and take it as told."""
        fall = self._falls[gang.id]
        if fall.told is None:
            if now < fall.since + self.terms.settle:
                return None
            fall.told = degraded(gang, revision=revision, since=fall.since, terms=self.terms, rejected=gang.gone)
            return fall.told
        is_kept = fall.told.policy is DegradedPolicy.KEEP or bool(orphans_of(gang))
        if now >= fall.until and is_kept and not fall.is_told_late:
            fall.told = expired(fall.told, gang, revision=revision)
            return fall.told
        return None

    def take_back(self, gang: GangId) -> None:
        """Forget that something was told of a gang, because it could not be published."""
        if (fall := self._falls.get(gang)) is not None:
            fall.told = None

    def shift(self, moment: datetime, *, now: datetime) -> None:
        """Move what was noted to a clock that was set back from a moment to now."""
        for fall in self._falls.values():
            if fall.since > now:
                fall.since, fall.until = fall.since + (now - moment), fall.until + (now - moment)

    def next_due(self, now: datetime) -> datetime | None:
        """Return when time alone makes a difference to a degraded gang."""
        moments = [fall.since + self.terms.settle for fall in self._falls.values() if fall.told is None]
        moments += [fall.until for fall in self._falls.values()]
        return min((moment for moment in moments if moment > now), default=None)

    @property
    def count(self) -> int:
        """Gangs that are degraded."""
        return len(self._falls)

    def _note(self, gang: Gang, event: Degraded | None, *, now: datetime) -> None:
        fall = self._falls.get(gang.id)
        if fall is None:
            until = now + timeout_of(gang, terms=self.terms) if event is None else event.until
            self._falls[gang.id] = Fall(since=now, until=until, told=event)


def _is_unseen(gang: Gang, cluster: Cluster) -> bool:
    """Tell whether members are bound, or promised, and still look open."""
    promises = cluster.promises()
    return any(pod.metadata.uid in promises for pod in gang.open)
