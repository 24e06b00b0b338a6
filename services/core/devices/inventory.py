"""The devices of one decision: what pods demand, which nodes could host that, and whether those of a node suffice.

`fits` judges the devices of a node together, as if pools that several nodes can reach were this node's alone;
`services.core.devices.allocating` decides the whole placement.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_

from services.core.allocations import ClaimAllocation
from services.core.constraints import NodeSelectorTerm
from services.core.devices.allocating import Placement, allocate
from services.core.devices.asking import Asking, Question, wish_of
from services.core.devices.claims import ClaimBooks
from services.core.devices.demanding import Demanding
from services.core.devices.demands import NO_DEMAND, Demands, DeviceDemand, PodUse, SharedKey
from services.core.devices.fields import Field, Wish, asked_of, bits, draft_field, plain_key, verdict_of
from services.core.devices.judging import Judge
from services.core.devices.pools import PoolState, charged
from services.core.devices.promises import holder_of, uses_of_promise
from services.core.devices.searching import GaveUp, Task, search
from services.core.devices.values import ClaimSpec, NodeRule, PoolId, Use
from services.core.node_rules import Constraints, is_selected
from services.core.objects import Metadata, Node, NodeName, Pod
from services.core.reasons import Reason, ReasonCode

_KEPT = 100_000
"""Nodes' kinds and answers kept; more are forgotten at once, and asked again."""


@dataclass(slots=True)
class Memory:
    """What is remembered from decision to decision, because it follows from values alone."""

    demands: Demands = field(default_factory=Demands)
    kinds: dict[Field, "Kind"] = field(default_factory=dict)
    views: dict[tuple[NodeName, Question], tuple[tuple[PoolState, ...], "Kind"]] = field(default_factory=dict)
    plain: dict[tuple[Question, object], "Kind"] = field(default_factory=dict)
    questions: dict[object, Question] = field(default_factory=dict)

    def __reduce__(self) -> tuple[type["Memory"], tuple[()]]:
        """Leave behind what is remembered: it is no part of any state."""
        return Memory, ()

    def kind(self, devices: Field) -> "Kind":
        """Return the one kind of nodes with this field."""
        found = self.kinds.get(devices)
        if found is None:
            if len(self.kinds) > _KEPT:
                self.kinds.clear()
            found = self.kinds[devices] = Kind(devices=devices)
        return found


@dataclass(slots=True, eq=False)
class Kind:
    """Nodes whose devices are the same field, with the answers so far. Compared by identity: there is one for each."""

    devices: Field
    answers: dict[object, bool | None] = field(default_factory=dict)


class Devices:
    """Immutable but for `take`, which lets a decision that was made count for the next one in the same round."""

    def __init__(
        self,
        *,
        claims: ClaimBooks,
        states: dict[PoolId, PoolState],
        by_node: Mapping[NodeName, tuple[PoolId, ...]],
        shared: Iterable[PoolId],
        holds: Mapping[tuple[str, str, str], ClaimAllocation],
        nodes: Mapping[NodeName, Node],
        judge: Judge,
        memory: Memory,
        prepared: Container[str] = (),
    ) -> None:
        """Take what the books have; nothing of it is changed."""
        self.claims = claims
        self.states = states
        self.nodes = nodes
        self.judge = judge
        self._by_node = by_node
        self._shared = tuple(sorted(shared))
        self._holds = holds
        self._memory = memory
        self._prepared = prepared
        self._demanding = Demanding(claims, holds=holds)
        self._uses: dict[int, tuple[Pod, PodUse]] = {}
        self._failing: dict[Wish, PoolState | None] = {}
        self._reached: dict[tuple[NodeName, PoolId], int] = {}
        self._pools_of: dict[NodeName, tuple[PoolState, ...]] = {}

    def demand(self, pod: Pod) -> DeviceDemand:
        """Return what a pod demands, NO_DEMAND for most pods; equal for pods that ask for the same."""
        if not pod.devices.claims and not pod.devices.extended and not pod.devices.extended_claim:
            return NO_DEMAND
        use = self.use_of(pod)
        if not use.uses and not use.problems:
            return NO_DEMAND
        problems = use.problems or tuple(self._failures(use))
        return self._memory.demands.demand(
            claims=tuple(one.demand for one in use.uses), problems=problems, extended=use.extended
        )

    def demands(self, pods: Sequence[Pod]) -> list[DeviceDemand]:
        """Return what pods of one decision demand, each in its place.

        A claim that one of them uses alone, or that has devices already, is told apart by what it asks for, as an own
        one: whom else it is shared with makes no difference here.
        """
        found = [self.demand(pod) for pod in pods]
        if all(one is NO_DEMAND for one in found):
            return found
        users = Counter(key for one in found for key in one.shared)
        return [self._alone(one, users) if any(claim.shared for claim in one.claims) else one for one in found]

    def _alone(self, demand: DeviceDemand, users: Mapping[SharedKey, int]) -> DeviceDemand:
        claims = tuple(
            replace(one, shared=None)
            if one.shared is not None and (one.pinned is not None or users[one.shared] == 1)
            else one
            for one in demand.claims
        )
        return self._memory.demands.demand(claims=claims, problems=demand.problems, extended=demand.extended)

    def use_of(self, pod: Pod) -> PodUse:
        """Return the claims of a pod, each with its name."""
        known = self._uses.get(id(pod))
        if known is None:
            # The pod is kept too, so that its number is nobody else's.
            known = self._uses[id(pod)] = (pod, self._demanding.of_pod(pod))
        return known[1]

    def admits(self, demand: DeviceDemand) -> tuple[NodeName, ...] | None:
        """Return the nodes that could ever host a pod with the demand, None where all could.

        Nodes are left out that claims with devices keep out, and those that reach no pool at all.
        """
        pinned = [one.pinned for one in demand.claims if one.pinned is not None and not one.pinned.is_all]
        is_asking = any(one.pinned is None and one.spec.requests for one in demand.claims)
        if not pinned and (not is_asking or self._shared or demand.extended):
            return None
        is_local = is_asking and not self._shared and not demand.extended
        names: Iterable[NodeName] = self._by_node if is_local else self.nodes
        for rule in pinned:
            if rule.name:
                names = [name for name in (NodeName(rule.name),) if all(self.selects(one, name) for one in pinned)]
                break
        return tuple(name for name in names if all(self.selects(rule, name) for rule in pinned))

    def fits(self, node: NodeName, wanted: Mapping[DeviceDemand, int]) -> bool | None:
        """Tell whether the devices of a node suffice for so many pods of each demand; None where the search gave up."""
        asked = [(demand, count) for demand, count in wanted.items() if count > 0 and demand is not NO_DEMAND]
        if any(demand.problems for demand, _ in asked):
            return False
        if not all(self._is_admitted(node, demand) for demand, _ in asked):
            return False
        demands = tuple(demand for demand, _ in asked)
        question = self.question(node, demands)
        kind = self._kind(node, question)
        counts = tuple(count for _, count in asked)
        if (question, counts) not in kind.answers:
            kind.answers[question, counts] = _answer(kind.devices, question, counts=counts)
        return kind.answers[question, counts]

    def signature(self, node: NodeName, demands: Sequence[DeviceDemand]) -> object:
        """Return something hashable, equal for nodes that answer `fits` equally for these demands."""
        chosen = tuple(one for one in demands if one is not NO_DEMAND and not one.problems)
        admitted = tuple(self._is_admitted(node, one) for one in chosen)
        question = self.question(node, chosen)
        return self._kind(node, question), admitted, self._served(node, chosen)

    def ties(self, demand: DeviceDemand) -> tuple[SharedKey, ...]:
        """Return the shared claims of a demand whose users all have to be on one node: nothing further reaches them."""
        return tuple(
            one.shared
            for one in demand.claims
            if one.shared is not None and one.pinned is None and not self._spans(one.spec)
        )

    def reach(self, node: NodeName) -> tuple[PoolState, ...]:
        """Return the pools of which a node can use anything, in the order in which they are tried."""
        known = self._pools_of.get(node)
        if known is None:
            identities = [*self._by_node.get(node, ()), *(one for one in self._shared if self.reached(node, one))]
            states = [self.states[one] for one in identities]
            known = self._pools_of[node] = tuple(sorted(states, key=lambda one: (one.pool.binds, one.pool.id)))
        return known

    def reached(self, node: NodeName, identity: PoolId) -> int:
        """Return the bits of the devices of a pool that a node can use; -1 for all, and where it has none to list."""
        pool = self.states[identity].pool
        if pool.node:
            return -1 if pool.node == node else 0
        known = self._reached.get((node, identity))
        if known is None:
            good = {rule for rule in pool.rules if self.selects(rule, node)}
            if len(good) == len(pool.rules) or not pool.devices:
                known = -1 if good else 0
            else:
                known = sum(1 << index for index, device in enumerate(pool.devices) if device.node in good)
            self._reached[node, identity] = known
        return known

    def selects(self, rule: NodeRule, name: NodeName) -> bool:
        """Tell whether a rule admits a node."""
        if rule.name or rule.is_all or not rule.terms:
            return rule.is_all or (bool(rule.name) and rule.name == name)
        node = self.nodes.get(name) or Node(metadata=Metadata(name=name))
        return is_selected(node, constraints=_affinity(rule.terms))

    def question(self, node: NodeName, demands: tuple[DeviceDemand, ...]) -> Question:
        """Return demands made ready; what a device plugin of the node serves is left out."""
        served = self._served(node, demands)
        questions, key = self._memory.questions, (demands, served, self.claims.edition)
        known = questions.get(key)
        if known is None:
            if len(questions) > _KEPT:
                questions.clear()
            known = questions[key] = Asking(self.claims).question(demands, served=served)
        return known

    def _kind(self, node: NodeName, question: Question) -> Kind:
        """Return the kind of a node for some demands. It is the same as long as its pools are."""
        states, views = self.reach(node), self._memory.views
        known = views.get((node, question))
        if known is not None and len(known[0]) == len(states) and all(map(is_, known[0], states)):
            return known[1]
        key = self._plain_key(states, question)
        kind = None if key is None else self._memory.plain.get((question, key))
        if kind is None:
            kind = self._drafted(node, states, question)
        if len(views) > _KEPT:
            views.clear()
            self._memory.plain.clear()
        views[node, question] = (states, kind)
        if key is not None:
            self._memory.plain[question, key] = kind
        return kind

    def _plain_key(self, states: tuple[PoolState, ...], question: Question) -> object:
        if len(states) != 1 or not states[0].pool.node or states[0].pool.problem:
            return None
        return plain_key(states[0], wishes=question.wishes, attributes=question.attributes)

    def _drafted(self, node: NodeName, states: tuple[PoolState, ...], question: Question) -> Kind:
        reach = tuple(self.reached(node, state.pool.id) for state in states)
        drafted = draft_field(
            states,
            wishes=question.wishes,
            reach=(reach,) * len(question.wishes),
            attributes=question.attributes,
            judge=self.judge,
        )
        return self._memory.kind(drafted.field)

    def _is_admitted(self, node: NodeName, demand: DeviceDemand) -> bool:
        return all(one.pinned is None or self.selects(one.pinned, node) for one in demand.claims)

    def served(self, node: NodeName, resources: Iterable[str]) -> frozenset[str]:
        """Return the extended resources that a device plugin of the node serves."""
        known = self.nodes.get(node)
        return frozenset(one for one in resources if known is not None and known.allocatable.get(one, 0) > 0)

    def allocate(self, placement: Placement) -> tuple[ClaimAllocation, ...] | tuple[Reason, ...]:
        """Return what every claim of a whole placement gets, or why the devices do not suffice."""
        return allocate(self, placement)

    def take(self, claims: Iterable[ClaimAllocation]) -> None:
        """Let a decision count for the next one on this state."""
        uses: dict[PoolId, list[Use]] = {}
        taken = {holder_of(one.ref): one for one in claims if one.results}
        for one in taken.values():
            for use in uses_of_promise(one):
                uses.setdefault(use.device[:2], []).append(use)
        for pool in uses.keys() & self.states.keys():
            self.states[pool] = charged(self.states[pool], uses[pool])
        self._demanding = Demanding(self.claims, holds={**self._holds, **taken})
        self._holds = {**self._holds, **taken}
        self._uses, self._pools_of = {}, {}

    def _served(self, node: NodeName, demands: Iterable[DeviceDemand]) -> frozenset[str]:
        return self.served(node, {resource for one in demands for resource in one.extended})

    def _failures(self, use: PodUse) -> Iterable[Reason]:
        """Yield a reason for each selector that fails at run time about a device that could be had."""
        for one in use.uses:
            if one.demand.pinned is not None:
                continue
            for request in one.demand.spec.requests:
                for ask in request.alternatives:
                    wish = wish_of(ask, self.claims)
                    if wish is not None:
                        yield from self._failure(wish, name=one.ref.name or one.ref.entry)

    def _failure(self, wish: Wish, *, name: str) -> Iterable[Reason]:
        if all(one in self._prepared and one not in self.judge.failing for one in wish.selectors):
            # All slices have been asked, and none failed.
            return
        if wish not in self._failing:
            failing = (identity for identity, one in self.states.items() if self._failures_in(one, wish))
            first = min(failing, default=None)
            self._failing[wish] = None if first is None else self.states[first]
        state = self._failing[wish]
        if state is not None:
            failures = self._failures_in(state, wish)
            yield _failed(state, wish, failures=failures, name=name, judge=self.judge)

    def _failures_in(self, state: PoolState, wish: Wish) -> int:
        """Return the devices on which a selector fails, as far as they count: those in use do for some requests."""
        failures = asked_of(state, wish, judge=self.judge).failures
        return failures if wish.ask.is_admin or wish.ask.count is None else failures & state.free

    def _spans(self, spec: ClaimSpec) -> bool:
        """Tell whether pools that several nodes reach could serve every request of a claim."""
        return all(
            any(self._is_shared_anywhere(wish) for ask in request.alternatives if (wish := wish_of(ask, self.claims)))
            for request in spec.requests
        )

    def _is_shared_anywhere(self, wish: Wish) -> bool:
        return any(asked_of(self.states[one], wish, judge=self.judge).matching for one in self._shared)


def _affinity(terms: tuple[NodeSelectorTerm, ...]) -> Constraints:
    return Constraints(node_affinity=terms)


def _failed(state: PoolState, wish: Wish, *, failures: int, name: str, judge: Judge) -> Reason:
    verdict = verdict_of(state.pool, wish.selectors, judge=judge)
    position = next(iter(bits(failures)))
    device = "/".join((*state.pool.id, state.pool.devices[position].name))
    index = wish.selectors.index(verdict.selector) if verdict.selector in wish.selectors else 0
    of_class = len(wish.selectors) - len(wish.ask.selectors)
    where = (
        f"selector {index - of_class}"
        if index >= of_class
        else f"DeviceClass {wish.ask.device_class}, selector {index}"
    )
    text = f"claim {name}: {where} fails on device {device}: {verdict.error}"
    return Reason(code=ReasonCode.SELECTOR_FAILED, message=text, count=1, subject=verdict.selector[:80])


def _answer(found: Field, question: Question, *, counts: tuple[int, ...]) -> bool | None:
    shared: dict[SharedKey, Task] = {}
    tasks: list[Task] = []
    for own, common, count in zip(question.own, question.shared, counts, strict=True):
        shared |= dict(common)
        for task in own:
            tasks.extend([task] * count)
    try:
        return search(found, [*shared.values(), *tasks]) is not None
    except GaveUp:
        return None
