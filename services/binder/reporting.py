"""Showing decisions to people: one ordered, bounded queue for each gang, beside everything else.

Reports are best effort and never hold up a binding. Only the newest report's conditions count; each is compared with
the live object first, so neither a repeated decision nor a restart writes anything twice.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from services.binder.following import Follower
from services.binder.metrics import BinderMetrics
from services.binder.ports import NoAnswer, StatusApi
from services.binder.world import World
from services.core.decisions import Decision, Victim
from services.core.membership import reference_to
from services.core.objects import GangId, kind_of, namespace_of
from services.core.transaction_answers import ApiAnswer, Meaning, meaning_of
from services.core.transaction_reports import (
    ConditionWrite,
    EventNote,
    Report,
    changed_conditions,
    controllers_of,
    event_name,
    report_of,
)
from services.runtime.clock import Clock
from services.runtime.log import get

_log = get("binder.reporting")

MAX_GANGS = 16_384
"""Gangs whose reports wait; above it the oldest report is dropped, and counted."""

MAX_REPORTS = 8
"""Reports of one gang that wait; the oldest are dropped."""

WORKERS = 4
PATIENCE = timedelta(seconds=10)
"""How long a report waits for the state that its decision rests on."""

UNPERMITTED_RETRY_S = 5.0
"""Pause before what was refused for want of a permission is shown again; an API server that has just started refuses
everything until it has read the roles."""

_SHORTEST_S, _LONGEST_S = 0.2, 10.0
_FORBIDDEN, _CONFLICT = 403, 409
_EVENT_SOURCE = "phalanx-binder"


class Reporter:
    """Shows decisions on groups, members and their owners."""

    def __init__(
        self, api: StatusApi, *, world: World, follower: Follower, metrics: BinderMetrics, clock: Clock
    ) -> None:
        """Keep the parts."""
        self._api = api
        self._world = world
        self._follower = follower
        self._metrics = metrics
        self._clock = clock
        #: Reports that wait, by gang; a dictionary keeps the order in which gangs are served.
        self._waiting: dict[GangId, deque[Report]] = {}
        self._busy: set[GangId] = set()
        #: The newest report of each gang for which a permission was missing.
        self._unpermitted: dict[GangId, Report] = {}
        self._changed = asyncio.Condition()
        self._wake = asyncio.Event()

    def submit(self, decision: Decision) -> None:
        """Queue what a decision shows."""
        report = report_of(decision)
        if report is None:
            return
        self._waiting.setdefault(report.gang, deque(maxlen=MAX_REPORTS)).append(report)
        if len(self._waiting) > MAX_GANGS:
            dropped = next(iter(self._waiting))
            del self._waiting[dropped]
            self._metrics.reports.labels(kind="any", outcome="dropped").inc()
        self._wake.set()

    async def catch_up(self) -> None:
        """Queue the last decision of every gang, for what an earlier process may have left undone."""
        await self._follower.wait_for_revision(0, until=None)
        for gang in self._world.cluster.gang_ids():
            decision = self._world.ledger.last(gang)
            if decision is not None:
                self.submit(decision)

    async def run(self) -> None:
        """Show reports for ever."""
        async with asyncio.TaskGroup() as workers:
            for number in range(WORKERS):
                workers.create_task(self._work(), name=f"reporting {number}")
            workers.create_task(self._repeat_unpermitted(), name="reporting again")

    async def _work(self) -> None:
        while True:
            gang = next((gang for gang in self._waiting if gang not in self._busy), None)
            if gang is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            reports = tuple(self._waiting.pop(gang))
            self._busy.add(gang)
            try:
                await self._show(reports)
            finally:
                self._busy.discard(gang)
                self._wake.set()

    async def _repeat_unpermitted(self) -> None:
        """Queue refused reports again, unless the gang has something newer to show."""
        while True:
            await self._clock.sleep(UNPERMITTED_RETRY_S)
            refused, self._unpermitted = self._unpermitted, {}
            for gang, report in refused.items():
                if gang not in self._waiting and gang not in self._busy:
                    self._waiting[gang] = deque([report], maxlen=MAX_REPORTS)
            if refused:
                self._wake.set()

    async def _show(self, reports: Sequence[Report]) -> None:
        """Show reports of one gang, oldest first: all of their events, and the conditions of the last."""
        gang = reports[-1].gang
        patient = AsyncRetrying(
            retry=retry_if_exception_type(NoAnswer),
            wait=wait_random_exponential(multiplier=_SHORTEST_S, max=_LONGEST_S),
            sleep=self._clock.sleep,
            stop=self._is_superseded(gang),
            reraise=True,
        )
        try:
            async for attempt in patient:
                with attempt:
                    await self._show_once(reports)
        except NoAnswer as error:
            # A newer report of the same gang waits, and says more.
            self._metrics.reports.labels(kind="any", outcome="superseded").inc()
            _log.info("report.superseded", gang=gang, problem=str(error))

    def _is_superseded(self, gang: GangId) -> Callable[[RetryCallState], bool]:
        return lambda _state: gang in self._waiting

    async def _show_once(self, reports: Sequence[Report]) -> None:
        last = reports[-1]
        self._unpermitted.pop(last.gang, None)
        if last.revision:
            await self._follower.wait_for_revision(last.revision, until=self._clock.now() + PATIENCE)
        namespace = namespace_of(last.gang)
        if last.of_members is not None:
            await self._show_on_members(last, last.of_members, namespace=namespace)
        group = await self._group(last.gang, namespace=namespace)
        if group is not None:
            await self._show_on_group(last, group, namespace=namespace)
        for report in reports:
            for about in self._subjects(last.gang, group=group):
                await self._tell(report, report.event, about=about)
            if report.of_victims is not None:
                for victim in report.victims:
                    await self._tell(report, report.of_victims, about=_pod_reference(victim))

    async def _show_on_members(self, report: Report, wanted: ConditionWrite, *, namespace: str) -> None:
        gang = self._world.cluster.gang(report.gang)
        members = () if gang is None else gang.open
        if not members:
            return
        found = await self._api.pods(namespace, names=[pod.metadata.name for pod in members])

        async def one(name: str, manifest: Mapping[str, Any]) -> None:
            if manifest.get("spec", {}).get("nodeName") or report.gang in self._waiting:
                return
            for condition in changed_conditions([wanted], present=_conditions(manifest), now=self._now()):
                uid = str(manifest["metadata"]["uid"])
                answer = await self._api.set_pod_condition(namespace, name=name, uid=uid, condition=condition)
                self._note("pod condition", answer, report=report)

        unanswered: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as writes:
                for name, manifest in found.items():
                    writes.create_task(one(name, manifest))
        except* NoAnswer as errors:
            unanswered = errors.exceptions[0]
        if unanswered is not None:
            # Outside of the group, for whoever tries again: what was written meanwhile is found written then.
            raise unanswered

    async def _group(self, gang: GangId, *, namespace: str) -> Mapping[str, Any] | None:
        """Return the gang's live PodGroup; lone pods have none."""
        kind, _, name = gang.split("/")
        return await self._api.group(namespace, name=name) if kind == "podgroup" else None

    async def _show_on_group(self, report: Report, group: Mapping[str, Any], *, namespace: str) -> None:
        conditions = changed_conditions(report.of_group, present=_conditions(group), now=self._now())
        if not conditions:
            return
        metadata = group["metadata"]
        answer = await self._api.set_group_conditions(
            namespace, name=str(metadata["name"]), uid=str(metadata["uid"]), conditions=conditions
        )
        self._note("group condition", answer, report=report)

    def _subjects(self, gang: GangId, *, group: Mapping[str, Any] | None) -> list[dict[str, str]]:
        """Return what events are about: what declares the gang, or the lone pod, and whoever controls the members."""
        cluster = self._world.cluster
        found = cluster.gang(gang)
        pods = () if found is None else (*found.open, *found.placed)
        namespace = namespace_of(gang)
        owners = controllers_of(owner for pod in pods for owner in pod.metadata.owners)
        if found is not None and found.source is not None:
            # What people wrote, and not what its controller made of it, as the Jobs of a JobSet.
            owners = (reference_to(found.source, api_version=cluster.api_version(kind_of(found.source))),)
        subjects = [
            {
                "apiVersion": owner.api_version,
                "kind": owner.kind,
                "namespace": namespace,
                "name": owner.name,
                "uid": owner.uid,
            }
            for owner in owners
        ]
        if group is not None:
            subjects.insert(0, reference_of(group))
        elif gang.startswith("pod/") and pods:
            metadata = pods[0].metadata
            about = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace}
            subjects.insert(0, {**about, "name": metadata.name, "uid": metadata.uid})
        return subjects

    async def _tell(self, report: Report, note: EventNote, *, about: dict[str, str]) -> None:
        namespace = about["namespace"]
        name = event_name(note, about=about["name"], uid=about["uid"])
        moment = _timestamp(report.decided_at)
        answer = await self._api.create_event(
            namespace, body=event_body(note, name=name, namespace=namespace, about=about, at=moment)
        )
        if answer.status == _CONFLICT:
            known = await self._api.event(namespace, name=name)
            if known is None or str(known.get("lastTimestamp") or "") >= moment:
                return
            count = int(known.get("count") or 1) + 1
            answer = await self._api.repeat_event(namespace, name=name, count=count, at=moment)
        self._note("event", answer, report=report)

    def _note(self, kind: str, answer: ApiAnswer, *, report: Report) -> None:
        meaning = meaning_of(answer)
        if meaning is Meaning.TAKEN:
            self._metrics.reports.labels(kind=kind, outcome="written").inc()
            return
        self._metrics.reports.labels(kind=kind, outcome="refused").inc()
        _log.warning("report.refused", kind=kind, gang=report.gang, status=answer.status, problem=answer.message)
        is_permission = meaning is Meaning.FORBIDDEN or answer.status == _FORBIDDEN
        if is_permission and len(self._unpermitted) < MAX_GANGS:
            self._unpermitted[report.gang] = report

    def _now(self) -> str:
        return _timestamp(self._clock.now())


def _pod_reference(victim: Victim) -> dict[str, str]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": victim.namespace,
        "name": victim.pod,
        "uid": victim.uid,
    }


def _conditions(manifest: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (manifest.get("status") or {}).get("conditions") or ()


def reference_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return an object as an event refers to it."""
    metadata = manifest["metadata"]
    return {
        "apiVersion": str(manifest["apiVersion"]),
        "kind": str(manifest["kind"]),
        "namespace": str(metadata["namespace"]),
        "name": str(metadata["name"]),
        "uid": str(metadata["uid"]),
    }


def event_body(note: EventNote, *, name: str, namespace: str, about: dict[str, str], at: str) -> dict[str, Any]:
    """Return an event as the API takes it."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": about,
        "reason": note.reason,
        "message": note.message,
        "type": "Warning" if note.is_warning else "Normal",
        "source": {"component": _EVENT_SOURCE},
        "reportingComponent": _EVENT_SOURCE,
        "reportingInstance": "",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }


def _timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
