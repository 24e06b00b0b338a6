"""A judge that sees only the API server and the bucket of open transactions, and knows nothing of binder or core.

It judges what Phalanx promises: at rest, which is without an open transaction, none or at least `minCount` members of a
gang are bound; nobody is bound twice; every transaction ends in time; nobody is deleted by force; and what belongs to
no transaction is left alone. Members that somebody else took away are counted as if they were there: no act of ours
made the gang partial.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from services.runtime.kube import KubeClient, KubeFault
from tests.chaos.bucket import Bucket, Entry
from tests.chaos.requests import AuditLog, Write
from tests.e2e.kubernetes.witness import PODS, Version, Witness

GROUPS = "/apis/scheduling.k8s.io/v1beta1/podgroups"
NODES = "/api/v1/nodes"
TRANSACTION = "phalanx.dev/transaction"
FENCE = "phalanx.dev/fence"
GPU = "nvidia.com/gpu"
ENDED = ("Succeeded", "Failed")

FAIL_OVER_S = 10.0
"""Within which a successor has taken over."""

Manifest = Mapping[str, Any]
Gang = tuple[str, str]
"""Namespace and name of a PodGroup."""


@dataclass(slots=True, kw_only=True)
class _Gang:
    """What a look found of one gang."""

    min_count: int
    placed: set[str] = field(default_factory=set)
    #: Those of them that have ended by themselves: they hold nothing, and nobody can take them back.
    ended: set[str] = field(default_factory=set)
    taken_away: int = 0

    @property
    def is_partial(self) -> bool:
        """True where some members run or will, and too few are bound, also with those that others took away."""
        return self.placed > self.ended and len(self.placed) + self.taken_away < self.min_count


class Checker:
    """Collects what is wrong. `looks` counts how often it could compare gangs with open transactions."""

    def __init__(self, client: KubeClient, *, witness: Witness, bucket: Bucket, audit: AuditLog) -> None:
        """Keep the sources; `witness` follows pods and PodGroups."""
        self._client = client
        self._witness = witness
        self._bucket = bucket
        self._audit = audit
        self._bound: Counter[str] = Counter()
        self._deleted: set[str] = set()
        #: The gang of each transaction that wrote to a pod.
        self._gangs: dict[str, Gang] = {}
        self._wrong: list[str] = []
        self.looks = 0

    async def problems(self, namespace: str) -> list[str]:
        """Return what is wrong with the gangs of a namespace, which are at rest, and with anything that was written."""
        await self._bucket.caught_up()
        entries = self._bucket.of(namespace)
        found = [f"{_named(one)} is still open" for one in entries if one.ended_at is None]
        gangs = await self._gangs_now(namespace)
        found += [
            f"{len(one.placed)} of {one.min_count} members of {gang[1]} are bound at rest"
            for gang, one in gangs.items()
            if one.is_partial
        ]
        found += [problem for one in entries if (problem := self._late(one, namespace=namespace))]
        self._read_audit()
        found += await self._unexplained(namespace)
        wrong, self._wrong = self._wrong, []
        return found + wrong

    async def look(self) -> list[str]:
        """Compare all gangs with the open transactions; return those that are partly bound and have none."""
        try:
            before = await self._open_gangs()
            gangs = await self._gangs_now()
            busy = before | await self._open_gangs()
        except KubeFault:
            return []
        self.looks += 1
        return [
            f"{len(one.placed)} of {one.min_count} members of {gang} are bound, and no transaction is open"
            for gang, one in gangs.items()
            if one.is_partial and gang not in busy
        ]

    async def oversubscribed(self) -> list[str]:
        """Return the nodes that carry more GPUs than they have."""
        used: Counter[str] = Counter()
        for pod in await self._list(PODS):
            if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ENDED:
                used[pod["spec"]["nodeName"]] += sum(_gpus(one) for one in pod["spec"]["containers"])
        room = {
            one["metadata"]["name"]: int(one["status"]["allocatable"].get(GPU, 0)) for one in await self._list(NODES)
        }
        return [f"{name} carries {used[name]} GPUs of {count}" for name, count in room.items() if used[name] > count]

    def versions(self, namespace: str) -> dict[str, int]:
        """Return the last revision of every pod of a namespace, so that nothing done to them goes unseen."""
        return {uid: one[-1].revision for uid, one in self._witness.of("Pod", namespace=namespace).items()}

    def history(self, namespace: str) -> list[str]:
        """Return what happened to a namespace, in lines for people: its pods by revision, its transactions by time."""
        lines: list[tuple[int, str]] = []
        for versions in self._witness.of("Pod", namespace=namespace).values():
            lines += [(one.revision, _told(one)) for one in versions]
        told = [f"  revision {revision}: {text}" for revision, text in sorted(lines)]
        for entry in self._bucket.of(namespace):
            phases = [f"{phase} {at:.2f}" for at, phase in entry.phases]
            told.append(f"  transaction {entry.transaction}: {', '.join(phases)}; ended {entry.ended_at}")
        return told

    async def _open_gangs(self) -> set[Gang]:
        await self._bucket.caught_up()
        return {_gang_of_entry(one) for one in self._bucket.open()}

    async def _gangs_now(self, namespace: str = "") -> dict[Gang, _Gang]:
        """Return the gangs that there are, as they are now."""
        gangs = {
            (one["metadata"]["namespace"], one["metadata"]["name"]): _Gang(
                min_count=one["spec"]["schedulingPolicy"].get("gang", {}).get("minCount", 1)
            )
            for one in await self._list(_within(GROUPS, namespace))
        }
        for pod in await self._list(_within(PODS, namespace)):
            gang = gangs.get(_gang_of(pod))
            if gang is not None and _is_placed(pod):
                gang.placed.add(pod["metadata"]["uid"])
                if pod["status"].get("phase") in ENDED:
                    gang.ended.add(pod["metadata"]["uid"])
        self._read_audit()
        for uid, versions in self._witness.versions.items():
            gang = gangs.get(_gang_of(versions[-1].manifest)) if versions[-1].manifest["kind"] == "Pod" else None
            if gang is None or uid in gang.placed:
                continue
            # Whoever was asked to end and succeeded all the same has done its part: its Job makes no other.
            has_succeeded = versions[-1].manifest["status"].get("phase") == "Succeeded"
            if uid in self._deleted and not has_succeeded:
                continue
            gang.taken_away += any(_is_placed(one.manifest) for one in versions)
        return gangs

    async def _unexplained(self, namespace: str) -> list[str]:
        """Return bound pods of a namespace that name no transaction that there was."""
        found = []
        for pod in await self._list(_within(PODS, namespace)):
            name = (pod["metadata"].get("annotations") or {}).get(TRANSACTION, "")
            is_ours = pod["spec"].get("schedulerName") == "phalanx" and pod["spec"].get("nodeName")
            if is_ours and name not in self._bucket.entries:
                found.append(f"{pod['metadata']['name']} is bound by transaction {name!r}, which was never journalled")
        return found

    def _late(self, entry: Entry, *, namespace: str) -> str:
        if not entry.must_end_by:
            return ""
        graces = [
            float(versions[0].manifest["spec"].get("terminationGracePeriodSeconds", 0))
            for versions in self._witness.of("Pod", namespace=namespace).values()
        ]
        late_s = (entry.ended_at or time.time()) - entry.must_end_by - max(graces, default=0.0) - FAIL_OVER_S
        return f"{_named(entry)} ended {late_s:.1f} s too late" if late_s > 0 else ""

    def _read_audit(self) -> None:
        for write in self._audit.news():
            if write.took_effect:
                self._wrong += self._judged(write)

    def _judged(self, write: Write) -> list[str]:
        """Return what is wrong with a write that took effect."""
        where = f"{write.namespace}/{write.pod}"
        if write.part == "binding":
            metadata = write.body.get("metadata") or {}
            uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
            self._bound[uid] += 1
            found = [] if uid and version else [f"{where} was bound without uid or resourceVersion"]
            if self._bound[uid] > 1:
                found.append(f"{where} was bound {self._bound[uid]} times")
            return found + self._misplaced(write, transaction=(metadata.get("annotations") or {}).get(TRANSACTION, ""))
        if write.verb == "delete":
            return self._judged_deletion(write)
        if write.verb == "patch" and not write.part:
            mark = ((write.body.get("metadata") or {}).get("annotations") or {}).get(FENCE, "")
            return self._misplaced(write, transaction=mark.split("/")[0])
        if write.part == "status":
            return []
        return [f"{where}: {write.verb} is nothing that the binder should do"]

    def _judged_deletion(self, write: Write) -> list[str]:
        where = f"{write.namespace}/{write.pod}"
        conditions = write.body.get("preconditions") or {}
        found = []
        if not conditions.get("uid") or not conditions.get("resourceVersion"):
            found.append(f"{where} was deleted without preconditions")
        if write.body.get("gracePeriodSeconds") is not None:
            found.append(f"{where} was deleted with a grace period that is not its own")
        versions = self._witness.versions.get(conditions.get("uid", ""), [])
        self._deleted.add(conditions.get("uid", ""))
        if versions and not any(one.node and _transaction_of(one.manifest) for one in versions):
            found.append(f"{where} was deleted, and had not been bound by us")
        return found

    def _misplaced(self, write: Write, *, transaction: str) -> list[str]:
        """Return what is wrong where a transaction writes to a pod of another gang than before."""
        versions = self._witness.of("Pod", namespace=write.namespace, name=write.pod)
        gangs = {_gang_of(one[-1].manifest) for one in versions.values()}
        if not gangs:
            return []
        gang = gangs.pop()
        known = self._gangs.setdefault(transaction, gang)
        if known == gang:
            return []
        return [f"transaction {transaction} of {known} wrote to {write.namespace}/{write.pod} of {gang}"]

    async def _list(self, path: str) -> list[Manifest]:
        return [item async for page in self._client.list_pages(path) for item in page.items]


def _within(path: str, namespace: str) -> str:
    root, _, plural = path.rpartition("/")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else path


def _gang_of(pod: Manifest) -> Gang:
    group = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName", "")
    return pod["metadata"]["namespace"], group


def _gang_of_entry(entry: Entry) -> Gang:
    _, namespace, name = entry.gang.split("/") if entry.gang else ("", "", "")
    return namespace, name


def _is_placed(pod: Manifest) -> bool:
    is_ending = "deletionTimestamp" in pod["metadata"]
    return bool(pod["spec"].get("nodeName")) and not is_ending and pod["status"].get("phase") != "Failed"


def _transaction_of(pod: Manifest) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(TRANSACTION, ""))


def _gpus(container: Manifest) -> int:
    return int(((container.get("resources") or {}).get("limits") or {}).get(GPU, 0))


def _named(entry: Entry) -> str:
    return f"transaction {entry.transaction} of {entry.gang}"


def _told(version: Version) -> str:
    pod = version.manifest
    state = "gone" if version.is_gone else "ending" if version.is_ending else (pod.get("status") or {}).get("phase", "")
    return f"{pod['metadata']['name']} {version.node or 'unbound'} {state} {_transaction_of(pod)}"
