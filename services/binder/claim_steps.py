"""One claim of a transaction, over as many requests as it takes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from services.binder.binding import Tell
from services.binder.bursting import LONGEST_S
from services.binder.ports import Changed, ClaimApi, Manifest, NoAnswer, PodApi
from services.core.allocations import ClaimRef, DeviceId
from services.core.claim_bodies import (
    class_names,
    extended_claim,
    extended_name,
    extended_status,
    metadata_of,
    status_of,
    transaction_of,
)
from services.core.claim_writes import (
    Await,
    Deal,
    Delete,
    Done,
    Mark,
    WriteStatus,
    device_states,
    next_to_free,
    next_to_hold,
)
from services.core.decisions import Assignment
from services.core.objects import TransactionId, Uid
from services.core.reasons import Reason, ReasonCode
from services.core.transaction_answers import MAX_MESSAGE_CHARACTERS, ApiAnswer, Meaning, meaning_of
from services.core.transaction_values import ClaimAnswer, ClaimTarget, ClaimVerdict, FreeTarget
from services.runtime.clock import Clock

MAX_STEPS = 24
"""Requests for one claim in one try: what is left is done in the next one, after a wait."""

MAX_UNSURE = 3
"""Answers with a server fault that are not believed."""

_MARGIN = timedelta(seconds=LONGEST_S)
_GRANULAR = "resourceclaims/binding"
"""Named by the API server where the right to allocate is missing (DRAResourceClaimGranularStatusAuthorization).

It answers 422 then, as to a field that may not be changed.
"""


@dataclass(slots=True, kw_only=True)
class ClaimBook:
    """The claims of one instruction as they were read last, and their pods where these tell the claims' names."""

    api: ClaimApi
    pods: PodApi
    namespace: str
    transaction: TransactionId
    known: dict[str, Manifest] = field(default_factory=dict)
    classes: dict[str, Manifest] = field(default_factory=dict)
    versions: dict[Uid, str] = field(default_factory=dict)
    _members: dict[Uid, Manifest] = field(default_factory=dict)
    is_open: bool = False

    async def open(self, targets: "Iterable[ClaimTarget | FreeTarget]") -> None:
        """Read all at once. Raises NoAnswer."""
        targets = tuple(targets)
        await self._read_pods([one for target in targets for one in _named_by(target)])
        names = [name for one in targets if (name := self.name_of(one))]
        self.known = dict(await self.api.read(self.namespace, names=names))
        wanted = {name for one in self.known.values() for name in class_names(one.get("spec") or {})}
        wanted |= {each.device_class for one in targets for each in one.allocation.extended}
        self.classes |= await self.api.device_classes(names=sorted(wanted - self.classes.keys()))
        self.is_open = True

    async def read(self, target: "ClaimTarget | FreeTarget") -> Manifest | None:
        """Read one claim anew, with what tells its name. Raises NoAnswer."""
        await self._read_pods(_named_by(target))
        name = self.name_of(target)
        found = await self.api.read(self.namespace, names=[name]) if name else {}
        claim = found.get(name)
        if claim is not None:
            wanted = set(class_names(claim.get("spec") or {})) - self.classes.keys()
            self.classes |= await self.api.device_classes(names=sorted(wanted)) if wanted else {}
        return claim

    def name_of(self, target: "ClaimTarget | FreeTarget") -> str:
        """Return the name of a claim; empty where nothing tells it yet."""
        ref, user = target.allocation.ref, _user(target)
        if ref.name:
            return ref.name
        if user is not None and target.allocation.extended:
            return extended_name(target.allocation, pod=user.pod, transaction=self.transaction)
        pod = self._members.get(ref.pod)
        entries = status_of(pod or {}).get("resourceClaimStatuses") or ()
        return next((str(one.get("resourceClaimName") or "") for one in entries if one.get("name") == ref.entry), "")

    def recorded(self, uid: Uid) -> Mapping[str, object]:
        """Return what a pod's status says of the claim of its extended resources, as it was read."""
        return status_of(self._members.get(uid) or {}).get("extendedResourceClaimStatus") or {}

    async def _read_pods(self, wanted: "list[Assignment]") -> None:
        if not wanted:
            return
        found = await self.pods.read(self.namespace, names=[one.pod for one in wanted])
        for one in wanted:
            pod = found.get(one.pod)
            if pod is not None and metadata_of(pod).get("uid") == one.uid:
                self._members[one.uid] = pod


def _user(target: "ClaimTarget | FreeTarget") -> Assignment | None:
    """Return the member whose own claim it is, or None."""
    users = target.consumers if isinstance(target, ClaimTarget) else target.leaving
    return next((one for one in users if one.uid == target.allocation.ref.pod), None)


def _named_by(target: "ClaimTarget | FreeTarget") -> "list[Assignment]":
    """Return the pod that tells the claim's name, or is to have it recorded."""
    user = _user(target)
    is_needed = not target.allocation.ref.name or (isinstance(target, ClaimTarget) and target.allocation.extended)
    return [user] if user is not None and is_needed else []


class _Attempt:
    """What holding and freeing have in common: a claim that is read again where it may have changed."""

    def __init__(self, api: ClaimApi, *, target: "ClaimTarget | FreeTarget", book: ClaimBook, tell: Tell) -> None:
        self._api = api
        self._book = book
        self._tell = tell
        self._is_read = book.is_open
        self.name = book.name_of(target)
        self.claim = book.known.get(self.name)
        self._unsure = 0

    async def _look(self, target: "ClaimTarget | FreeTarget") -> bool:
        """Have the claim as it is now; False where there is no answer."""
        if self._is_read:
            return True
        try:
            self.claim = await self._book.read(target)
        except NoAnswer as error:
            self._tell(no_answer(error))
            return False
        self.name = self._book.name_of(target)
        self._is_read = True
        return True

    async def _patch(self, step: Mark | WriteStatus) -> ApiAnswer | None:
        """Write, and take the claim as it is after it; None where nothing is known but that it has to be read again."""
        send = self._api.mark if isinstance(step, Mark) else self._api.write_status
        self._is_read = False
        try:
            changed = await send(self._book.namespace, name=self.name, body=step.body)
        except NoAnswer as error:
            self._tell(no_answer(error))
            return None
        return self._taken(changed)

    def _taken(self, changed: Changed) -> ApiAnswer:
        if changed.manifest is not None and meaning_of(changed.answer) is Meaning.TAKEN:
            self.claim, self._is_read = changed.manifest, True
        return changed.answer


class Holding(_Attempt):
    """Allocates and reserves one claim."""

    def __init__(
        self,
        api: ClaimApi,
        *,
        target: ClaimTarget,
        book: ClaimBook,
        deal: Deal,
        tell: Tell,
        clock: Clock,
        wait_until: datetime,
        until: datetime,
    ) -> None:
        """Start from what the book knows."""
        super().__init__(api, target=target, book=book, tell=tell)
        self.target = target
        self._deal = deal
        self._clock = clock
        self._wait_until = wait_until
        self._until = until
        self._has_written = False

    @property
    def ref(self) -> ClaimRef:
        """The claim as it was found."""
        known = self.target.allocation.ref
        if self.claim is None:
            return known
        return replace(known, name=self.name, uid=Uid(str(metadata_of(self.claim).get("uid") or "")))

    async def once(self) -> ClaimAnswer | None:
        """Go on as far as answers are definite; None where it has to be tried again."""
        for _ in range(MAX_STEPS):
            if not await self._look(self.target):
                return None
            step = next_to_hold(self.claim, target=self.target, name=self.name, deal=self._deal)
            if isinstance(step, Await) and self.target.allocation.extended:
                answer = await self._create()
            elif isinstance(step, Await):
                self._tell(step.reason)
                if self._clock.now() + _MARGIN >= self._wait_until:
                    return self._refused(step.reason)
                self._is_read = False
                return None
            elif isinstance(step, Done):
                return await self._settled(step.answer)
            else:
                assert isinstance(step, Mark | WriteStatus), step
                self._has_written = True
                answer = await self._patch(step)
            if answer is None:
                return None
            given = self._judged(answer)
            if given is not None or self._is_patient(answer):
                return given
        return None

    def _is_patient(self, answer: ApiAnswer) -> bool:
        """Tell whether the next try has to wait: after success and conflicts it need not."""
        return meaning_of(answer) not in {Meaning.TAKEN, Meaning.LOOK}

    async def _create(self) -> ApiAnswer | None:
        user = _user(self.target)
        if user is None:
            return ApiAnswer(status=404, message="its pod is no member any more")
        body = extended_claim(
            self.target.allocation, pod=user.pod, gang=self._deal.gang, transaction=self._deal.transaction
        )
        self._is_read, self._has_written = False, True
        try:
            return self._taken(await self._api.create(self._book.namespace, body=body))
        except NoAnswer as error:
            self._tell(no_answer(error))
            return None

    async def _settled(self, answer: ClaimAnswer) -> ClaimAnswer | None:
        """Say in the pod's status which claim its extended resources are; then the claim is settled."""
        if answer.verdict is not ClaimVerdict.HELD:
            return self._as_untouched(answer)
        user = _user(self.target)
        if not self.target.allocation.extended or user is None:
            return answer
        wanted = extended_status(self.target.allocation, claim=self.name)
        if self._book.recorded(user.uid) == wanted:
            return answer
        try:
            changed = await self._api.record_extended(self._book.namespace, pod=user.pod, uid=user.uid, status=wanted)
        except NoAnswer as error:
            self._tell(no_answer(error))
            return None
        if changed.manifest is not None:
            self._book.versions[user.uid] = str(metadata_of(changed.manifest).get("resourceVersion") or "")
            return answer
        # A pod that is gone is found out when it is bound.
        is_gone = meaning_of(changed.answer) is Meaning.LOOK
        return answer if is_gone else self._judged(changed.answer)

    def _judged(self, answer: ApiAnswer) -> ClaimAnswer | None:
        """Return the definite answer that a refusal gives; None where it goes on, or has to be tried again."""
        meaning = meaning_of(answer)
        if meaning in {Meaning.TAKEN, Meaning.LOOK}:
            return None
        if meaning is Meaning.FORBIDDEN or _GRANULAR in answer.message:
            reason = forbidden(answer.message)
            self._tell(reason)
            is_over = self._clock.now() + _MARGIN >= self._until
            given = ClaimAnswer(verdict=ClaimVerdict.FORBIDDEN, reason=reason)
            return self._as_untouched(given) if is_over else None
        text = f"the API server answered {answer.status}: {answer.message[:MAX_MESSAGE_CHARACTERS]}"
        if meaning is Meaning.UNSURE:
            self._unsure += 1
        if meaning is Meaning.REFUSED or self._unsure >= MAX_UNSURE:
            said = f"the API refused to allocate claim {self.name}: {answer.message[:MAX_MESSAGE_CHARACTERS]}"
            reason = Reason(code=ReasonCode.CLAIM_REFUSED, message=said, count=1, subject=self.name)
            return self._refused(reason, is_node_excluded=True)
        self._tell(Reason(code=ReasonCode.API_UNAVAILABLE, message=text, count=1))
        return None

    def _refused(self, reason: Reason, *, is_node_excluded: bool = False) -> ClaimAnswer:
        given = ClaimAnswer(verdict=ClaimVerdict.REFUSED, reason=reason, is_node_excluded=is_node_excluded)
        return self._as_untouched(given)

    def _as_untouched(self, answer: ClaimAnswer) -> ClaimAnswer:
        """Return the answer, with whether anything of the claim may be ours."""
        is_ours = self.claim is not None and transaction_of(self.claim) == self._deal.transaction
        return replace(answer, is_untouched=not self._has_written and not is_ours)


class Freeing(_Attempt):
    """Frees one claim of members that were never bound."""

    def __init__(
        self, api: ClaimApi, *, target: FreeTarget, book: ClaimBook, transaction: TransactionId, tell: Tell
    ) -> None:
        """Start from what the book knows."""
        super().__init__(api, target=target, book=book, tell=tell)
        self._target = target
        self._transaction = transaction

    async def once(self) -> ClaimAnswer | None:
        """Go on as far as answers are definite; None where it has to be tried again."""
        for _ in range(MAX_STEPS):
            if not await self._look(self._target):
                return None
            step = next_to_free(self.claim, target=self._target, transaction=self._transaction)
            if isinstance(step, Done):
                return step.answer
            answer = await self._delete() if isinstance(step, Delete) else await self._write(step)
            if answer is None:
                return None
            if meaning_of(answer) not in {Meaning.TAKEN, Meaning.LOOK}:
                self._tell(self._problem(answer))
                return None
        return None

    async def _write(self, step: object) -> ApiAnswer | None:
        assert isinstance(step, Mark | WriteStatus), step
        return await self._patch(step)

    async def _delete(self) -> ApiAnswer | None:
        metadata = metadata_of(self.claim or {})
        self._is_read = False
        try:
            changed = await self._api.delete(
                self._book.namespace, name=self.name, uid=metadata["uid"], version=metadata["resourceVersion"]
            )
        except NoAnswer as error:
            self._tell(no_answer(error))
            return None
        return changed.answer

    def _problem(self, answer: ApiAnswer) -> Reason:
        if meaning_of(answer) is Meaning.FORBIDDEN or _GRANULAR in answer.message:
            return forbidden(answer.message)
        text = f"claim {self.name} cannot be freed: {answer.status} {answer.message[:MAX_MESSAGE_CHARACTERS]}"
        return Reason(code=ReasonCode.API_UNAVAILABLE, message=text, count=1)


def readiness(claim: Manifest | None, *, target: ClaimTarget, name: str, is_late: bool) -> ClaimAnswer | None:
    """Return whether the devices of a claim are ready; None where they may still become so."""
    if claim is None or not status_of(claim).get("allocation"):
        text = f"claim {name} is not allocated any more"
        reason = Reason(code=ReasonCode.CLAIM_CHANGED, message=text, count=1, subject=name)
        return ClaimAnswer(verdict=ClaimVerdict.REFUSED, reason=reason)
    waiting, failed = device_states(claim, target=target)
    if not waiting and not failed:
        return ClaimAnswer(verdict=ClaimVerdict.HELD)
    if not failed and not is_late:
        return None
    devices = tuple(sorted(failed or waiting))
    what = "its driver says that it will not be" if failed else "it took too long"
    text = f"device {_shown(devices)} of claim {name} did not become ready: {what}"
    reason = Reason(code=ReasonCode.DEVICE_NOT_READY, message=text, count=1, subject=_shown(devices))
    return ClaimAnswer(verdict=ClaimVerdict.REFUSED, reason=reason, devices=devices)


def collision(name: str, devices: "tuple[DeviceId, ...]") -> ClaimAnswer:
    """Return the answer for a claim whose devices somebody else allocated too."""
    text = f"device {_shown(devices)} of claim {name} was allocated by another scheduler at the same time"
    reason = Reason(code=ReasonCode.DEVICE_COLLISION, message=text, count=1, subject=_shown(devices))
    return ClaimAnswer(verdict=ClaimVerdict.REFUSED, reason=reason, devices=devices)


def no_answer(error: NoAnswer) -> Reason:
    """Return the reason of whoever waits for the API server."""
    return Reason(code=ReasonCode.API_UNAVAILABLE, message=str(error), count=1)


def forbidden(message: str) -> Reason:
    """Return the reason of a binder that may not write claims."""
    text = (
        f"the binder may not allocate claims: {message[:MAX_MESSAGE_CHARACTERS]}; "
        "grant what deploy/base/rbac.yaml has for group resource.k8s.io to its service account"
    )
    return Reason(code=ReasonCode.FORBIDDEN, message=text, count=1, subject="resourceclaims")


def _shown(devices: "tuple[DeviceId, ...]") -> str:
    one = devices[0]
    more = f" and {len(devices) - 1} more" if len(devices) > 1 else ""
    return f"{one.driver}/{one.pool}/{one.device}{more}"
