"""The rules among pods, one scenario each: what kube-scheduler's filters mean, with siblings of the same decision."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from services.core.constraints import (
    Claim,
    Disk,
    HostPort,
    LabelSelector,
    NodeRequirement,
    NodeSelectorTerm,
    PodRules,
    PodTerm,
    SpreadConstraint,
    Taint,
    WeightedNodeTerm,
    WeightedPodTerm,
)
from services.core.inventory import Inventory
from services.core.objects import (
    CsiNode,
    Metadata,
    Node,
    NodeName,
    Owner,
    Pod,
    StorageClass,
    StorageObject,
    Uid,
    Volume,
    VolumeClaim,
)
from services.core.policy import TopologyLevel
from services.core.reasons import ReasonCode
from services.core.solver import Placement, Refusal, check, solve
from services.core.topology import NO_WISH, TopologyRequest, TopologyWish
from tests.builders import NAMESPACE, START, members, node, pod

ZONE, RACK, HOST = "zone", "rack", "kubernetes.io/hostname"
APP_A = LabelSelector(requirements=(NodeRequirement(key="app", operator="In", values=("a",)),))


class Scene:
    """A cluster that a test fills."""

    def __init__(self, *nodes: Node) -> None:
        """Start with nodes alone."""
        self.inventory = Inventory()
        for item in nodes:
            self.inventory.put_node(item)

    def hold(self, *pods: tuple[Pod, str]) -> "Scene":
        """Let pods be on nodes."""
        for item, name in pods:
            self.inventory.place(item, on=NodeName(name))
        return self

    def store(self, *items: StorageObject) -> "Scene":
        """Let storage exist."""
        for item in items:
            self.inventory.storage.put(item)
        return self

    def solve(self, pods: Iterable[Pod], **fields: Any) -> Placement | Refusal:
        """What the solver says; all are needed where no number is given. Its check has to agree."""
        given = tuple(pods)
        arguments: dict[str, Any] = {"members": given, "needed": len(given)} | fields
        answer = solve(self.inventory.snapshot(given), **arguments)
        if isinstance(answer, Placement):
            by_uid = {one.metadata.uid: one for one in given}
            wish, placed = fields.get("wish", NO_WISH), fields.get("placed", ())
            fresh = self.inventory.snapshot(given)
            assert check(fresh, pods=by_uid, nodes=answer.nodes, wish=wish, placed=placed) == {}
        return answer


def per_node(answer: Placement | Refusal) -> Mapping[str, int]:
    """How many members each node takes."""
    assert isinstance(answer, Placement), answer
    return dict(Counter(answer.nodes.values()))


def codes(answer: Placement | Refusal) -> Mapping[ReasonCode, int]:
    """Reasons of a refusal with their counts, without those that every proved one here has."""
    assert isinstance(answer, Refusal), answer
    general = {ReasonCode.INSUFFICIENT_CAPACITY, ReasonCode.NO_PLACEMENT_EXISTS}
    return {one.code: one.count for one in answer.reasons if one.code not in general}


def term(key: str, selector: LabelSelector | None = APP_A, **fields: Any) -> PodTerm:
    """A term that means pods with app=a of the builders' namespace."""
    values: dict[str, Any] = {"namespaces": (NAMESPACE,)} | fields
    return PodTerm(topology_key=key, selector=selector, **values)


def zoned(name: str, zone: str, **fields: Any) -> Node:
    """A node of a zone."""
    return node(name, labels={ZONE: zone}, **fields)


def labelled(
    name: str, *, count: int = 1, rules: PodRules | None = None, app: str = "a", **fields: Any
) -> tuple[Pod, ...]:
    """Members with an app label."""
    return members(name, count=count, labels={"app": app}, rules=rules or PodRules(), **fields)


class TestAntiAffinity:
    """Pods that have to be apart."""

    def test_siblings_keep_each_other_off_a_host(self) -> None:
        """Three members, two hosts: no."""
        scene = Scene(node("n1"), node("n2"))
        apart = PodRules(anti_affinity=(term(HOST),))
        assert per_node(scene.solve(labelled("g", count=2, rules=apart))) == {"n1": 1, "n2": 1}
        refused = scene.solve(labelled("g", count=3, rules=apart))
        assert codes(refused) == {ReasonCode.POD_ANTI_AFFINITY_MISMATCH: 2}

    def test_who_is_there_keeps_members_off_its_domain(self) -> None:
        """Its rule, not the member's: symmetry is part of the filter. A pod that terminates still counts."""
        (guard,) = labelled("guard", app="b", rules=PodRules(anti_affinity=(term(ZONE),)), deleted_at=START)
        scene = Scene(zoned("n1", "x"), zoned("n2", "x"), zoned("n3", "y")).hold((guard, "n1"))
        assert per_node(scene.solve(labelled("g", count=2))) == {"n3": 2}

    def test_a_node_without_the_label_is_in_no_domain(self) -> None:
        """Nothing keeps a member off it, and several may be there."""
        scene = Scene(node("n1"))
        assert per_node(scene.solve(labelled("g", count=2, rules=PodRules(anti_affinity=(term(ZONE),))))) == {"n1": 2}

    def test_other_namespaces_are_meant_only_where_they_are_named(self) -> None:
        """By name, or by their labels."""
        (other,) = labelled("other", namespace="team-b")
        scene = Scene(node("n1")).hold((other, "n1"))
        scene.inventory.namespaces["team-b"] = {"kind": "web"}
        web = LabelSelector(requirements=(NodeRequirement(key="kind", operator="In", values=("web",)),))
        (free,) = labelled("g", rules=PodRules(anti_affinity=(term(HOST),)))
        (by_name,) = labelled("g", rules=PodRules(anti_affinity=(term(HOST, namespaces=("team-b",)),)))
        (by_label,) = labelled("g", rules=PodRules(anti_affinity=(term(HOST, namespaces=(), namespace_selector=web),)))
        assert isinstance(scene.solve([free]), Placement)
        assert isinstance(scene.solve([by_name]), Refusal)
        assert isinstance(scene.solve([by_label]), Refusal)


class TestAffinity:
    """Pods that have to be near."""

    def test_a_member_goes_where_its_friend_is(self) -> None:
        """Within the domain of the friend, on any node of it."""
        (friend,) = labelled("friend")
        scene = Scene(zoned("n1", "x", gpus=0), zoned("n2", "x"), zoned("n3", "y")).hold((friend, "n1"))
        near = PodRules(affinity=(term(ZONE),))
        assert per_node(scene.solve(labelled("g", count=3, rules=near, app="b"))) == {"n2": 3}

    def test_without_a_friend_there_is_no_place(self) -> None:
        """Nor on a node that has the label."""
        refused = Scene(zoned("n1", "x")).solve(labelled("g", rules=PodRules(affinity=(term(ZONE),)), app="b"))
        assert codes(refused)[ReasonCode.POD_AFFINITY_MISMATCH] == 1

    def test_the_first_of_its_own_kind_may_be_alone(self) -> None:
        """And the others follow into its domain: tried whole, so that the roomy but too small one does not attract."""
        scene = Scene(
            zoned("n1", "x", gpus=8), zoned("n2", "y", gpus=4), zoned("n3", "y", gpus=4), zoned("n4", "y", gpus=4)
        )
        near = PodRules(affinity=(term(ZONE),))
        assert per_node(scene.solve(labelled("g", count=3, gpus=4, rules=near))) == {"n2": 1, "n3": 1, "n4": 1}

    def test_members_of_two_kinds_open_the_way_for_each_other(self) -> None:
        """Workers are near to their leader, whichever comes first by size or name."""
        scene = Scene(zoned("n1", "x", gpus=2), zoned("n2", "y", gpus=8))
        leader = labelled("leader")
        workers = labelled("worker", count=4, app="b", gpus=1, rules=PodRules(affinity=(term(ZONE),)))
        assert per_node(scene.solve((*workers, *leader))) == {"n2": 5}

    def test_terms_hold_for_one_pod_that_all_of_them_mean(self) -> None:
        """A pod for each term is not enough."""
        team = LabelSelector(requirements=(NodeRequirement(key="team", operator="Exists"),))
        one, other = pod("one", labels={"app": "a"}), pod("other", labels={"team": "t"})
        both = pod("both", labels={"app": "a", "team": "t"})
        near = PodRules(affinity=(term(ZONE), term(HOST, team)))
        scene = Scene(zoned("n1", "x"), zoned("n2", "x")).hold((one, "n1"), (other, "n1"))
        assert isinstance(scene.solve(labelled("g", app="b", rules=near)), Refusal)
        assert per_node(scene.hold((both, "n2")).solve(labelled("g", app="b", rules=near))) == {"n2": 1}


class TestSpread:
    """Topology spread with DoNotSchedule, unless said otherwise."""

    @staticmethod
    def spread(**fields: Any) -> PodRules:
        """A zone spread of skew one over app=a."""
        values: dict[str, Any] = {"topology_key": ZONE, "max_skew": 1, "selector": APP_A} | fields
        return PodRules(spread=(SpreadConstraint(**values),))

    def test_siblings_count(self) -> None:
        """Four members on two zones end two and two."""
        scene = Scene(zoned("n1", "x"), zoned("n2", "y"))
        assert per_node(scene.solve(labelled("g", count=4, rules=self.spread()))) == {"n1": 2, "n2": 2}

    def test_the_emptiest_domain_limits_all(self) -> None:
        """One GPU in zone y allows two members in zone x."""
        scene = Scene(zoned("n1", "x"), zoned("n2", "y", gpus=1))
        assert per_node(scene.solve(labelled("g", count=3, rules=self.spread()))) == {"n1": 2, "n2": 1}
        refused = scene.solve(labelled("g", count=4, rules=self.spread()))
        assert codes(refused)[ReasonCode.TOPOLOGY_SPREAD_MISMATCH] == 1

    def test_who_terminates_does_not_count(self) -> None:
        """Unlike for its resources."""
        (ending,) = labelled("ending", deleted_at=START + timedelta(seconds=1))
        scene = Scene(zoned("n1", "x"), zoned("n2", "y", gpus=0)).hold((ending, "n1"))
        assert per_node(scene.solve(labelled("g", rules=self.spread()))) == {"n1": 1}

    def test_too_few_domains_count_as_one_that_is_empty(self) -> None:
        """Then no domain takes more than the skew."""
        scene = Scene(zoned("n1", "x"), zoned("n2", "y"))
        refused = scene.solve(labelled("g", count=3, rules=self.spread(min_domains=3)))
        assert isinstance(refused, Refusal)
        assert refused.placeable == 2

    def test_nodes_outside_the_affinity_take_no_part_where_that_is_honoured(self) -> None:
        """Their domain is no empty one."""
        pods: dict[str, Any] = {"count": 2, "node_selector": {"pool": "p"}}
        inside = node("n1", labels={ZONE: "x", "pool": "p"})
        scene = Scene(inside, zoned("n2", "y"))
        assert per_node(scene.solve(labelled("g", rules=self.spread(), **pods))) == {"n1": 2}
        ignoring = self.spread(honors_affinity=False)
        assert isinstance(scene.solve(labelled("g", rules=ignoring, **pods)), Refusal)

    def test_tainted_nodes_take_part_unless_taints_are_honoured(self) -> None:
        """The API's default ignores taints, and so waits for the domain that is closed."""
        scene = Scene(zoned("n1", "x"), zoned("n2", "y", taints=(Taint(key="t"),)))
        assert isinstance(scene.solve(labelled("g", count=2, rules=self.spread())), Refusal)
        honoring = self.spread(honors_taints=True)
        assert per_node(scene.solve(labelled("g", count=2, rules=honoring))) == {"n1": 2}

    def test_an_empty_selector_counts_nobody(self) -> None:
        """As kube-scheduler has it: the pod itself is selected, and nobody else."""
        rules = self.spread(selector=LabelSelector())
        assert per_node(
            Scene(zoned("n1", "x"), zoned("n2", "y", gpus=0)).solve(labelled("g", count=4, rules=rules))
        ) == {"n1": 4}

    def test_a_soft_spread_prefers_and_never_refuses(self) -> None:
        """Two and two where there is room, and four where there is none elsewhere."""
        rules = self.spread(is_hard=False)
        assert per_node(Scene(zoned("n1", "x"), zoned("n2", "y")).solve(labelled("g", count=4, rules=rules))) == {
            "n1": 2,
            "n2": 2,
        }
        assert per_node(Scene(zoned("n1", "x")).solve(labelled("g", count=4, rules=rules))) == {"n1": 4}


class TestOncePerNode:
    """Host ports and disks."""

    def test_a_port_on_every_address_meets_each(self) -> None:
        """Of the same protocol; other addresses of a node go together."""
        every = labelled("g", rules=PodRules(host_ports=(HostPort(port=80),)))
        one = PodRules(host_ports=(HostPort(port=80, address="10.0.0.1"),))
        other = PodRules(host_ports=(HostPort(port=80, address="10.0.0.2"), HostPort(port=80, protocol="UDP")))
        scene = Scene(node("n1")).hold((labelled("there", rules=one)[0], "n1"))
        assert codes(scene.solve(every)) == {ReasonCode.HOST_PORT_IN_USE: 1}
        assert per_node(scene.solve(labelled("g", rules=other))) == {"n1": 1}

    def test_siblings_with_a_port_are_one_per_node(self) -> None:
        """They would meet."""
        rules = PodRules(host_ports=(HostPort(port=80),))
        assert per_node(Scene(node("n1"), node("n2")).solve(labelled("g", count=2, rules=rules))) == {"n1": 1, "n2": 1}

    def test_a_disk_goes_together_only_read_only(self) -> None:
        """Both sides have to say so."""
        writing, reading = (Disk(name="iscsi/d", is_read_only=flag) for flag in (False, True))
        scene = Scene(node("n1")).hold((labelled("there", rules=PodRules(disks=(reading,)))[0], "n1"))
        assert per_node(scene.solve(labelled("g", count=2, rules=PodRules(disks=(reading,))))) == {"n1": 2}
        assert codes(scene.solve(labelled("g", rules=PodRules(disks=(writing,))))) == {ReasonCode.VOLUME_IN_USE: 1}


def claim(name: str, volume: str = "", **fields: Any) -> VolumeClaim:
    """A claim, bound where a volume is given."""
    metadata = Metadata(name=name, namespace=NAMESPACE, uid=Uid(f"uid-{name}"), owners=fields.pop("owners", ()))
    return VolumeClaim(metadata=metadata, volume=volume, is_bound=bool(volume), **fields)


def volume(name: str, *, zone: str = "", labels: Mapping[str, str] | None = None, handle: str = "") -> Volume:
    """A volume that can be reached in one zone, or everywhere."""
    inside = NodeSelectorTerm(expressions=(NodeRequirement(key=ZONE, operator="In", values=(zone,)),))
    return Volume(
        metadata=Metadata(name=name, labels=dict(labels or {})),
        node_affinity=(inside,) if zone else None,
        driver="csi.example.com" if handle else "",
        handle=handle,
    )


def using(*claims: Claim, count: int = 1) -> tuple[Pod, ...]:
    """Members that mount claims."""
    return labelled("g", count=count, rules=PodRules(claims=claims))


class TestVolumes:
    """Bound claims; others are refused, each with its reason."""

    def test_members_go_where_their_volume_is(self) -> None:
        """By the volume's node affinity."""
        scene = Scene(zoned("n1", "x"), zoned("n2", "y")).store(claim("data", "pv"), volume("pv", zone="y"))
        assert per_node(scene.solve(using(Claim(name="data"), count=2))) == {"n2": 2}

    def test_zone_labels_of_a_volume_restrict_nodes_that_have_zones(self) -> None:
        """The old label on the volume meets the present one on the node; a list of zones allows each."""
        old, new = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
        nodes = [node("n1", labels={new: "a"}), node("n2", labels={new: "c"})]
        scene = Scene(*nodes).store(claim("data", "pv"), volume("pv", labels={old: "b__c"}))
        assert per_node(scene.solve(using(Claim(name="data")))) == {"n2": 1}
        anywhere = Scene(node("n1")).store(claim("data", "pv"), volume("pv", labels={old: "b"}))
        assert per_node(anywhere.solve(using(Claim(name="data")))) == {"n1": 1}
        refused = Scene(nodes[0]).store(claim("data", "pv"), volume("pv", labels={old: "b"}))
        assert codes(refused.solve(using(Claim(name="data")))) == {ReasonCode.VOLUME_NODE_MISMATCH: 1}

    def test_a_claim_for_one_pod_is_used_once_in_the_cluster(self) -> None:
        """ReadWriteOncePod: by somebody there, or by a sibling."""
        scene = Scene(node("n1"), node("n2")).store(claim("data", "pv", is_single_pod=True), volume("pv"))
        assert per_node(scene.solve(using(Claim(name="data")))) == {"n1": 1}
        assert codes(scene.solve(using(Claim(name="data"), count=2)))[ReasonCode.VOLUME_IN_USE] == 2
        user = pod("there", rules=PodRules(claims=(Claim(name="data"),)))
        assert isinstance(scene.hold((user, "n2")).solve(using(Claim(name="data"))), Refusal)

    def test_a_node_attaches_as_many_volumes_as_its_driver_says(self) -> None:
        """A volume that is there already takes no further place."""
        scene = Scene(node("n1"), node("n2")).store(
            *(claim(f"c{index}", f"pv{index}") for index in range(4)),
            *(volume(f"pv{index}", handle=f"h{index}") for index in range(4)),
            CsiNode(metadata=Metadata(name="n1"), limits={"csi.example.com": 2}),
            CsiNode(metadata=Metadata(name="n2"), limits={"csi.example.com": 1}),
        )
        users = [pod(f"g-{index}", rules=PodRules(claims=(Claim(name=f"c{index}"),))) for index in range(4)]
        assert per_node(scene.solve(users[:3])) == {"n1": 2, "n2": 1}
        assert ReasonCode.VOLUME_LIMIT_EXCEEDED in codes(scene.solve(users))
        scene.hold((users[0], "n1"), (users[1], "n1"), (users[2], "n2"))
        again = pod("again", rules=PodRules(claims=(Claim(name="c1"),)))
        assert per_node(scene.solve([again])) == {"n1": 1}

    def test_what_cannot_be_mounted_is_refused_with_its_reason(self) -> None:
        """Each in its own words, whatever room there is."""
        late = StorageClass(metadata=Metadata(name="late"), binding_mode="WaitForFirstConsumer")
        own = (Owner(kind="Pod", name="g-0", uid=Uid("somebody-else"), is_controller=True),)
        scene = Scene(node("n1")).store(
            late,
            claim("waits", storage_class="late"),
            claim("unbound", storage_class="none"),
            claim("lost", "pv", phase="Lost"),
            claim("dangling", "gone"),
            claim("g-0-scratch", "pv", owners=own),
            volume("pv"),
        )
        expected = {
            Claim(name="missing"): ReasonCode.VOLUME_NOT_FOUND,
            Claim(name="waits"): ReasonCode.VOLUME_WAITS_FOR_CONSUMER,
            Claim(name="unbound"): ReasonCode.VOLUME_NOT_BOUND,
            Claim(name="lost"): ReasonCode.VOLUME_NOT_FOUND,
            Claim(name="dangling"): ReasonCode.VOLUME_NOT_FOUND,
            Claim(name="g-0-scratch", is_ephemeral=True): ReasonCode.VOLUME_NOT_FOUND,
        }
        for one, code in expected.items():
            assert list(codes(scene.solve(using(one)))) == [code], one


class TestPreferences:
    """What is preferred decides among what is possible."""

    def test_preferred_node_affinity_and_soft_taints(self) -> None:
        """Before the fullest node."""
        liked = NodeSelectorTerm(expressions=(NodeRequirement(key="disk", operator="In", values=("ssd",)),))
        rules = PodRules(preferred_nodes=(WeightedNodeTerm(weight=10, term=liked),))
        scene = Scene(node("n1"), node("n2", labels={"disk": "ssd"}))
        assert per_node(scene.solve(labelled("g", rules=rules))) == {"n2": 1}
        soft = Taint(key="t", effect="PreferNoSchedule")
        assert per_node(Scene(node("n1", taints=(soft,)), node("n2")).solve(labelled("g"))) == {"n2": 1}

    def test_preferred_pods_near_and_apart(self) -> None:
        """By the sign of the weight."""
        (friend,) = labelled("friend")
        scene = Scene(zoned("n1", "x"), zoned("n2", "y")).hold((friend, "n2"))
        for weight, where in ((10, "n2"), (-10, "n1")):
            rules = PodRules(preferred_pods=(WeightedPodTerm(weight=weight, term=term(ZONE)),))
            assert per_node(scene.solve(labelled("g", app="b", rules=rules))) == {where: 1}


class TestTopology:
    """Domains for gangs and their subgroups."""

    NODES = (
        node("n1", labels={ZONE: "x", RACK: "r1"}, gpus=4),
        node("n2", labels={ZONE: "x", RACK: "r2"}, gpus=4),
        node("n3", labels={ZONE: "y", RACK: "r3"}, gpus=8),
        node("n4"),
    )

    def test_a_required_level_takes_the_tightest_domain_that_suffices(self) -> None:
        """A node without the label is in none."""
        wish = TopologyWish(requests=(TopologyRequest(level_label=RACK),))
        assert per_node(Scene(*self.NODES).solve(members("g", count=3), wish=wish)) == {"n1": 3}
        assert per_node(Scene(*self.NODES).solve(members("g", count=5), wish=wish)) == {"n3": 5}
        refused = Scene(*self.NODES).solve(members("g", count=9), wish=wish)
        assert ReasonCode.TOPOLOGY_PLACEMENT_FAILED in codes(refused)

    def test_a_preferred_level_falls_back_to_the_next_wider_one(self) -> None:
        """Eight fit into zone x, on two of its racks; twelve need all."""
        scene = Scene(*self.NODES[:2], node("n3", labels={ZONE: "y", RACK: "r3"}, gpus=7))
        levels = (TopologyLevel(node_label=ZONE), TopologyLevel(node_label=RACK))
        wish = TopologyWish(requests=(TopologyRequest(level_label=RACK, is_required=False),))
        assert per_node(scene.solve(members("g", count=8), wish=wish, levels=levels)) == {"n1": 4, "n2": 4}
        assert per_node(scene.solve(members("g", count=12), wish=wish, levels=levels)) == {"n1": 4, "n2": 4, "n3": 4}

    def test_configured_levels_are_preferred_by_whoever_asks_for_nothing(self) -> None:
        """Six members on one rack, and not on the two that are fuller."""
        scene = Scene(*self.NODES)
        levels = (TopologyLevel(node_label=RACK),)
        assert per_node(scene.solve(members("g", count=6), levels=levels)) == {"n3": 6}

    def test_subgroups_have_domains_of_their_own(self) -> None:
        """Each in one rack, together in one zone."""
        first, second = members("a", count=4), members("b", count=4)
        subgroups = {one.metadata.uid: one.metadata.name[0] for one in (*first, *second)}
        requests = (
            TopologyRequest(level_label=ZONE),
            TopologyRequest(level_label=RACK, subgroup="a"),
            TopologyRequest(level_label=RACK, subgroup="b"),
        )
        nodes = (*self.NODES[:2], node("n3", labels={ZONE: "y", RACK: "r3"}, gpus=7))
        answer = Scene(*nodes).solve((*first, *second), wish=TopologyWish(requests=requests, subgroups=subgroups))
        assert per_node(answer) == {"n1": 4, "n2": 4}
        assert isinstance(answer, Placement)
        assert len({answer.nodes[one.metadata.uid] for one in first}) == 1

    def test_recreated_members_join_their_gang(self) -> None:
        """Its domain is where the others are, though another one would suffice."""
        wish = TopologyWish(requests=(TopologyRequest(level_label=RACK),))
        (sibling,) = members("old", count=1, node="n3")
        scene = Scene(*self.NODES).hold((sibling, "n3"))
        assert per_node(scene.solve(members("g", count=2), wish=wish, placed=(sibling,))) == {"n3": 2}
        full = Scene(*self.NODES).hold((sibling, "n3"), (pod("big", gpus=7), "n3"))
        assert isinstance(full.solve(members("g", count=2), wish=wish, placed=(sibling,)), Refusal)


class TestSearch:
    """Unequal members."""

    def test_what_greed_misses_is_found(self) -> None:
        """CPU and GPUs pull in different directions: only one pairing fits."""
        scene = Scene(node("a", gpus=8, cpu=64_000), node("b", gpus=4, cpu=8_000))
        small, big = members("small", count=1, gpus=4), members("big", count=1, gpus=8, cpu=60_000)
        assert per_node(scene.solve((*small, *big))) == {"a": 1, "b": 1}

    def test_that_there_is_nothing_is_proved(self) -> None:
        """Sums suffice, and no packing does."""
        scene = Scene(node("n1", gpus=5), node("n2", gpus=5))
        answer = scene.solve((*members("a", count=2, gpus=3), *members("b", count=1, gpus=4)))
        assert isinstance(answer, Refusal)
        assert answer.reasons[-1].code is ReasonCode.NO_PLACEMENT_EXISTS

    def test_a_packing_by_exact_arithmetic(self) -> None:
        """Many nodes, each filled to the last GPU in its own way."""
        scene = Scene(*(node(f"n{index}", gpus=7) for index in range(12)))
        pods = (*members("a", count=12, gpus=4), *members("b", count=12, gpus=3))
        assert set(per_node(scene.solve(pods)).values()) == {2}
