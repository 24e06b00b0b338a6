"""The rules of election against a key that expires, over every order of delays, losses and pauses."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from services.runtime.election import (
    Candidacy,
    Event,
    Holder,
    Instruction,
    Look,
    Overtaken,
    Renew,
    Seen,
    Stored,
    Terms,
    Unanswered,
    Vacant,
    due,
    handle,
    step,
)

TERMS = Terms()
CANDIDATES = ("a", "b", "c")


@dataclass(slots=True)
class Key:
    """The server: one key with a time to live, and a marker once it has expired."""

    revision: int = 0
    holder: Holder | None = None
    expires_at: float = 0.0

    def expire(self, now: float) -> None:
        """Replace a key whose time is over by a marker, which has a revision of its own."""
        if self.holder is not None and now >= self.expires_at:
            self.holder = None
            self.revision += 1

    def answer(self, candidate: str, instruction: Instruction, *, sent_at: float, now: float) -> Event:
        """Carry out a request that arrives now."""
        self.expire(now)
        if isinstance(instruction, Look):
            return Seen(key=self.holder or Vacant(revision=self.revision))
        if instruction.expected != self.revision:
            return Overtaken()
        self.revision += 1
        epoch = instruction.epoch if isinstance(instruction, Renew) else self.revision
        self.holder = Holder(candidate=candidate, instance=candidate, epoch=epoch, revision=self.revision)
        self.expires_at = now + TERMS.ttl_s
        return Stored(revision=self.revision, sent_at_s=sent_at)


@dataclass(slots=True)
class World:
    """Candidates that share a key and a time."""

    now: float = 0.0
    key: Key = field(default_factory=Key)
    states: dict[str, Candidacy] = field(
        default_factory=lambda: {name: Candidacy(candidate=name, terms=TERMS) for name in CANDIDATES}
    )
    epochs: dict[int, str] = field(default_factory=dict)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and look often that there is one leader at most."""
        while seconds > 0:
            self.now += min(seconds, 0.1)
            seconds -= 0.1
            self.key.expire(self.now)
            self.check()

    def turn(self, name: str, *, there_s: float, back_s: float, is_lost: bool) -> None:
        """Let a candidate do what is due: the request takes a while, and its answer too, or is lost."""
        state, instruction = step(self.states[name], now_s=self.now)
        self.states[name] = state
        self.check()
        if instruction is None:
            return
        sent_at = self.now
        self.pass_time(there_s)
        event = self.key.answer(name, instruction, sent_at=sent_at, now=self.now)
        self.pass_time(back_s)
        self.states[name] = handle(state, Unanswered() if is_lost else event, now_s=self.now)
        self.check()

    def check(self) -> None:
        """One leader at most, its key is its own and has not expired, and no epoch is led by two."""
        leaders = {name: epoch for name, one in self.states.items() if (epoch := one.epoch_at(self.now)) is not None}
        assert len(leaders) <= 1, leaders
        for name, epoch in leaders.items():
            assert self.epochs.setdefault(epoch, name) == name
            assert self.key.holder is not None
            assert self.key.holder.candidate == name
            assert self.key.expires_at >= self.now + TERMS.margin_s


DELAYS = st.sampled_from([0.0, 0.01, 0.2, 0.9, 1.4, 3.9, 4.1, 6.0])
TURNS = st.lists(st.tuples(st.sampled_from(CANDIDATES), DELAYS, DELAYS, st.booleans(), DELAYS), min_size=1, max_size=40)


@given(TURNS)
def test_there_is_never_a_second_leader(turns: list[tuple[str, float, float, bool, float]]) -> None:
    """Whatever is slow, lost or paused: who leads holds the key, for longer than the margin."""
    world = World()
    for name, there_s, back_s, is_lost, pause_s in turns:
        world.turn(name, there_s=there_s, back_s=back_s, is_lost=is_lost)
        world.pass_time(pause_s)


@given(TURNS, st.sampled_from(CANDIDATES))
def test_whoever_is_left_leads_soon(turns: list[tuple[str, float, float, bool, float]], survivor: str) -> None:
    """After any past, one candidate alone that gets its answers leads within the key's time and two looks."""
    world = World()
    for name, there_s, back_s, is_lost, pause_s in turns:
        world.turn(name, there_s=there_s, back_s=back_s, is_lost=is_lost)
        world.pass_time(pause_s)
    others = [name for name in CANDIDATES if name != survivor]
    for name in others:
        del world.states[name]
    limit = world.now + TERMS.ttl_s + 2 * TERMS.look_every_s
    while world.states[survivor].epoch_at(world.now) is None:
        assert world.now < limit
        world.turn(survivor, there_s=0.0, back_s=0.0, is_lost=False)
        world.now = max(world.now, due(world.states[survivor]))
    epoch = world.states[survivor].epoch
    for _ in range(20):
        world.now = max(world.now, due(world.states[survivor]))
        world.turn(survivor, there_s=0.01, back_s=0.01, is_lost=False)
        assert world.states[survivor].epoch_at(world.now) == epoch
