"""The transaction's state machine: what each answer leads to, without a network."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from services.core.decisions import Assignment, Committed, Proposed, Refused, Repairing, RolledBack
from services.core.objects import GangId, NodeName, TransactionId, Uid
from services.core.reasons import Reason, ReasonCode
from services.core.transaction import Result, begin, due, handle
from services.core.transaction_state import Phase, Step, TransactionState
from services.core.transaction_values import (
    Answer,
    Bind,
    Event,
    Examine,
    Examined,
    Fence,
    Fenced,
    Followed,
    Found,
    Instruction,
    Probe,
    Probed,
    Publish,
    Published,
    Reading,
    Removal,
    Removed,
    Reproposed,
    Stage,
    Ticked,
    Undo,
    Verdict,
    Written,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GANG = GangId("podgroup/team-a/train")
NO = Reason(code=ReasonCode.BINDING_REFUSED, message="no", count=1)
STALE = Reason(code=ReasonCode.PLACEMENT_STALE, message="node n1 is cordoned", count=1, subject="n1")
REFUSED = Answer(verdict=Verdict.REFUSED, reason=NO)
BOUND = Answer(verdict=Verdict.BOUND)
ELSEWHERE = Answer(verdict=Verdict.ELSEWHERE, node=NodeName("n9"))
LOST = Answer(verdict=Verdict.GONE)
FORBIDDEN = Answer(verdict=Verdict.FORBIDDEN, reason=Reason(code=ReasonCode.FORBIDDEN, message="rbac", count=1))


def assignments(*pods: str, node: str = "n1") -> tuple[Assignment, ...]:
    """Pods a, b, … with uids u-a, u-b, … on one node."""
    return tuple(Assignment(pod=pod, uid=Uid(f"u-{pod}"), node=NodeName(node)) for pod in pods)


def proposal(
    *pods: str,
    min_count: int | None = None,
    window_s: float = 30,
    deadline_s: float = 60,
    round: int = 0,  # noqa: A002 - as the field is called
    node: str = "n1",
) -> Proposed:
    """A round for these pods."""
    return Proposed(
        revision=7,
        deadline=NOW + timedelta(seconds=deadline_s),
        min_count=len(pods) if min_count is None else min_count,
        assignments=assignments(*pods, node=node),
        round=round,
        repair_window=timedelta(seconds=window_s),
    )


def ready(pod: str, *, profile: str = "", controlled: bool = True) -> Reading:
    """A member that can be bound."""
    return Reading(found=Found.READY, version=f"1-{pod}", profile=(profile,), has_controller=controlled)


class Play:
    """A transaction in which a test plays the cluster."""

    def __init__(self, given: Proposed, **options: bool) -> None:
        self.now = NOW
        self.state: TransactionState
        #: The instruction that is outstanding.
        self.last: Instruction | None = None
        self._take(begin(TransactionId("t"), gang=GANG, proposal=given, at=NOW, **options))  # type: ignore[arg-type]

    def _take(self, result: Result) -> Instruction | None:
        self.state, instructions = result
        assert len(instructions) <= 1
        if instructions:
            self.last = instructions[0]
        return instructions[0] if instructions else None

    def send(self, event: Event) -> Instruction | None:
        """Handle an event and return the instruction."""
        return self._take(handle(self.state, event, now=self.now))

    def later(self, seconds: float) -> Instruction | None:
        """Let time pass."""
        self.now = NOW + timedelta(seconds=seconds)
        return self.send(Ticked())

    def examined(
        self, readings: Mapping[str, Reading] | None = None, *, beside: int = 0, misfits: Iterable[str] = ()
    ) -> Instruction | None:
        """Answer Examine: members are ready unless told otherwise."""
        assert isinstance(self.last, Examine)
        given = {one.uid: (readings or {}).get(one.pod, ready(one.pod)) for one in self.last.members}
        return self.send(Examined(readings=given, misfits={Uid(f"u-{pod}"): STALE for pod in misfits}, beside=beside))

    def probed(self, answers: Mapping[str, Answer] | None = None) -> Instruction | None:
        """Answer Probe: all pass unless told otherwise."""
        assert isinstance(self.last, Probe)
        passed = Answer(verdict=Verdict.PASSED)
        return self.send(Probed(answers={one.uid: (answers or {}).get(one.pod, passed) for one in self.last.targets}))

    def written(self, answers: Mapping[str, Answer] | None = None) -> Instruction | None:
        """Answer Bind: all are bound unless told otherwise."""
        assert isinstance(self.last, Bind)
        bound = {one.uid: (answers or {}).get(one.pod, replace(BOUND, node=one.node)) for one in self.last.targets}
        return self.send(Written(answers=bound))

    def until_binding(self) -> "Play":
        """Go on to the burst, with nothing in the way."""
        self.examined()
        self.probed()
        assert isinstance(self.last, Bind)
        return self

    def published(self) -> Instruction | None:
        """Answer Publish."""
        assert isinstance(self.last, Publish)
        return self.send(Published())

    def stages(self) -> dict[str, Stage]:
        """Return stage by pod."""
        return {one.assignment.pod: one.stage for one in self.state.members.values()}


def event_of(instruction: Instruction | None) -> object:
    """Return what is to be published."""
    assert isinstance(instruction, Publish)
    return instruction.event


class TestStraightOn:
    """From proposal to commit."""

    def test_all_bound_is_committed(self) -> None:
        """Examine, probe one of each profile, bind all, publish once."""
        play = Play(proposal("a", "b", "c"))
        assert isinstance(play.last, Examine)
        assert play.last.revision == 7
        probe = play.examined({"c": ready("c", profile="other")})
        assert isinstance(probe, Probe)
        assert [one.pod for one in probe.targets] == ["a", "c"]
        bind = play.probed()
        assert isinstance(bind, Bind)
        assert [(one.pod, one.version) for one in bind.targets] == [("a", "1-a"), ("b", "1-b"), ("c", "1-c")]
        assert event_of(play.written()) == Committed(members=assignments("a", "b", "c"))
        assert play.state.phase is Phase.COMMITTED
        assert play.published() is None
        assert play.state.step is Step.OVER

    def test_a_gang_that_failed_before_is_probed_whole(self) -> None:
        """Caution costs one more round trip, and only then."""
        play = Play(proposal("a", "b"), is_cautious=True)
        probe = play.examined()
        assert isinstance(probe, Probe)
        assert [one.pod for one in probe.targets] == ["a", "b"]

    def test_members_beside_the_transaction_count(self) -> None:
        """A gang that runs already grows by one."""
        play = Play(proposal("a", min_count=3))
        play.examined(beside=2)
        play.probed()
        assert event_of(play.written()) == Committed(members=assignments("a"))

    def test_nothing_matters_once_it_is_over(self) -> None:
        """Late events change nothing."""
        play = Play(proposal("a")).until_binding()
        play.written()
        play.published()
        assert play.send(Reproposed(proposal=proposal("a", round=3))) is None
        assert play.later(1000) is None

    def test_an_answer_to_something_else_is_ignored(self) -> None:
        """A cancelled instruction's answer that comes all the same has no effect."""
        play = Play(proposal("a"))
        assert play.send(Written(answers={Uid("u-a"): BOUND})) is None
        assert play.state.step is Step.EXAMINING


class TestBeforeWriting:
    """Failures that cost nobody anything."""

    def test_a_stale_placement_is_refused_at_once(self) -> None:
        """Too few would be left, and nothing is written: the placer solves again."""
        play = Play(proposal("a", "b"))
        assert event_of(play.examined(misfits=["a"])) == Refused(reasons=(STALE,))

    def test_stale_extras_are_left_out(self) -> None:
        """More than minCount were promised: the others are bound, and the one waits again."""
        play = Play(proposal("a", "b", "c", min_count=2))
        play.examined(misfits=["a"])
        play.probed()
        assert event_of(play.written()) == Committed(members=assignments("b", "c"), open=1)

    def test_members_that_are_gone_are_dropped(self) -> None:
        """A deleted member is never open; with too few left the placement is refused."""
        play = Play(proposal("a", "b"))
        event = event_of(play.examined({"a": Reading(found=Found.GONE)}))
        assert isinstance(event, Refused)
        assert [one.code for one in event.reasons] == [ReasonCode.MEMBER_GONE]
        assert play.stages()["a"] is Stage.GONE

    def test_a_refused_dry_run_opens_the_member_and_makes_cautious(self) -> None:
        """The rest of the gang is tried before anything is written."""
        play = Play(proposal("a", "b", "c", min_count=2))
        play.examined()
        probe = play.probed({"a": REFUSED})
        assert isinstance(probe, Probe)
        assert [one.pod for one in probe.targets] == ["b", "c"]
        bind = play.probed()
        assert isinstance(bind, Bind)
        assert [one.pod for one in bind.targets] == ["b", "c"]

    def test_a_refused_dry_run_below_min_count_asks_for_another_node(self) -> None:
        """With a window there is time to repair; nothing is bound meanwhile."""
        play = Play(proposal("a", "b"))
        play.examined()
        repairing = event_of(play.probed({"a": REFUSED}))
        assert isinstance(repairing, Repairing)
        assert repairing.bound == ()
        assert [(one.pod, one.excluded_nodes) for one in repairing.open] == [("a", (NodeName("n1"),))]
        assert repairing.until == NOW + timedelta(seconds=30)

    def test_a_refused_dry_run_without_a_window_is_refused(self) -> None:
        """Nothing was written, so nothing is to be undone."""
        play = Play(proposal("a", "b", window_s=0))
        play.examined()
        event = event_of(play.probed({"a": REFUSED}))
        assert isinstance(event, Refused)
        assert ReasonCode.BINDING_REFUSED in {one.code for one in event.reasons}

    def test_a_missing_permission_says_nothing_about_nodes(self) -> None:
        """No node is excluded, and the reason names the permission."""
        play = Play(proposal("a"))
        play.examined()
        event = event_of(play.probed({"a": FORBIDDEN}))
        assert FORBIDDEN.reason is not None
        assert event == Refused(reasons=(FORBIDDEN.reason,))

    @pytest.mark.parametrize("step", ["examining", "probing"])
    def test_the_deadline_ends_what_wrote_nothing(self, step: str) -> None:
        """Whatever is outstanding is dropped, and what it waited for is named."""
        play = Play(proposal("a"))
        if step == "probing":
            play.examined()
        assert due(play.state) == NOW + timedelta(seconds=60)
        assert play.later(59) is None
        problem = Reason(code=ReasonCode.API_UNAVAILABLE, message="no answer")
        play.now = NOW + timedelta(seconds=60)
        event = event_of(play.send(Ticked(problems=(problem,))))
        assert isinstance(event, Refused)
        assert [one.code for one in event.reasons] == [ReasonCode.DEADLINE_EXCEEDED, ReasonCode.API_UNAVAILABLE]

    def test_a_burst_is_not_started_after_the_deadline(self) -> None:
        """The answer to the dry run came too late."""
        play = Play(proposal("a"))
        play.examined()
        play.now = NOW + timedelta(seconds=61)
        event = event_of(play.probed())
        assert isinstance(event, Refused)
        assert event.reasons[0].code is ReasonCode.DEADLINE_EXCEEDED

    def test_a_burst_is_never_cut_by_time(self) -> None:
        """Its answers decide, however long they take."""
        play = Play(proposal("a")).until_binding()
        assert due(play.state) is None
        assert play.later(1000) is None
        assert isinstance(event_of(play.written()), Committed)


class TestAnswers:
    """Every definite answer to a binding, in a gang of three that needs all."""

    @pytest.mark.parametrize(
        ("answer", "stage", "published"),
        [
            (BOUND, Stage.BOUND, Committed),
            (ELSEWHERE, Stage.ACCEPTED, Committed),
            (REFUSED, Stage.OPEN, Repairing),
            (FORBIDDEN, Stage.OPEN, Repairing),
            (LOST, Stage.GONE, Repairing),
        ],
    )
    def test_one_answer(self, answer: Answer, stage: Stage, published: type) -> None:
        """What becomes of the member, and what of the gang."""
        play = Play(proposal("a", "b", "c")).until_binding()
        event = event_of(play.written({"a": answer}))
        assert play.stages()["a"] is stage
        assert isinstance(event, published)

    def test_who_was_bound_elsewhere_is_listed_there(self) -> None:
        """The commit names the node where the member is."""
        play = Play(proposal("a", "b")).until_binding()
        event = event_of(play.written({"a": ELSEWHERE}))
        assert isinstance(event, Committed)
        assert event.accepted == 1
        assert set(event.members) == {*assignments("b"), *assignments("a", node="n9")}

    def test_only_refusals_exclude_nodes(self) -> None:
        """A missing permission would exclude every node in turn."""
        play = Play(proposal("a", "b")).until_binding()
        event = event_of(play.written({"a": REFUSED, "b": FORBIDDEN}))
        assert isinstance(event, Repairing)
        assert {one.pod: one.excluded_nodes for one in event.open} == {"a": (NodeName("n1"),), "b": ()}


class TestDoubt:
    """A copy of a write that may still arrive late."""

    def test_a_doubtful_member_is_fenced_before_it_is_given_another_node(self) -> None:
        """Otherwise the late copy could bind it to the first node after all."""
        play = Play(proposal("a", "b")).until_binding()
        fence = play.written({"a": replace(REFUSED, is_in_doubt=True)})
        assert isinstance(fence, Fence)
        assert [one.pod for one in fence.targets] == ["a"]
        event = event_of(play.send(Fenced(readings={Uid("u-a"): ready("a")})))
        assert isinstance(event, Repairing)

    def test_the_late_copy_may_have_won(self) -> None:
        """The fence finds the member bound, and the gang is whole."""
        play = Play(proposal("a", "b")).until_binding()
        play.written({"a": replace(REFUSED, is_in_doubt=True)})
        found = Reading(found=Found.BOUND, node=NodeName("n1"), version="9")
        event = event_of(play.send(Fenced(readings={Uid("u-a"): found})))
        assert event == Committed(members=assignments("a", "b"))

    def test_open_extras_are_fenced_before_the_commit(self) -> None:
        """They will be placed anew by another transaction."""
        play = Play(proposal("a", "b", min_count=1)).until_binding()
        assert isinstance(play.written({"a": replace(REFUSED, is_in_doubt=True)}), Fence)
        event = event_of(play.send(Fenced(readings={Uid("u-a"): ready("a")})))
        assert event == Committed(members=assignments("b"), open=1)

    def test_gone_members_need_no_fence(self) -> None:
        """A copy for a pod that is gone can only fail."""
        play = Play(proposal("a", "b")).until_binding()
        event = event_of(play.written({"a": replace(LOST, is_in_doubt=True)}))
        assert isinstance(event, Repairing)


class TestRepair:
    """Rounds after the first."""

    def repairing(self) -> Play:
        """Two of three bound, and c refused on n1."""
        play = Play(proposal("a", "b", "c")).until_binding()
        play.written({"c": REFUSED})
        play.published()
        assert play.state.step is Step.WAITING
        assert due(play.state) == NOW + timedelta(seconds=30)
        return play

    def test_only_what_is_new_is_looked_at_and_bound(self) -> None:
        """The next round repeats what is bound."""
        play = self.repairing()
        later = replace(proposal("a", "b", round=1), assignments=(*assignments("a", "b"), *assignments("c", node="n2")))
        examine = play.send(Reproposed(proposal=later))
        assert isinstance(examine, Examine)
        assert examine.members == assignments("c", node="n2")
        probe = play.examined()
        assert isinstance(probe, Probe)
        bind = play.probed()
        assert isinstance(bind, Bind)
        assert [(one.pod, one.node) for one in bind.targets] == [("c", "n2")]
        event = event_of(play.written())
        assert isinstance(event, Committed)
        assert event.repaired == 1
        assert len(event.members) == 3

    def test_excluded_nodes_add_up_and_the_window_stays(self) -> None:
        """The second refusal names both nodes, and the end of the window is that of the first."""
        play = self.repairing()
        play.now = NOW + timedelta(seconds=10)
        later = replace(proposal("c", round=1, node="n2"), min_count=3)
        play.send(Reproposed(proposal=later))
        play.examined()
        play.probed()
        event = event_of(play.written({"c": REFUSED}))
        assert isinstance(event, Repairing)
        assert event.round == 1
        assert event.open[0].excluded_nodes == (NodeName("n1"), NodeName("n2"))
        assert event.until == NOW + timedelta(seconds=30)
        assert event.min_count == 3

    def test_a_recreated_member_may_join(self) -> None:
        """A new pod in a later round takes the place of one that is gone."""
        play = Play(proposal("a", "b")).until_binding()
        play.written({"b": LOST})
        play.published()
        later = replace(
            proposal("a", round=1), min_count=2, assignments=(*assignments("a"), *assignments("b2", node="n2"))
        )
        play.send(Reproposed(proposal=later))
        play.examined()
        play.probed()
        event = event_of(play.written())
        assert isinstance(event, Committed)
        assert {one.pod for one in event.members} == {"a", "b2"}

    def test_a_round_that_was_handled_is_ignored(self) -> None:
        """Delivery is at least once."""
        play = self.repairing()
        assert play.send(Reproposed(proposal=proposal("a", "b", "c"))) is None
        assert play.state.step is Step.WAITING

    def test_a_round_may_overtake_the_answer_to_the_publish(self) -> None:
        """It is kept until the answer comes."""
        play = Play(proposal("a", "b")).until_binding()
        play.written({"b": REFUSED})
        later = replace(proposal("b", round=1, node="n2"), min_count=2)
        assert play.send(Reproposed(proposal=later)) is None
        assert isinstance(play.published(), Examine)

    def test_rounds_that_come_too_late_are_superseded(self) -> None:
        """A round that arrives during a burst is answered by a Repairing of a higher number."""
        play = Play(proposal("a", "b")).until_binding()
        play.send(Reproposed(proposal=proposal("a", "b", round=5)))
        event = event_of(play.written({"b": REFUSED}))
        assert isinstance(event, Repairing)
        assert event.round == 5

    def test_promised_members_appear_in_neither_list(self) -> None:
        """They are still promised; the placer repeats them."""
        play = Play(proposal("a", "b", "c"), is_cautious=True)
        play.examined()
        event = event_of(play.probed({"a": REFUSED}))
        assert isinstance(event, Repairing)
        assert event.bound == ()
        assert [one.pod for one in event.open] == ["a"]
        assert play.stages() == {"a": Stage.OPEN, "b": Stage.PROMISED, "c": Stage.PROMISED}

    def test_the_gang_may_be_filled_by_others(self) -> None:
        """While it waits somebody else binds a member beside it: the quorum is there."""
        play = self.repairing()
        event = event_of(play.send(Followed(lost=frozenset(), beside=1)))
        assert isinstance(event, Committed)
        assert event.open == 1

    def test_a_bound_member_that_dies_counts_no_more(self) -> None:
        """Its successor has to come in a later round."""
        play = self.repairing()
        assert play.send(Followed(lost=frozenset({Uid("u-a")}), beside=0)) is None
        assert play.stages()["a"] is Stage.GONE
        play.send(Reproposed(proposal=replace(proposal("c", round=1, node="n2"), min_count=3)))
        event = event_of(play.last)
        assert isinstance(event, Repairing)
        assert [one.pod for one in event.bound] == ["b"]


class TestUndo:
    """The last resort."""

    def failed(self, *, window_s: float = 0, controlled: bool = True) -> Play:
        """Two of three bound, and no window."""
        play = Play(proposal("a", "b", "c", window_s=window_s))
        play.examined({pod: ready(pod, controlled=controlled) for pod in "abc"})
        play.probed()
        play.written({"c": REFUSED})
        return play

    def test_what_is_bound_is_taken_back(self) -> None:
        """Only what is bound, and the reasons say why."""
        play = self.failed()
        assert isinstance(play.last, Undo)
        assert [one.pod for one in play.last.targets] == ["a", "b"]
        event = event_of(play.send(Removed(removals={Uid("u-a"): Removal.DELETED, Uid("u-b"): Removal.GONE})))
        assert isinstance(event, RolledBack)
        assert event.undone == assignments("a")
        codes = [one.code for one in event.reasons]
        assert codes[0] is ReasonCode.REPAIR_WINDOW_EXPIRED
        assert ReasonCode.BINDING_REFUSED in codes
        play.published()
        assert play.state.step is Step.OVER

    def test_deaths_that_we_caused_are_not_taken_for_others(self) -> None:
        """The cluster shows members terminating before the answer to Undo comes."""
        play = self.failed()
        assert play.send(Followed(lost=frozenset({Uid("u-a"), Uid("u-b")}), beside=0)) is None
        event = event_of(play.send(Removed(removals={Uid("u-a"): Removal.DELETED, Uid("u-b"): Removal.DELETED})))
        assert isinstance(event, RolledBack)
        assert len(event.undone) == 2

    def test_the_end_of_the_window_undoes(self) -> None:
        """Also while the next round is being looked at."""
        play = self.failed(window_s=30)
        play.published()
        play.send(Reproposed(proposal=replace(proposal("c", round=1, node="n2"), min_count=3)))
        assert isinstance(play.last, Examine)
        assert isinstance(play.later(30), Undo)

    def test_nothing_bound_at_the_end_of_the_window_is_a_refusal(self) -> None:
        """All members died meanwhile: there is nothing to undo."""
        play = self.failed(window_s=30)
        play.published()
        play.send(Followed(lost=frozenset({Uid("u-a"), Uid("u-b")}), beside=0))
        event = event_of(play.later(30))
        assert isinstance(event, Refused)

    def test_pods_without_a_controller_stay(self) -> None:
        """The gang stays in repair with a new end of the window, and every open member says why."""
        play = self.failed(controlled=False)
        event = event_of(play.last)
        assert isinstance(event, Repairing)
        assert event.until == NOW + timedelta(seconds=30)
        assert [one.reason.code for one in event.open if one.reason] == [ReasonCode.KEPT_WITHOUT_CONTROLLER]
        play.published()
        again = event_of(play.later(30))
        assert isinstance(again, Repairing)
        assert again.round == event.round + 1
        assert again.until == NOW + timedelta(seconds=60)

    def test_kept_pods_may_be_deleted_by_their_owner(self) -> None:
        """Then nothing of ours is bound, and the transaction ends."""
        play = self.failed(controlled=False)
        play.published()
        play.send(Followed(lost=frozenset({Uid("u-a")}), beside=0))
        event = event_of(play.send(Followed(lost=frozenset({Uid("u-a"), Uid("u-b")}), beside=0)))
        assert isinstance(event, Refused)

    def test_the_annotation_allows_the_undo(self) -> None:
        """It may be set while the gang is kept."""
        play = self.failed(controlled=False)
        play.published()
        assert isinstance(play.send(Followed(lost=frozenset(), beside=0, allows_delete=True)), Undo)


class TestResumption:
    """A transaction that an earlier process may have begun."""

    def test_what_is_bound_already_is_not_bound_again(self) -> None:
        """The annotation says whose binding it is."""
        play = Play(proposal("a", "b"), is_resumed=True)
        play.examined({"a": Reading(found=Found.BOUND, node=NodeName("n1"), version="9")})
        bind = play.probed()
        assert isinstance(bind, Bind)
        assert [one.pod for one in bind.targets] == ["b"]
        assert event_of(play.written()) == Committed(members=assignments("a", "b"))

    def test_nothing_ends_before_the_members_were_read(self) -> None:
        """The deadline passed, and yet something may be bound."""
        play = Play(proposal("a"), is_resumed=True)
        assert due(play.state) is None
        assert play.later(1000) is None
        event = event_of(play.examined({"a": Reading(found=Found.BOUND, node=NodeName("n1"))}))
        assert isinstance(event, Committed)

    def test_unbound_members_are_fenced_before_the_end(self) -> None:
        """A write of the earlier process may still be on its way."""
        play = Play(proposal("a", "b"), is_resumed=True)
        fence = play.examined(misfits=["a"])
        assert isinstance(fence, Fence)
        assert {one.pod for one in fence.targets} == {"a", "b"}
        event = event_of(play.send(Fenced(readings={Uid("u-a"): ready("a"), Uid("u-b"): ready("b")})))
        assert event == Refused(reasons=(STALE,))

    def test_the_repair_window_goes_on(self) -> None:
        """Its end and the excluded nodes are those of the last Repairing."""
        before = Play(proposal("a", "b")).until_binding()
        repairing = event_of(before.written({"b": REFUSED}))
        assert isinstance(repairing, Repairing)
        state, instructions = begin(
            TransactionId("t"),
            gang=GANG,
            proposal=replace(proposal("b", round=1, node="n2"), min_count=2),
            at=NOW,
            is_resumed=True,
            repairing=repairing,
        )
        assert isinstance(instructions[0], Examine)
        assert state.until == repairing.until
        assert state.members[Uid("u-b")].excluded_nodes == {NodeName("n1")}
        assert state.phase is Phase.REPAIRING


class TestFinished:
    """Members that end by themselves."""

    def test_a_finished_member_counts_and_is_not_undone(self) -> None:
        """A Succeeded pod holds nothing, and deleting it would throw its result away."""
        play = Play(proposal("a", "b", "c", window_s=0)).until_binding()
        play.written({"a": replace(BOUND, node=NodeName("n1"), is_finished=True), "c": REFUSED})
        assert isinstance(play.last, Undo)
        assert [one.pod for one in play.last.targets] == ["b"]
