"""The books of who belongs together: pods by gang, and the objects whose word that is.

What a pod belongs to is a function of the pod and of the owners that are known (`services.core.membership`), so it is
asked again when one of these changes, and the order in which pods and owners were seen makes no difference.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from services.core.gangs import MemberState, state_of
from services.core.membership import Lookup, Membership, Source, SourceKey, membership_of, nowhere, owner_kind
from services.core.objects import GangId, GroupSource, Job, Kind, Metadata, Pod, WatchPhase, kind_of

Key = TypeVar("Key")
ObjectKey = tuple[str, str]
"""Namespace and name."""

SOURCE_KINDS = frozenset(
    {
        Kind.JOB,
        Kind.STATEFUL_SET,
        Kind.COSCHEDULING_GROUP,
        Kind.VOLCANO_GROUP,
        Kind.JOB_SET,
        Kind.LEADER_WORKER_SET,
        Kind.RAY_CLUSTER,
        Kind.PYTORCH_JOB,
        Kind.TF_JOB,
        Kind.MPI_JOB,
    }
)
"""Kinds of objects beside PodGroup that group pods. One that is not followed holds up only the pods that it owns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a change of a pod or of an owner did: gangs that it may have altered, and pods that stand otherwise now."""

    gangs: frozenset[GangId] = frozenset()
    pods: tuple[Pod, ...] = ()


UNMOVED = Moved()


@dataclass(slots=True, kw_only=True)
class Grouping:
    """Pods by gang. With `trusts_unseen` an owner that is not known is taken at its word, as in a plan of files.

    `find_elsewhere` knows owners that are not in these books.
    """

    find_pod: Callable[[ObjectKey], Pod | None]
    trusts_unseen: bool = False
    find_elsewhere: Callable[[SourceKey], Source | None] = nowhere
    _sources: dict[SourceKey, GroupSource | Job] = field(default_factory=dict)
    _memberships: dict[ObjectKey, Membership] = field(default_factory=dict)
    _dependents: dict[SourceKey, set[ObjectKey]] = field(default_factory=dict)
    _gang_pods: dict[GangId, set[ObjectKey]] = field(default_factory=dict)
    #: Of each gang the pods that wait for a place, certain members or not: to count them costs nothing.
    _waiting: dict[GangId, set[ObjectKey]] = field(default_factory=dict)
    _absent: set[Kind] = field(default_factory=set)

    def gangs(self) -> Iterable[GangId]:
        """Return all gangs, ours or not."""
        return self._gang_pods

    def members(self, gang: GangId) -> Iterable[ObjectKey]:
        """Return the pods of a gang."""
        return self._gang_pods.get(gang, ())

    def waiting(self, gang: GangId) -> Collection[ObjectKey]:
        """Return the pods of a gang that wait for a place, whether they are certain members or not."""
        return self._waiting.get(gang, ())

    def membership(self, pod: Pod) -> Membership:
        """Return to which gang a pod belongs as far as is known now; it need not be in the books."""
        known = self._memberships.get(_key(pod.metadata))
        if known is not None and self.find_pod(_key(pod.metadata)) is pod:
            return known
        return membership_of(pod, lookup=self._lookup())

    def source(self, key: SourceKey) -> Source | None:
        """Return an object that groups or owns pods, or None."""
        own = self.find_pod(key[1:]) if key[0] is Kind.POD else self._sources.get(key)
        return self.find_elsewhere(key) if own is None else own

    def own_source(self, key: SourceKey) -> GroupSource | Job | None:
        """Return an object that is in these books, or None."""
        return self._sources.get(key)

    def put_source(self, item: GroupSource | Job) -> Moved:
        """Note a new form of an object that groups pods."""
        key = source_key(item)
        known = self._sources.get(key)
        self._sources[key] = item
        if known is not None and _view(known) == _view(item):
            return UNMOVED
        return self.ask_again(key)

    def remove_source(self, kind: Kind, metadata: Metadata) -> Moved:
        """Note that an object is gone."""
        key = (kind, *_key(metadata))
        return UNMOVED if self._sources.pop(key, None) is None else self.ask_again(key)

    def put_pod(self, pod: Pod) -> Moved:
        """Note a new form of a pod, which is in the cluster's books already."""
        key = _key(pod.metadata)
        membership = membership_of(pod, lookup=self._lookup())
        before = self._leave(key)
        self._join(key, membership)
        return self._with_dependents(key, gangs=before | {membership.gang})

    def remove_pod(self, metadata: Metadata) -> Moved:
        """Note that a pod, which has left the cluster's books, is gone."""
        key = _key(metadata)
        return self._with_dependents(key, gangs=self._leave(key))

    def put_watch(self, kind: Kind, phase: WatchPhase) -> Moved:
        """Note whether a kind is served at all: owners of a kind that is not can never be seen."""
        if (phase is WatchPhase.ABSENT) == (kind in self._absent):
            return UNMOVED
        self._absent ^= {kind}
        waiting = [key for key, one in self._memberships.items() if one.missing and owner_kind(one.missing) is kind]
        return self._ask(waiting)

    def ask_again(self, key: SourceKey) -> Moved:
        """Ask again for the pods that rest on an object."""
        dependents = self._dependents.get(key)
        return self._ask(dependents) if dependents else UNMOVED

    def _with_dependents(self, key: ObjectKey, *, gangs: frozenset[GangId]) -> Moved:
        moved = self.ask_again((Kind.POD, *key))
        return Moved(gangs=gangs | moved.gangs, pods=moved.pods)

    def _ask(self, keys: Iterable[ObjectKey]) -> Moved:
        gangs: set[GangId] = set()
        pods: list[Pod] = []
        lookup = self._lookup()
        for key in sorted(keys):
            pod = self.find_pod(key)
            if pod is None:
                continue
            before = self._memberships[key]
            membership = membership_of(pod, lookup=lookup)
            gangs |= {before.gang, membership.gang}
            if membership != before:
                self._leave(key)
                self._join(key, membership)
                pods.append(pod)
        return Moved(gangs=frozenset(gangs), pods=tuple(pods))

    def _join(self, key: ObjectKey, membership: Membership) -> None:
        self._memberships[key] = membership
        self._gang_pods.setdefault(membership.gang, set()).add(key)
        pod = self.find_pod(key)
        if pod is not None and state_of(pod) is MemberState.OPEN:
            self._waiting.setdefault(membership.gang, set()).add(key)
        for consulted in membership.consulted:
            self._dependents.setdefault(consulted, set()).add(key)

    def _leave(self, key: ObjectKey) -> frozenset[GangId]:
        """Take a pod out of the books, and return its gang."""
        known = self._memberships.pop(key, None)
        if known is None:
            return frozenset()
        _discard(self._gang_pods, known.gang, key)
        _discard(self._waiting, known.gang, key)
        for consulted in known.consulted:
            _discard(self._dependents, consulted, key)
        return frozenset({known.gang})

    def _lookup(self) -> Lookup:
        return Lookup(find=self.source, is_absent=lambda kind: self.trusts_unseen or kind in self._absent)


def _discard(books: dict[Key, set[ObjectKey]], page: Key, key: ObjectKey) -> None:
    """Take a key off a page, and the page out of the books where it was the last."""
    entries = books.get(page)
    if entries is not None:
        entries.discard(key)
        if not entries:
            del books[page]


def _key(metadata: Metadata) -> ObjectKey:
    return metadata.namespace, metadata.name


def source_key(item: GroupSource | Job) -> SourceKey:
    """Return the key of an object that groups pods."""
    return kind_of(item), item.metadata.namespace, item.metadata.name


def _view(item: GroupSource | Job) -> tuple[object, ...]:
    """Return what of an object can make a difference to a gang: not its version, and not how far a Job has come."""
    metadata = replace(item.metadata, resource_version="")
    if isinstance(item, Job):
        return (metadata, item.parallelism, item.completions, item.is_suspended)
    return (replace(item, metadata=metadata),)
