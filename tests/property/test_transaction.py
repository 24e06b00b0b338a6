"""Whatever happens to answers, members and the process: one ending, whole or nothing, and no late surprise.

The model plays cluster, placer and network. A write whose answer is lost may have happened, may still be on its way, or
may never arrive; copies on their way land whenever the model likes. The process may be killed at any instruction.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from services.contracts.transaction_codec import decode_transaction, encode_transaction
from services.core.decisions import (
    Assignment,
    Committed,
    DecisionEvent,
    Proposed,
    Refused,
    Repairing,
    RolledBack,
    Victim,
)
from services.core.objects import GangId, NodeName, TransactionId, Uid
from services.core.reasons import Reason, ReasonCode
from services.core.transaction import Result, begin, due, handle
from services.core.transaction_resume import as_entry, is_behind, resume
from services.core.transaction_state import Step, TransactionState
from services.core.transaction_values import (
    Allocate,
    Answer,
    Bind,
    Event,
    Evict,
    Evicted,
    Examine,
    Examined,
    Fence,
    Fenced,
    Followed,
    Found,
    Free,
    Instruction,
    Prepare,
    Probe,
    Probed,
    Publish,
    Published,
    Reading,
    Recheck,
    Rechecked,
    Removal,
    Removed,
    Reproposed,
    Target,
    Ticked,
    Undo,
    Verdict,
    Withdraw,
    Withdrawn,
    Written,
)
from tests.property.claims_model import SHARED, ModelClaims

START = datetime(2026, 1, 1, tzinfo=UTC)
GANG = GangId("podgroup/team-a/train")
NO = Reason(code=ReasonCode.BINDING_REFUSED, message="no", count=1)
STALE = Reason(code=ReasonCode.PLACEMENT_STALE, message="stale", count=1)

VICTIMS = (
    Victim(namespace="a", pod="alone", uid=Uid("v0"), node=NodeName("n0")),
    Victim(namespace="b", pod="kin-0", uid=Uid("v1"), node=NodeName("n0"), gang=GangId("podgroup/b/kin")),
    Victim(namespace="b", pod="kin-1", uid=Uid("v2"), node=NodeName("far"), gang=GangId("podgroup/b/kin")),
)
"""Pods that are in the way of a gang on the node of its first round."""

CALM_AFTER = 60
"""Steps after which the model stops killing and starts to let time pass, so that every run ends."""

MOST_STEPS = 400


@dataclass(slots=True)
class ModelPod:
    """A pod as the API server has it."""

    is_controlled: bool
    version: int = 1
    node: str = ""
    is_ours: bool = False
    is_alive: bool = True
    was_bound: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """A binding on its way."""

    uid: Uid
    node: str
    version: str


@dataclass(slots=True)
class Model:
    """Cluster, placer and network, driven by drawn choices."""

    draw: st.DrawFn
    min_count: int
    window_s: int
    pods: dict[Uid, ModelPod]
    now: datetime = START
    proposal: Proposed | None = None
    repairing: Repairing | None = None
    is_answer_owed: bool = False
    copies: list[Copy] = field(default_factory=list)
    endings: list[DecisionEvent] = field(default_factory=list)
    rounds: set[int] = field(default_factory=set)
    steps: int = 0
    claims: ModelClaims = field(init=False)
    #: Pods of lower priority that are still there.
    victims: set[Uid] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Have no claims yet."""
        pick = lambda words: self.draw(st.sampled_from(words))  # noqa: E731 - drawn as everything else
        self.claims = ModelClaims(GANG, pick=pick, chance=self.chance)

    def chance(self, one_in: int) -> bool:
        """Draw an event that happens once in so many times."""
        return self.draw(st.integers(0, one_in - 1)) == one_in - 1

    @property
    def is_calm(self) -> bool:
        """Whether only time is left to pass."""
        return self.steps > CALM_AFTER

    def apply(self, copy: Copy) -> bool:
        """Bind as the API server does: only the same version of a living, unbound pod."""
        pod = self.pods[copy.uid]
        if not pod.is_alive or pod.node or str(pod.version) != copy.version:
            return False
        pod.node, pod.is_ours, pod.was_bound = copy.node, True, True
        pod.version += 1
        return True

    def land_copies(self) -> None:
        """Let some copies arrive."""
        self.claims.land()
        for copy in tuple(self.copies):
            if self.chance(8):
                self.copies.remove(copy)
                self.apply(copy)

    def disturb(self) -> None:
        """Let somebody else bind or delete a pod."""
        if self.is_calm or not self.chance(4):
            return
        pod = self.pods[self.draw(st.sampled_from(sorted(self.pods)))]
        if self.chance(2):
            pod.is_alive = False
        elif not pod.node and pod.is_alive:
            pod.node, pod.was_bound = "elsewhere", True
            pod.version += 1

    def reading(self, uid: Uid) -> Reading:
        """Read a pod."""
        pod = self.pods[uid]
        if not pod.is_alive:
            return Reading(found=Found.GONE)
        found = Found.READY if not pod.node else Found.BOUND if pod.is_ours else Found.ELSEWHERE
        return Reading(found=found, node=NodeName(pod.node), version=str(pod.version), has_controller=pod.is_controlled)

    def answer(self, instruction: Instruction) -> Event:  # noqa: C901, PLR0911 - one case per instruction
        """Carry out an instruction."""
        match instruction:
            case Examine(members=members):
                readings = {one.uid: self.reading(one.uid) for one in members}
                ready = [uid for uid, one in readings.items() if one.found is Found.READY]
                misfits = {uid: STALE for uid in ready if self.chance(6)}
                shared = frozenset(one.node for one in members) if self.chance(3) else frozenset()
                return Examined(readings=readings, misfits=misfits, shared=shared)
            case Probe(targets=targets):
                return Probed(answers={one.uid: self.probe(one) for one in targets})
            case Evict():
                return self.evict(instruction)
            case Allocate() | Prepare() | Free():
                return self.claims.answer(instruction)
            case Bind(targets=targets):
                for one in targets:
                    taken = {each.uid for each in VICTIMS if each.node == one.node} & self.victims
                    assert not taken, "a member is bound where a victim still is"
                    assert self.claims.is_usable(one.uid, node=one.node), "a member is bound without its claims"
                return Written(answers={one.uid: self.bind(one) for one in targets})
            case Fence(targets=targets):
                return Fenced(readings={one.uid: self.fence(one) for one in targets})
            case Undo(targets=targets):
                return Removed(removals={one.uid: self.remove(one) for one in targets})
            case Recheck(members=members):
                # Another scheduler was faster on a shared node.
                return Rechecked(collided={one.uid: NO for one in members if self.chance(4)})
            case Withdraw(targets=targets):
                return Withdrawn(removals={one.uid: self.remove(one) for one in targets})
            case Publish(event=event):
                self.publish(event)
                return Published()

    def evict(self, instruction: Evict) -> Evicted:
        """Let victims go, or stay as their budget or their slowness wants."""
        there = [one for one in instruction.victims if one.uid in self.victims]
        if not instruction.is_begun and there and self.chance(4):
            return Evicted(staying={there[0].uid: NO}, is_untouched=True)
        staying = {one.uid: NO for one in there if self.chance(6)}
        self.victims -= {one.uid for one in there} - staying.keys()
        return Evicted(staying=staying)

    def half(self, instruction: Evict | Allocate | Free) -> None:
        """Carry out part of an instruction."""
        if isinstance(instruction, Evict):
            self.victims -= {one.uid for one in instruction.victims if self.chance(2)}
        else:
            self.claims.half(instruction)

    def probe(self, target: Target) -> Answer:
        """Answer a dry run."""
        reading = self.reading(target.uid)
        if reading.found is Found.READY:
            return Answer(verdict=Verdict.REFUSED, reason=NO) if self.chance(5) else Answer(verdict=Verdict.PASSED)
        return settled(reading)

    def bind(self, target: Target) -> Answer:
        """Write until the answer is definite; lost copies may stay on their way."""
        assert target.version, "a binding without a version is not fenced"
        assert self.pods[target.uid].version >= int(target.version)
        is_in_doubt = False
        version = target.version
        while True:
            fate = self.draw(st.sampled_from(["taken", "taken", "taken", "cut", "late", "refused", "forbidden"]))
            copy = Copy(uid=target.uid, node=target.node, version=version)
            if fate == "cut":
                is_in_doubt = True
                self.apply(copy)
                continue
            if fate == "late":
                is_in_doubt = True
                self.copies.append(copy)
                continue
            reading = self.reading(target.uid)
            if reading.found is not Found.READY:
                return settled(reading)
            if fate == "refused":
                return Answer(verdict=Verdict.REFUSED, reason=NO, is_in_doubt=is_in_doubt)
            if fate == "forbidden":
                return Answer(verdict=Verdict.FORBIDDEN, reason=NO, is_in_doubt=is_in_doubt)
            version = reading.version
            self.apply(Copy(uid=target.uid, node=target.node, version=version))
            return Answer(verdict=Verdict.BOUND, node=target.node)

    def fence(self, target: Target) -> Reading:
        """Change a pod and read it."""
        self.land_copies()
        if self.pods[target.uid].is_alive:
            self.pods[target.uid].version += 1
        return self.reading(target.uid)

    def remove(self, target: Target) -> Removal:
        """Delete a pod; only one that its owner would make again."""
        pod = self.pods[target.uid]
        assert pod.is_controlled, "a pod without a controller was to be deleted"
        if not pod.is_alive:
            return Removal.GONE
        is_release = self.proposal is not None and self.proposal.is_release
        assert pod.is_ours or is_release, "a pod that somebody else bound was to be deleted"
        pod.is_alive = False
        return Removal.DELETED

    def publish(self, event: DecisionEvent) -> None:
        """Store a decision, as the stream does."""
        if isinstance(event, Repairing):
            if self.repairing == event:
                # The same event again has the same id, and is stored once.
                return
            assert event.round not in self.rounds, "a repeated id would not be stored"
            self.rounds.add(event.round)
            self.repairing, self.is_answer_owed = event, True
        elif event not in self.endings:
            self.endings.append(event)

    def next_round(self) -> Proposed | None:
        """Return the placer's answer to the last Repairing: everything that is not listed as open is repeated."""
        if not self.is_answer_owed or self.repairing is None or self.proposal is None:
            return None
        self.is_answer_owed = False
        opened = {one.uid: one for one in self.repairing.open}
        bound = {one.uid: one for one in self.repairing.bound}
        pending = [one for one in self.proposal.assignments if one.uid not in opened and one.uid not in bound]
        number = self.repairing.round + 1
        fresh = [Assignment(pod=one.pod, uid=uid, node=NodeName(f"n{number}")) for uid, one in opened.items()]
        self.proposal = Proposed(
            revision=1,
            deadline=self.repairing.until,
            min_count=self.min_count,
            round=number,
            assignments=(*bound.values(), *pending, *fresh),
            claims=self.claims.proposed((*pending, *fresh), round_number=number),
            repair_window=timedelta(seconds=self.window_s),
        )
        return self.proposal


def settled(reading: Reading) -> Answer:
    """The definite answer of a pod that is not unbound."""
    verdicts = {Found.BOUND: Verdict.BOUND, Found.ELSEWHERE: Verdict.ELSEWHERE, Found.GONE: Verdict.GONE}
    return Answer(verdict=verdicts[reading.found], node=reading.node, version=reading.version)


@dataclass(slots=True)
class Process:
    """The binder: one state and one outstanding instruction."""

    model: Model
    state: TransactionState
    outstanding: Instruction | None
    #: What the journal has, and what it had before the outstanding instruction.
    entry: bytes = b""
    entry_before: bytes = b""

    @classmethod
    def start(cls, model: Model, *, is_resumed: bool) -> "Process":
        """Take the transaction up, as the stream shows it."""
        assert model.proposal is not None
        state, instructions = begin(
            TransactionId("t"),
            gang=GANG,
            proposal=model.proposal,
            at=model.now,
            is_resumed=is_resumed,
            repairing=model.repairing,
        )
        return cls(model, state, instructions[0], encode_transaction(as_entry(state)))

    @classmethod
    def resume(cls, model: Model, entry: bytes) -> "Process":
        """Take the transaction up as the journal shows it; what the stream and the cluster show since is news to it."""
        assert model.proposal is not None
        before = decode_transaction(entry)
        if is_behind(before, model.repairing):
            return cls.start(model, is_resumed=True)
        state, instructions = resume(before, now=model.now)
        process = cls(model, state, instructions[0], encode_transaction(as_entry(state)), entry)
        process.follow()
        process.send(Reproposed(proposal=model.proposal))
        return process

    def follow(self) -> None:
        """Tell what the followed cluster shows."""
        lost = frozenset(uid for uid, pod in self.model.pods.items() if not pod.is_alive)
        self.send(Followed(lost=lost & self.state.members.keys(), beside=0))

    def take(self, result: Result) -> None:
        """Go on with a result; a new instruction replaces the outstanding one."""
        self.state, instructions = result
        if instructions:
            self.outstanding = instructions[0]
            self.entry_before, self.entry = self.entry, encode_transaction(as_entry(self.state))

    def send(self, event: Event) -> None:
        """Handle an event."""
        self.take(handle(self.state, event, now=self.model.now))

    def kill(self) -> "Process":
        """End in the middle: part of the outstanding instruction may have happened, or be on its way.

        Also before its entry was written: then nothing of it has happened. The journal may be lost altogether.
        """
        model = self.model
        if self.outstanding is not None and self.entry_before and model.chance(4):
            return Process.resume(model, self.entry_before)
        self.leave_half_done()
        if model.chance(4):
            return Process.start(model, is_resumed=True)
        return Process.resume(model, self.entry)

    def leave_half_done(self) -> None:
        """Let part of the outstanding instruction happen, or be on its way."""
        model = self.model
        if isinstance(self.outstanding, Bind):
            for one in self.outstanding.targets:
                copy = Copy(uid=one.uid, node=one.node, version=one.version)
                match model.draw(st.sampled_from(["unsent", "done", "late"])):
                    case "done":
                        model.apply(copy)
                    case "late":
                        model.copies.append(copy)
        elif isinstance(self.outstanding, Evict | Allocate | Free):
            model.half(self.outstanding)
        elif isinstance(self.outstanding, Undo):
            for one in self.outstanding.targets:
                if model.chance(2):
                    model.remove(one)
        elif isinstance(self.outstanding, Publish) and model.chance(2):
            model.publish(self.outstanding.event)


def play(model: Model) -> TransactionState:
    """Run one transaction to its end."""
    process = Process.start(model, is_resumed=False)
    while process.state.step is not Step.OVER and not model.endings:
        model.steps += 1
        assert model.steps < MOST_STEPS, f"no end in sight: {process.state.step}"
        model.disturb()
        model.land_copies()
        if not model.is_calm and model.chance(6):
            process = process.kill()
            continue
        if model.chance(4):
            process.follow()
        if model.chance(3):
            proposal = model.next_round()
            if proposal is not None:
                process.send(Reproposed(proposal=proposal))
        if model.is_calm or model.chance(6):
            model.now += timedelta(seconds=model.draw(st.integers(0, 20)) + (5 if model.is_calm else 0))
            moment = due(process.state)
            if moment is not None and model.now >= moment:
                process.send(Ticked())
        if process.outstanding is not None and (model.is_calm or not model.chance(3)):
            instruction, process.outstanding = process.outstanding, None
            process.send(model.answer(instruction))
    return process.state


@st.composite
def models(draw: st.DrawFn, *, has_claims: bool = False, has_victims: bool = False) -> Model:
    """A gang of up to five members on its way to its nodes."""
    size = draw(st.integers(1, 5))
    min_count = draw(st.integers(1, size))
    window_s = draw(st.sampled_from([0, 10, 30]))
    # Pods without a controller would keep the gang in repair for ever: they have a test of their own.
    pods = {Uid(f"u{number}"): ModelPod(is_controlled=True) for number in range(size)}
    model = Model(draw=draw, min_count=min_count, window_s=window_s, pods=pods)
    assignments = tuple(Assignment(pod=f"p-{uid}", uid=uid, node=NodeName("n0")) for uid in pods)
    if has_claims:
        model.claims.add(f"own-{uid}" for uid in pods)
        model.claims.add([SHARED] if draw(st.booleans()) else [])
    model.proposal = Proposed(
        revision=1,
        deadline=START + timedelta(seconds=60),
        min_count=min_count,
        assignments=assignments,
        claims=model.claims.proposed(assignments, round_number=0),
        repair_window=timedelta(seconds=window_s),
        victims=VICTIMS if has_victims else (),
    )
    model.victims = {one.uid for one in model.proposal.victims}
    play(model)
    return model


@settings(max_examples=500, deadline=None)
@given(model=models(has_victims=True))
def test_nobody_is_bound_before_whoever_is_in_the_way_is_gone(model: Model) -> None:
    """Whole or nothing holds with victims as without."""
    judge(model)


@settings(max_examples=1000, deadline=None)
@given(model=models())
def test_whole_or_nothing_and_one_ending(model: Model) -> None:
    """At the end the gang has its quorum, or nothing of ours is bound; and late copies change nothing."""
    judge(model)


@settings(max_examples=600, deadline=None)
@given(model=models(has_claims=True))
def test_claims_are_held_by_members_that_run_and_by_nobody_else(model: Model) -> None:
    """No member is bound without its claims, and at the end, whatever lands late, none is held for one that is not."""
    judge(model)
    for copy in model.claims.copies:
        model.claims.apply(copy.name, copy.step)
    for name, claim in model.claims.claims.items():
        users = model.claims.users(name)
        idle = {uid for uid in users if model.pods[uid].is_alive and not model.pods[uid].was_bound}
        assert not idle, f"{name} is held for {idle}, who will not run"
        assert users or not claim["status"].get("allocation"), f"{name} is allocated, and used by nobody"


def judge(model: Model) -> None:
    """Judge what became of the members."""
    assert len(model.endings) == 1
    ending = model.endings[0]
    for copy in model.copies:
        assert not model.apply(copy), f"a late copy bound {copy.uid} after the end"
    ours = {uid for uid, pod in model.pods.items() if pod.is_alive and pod.is_ours}
    if isinstance(ending, Committed):
        members = {one.uid: one.node for one in ending.members}
        assert len(members) >= model.min_count
        assert ours <= members.keys(), "a member is bound that the commit does not name"
        assert all(model.pods[uid].was_bound for uid in members)
        assert all(model.pods[uid].node == node for uid, node in members.items())
    else:
        assert isinstance(ending, Refused | RolledBack)
        assert ours == set()
        assert ending.reasons
