"""A world for the decider: a cluster, a binder and two streams that run at their own pace, all drawn from one seed.

The truth is what an API server would say. It reaches the cluster stream late, and the decider later still; the binder
acts on the truth, and its answers travel on the placement stream. A decider may be killed at any step: the next one
folds the last message of each subject, as the placer does.
"""

import random
from dataclasses import dataclass, field, replace
from datetime import datetime

from services.contracts.decision_codec import decision_subject
from services.core.attention import DecisionPolicy
from services.core.decider import Decider
from services.core.decisions import (
    Assignment,
    Committed,
    Decision,
    DecisionEvent,
    DegradedPolicy,
    OpenMember,
    Proposed,
    Refused,
    Repairing,
    RolledBack,
)
from services.core.degraded import DegradedTerms
from services.core.gangs import gang_id_of
from services.core.objects import (
    Applied,
    ClusterChange,
    Deleted,
    Kind,
    KubernetesObject,
    Metadata,
    Node,
    NodeName,
    Owner,
    Pod,
    PodGroup,
    TransactionId,
    Uid,
    kind_of,
)
from tests import builders
from tests.builders import GPU, START, seconds

JOB = Owner(kind="Job", name="job", uid=Uid("job"), is_controller=True)
Key = tuple[Kind, str]
GROUPS = ("g0", "g1", "g2", "g3")
NODES = ("n0", "n1", "n2", "n3")
SIZES = (1, 2, 4)


@dataclass(slots=True)
class Work:
    """A transaction as the binder works on it."""

    decision: Decision
    proposal: Proposed
    round_asked: int = -1
    bound: dict[Uid, Assignment] = field(default_factory=dict)
    excluded: dict[Uid, set[NodeName]] = field(default_factory=dict)


@dataclass(slots=True)
class World:
    """Everything outside the decider, and the decider."""

    rng: random.Random
    now: datetime = START
    version: int = 0
    truth: dict[Key, KubernetesObject] = field(default_factory=dict)
    #: Changes that the watcher has not published yet, in order.
    unpublished: list[ClusterChange] = field(default_factory=list)
    cluster_log: list[ClusterChange] = field(default_factory=list)
    placement_log: list[Decision] = field(default_factory=list)
    decider: Decider = field(default_factory=Decider)
    cluster_read: int = 0
    placement_read: int = 0
    #: Decisions that this decider has read one by one.
    delivered: list[Decision] = field(default_factory=list)
    work: dict[TransactionId, Work] = field(default_factory=dict)
    binder_read: int = 0
    ended: set[TransactionId] = field(default_factory=set)
    bound_by: dict[Uid, tuple[TransactionId, NodeName]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with a followed cluster of a few nodes."""
        policy = self.rng.choice((DegradedPolicy.KEEP, DegradedPolicy.RELEASE))
        self.decider = Decider(policy=DecisionPolicy(degraded=DegradedTerms(policy=policy)))
        self.cluster_log.extend(builders.synced())
        for name in NODES[:3]:
            self.write(builders.node(name, gpus=4))

    def write(self, item: KubernetesObject) -> None:
        """Create or change an object of the truth."""
        self.version += 1
        item = replace(item, metadata=replace(item.metadata, resource_version=str(self.version)))
        self.truth[kind_of(item), item.metadata.name] = item
        self.unpublished.append(Applied(object=item))

    def remove(self, key: Key) -> None:
        """Delete an object of the truth."""
        self.version += 1
        metadata = replace(self.truth.pop(key).metadata, resource_version=str(self.version))
        self.unpublished.append(Deleted(kind=key[0], metadata=metadata))

    def uid(self, name: str) -> str:
        """A uid that nothing had before."""
        return f"uid-{name}-{self.version}"

    def pods(self) -> list[Pod]:
        """The pods that exist."""
        return [item for item in self.truth.values() if isinstance(item, Pod)]

    def pod_of(self, uid: Uid) -> Pod | None:
        """The pod with this uid, or None."""
        return next((pod for pod in self.pods() if pod.metadata.uid == uid), None)

    # What users and nodes do.

    def disturb(self) -> None:
        """Let a user or a node do something."""
        acts = [self.make_group, self.make_pods, self.end_pod, self.drop_pod, self.remake_pod]
        acts += [self.reject_pod, self.reject_pod, self.lose_node, self.lose_node]
        acts += [self.make_pods, self.end_pod, self.change_group, self.drop_group, self.make_node, self.change_node]
        act = self.rng.choice(acts)
        act()

    def make_group(self) -> None:
        """Create a group that does not exist."""
        name = self.rng.choice(GROUPS)
        if (Kind.POD_GROUP, name) not in self.truth:
            created = START - seconds(self.rng.randrange(100))
            self.write(
                builders.pod_group(name, min_count=self.rng.randint(1, 4), uid=self.uid(name), created_at=created)
            )

    def make_pods(self) -> None:
        """Create members of a group, of one size or of several."""
        group = self.rng.choice((*GROUPS, ""))
        for _ in range(self.rng.randint(1, 4)):
            name = f"{group or 'lone'}-{self.rng.randrange(6)}"
            if (Kind.POD, name) not in self.truth:
                gated = self.rng.random() < 0.1
                size = self.rng.choice(SIZES)
                owners = self.rng.choice(((), (JOB,), (JOB,)))
                self.write(
                    builders.pod(name, group=group, gpus=size, uid=self.uid(name), is_gated=gated, owners=owners)
                )

    def end_pod(self) -> None:
        """Let a bound pod run to its end, or begin to terminate."""
        running = [pod for pod in self.pods() if pod.node and not pod.is_finished]
        if not running:
            return
        pod = self.rng.choice(running)
        if self.rng.random() < 0.5:
            self.write(replace(pod, phase=self.rng.choice(("Succeeded", "Failed")), has_started=True))
        else:
            self.write(replace(pod, metadata=replace(pod.metadata, deleted_at=self.now)))

    def reject_pod(self) -> None:
        """Let a kubelet reject a pod that was bound to its node."""
        bound = [pod for pod in self.pods() if pod.node and not pod.is_finished]
        if bound:
            self.write(replace(self.rng.choice(bound), phase="Failed", failure="OutOfcpu", rejected_at=self.now))

    def lose_node(self) -> None:
        """Let a node go, and all pods that it ran."""
        nodes = [item for item in self.truth.values() if isinstance(item, Node)]
        if nodes and self.rng.random() < 0.3:
            name = self.rng.choice(nodes).metadata.name
            self.remove((Kind.NODE, name))
            for pod in self.pods():
                if pod.node == name:
                    self.remove((Kind.POD, pod.metadata.name))

    def drop_pod(self) -> None:
        """Delete a pod."""
        if pods := self.pods():
            self.remove((Kind.POD, self.rng.choice(pods).metadata.name))

    def remake_pod(self) -> None:
        """Replace a pod by another of the same name; the watcher may never show that it was away."""
        open_pods = [pod for pod in self.pods() if not pod.node]
        if open_pods:
            pod = self.rng.choice(open_pods)
            del self.truth[Kind.POD, pod.metadata.name]
            self.write(replace(pod, metadata=replace(pod.metadata, uid=Uid(self.uid(pod.metadata.name)))))

    def change_group(self) -> None:
        """Raise or lower what a group asks for, or open a gate of a member."""
        gated = [pod for pod in self.pods() if pod.is_gated]
        if gated and self.rng.random() < 0.5:
            self.write(replace(self.rng.choice(gated), is_gated=False))
            return
        groups = [item for item in self.truth.values() if isinstance(item, PodGroup)]
        if groups:
            self.write(replace(self.rng.choice(groups), min_count=self.rng.randint(1, 4)))

    def drop_group(self) -> None:
        """Delete a group under its members."""
        if self.rng.random() < 0.3:
            groups = [key for key in self.truth if key[0] is Kind.POD_GROUP]
            if groups:
                self.remove(self.rng.choice(groups))

    def make_node(self) -> None:
        """Add a node that does not exist."""
        name = self.rng.choice(NODES)
        if (Kind.NODE, name) not in self.truth:
            self.write(builders.node(name, gpus=4, uid=self.uid(name)))

    def change_node(self) -> None:
        """Cordon a node, open it again, or remove it where it is empty."""
        nodes = [item for item in self.truth.values() if isinstance(item, Node)]
        if not nodes:
            return
        node = self.rng.choice(nodes)
        if self.rng.random() < 0.2:
            self.remove((Kind.NODE, node.metadata.name))
        else:
            self.write(replace(node, is_unschedulable=not node.is_unschedulable))

    # What the streams do.

    def publish_changes(self, most: int) -> None:
        """Let the watcher publish what happened, in order."""
        self.cluster_log.extend(self.unpublished[:most])
        del self.unpublished[:most]

    def read_cluster(self, most: int) -> None:
        """Let the decider read on; what was replaced before it came there is gone."""
        for _ in range(most):
            if self.cluster_read == len(self.cluster_log):
                return
            change = self.cluster_log[self.cluster_read]
            self.cluster_read += 1
            if not _is_replaced(change, by=self.cluster_log[self.cluster_read :]):
                self.decider.observe_change(change, revision=self.cluster_read, at=self.now)

    def read_placement(self, most: int) -> None:
        """Let the decider read decisions, its own among them; now and then one comes twice."""
        for decision in self.placement_log[self.placement_read : self.placement_read + most]:
            self.decider.observe_decision(decision, at=self.now)
            self.placement_read += 1
            self.delivered.append(decision)
            if self.rng.random() < 0.1:
                self.decider.observe_decision(self.rng.choice(self.delivered), at=self.now)

    def restart(self, *, reads_placement_first: bool) -> None:
        """Kill the decider; its successor folds the last message of each subject of both streams."""
        self.decider = Decider(policy=self.decider.policy)
        self.delivered.clear()
        last = {decision_subject(one): index for index, one in enumerate(self.placement_log)}
        decisions = [self.placement_log[index] for index in sorted(last.values())]
        self.cluster_read = 0
        if reads_placement_first:
            # As after the loss of the cluster stream: the watcher lists, and writes everything again.
            self.publish_changes(len(self.unpublished))
        else:
            self.read_cluster(len(self.cluster_log))
        for decision in decisions:
            self.decider.observe_decision(decision, at=self.now)
        self.read_cluster(len(self.cluster_log))
        self.placement_read = len(self.placement_log)

    def decide(self) -> list[Decision]:
        """Let the decider decide; what it decides is on the stream at once."""
        decided = [outcome.decision for outcome in self.decider.decide(self.now)]
        self.placement_log.extend(decided)
        return decided

    # What the binder does.

    def bind(self, *, is_honest: bool = False) -> None:
        """Let the binder read one decision, and take one transaction a step further."""
        if self.binder_read < len(self.placement_log):
            decision = self.placement_log[self.binder_read]
            self.binder_read += 1
            if isinstance(decision.event, Proposed) and decision.transaction not in self.ended:
                work = self.work.setdefault(decision.transaction, Work(decision=decision, proposal=decision.event))
                work.proposal = decision.event
        ready = [one for one in self.work.values() if one.proposal.round > one.round_asked]
        waiting = [one for one in self.work.values() if one.proposal.round <= one.round_asked]
        if ready:
            self._work_on(self.rng.choice(ready), is_honest=is_honest)
        elif waiting and (is_honest or self.rng.random() < 0.2):
            self._undo(self.rng.choice(waiting))

    def _work_on(self, work: Work, *, is_honest: bool) -> None:
        if work.proposal.is_release:
            work.bound = {one.uid: one for one in work.proposal.assignments}
            self._undo(work)
            return
        if not work.bound and not is_honest and self.rng.random() < 0.2:
            self._answer(work, Refused(reasons=()))
            return
        refused: list[Assignment] = []
        for one in work.proposal.assignments:
            pod = self.pod_of(one.uid)
            if one.uid in work.bound or pod is None or pod.is_terminating or pod.is_finished:
                continue
            if (Kind.NODE, one.node) not in self.truth or (not is_honest and self.rng.random() < 0.25):
                refused.append(one)
                work.excluded.setdefault(one.uid, set()).add(one.node)
                continue
            self.bound_by[one.uid] = (work.decision.transaction, one.node)
            self.write(replace(pod, node=one.node))
            work.bound[one.uid] = one
        gang = [pod for pod in self.pods() if gang_id_of(pod) == work.decision.gang and pod.node]
        if len(gang) >= work.proposal.min_count and not refused:
            self._answer(work, Committed(members=tuple(work.bound.values())))
            return
        work.round_asked = max(work.proposal.round, work.round_asked + 1)
        members = [
            OpenMember(pod=one.pod, uid=one.uid, excluded_nodes=tuple(sorted(work.excluded.get(one.uid, ()))))
            for one in refused
        ]
        event = Repairing(
            round=work.round_asked,
            bound=tuple(work.bound.values()),
            open=tuple(members),
            until=self.now + seconds(30),
            min_count=work.proposal.min_count,
        )
        self._publish(work, event)

    def _undo(self, work: Work) -> None:
        alive = [one for one in work.bound.values() if self.pod_of(one.uid) is not None]
        # A pod without a controller is kept.
        kept = tuple(one for one in alive if self.rng.random() < 0.5 and not work.proposal.is_release)
        undone = tuple(one for one in alive if one not in kept)
        for one in undone:
            self.remove((Kind.POD, one.pod))
        self._answer(work, RolledBack(reasons=(), undone=undone, kept=kept))

    def _answer(self, work: Work, event: DecisionEvent) -> None:
        self._publish(work, event)
        del self.work[work.decision.transaction]
        self.ended.add(work.decision.transaction)

    def _publish(self, work: Work, event: DecisionEvent) -> None:
        self.placement_log.append(replace(work.decision, event=event, decided_at=self.now))

    def oversold(self) -> dict[str, int]:
        """Nodes on which more GPUs are in use or promised than they have, with the amount."""
        used: dict[str, int] = {}
        for pod in self.pods():
            if pod.node and not pod.is_finished:
                used[pod.node] = used.get(pod.node, 0) + pod.requests.get(GPU, 0)
        for one in self.promised():
            member = self.pod_of(one.uid)
            if member is not None and not member.node and not member.is_terminating:
                used[one.node] = used.get(one.node, 0) + member.requests.get(GPU, 0)
        return {name: amount for name, amount in used.items() if amount > 4}

    def promised(self) -> list[Assignment]:
        """What open transactions of the stream promise, by their last word."""
        promised: dict[TransactionId, dict[Uid, Assignment]] = {}
        for decision in self.placement_log:
            match decision.event:
                case Proposed(assignments=assignments) if decision.transaction not in self.ended:
                    promised[decision.transaction] = {one.uid: one for one in assignments}
                case Repairing(open=members) if decision.transaction not in self.ended:
                    for member in members:
                        promised[decision.transaction].pop(member.uid, None)
                case Committed() | Refused() | RolledBack():
                    promised.pop(decision.transaction, None)
        return [one for each in promised.values() for one in each.values()]


def _is_replaced(change: ClusterChange, *, by: list[ClusterChange]) -> bool:
    return any(_key(change) == _key(later) for later in by)


def _key(change: ClusterChange) -> tuple[Kind, str, str]:
    metadata: Metadata = change.metadata
    return change.kind, metadata.namespace, metadata.name
