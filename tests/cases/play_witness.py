"""What happened to the objects while a case was played: every binding and deletion, in order."""

from dataclasses import dataclass, field

from services.core.names import CONDITION_INITIALLY_SCHEDULED
from services.core.objects import Uid
from services.sandbox.objects import (
    Obj,
    condition_status,
    is_deleting,
    is_terminal,
    name_of,
    namespace_of,
    spec,
    uid_of,
)
from services.sandbox.store import Store
from services.sandbox.watching import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A pod got its node. `live_members` are the pods of its group that lived at that moment, with their uids."""

    revision: int
    pod: str
    uid: Uid
    node: str
    live_members: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """An object was removed."""

    revision: int
    ref: str
    uid: Uid


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A group's status began to say that it is scheduled, while so many of its pods had a node."""

    group: str
    bound_count: int


@dataclass(slots=True, kw_only=True)
class Witness:
    """Listens to the API's store, which tells of each change at once and in order."""

    namespace: str
    store: Store
    bindings: list[Bound] = field(default_factory=list)
    deletions: list[Gone] = field(default_factory=list)
    #: All versions of each object of the case, oldest first, by reference such as `Pod/d-2`.
    versions: dict[str, list[Obj]] = field(default_factory=dict)
    shown: list[Shown] = field(default_factory=list)
    #: Changes of the replicas of each scalable object.
    scalings: list[str] = field(default_factory=list)

    def listen(self, change: Change) -> None:
        """Take note of one change."""
        obj, before = change.stored.obj, change.previous
        if change.stored.kind.is_namespaced and namespace_of(obj) != self.namespace:
            return
        ref = f"{change.stored.kind.kind}/{name_of(obj)}"
        self.versions.setdefault(ref, []).append(obj)
        if change.type == "DELETED":
            self.deletions.append(Gone(revision=change.revision, ref=ref, uid=Uid(uid_of(obj))))
            return
        if before is None:
            return
        if spec(obj).get("nodeName") and not spec(before.obj).get("nodeName"):
            self._bind(obj, revision=change.revision)
        if _is_scheduled(obj) and not _is_scheduled(before.obj):
            self.shown.append(Shown(group=name_of(obj), bound_count=self._bound_count(name_of(obj))))
        if spec(obj).get("replicas") != spec(before.obj).get("replicas"):
            self.scalings.append(ref)

    def lives(self, group: str) -> frozenset[str]:
        """Return the uids of a group's pods that are neither ending nor ended."""
        return frozenset(
            uid_of(pod)
            for pod in self.store.objects("pods", namespace=self.namespace)
            if group_of(pod) == group and not is_deleting(pod) and not is_terminal(pod)
        )

    def _bound_count(self, group: str) -> int:
        pods = self.store.objects("pods", namespace=self.namespace)
        return sum(bool(spec(pod).get("nodeName")) for pod in pods if group_of(pod) == group)

    def _bind(self, pod: Obj, *, revision: int) -> None:
        self.bindings.append(
            Bound(
                revision=revision,
                pod=name_of(pod),
                uid=Uid(uid_of(pod)),
                node=spec(pod)["nodeName"],
                live_members=self.lives(group_of(pod)),
            )
        )


def _is_scheduled(obj: Obj) -> bool:
    return condition_status(obj, CONDITION_INITIALLY_SCHEDULED) == "True"


def group_of(pod: Obj) -> str:
    """Return the PodGroup that a pod names, empty where it names none."""
    return str((spec(pod).get("schedulingGroup") or {}).get("podGroupName") or "")
