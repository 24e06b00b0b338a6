"""From what members state to rules that can be asked: every counter is made, filled and connected here, once."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from services.core.constraints import Disk, HostPort, LabelSelector, PodTerm
from services.core.devices.demands import NO_DEMAND
from services.core.inventory import Snapshot
from services.core.judgements import Domains
from services.core.labels import labels_of_namespace, means, selects
from services.core.node_rules import Preferences, Verdict
from services.core.objects import NodeName, Pod
from services.core.occupants import Occupant
from services.core.reasons import ReasonCode
from services.core.solving import tallies
from services.core.solving.board import Board, ClassRules
from services.core.solving.classes import MemberClass
from services.core.solving.device_room import DeviceRoom, admitted_by_devices
from services.core.solving.rules import UNCOUNTED, Attachments, Counter, Flags, Near, Spread
from services.core.storage import PodStorage

ANY_ADDRESS = HostPort(port=0).address
_AFFINITY_WEIGHT, _TAINT_WEIGHT, _PODS_WEIGHT = 2, 3, 2
"""kube-scheduler's default weights of NodeAffinity, TaintToleration, and both plugins about pods."""
_BEST = 100

Labels = tuple[tuple[str, str], ...]
"""Labels of a class that matter, in order: classes that differ in amounts alone have the same."""


@dataclass(slots=True, kw_only=True)
class _Draft:
    """The rules of a class while they are connected."""

    forbidden: list[tuple[ReasonCode, Counter]] = field(default_factory=list)
    spreads: list[Spread] = field(default_factory=list)
    near: Near | None = None
    adds: list[tuple[Counter, int]] = field(default_factory=list)
    forbids_itself: list[Counter] = field(default_factory=list)
    likes_near: list[tuple[Counter, int]] = field(default_factory=list)


def compiled(snapshot: Snapshot, classes: tuple[MemberClass, ...]) -> Board:
    """Return a board on which nothing is placed yet."""
    return _Compiler(snapshot, classes).board()


class _Compiler:
    """Builds the counters of all classes side by side, because each class adds to those of the others."""

    def __init__(self, snapshot: Snapshot, classes: tuple[MemberClass, ...]) -> None:
        self._snapshot = snapshot
        self._classes = classes
        self._size = len(snapshot.names)
        self._drafts = [_Draft() for _ in classes]
        self._there = [
            (row, one.pod) for one in snapshot.everybody() if (row := snapshot.rows.get(one.node)) is not None
        ]
        self._there_apart = [(terms, self._on_nodes(pods)) for terms, pods in snapshot.apart()]
        # Many classes ask the same: what members mean, and what is there, is looked at once.
        self._meant: dict[tuple[PodTerm, str, Labels], bool] = {}
        self._tallied: dict[tuple[PodTerm, ...], tallies.Counts] = {}
        self._spread_over: dict[tuple[LabelSelector | None, str], tallies.Counts] = {}
        self._alike = _first_alike(classes)
        self._between: dict[tuple[int, int], tuple[str, ...]] = {}
        self._kept_off: dict[tuple[str, Labels], Mapping[str, tallies.Counts]] = {}

    def board(self) -> Board:
        for group, one in enumerate(self._classes):
            if one.rules.affinity:
                self._near(group)
            for spread in range(len(one.rules.spread)):
                self._spread(group, spread)
            for preferred in one.rules.preferred_pods:
                self._preferred(group, preferred.term, weight=preferred.weight)
            if one.rules.host_ports or one.rules.disks:
                self._clashes(group)
            self._singles(group)
        self._apart()
        rules = tuple(self._rules(group) for group in range(len(self._classes)))
        demands = [one.demand for one in self._classes]
        return Board(
            self._snapshot,
            classes=self._classes,
            rules=rules,
            attachments=self._attachments(),
            devices=DeviceRoom(self._snapshot, demands) if any(one != NO_DEMAND for one in demands) else None,
        )

    def _rules(self, group: int) -> ClassRules:
        one, draft = self._classes[group], self._drafts[group]
        columns, by_class = self._snapshot.columns, one.demand.extended
        unknown = [name for name, _ in one.requests if name not in columns and name not in by_class]
        return ClassRules(
            static=self._static(one),
            amounts=tuple(
                (columns[name], amount, self._snapshot.offers(name) if name in by_class else None)
                for name, amount in one.requests
                if name in columns
            ),
            forbidden=tuple(draft.forbidden),
            spreads=tuple(draft.spreads),
            near=draft.near,
            adds=tuple(draft.adds),
            forbids_itself=tuple(draft.forbids_itself),
            liked=self._liked(one),
            likes_near=tuple(draft.likes_near),
            can_be_placed=not unknown and not one.storage.refusals and not one.demand.problems,
        )

    def _static(self, one: MemberClass) -> Flags:
        static: Flags = self._snapshot.verdicts_for(one.constraints)[: self._size] == Verdict.ADMITTED
        rows = [self._snapshot.rows[name] for name in one.excluded_nodes if name in self._snapshot.rows]
        static[rows] = False
        hosts = admitted_by_devices(self._snapshot, one.demand) if one.demand != NO_DEMAND else None
        return static if hosts is None else static & hosts

    def _domains(self, key: str) -> Domains:
        found = self._snapshot.judgements.domains(key)
        return Domains(codes=found.codes[: self._size], numbers=found.numbers)

    def _counter(self, domains: Domains, counts: tallies.Counts, *, among: Flags | None = None) -> Counter:
        codes = domains.codes if among is None else np.where(among, domains.codes, -1)
        inside = codes >= 0
        found = np.bincount(codes[inside], weights=counts[inside], minlength=max(domains.count, 1))
        return Counter(codes=codes, counts=found.astype(np.int64))

    def _near(self, group: int) -> None:
        one = self._classes[group]
        terms = one.rules.affinity
        there = self._there_of(terms)
        counters = tuple(self._counter(self._domains(term.topology_key), there) for term in terms)
        self._drafts[group].near = Near(counters=counters, may_be_first=self._all_mean(terms, one))
        for other, draft in enumerate(self._drafts):
            if self._all_mean(terms, self._classes[other]):
                draft.adds += [(counter, 1) for counter in counters]

    def _all_mean(self, terms: tuple[PodTerm, ...], one: MemberClass) -> bool:
        return all(self._means(term, one) for term in terms)

    def _means(self, term: PodTerm, one: MemberClass) -> bool:
        key = (term, one.namespace, _labels(one))
        if key not in self._meant:
            labels = labels_of_namespace(self._snapshot.namespaces, one.namespace)
            self._meant[key] = means(term, namespace=one.namespace, labels=one.labels, namespace_labels=labels)
        return self._meant[key]

    def _there_of(self, terms: tuple[PodTerm, ...]) -> tallies.Counts:
        """Return how many pods on each node the terms mean. Belongs to the compiler: nobody may write into it."""
        if terms not in self._tallied:
            self._tallied[terms] = tallies.of_terms(self._snapshot, terms)
        return self._tallied[terms]

    def _on_nodes(self, pods: Iterable[Occupant]) -> tallies.Counts:
        """Return how many of the pods are on each node."""
        rows = [row for one in pods if (row := self._snapshot.rows.get(one.node)) is not None]
        return np.bincount(np.array(rows, dtype=np.int64), minlength=self._size)

    def _spread(self, group: int, position: int) -> None:
        one = self._classes[group]
        wanted = one.rules.spread[position]
        domains = self._domains(wanted.topology_key)
        taking_part = domains.codes >= 0
        if wanted.is_hard:
            # A node takes part only where it has the labels of all hard constraints.
            for other in one.rules.spread:
                if other.is_hard:
                    taking_part = taking_part & (self._domains(other.topology_key).codes >= 0)
        judgements = self._snapshot.judgements
        if wanted.honors_affinity:
            taking_part = taking_part & judgements.selected(one.constraints)[: self._size]
        if wanted.honors_taints:
            taking_part = taking_part & judgements.tolerated(one.constraints.tolerations)[: self._size]
        counted = (wanted.selector, one.namespace)
        if counted not in self._spread_over:
            self._spread_over[counted] = tallies.of_spread(self._snapshot, wanted.selector, namespace=one.namespace)
        there = self._spread_over[counted]
        counter = self._counter(domains, there, among=taking_part)
        for draft, sibling in zip(self._drafts, self._classes, strict=True):
            # An empty selector counts nobody, siblings neither: see `tallies.of_spread`.
            is_counted = bool(wanted.selector and wanted.selector.requirements) and sibling.namespace == one.namespace
            if is_counted and selects(wanted.selector, sibling.labels):
                draft.adds.append((counter, 1))
        if not wanted.is_hard:
            self._drafts[group].likes_near.append((counter, -1))
            return
        with_nodes = np.zeros(len(counter.counts), dtype=np.bool_)
        with_nodes[counter.codes[counter.codes >= 0]] = True
        self._drafts[group].spreads.append(
            Spread(
                counter=counter,
                domains=domains.codes,
                counted=with_nodes,
                max_skew=wanted.max_skew,
                min_domains=wanted.min_domains,
                adds=int(selects(wanted.selector, one.labels)),
            )
        )

    def _preferred(self, group: int, term: PodTerm, *, weight: int) -> None:
        counter = self._counter(self._domains(term.topology_key), self._there_of((term,)))
        self._drafts[group].likes_near.append((counter, weight))
        for other, draft in enumerate(self._drafts):
            if self._means(term, self._classes[other]):
                draft.adds.append((counter, 1))

    def _apart(self) -> None:
        """Connect anti-affinity in both directions: whom members have to be apart from, and who from them."""
        # Of many classes mostly none has such a rule: pairs of those would be millions of questions.
        everybody = range(len(self._classes))
        particular = [group for group in everybody if self._classes[group].rules.anti_affinity]
        for group, one in enumerate(self._classes):
            counts: dict[str, Counter] = {}
            for term in one.rules.anti_affinity:
                self._forbid(counts, term.topology_key, self._there_of((term,)))
            for key, there in self._there_apart_from(one).items():
                self._forbid(counts, key, there)
            for other in everybody if one.rules.anti_affinity else particular:
                self._siblings_apart(group, other, counts)
            for counter in counts.values():
                self._drafts[group].forbidden.append((ReasonCode.POD_ANTI_AFFINITY_MISMATCH, counter))

    def _forbid(self, counts: dict[str, Counter], key: str, there: tallies.Counts) -> Counter:
        counter = self._counter(self._domains(key), there)
        if key in counts:
            counts[key].counts += counter.counts
        else:
            counts[key] = counter
        return counts[key]

    def _siblings_apart(self, group: int, other: int, counts: dict[str, Counter]) -> None:
        for key in self._keys_between((self._alike[group], self._alike[other])):
            nobody = np.zeros(self._size, dtype=np.int64)
            counter = counts[key] if key in counts else self._forbid(counts, key, nobody)
            self._drafts[other].adds.append((counter, 1))
            if group == other:
                self._drafts[group].forbids_itself.append(counter)

    def _keys_between(self, pair: tuple[int, int]) -> tuple[str, ...]:
        """Return the node labels by which members of two classes have to be apart, whoever says so."""
        one, other = self._classes[pair[0]], self._classes[pair[1]]
        if pair not in self._between:
            keys = {term.topology_key for term in one.rules.anti_affinity if self._means(term, other)}
            keys |= {term.topology_key for term in other.rules.anti_affinity if self._means(term, one)}
            self._between[pair] = tuple(sorted(keys))
        return self._between[pair]

    def _there_apart_from(self, one: MemberClass) -> Mapping[str, tallies.Counts]:
        """Return, by node label, how many pods on each node have to be apart from members of the class."""
        key = (one.namespace, _labels(one))
        if key not in self._kept_off:
            found: dict[str, tallies.Counts] = {}
            for terms, there in self._there_apart:
                for term in terms:
                    if self._means(term, one):
                        found[term.topology_key] = found.get(term.topology_key, 0) + there
            self._kept_off[key] = found
        return self._kept_off[key]

    def _clashes(self, group: int) -> None:
        """Connect what one node can have once: host ports, and disks that are named in the pods."""
        one = self._classes[group]
        for code, clashes in ((ReasonCode.HOST_PORT_IN_USE, _ports_clash), (ReasonCode.VOLUME_IN_USE, _disks_clash)):
            counts = np.zeros(self._size, dtype=np.int64)
            for row, pod in self._there:
                if (pod.rules.host_ports or pod.rules.disks) and clashes(one, pod.rules.host_ports, pod.rules.disks):
                    counts[row] += 1
            counter = Counter(codes=np.arange(self._size, dtype=np.int64), counts=counts)
            adding = [
                other
                for other, other_class in enumerate(self._classes)
                if clashes(one, other_class.rules.host_ports, other_class.rules.disks)
            ]
            self._connect(group, code, counter, adding)

    def _singles(self, group: int) -> None:
        """Connect claims that one pod of the cluster may use (ReadWriteOncePod)."""
        one = self._classes[group]
        if not one.storage.singles:
            return
        users = sum(_uses(pod, one.namespace, one.storage) for _, pod in self._there)
        everywhere = np.zeros(self._size, dtype=np.int64)
        counter = Counter(codes=everywhere, counts=np.array([users], dtype=np.int64))
        adding = [
            other
            for other, other_class in enumerate(self._classes)
            if other_class.namespace == one.namespace
            and any(_uses(pod, one.namespace, one.storage) for pod in other_class.members)
        ]
        self._connect(group, ReasonCode.VOLUME_IN_USE, counter, adding)

    def _connect(self, group: int, code: ReasonCode, counter: Counter, adding: list[int]) -> None:
        if not adding and not counter.counts.any():
            return
        self._drafts[group].forbidden.append((code, counter))
        for other in adding:
            self._drafts[other].adds.append((counter, 1))
        if group in adding:
            self._drafts[group].forbids_itself.append(counter)

    def _attachments(self) -> Attachments:
        """Return what each node can still attach, for the drivers that members need and that are limited anywhere."""
        wanted = {volume for one in self._classes for volume in one.storage.attached}
        drivers = {volume[0] for volume in wanted}
        storage, rows = self._snapshot.storage, self._snapshot.rows
        slots: dict[str, tallies.Counts] = {}
        for name, node in storage.nodes.items() if drivers else ():
            row = rows.get(NodeName(name))
            for driver in drivers & node.limits.keys() if row is not None else ():
                slots.setdefault(driver, np.full(self._size, UNCOUNTED, dtype=np.int64))[row] = node.limits[driver]
        attachments = Attachments(slots=slots)
        if slots:
            for row, pod in self._there:
                if pod.rules.claims:
                    attachments.add(row, tuple(sorted(storage.attached_by(pod))), 1)
        return attachments

    def _liked(self, one: MemberClass) -> tallies.Counts | None:
        """Return how much a class likes each node (preferred node affinity, soft taints); None where all are alike."""
        judgements = self._snapshot.judgements
        if not one.rules.preferred_nodes and not judgements.has_soft_taints():
            return None
        preferences = Preferences(nodes=one.rules.preferred_nodes, tolerations=one.constraints.tolerations)
        liked = judgements.likes(preferences)[: self._size]
        weights, taints = liked[:, 0], liked[:, 1]
        return _AFFINITY_WEIGHT * scaled(weights) + _TAINT_WEIGHT * (_BEST - scaled(taints))


def _labels(one: MemberClass) -> Labels:
    return tuple(sorted(one.labels.items()))


def _first_alike(classes: tuple[MemberClass, ...]) -> list[int]:
    """Return for each class the first that means the same, and is meant in the same way, where members are apart."""
    first: dict[tuple[str, Labels, tuple[PodTerm, ...]], int] = {}
    return [
        first.setdefault((one.namespace, _labels(one), one.rules.anti_affinity), group)
        for group, one in enumerate(classes)
    ]


def scaled(values: tallies.Counts) -> tallies.Counts:
    """Return values from 0 to 100, as kube-scheduler makes the scores of different rules comparable."""
    most = int(np.abs(values).max(initial=0))
    return values * _BEST // most if most else np.zeros_like(values)


def liked_near(rules: ClassRules) -> tallies.Counts:
    """Return how much a class likes each node for the pods in its domains, as they are now."""
    total = sum((counter.over_nodes() * weight for counter, weight in rules.likes_near), start=np.int64(0))
    return _PODS_WEIGHT * scaled(np.asarray(total, dtype=np.int64))


def _ports_clash(one: MemberClass, ports: tuple[HostPort, ...], _disks: tuple[Disk, ...]) -> bool:
    return any(
        mine.port == theirs.port
        and mine.protocol == theirs.protocol
        and (mine.address == theirs.address or ANY_ADDRESS in {mine.address, theirs.address})
        for mine in one.rules.host_ports
        for theirs in ports
    )


def _disks_clash(one: MemberClass, _ports: tuple[HostPort, ...], disks: tuple[Disk, ...]) -> bool:
    return any(
        mine.name == theirs.name and not (mine.is_read_only and theirs.is_read_only)
        for mine in one.rules.disks
        for theirs in disks
    )


def _uses(pod: Pod, namespace: str, storage: PodStorage) -> bool:
    return pod.metadata.namespace == namespace and any(
        claim.name in storage.singles and not claim.is_ephemeral for claim in pod.rules.claims
    )


def feeders(board: Board, group: int) -> Iterator[int]:
    """Yield the classes whose members are pods that a class must be near to, itself included where it is meant."""
    near = board.rules[group].near
    if near is None:
        return
    yield from board.adding_to(near.counters[0])
