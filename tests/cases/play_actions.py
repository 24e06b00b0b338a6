"""The verbs of `events.yaml`, carried out on the stage."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.contracts.cloudevents import EventAttributes, headers
from services.contracts.decision_codec import decision_id, decision_subject, decision_type, encode_decision
from services.core.commands import Evict, SkipReason
from services.core.decisions import Decision, OpenMember, Refused, Repairing
from services.core.objects import Kind, Uid, WatchPhase
from services.core.reasons import Reason, ReasonCode
from services.runtime.clock import SystemClock
from services.sandbox.faults import Action, Answer, Fault, Match
from services.sandbox.objects import Obj, metadata, uid_of
from tests.cases.check import UnknownWord
from tests.cases.play_bindings import BindReplies
from tests.cases.play_commands import CommandQueue
from tests.cases.play_stage import HARNESS_FINALIZER, Stage
from tests.cases.play_steps import Manifest, Step, Verb, listed
from tests.e2e.api import kind_of
from tests.e2e.waiting import eventually, until

INJECTED_SOURCE = "/cases/late"
"""Source of the messages that the harness itself put on the bus."""

_WATCHED: Mapping[str, Kind] = {"Pod": Kind.POD, "Node": Kind.NODE, "PodGroup": Kind.POD_GROUP}


@dataclass(slots=True, kw_only=True)
class Actor:
    """Carries steps out, one after the other."""

    stage: Stage
    queue: CommandQueue
    replies: BindReplies
    _broken: list[Fault] = field(default_factory=list)
    _held_lists: list[Fault] = field(default_factory=list)

    async def act(self, step: Step) -> None:
        """Do what the step says. Raises UnknownWord for a verb that is read and cannot be played yet."""
        verbs: Mapping[Verb, Callable[[Step], Awaitable[None]]] = {
            Verb.ADD: self._add,
            Verb.BIND_REPLY: self.replies.reply,
            Verb.CRASH: self._crash,
            Verb.DELETE: self._delete,
            Verb.DELIVER: self._deliver,
            Verb.MESSAGE: self._message,
            Verb.RELIST: self._relist,
            Verb.REPLACE: self._replace,
            Verb.SCHEDULING_FAILURE_RETURNS: self._late_failure,
            Verb.STORE: self._store,
            Verb.UPDATE: self._update,
            Verb.WATCH_BREAKS: self._watch_breaks,
            Verb.WATCH_REPLY: self._watch_reply,
        }
        if step.verb is None:
            return
        act = verbs.get(step.verb)
        if act is None:
            raise UnknownWord(f"{self.stage.script.case.id} step {step.number}: {step.verb} cannot be played yet")
        await act(step)

    async def _add(self, step: Step) -> None:
        for ref in step.objects:
            await self.stage.create(ref, like=step.arguments.get("like", "") or self._model_of(ref))

    def _model_of(self, ref: str) -> str:
        """A cluster-scoped object that no file states is like the first of its kind: nodes of a case are alike."""
        if ref in self.stage.manifests:
            return ""
        kind = ref.partition("/")[0]
        alike = (name.partition("/")[2] for name in self.stage.manifests if name.startswith(f"{kind}/"))
        return next(alike, "")

    async def _update(self, step: Step) -> None:
        (ref,) = step.objects
        kind, _, name = ref.partition("/")
        for path, value in step.arguments["set"].items():
            if path == "metadata.deletionTimestamp":
                await self._end_slowly(kind, name)
                continue
            current = await self.stage.api.get(kind, name)
            await self.stage.api.patch(kind, name, change_of(path, value=value, current=current))

    async def _end_slowly(self, kind: str, name: str) -> None:
        """Delete an object that a finalizer then keeps around."""
        await self.stage.api.patch(kind, name, {"metadata": {"finalizers": [HARNESS_FINALIZER]}})
        await self.stage.api.delete(kind, name)

    async def _delete(self, step: Step) -> None:
        for ref in step.objects:
            await self._remove(ref)
        if self.replies.is_before_next(step):
            await self.replies.let_go()

    async def _replace(self, step: Step) -> None:
        """Let an object of the same name follow; its uid is the API server's to choose."""
        assert set(step.arguments["set"]) == {"metadata.uid"}, f"step {step.number}: replace knows metadata.uid only"
        for ref in step.objects:
            await self._remove(ref)
            await self.replies.force(ref.partition("/")[2])
            await self.stage.create(ref)

    async def _remove(self, ref: str) -> None:
        """Delete an object, take away what keeps it, and wait until it is gone."""
        kind, _, name = ref.partition("/")
        await self.stage.api.delete(kind, name, grace_s=0)
        left = await self.stage.api.find(kind, name)
        if left is not None and HARNESS_FINALIZER in (left["metadata"].get("finalizers") or ()):
            await self.stage.api.patch(kind, name, {"metadata": {"finalizers": None}})
        await self._gone(ref)

    async def _gone(self, ref: str) -> None:
        kind, _, name = ref.partition("/")

        async def is_gone() -> bool:
            return await self.stage.api.find(kind, name) is None

        await eventually(is_gone, what=f"{ref} is gone")

    async def _store(self, step: Step) -> None:
        """Change the API's objects. What is stored anew had a predecessor of the same name, so that old news exist."""
        for ref in listed(step.arguments.get("delete")):
            await self._remove(ref)
        for _ in ("predecessor", "successor"):
            for ref in reversed(step.objects):
                if await self.stage.api.find(*ref.split("/")) is not None:
                    await self._remove(ref)
            for ref in step.objects:
                await self.stage.create(ref)
        self.stage.notes["stored"] = {ref: self._stored_uid(ref) for ref in step.objects}

    def _stored_uid(self, ref: str) -> str:
        return uid_of(self.stage.witness.versions[ref][-1])

    async def _watch_breaks(self, step: Step) -> None:
        """Cut the watches of these kinds, and keep new ones waiting for their first word."""
        kinds = step.arguments["kinds"]
        for plural in (kind_of(name).plural for name in kinds):
            self._broken.append(
                self.stage.system.apiserver.faults.add(
                    Match(method="GET", path=f"/{plural}$", query="watch=true"),
                    Action(hold=True, answer=Answer(code=410, reason="Expired", message="too old resource version")),
                )
            )
        self.stage.notes["broken_kinds"] = [_WATCHED[name] for name in kinds]
        self.stage.notes["broken_at"] = self.stage.system.recorder.cluster_sequence
        self.stage.system.apiserver.watches.break_open([kind_of(name).plural for name in kinds])

    async def _watch_reply(self, step: Step) -> None:
        """Let the waiting watches be answered; the lists that follow wait for their own step."""
        if step.arguments["code"] != 410:
            raise UnknownWord(f"step {step.number}: watchReply knows code 410 only, got {step.arguments['code']}")
        faults = self.stage.system.apiserver.faults
        for fault in self._broken:
            path = fault.match.path
            self._held_lists.append(
                faults.add(Match(method="GET", path=path, query="limit="), Action(hold=True), times=None)
            )
        for fault in self._broken:
            fault.release()

    async def _relist(self, _step: Step) -> None:
        """Let the lists go on, one kind after the other; the second page of the pods is too old once.

        In between the placer follows one kind that is new and others that are old: nothing may be decided then.
        """
        faults = self.stage.system.apiserver.faults
        expired = faults.add(
            Match(method="GET", path="/pods$", query="continue="),
            Action(answer=Answer(code=410, reason="Expired", message="The provided continue parameter is too old")),
        )
        for kind, fault in zip(self.stage.notes["broken_kinds"], self._held_lists, strict=True):
            faults.remove(fault.id)
            await self._is_synced(kind)
            await self.stage.system.placer_follows()
        assert expired.used_count, "the second page of pods was never asked for"
        self.stage.notes["relisted_at"] = max(self._synced_at(kind) for kind in self.stage.notes["broken_kinds"])

    async def _is_synced(self, kind: Kind) -> None:
        await until(lambda: self._synced_at(kind), what=f"{kind} is listed again")

    def _synced_at(self, kind: Kind) -> int:
        """Where the stream says that a kind is followed again, 0 where it does not yet."""
        return max(
            (
                sequence
                for sequence, one, phase in self.stage.system.recorder.phases
                if one is kind and phase is WatchPhase.SYNCED and sequence > self.stage.notes["broken_at"]
            ),
            default=0,
        )

    async def _deliver(self, step: Step) -> None:
        if step.objects:
            for ref in step.objects:
                self._send(ref, type_="MODIFIED", obj=self._older(ref))
            return
        event = step.arguments["event"]
        if "ADDED" in event:
            # The version with which it came into the world: bound or not, it was seen before.
            ref = event["ADDED"]
            current = self._stored_uid(ref)
            first = next(obj for obj in self.stage.witness.versions[ref] if uid_of(obj) == current)
            for _ in range(step.arguments.get("times", 1)):
                self._send(ref, type_="ADDED", obj=first)
        elif "owner" in event:
            await self._deliver_old_end()
        else:
            raise UnknownWord(f"step {step.number}: deliver knows the events ADDED and owner, got {sorted(event)}")

    def _older(self, ref: str) -> Obj:
        """The last version of an object that lived: a reply of a read from before its deletion."""
        living = [obj for obj in self.stage.witness.versions[ref] if "deletionTimestamp" not in metadata(obj)]
        return living[-1]

    def _send(self, ref: str, *, type_: str, obj: Obj) -> None:
        plural = kind_of(ref.partition("/")[0]).plural
        self.stage.system.apiserver.watches.send(plural, type_=type_, obj=obj)

    async def _deliver_old_end(self) -> None:
        """Tell everybody, late, that the owner is at zero: its old pod and group end, by event and by command."""
        for ref, uid in self.stage.notes["stored"].items():
            predecessor = next(obj for obj in reversed(self.stage.witness.versions[ref]) if uid_of(obj) != uid)
            self._send(ref, type_="DELETED", obj=predecessor)
            if ref.startswith("Pod/"):
                command = Evict(id="owner-at-zero", uid=Uid(uid_of(predecessor)))
                outcome = await self.queue.evict(command, pod=ref.partition("/")[2])
                assert outcome == SkipReason.TARGET_REPLACED, f"an old eviction met the successor of {ref}: {outcome}"

    async def _message(self, step: Step) -> None:
        message: Mapping[str, Any] = step.arguments["message"]
        is_repeated = bool(message.get("redelivered"))
        if is_repeated:
            await self._succeed(message["id"])
        else:
            await self.queue.send(message)
        comes_again = any(
            later.number > step.number and later.arguments.get("message", {}).get("id") == message["id"]
            for later in self.stage.script.steps
        )
        handled = await self.queue.handle(worker=message.get("to", "first worker"), acks=not comes_again)
        assert handled.id == message["id"], f"expected message {message['id']}, the queue delivered {handled.id}"
        assert (handled.deliveries > 1) == is_repeated, f"message {handled.id} was delivered {handled.deliveries} times"

    async def _succeed(self, message_id: str) -> None:
        """Let a pod of the same name follow one that the first delivery evicted, as its controller would."""
        for step in self.stage.script.steps:
            message = step.arguments.get("message", {})
            target = str(message.get("body", "")).removeprefix("evict ")
            if message.get("id") == message_id and f"Pod/{target}" in self.stage.manifests:
                await self._gone(f"Pod/{target}")
                self.stage.notes["successor"] = (await self.stage.create(f"Pod/{target}"))["metadata"]["uid"]

    async def _crash(self, step: Step) -> None:
        """The worker of the last delivery is dead: nobody acknowledges it any more."""
        assert step.arguments.get("before") == "ack", f"step {step.number}: a crash is known before: ack only"
        assert not self.queue.log[-1].is_acked, "the last delivery was acknowledged before the crash"

    async def _late_failure(self, step: Step) -> None:
        """Repeat, late, that the old attempt failed and needs repair: on the bus, as an outdated handler would."""
        (ref,) = step.objects
        gang = self.stage.gang_of(ref.partition("/")[2])
        recorder = self.stage.system.recorder
        ended = [transaction for transaction, endings in recorder.endings().items() if endings]
        attempts = [one.decision for one in recorder.of(gang) if one.decision.transaction in ended]
        assert attempts, f"step {step.number}: no attempt of {gang} has ended, so none can fail late"
        old = attempts[0]
        reason = Reason(code=ReasonCode.MEMBER_GONE, message="a late failure of the old attempt")
        member = OpenMember(pod=ref.partition("/")[2], uid=Uid(uid_of(self.stage.witness.versions[ref][-1])))
        now = SystemClock().now()
        repairing = Repairing(round=0, bound=(), open=(member,), until=now, min_count=1)
        for event in (Refused(reasons=(reason,)), repairing):
            await self._publish(Decision(gang=gang, event=event, decided_at=now, transaction=old.transaction))

    async def _publish(self, decision: Decision) -> None:
        attributes = EventAttributes(
            id=f"late/{decision_id(decision)}",
            source=INJECTED_SOURCE,
            type=decision_type(decision),
            subject=decision.gang,
            time=decision.decided_at,
        )
        bus = self.stage.system.bus
        sequence = await bus.publish(
            decision_subject(decision), data=encode_decision(decision), headers=headers(attributes)
        )
        recorder = self.stage.system.recorder
        await until(lambda: recorder.placement_sequence >= sequence, what="the late message was delivered")


def change_of(path: str, *, value: object, current: Obj) -> Manifest:
    """Return the merge patch that sets a dotted path, of which the last key may itself contain dots.

    As in `spec.hard.requests.nvidia.com/gpu`: where no such key exists, the rest is one key below the deepest object.
    """
    keys: list[str] = []
    rest, here = path.split("."), current
    while len(rest) > 1:
        child = here.get(rest[0])
        if not isinstance(child, dict):
            break
        keys.append(rest.pop(0))
        here = child
    change: Manifest = {".".join(rest): value}
    for key in reversed(keys):
        change = {key: change}
    return change
