"""The rules by which processes of one service agree on a leader: events in, instructions out.

There is one key for each service, which expires unless it is renewed, and is written by compare-and-set. A candidate
looks at the key while another holds it, writes it when nobody does, and renews it while it leads. It stops leading by
its own clock, before the key can expire: the time of a write counts from when it was sent, which is never later than
when it was stored.

No I/O and no clock: moments are arguments, in seconds of the candidate's monotonic clock. `services.runtime.leadership`
is the shell.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How long a key lives, and how it is kept.

    `margin_s` is how long before the key can expire its holder stops leading: time for a request that was sent in the
    last moment to arrive, and for clocks that run at slightly different speeds.
    """

    ttl_s: float = 5.0
    renew_every_s: float = 1.5
    margin_s: float = 1.0
    look_every_s: float = 0.5
    retry_after_s: float = 0.25

    @property
    def leads_for_s(self) -> float:
        """How long a write keeps its writer leading."""
        return self.ttl_s - self.margin_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """What the key holds. `candidate` is unique to one process; `epoch` is the revision that acquired it."""

    candidate: str
    instance: str
    epoch: int
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacant:
    """Nobody holds the key; `revision` is what a write has to expect, 0 where there was never a key."""

    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The key was read."""

    key: Holder | Vacant


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Our write was stored with this revision; `sent_at_s` is when it was sent."""

    revision: int
    sent_at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Overtaken:
    """Our write was refused: the key is not what we knew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """No answer came: what we asked for may have happened or not."""


Event = Seen | Stored | Overtaken | Unanswered


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Read the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquire:
    """Write the key for a new epoch, if it still has this revision."""

    expected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """Write the key again for the same epoch, if it still has this revision."""

    expected: int
    epoch: int


Instruction = Look | Acquire | Renew


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidacy:
    """One candidate's view. It leads where `epoch` is set and `until_s` has not come.

    `vacancy` is the revision over which the key may be acquired next, `revision` that of our own last write.
    """

    candidate: str
    terms: Terms
    epoch: int | None = None
    until_s: float = 0.0
    revision: int = 0
    vacancy: int | None = None
    must_look: bool = True
    next_at_s: float = 0.0
    #: Instance that was seen to hold the key last, empty where nobody was; None before the first look.
    leader: str | None = None

    def epoch_at(self, now_s: float) -> int | None:
        """Return the epoch that is led at a moment, or None."""
        return self.epoch if now_s < self.until_s else None


def due(state: Candidacy) -> float:
    """Return when `step` has something to do."""
    return state.next_at_s if state.epoch is None else min(state.next_at_s, state.until_s)


def step(state: Candidacy, *, now_s: float) -> tuple[Candidacy, Instruction | None]:
    """Return the state when time has come this far, and what to do now."""
    if state.epoch is not None and now_s >= state.until_s:
        state = _stood_down(state, now_s=now_s)
    if now_s < state.next_at_s:
        return state, None
    if state.epoch is not None and not state.must_look:
        return state, Renew(expected=state.revision, epoch=state.epoch)
    if state.epoch is None and state.vacancy is not None:
        return state, Acquire(expected=state.vacancy)
    return state, Look()


def handle(state: Candidacy, event: Event, *, now_s: float) -> Candidacy:
    """Return the state after the answer to what was asked for last."""
    if state.epoch is not None and now_s >= state.until_s:
        # A renewal that is answered this late may have been stored in time, and yet others may not rely on us.
        return _stood_down(state, now_s=now_s)
    match event:
        case Seen(key=key):
            return _seen(state, key, now_s=now_s)
        case Stored():
            return _stored(state, event, now_s=now_s)
        case Overtaken():
            return replace(state, must_look=True, vacancy=None, next_at_s=now_s)
        case Unanswered():
            return replace(state, must_look=True, vacancy=None, next_at_s=now_s + state.terms.retry_after_s)


def _seen(state: Candidacy, key: Holder | Vacant, *, now_s: float) -> Candidacy:
    leader = key.instance if isinstance(key, Holder) else ""
    is_ours = isinstance(key, Holder) and key.candidate == state.candidate
    state = replace(state, leader=leader, must_look=False)
    if state.epoch is not None:
        if is_ours and isinstance(key, Holder) and key.epoch == state.epoch:
            # Stored, although its answer was lost. When is unknown, so that it prolongs nothing by itself.
            return replace(state, revision=key.revision, next_at_s=now_s)
        return _stood_down(replace(state, leader=leader), now_s=now_s)
    if is_ours or isinstance(key, Vacant):
        # Also over our own key: what was begun under its epoch has been given up.
        return replace(state, vacancy=key.revision, next_at_s=now_s)
    return replace(state, vacancy=None, must_look=True, next_at_s=now_s + state.terms.look_every_s)


def _stored(state: Candidacy, event: Stored, *, now_s: float) -> Candidacy:
    until_s = event.sent_at_s + state.terms.leads_for_s
    if now_s >= until_s:
        return _stood_down(state, now_s=now_s)
    return replace(
        state,
        epoch=event.revision if state.epoch is None else state.epoch,
        until_s=until_s,
        revision=event.revision,
        vacancy=None,
        must_look=False,
        next_at_s=min(event.sent_at_s + state.terms.renew_every_s, until_s),
    )


def _stood_down(state: Candidacy, *, now_s: float) -> Candidacy:
    return replace(state, epoch=None, until_s=0.0, vacancy=None, must_look=True, next_at_s=now_s)
