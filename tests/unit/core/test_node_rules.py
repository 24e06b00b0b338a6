"""Which nodes admit a pod: the rules of kube-scheduler's filters, one by one and in its order."""

from typing import Any

import pytest

from services.core.constraints import NodeRequirement, NodeSelectorTerm, Taint, Toleration
from services.core.node_rules import (
    REASON_OF_VERDICT,
    TEXT_OF_VERDICT,
    Constraints,
    Verdict,
    constraints_of,
    verdict,
)
from tests.builders import node, pod

GPU_TAINT = Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule")
CORDON = "node.kubernetes.io/unschedulable"


def judged(*, on: dict[str, Any] | None = None, **pod_fields: Any) -> Verdict:
    """What the node says to the pod."""
    return verdict(node(**(on or {})), constraints=constraints_of(pod(**pod_fields)))


def affinity(*terms: NodeSelectorTerm) -> dict[str, Any]:
    """Required node affinity."""
    return {"node_affinity": terms}


def expression(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    """A term of one requirement on labels."""
    return NodeSelectorTerm(expressions=(NodeRequirement(key=key, operator=operator, values=values),))


class TestNode:
    """What the node itself says."""

    def test_an_open_node_admits(self) -> None:
        """Nothing is demanded, nothing is in the way."""
        assert judged() is Verdict.ADMITTED

    def test_a_cordoned_node_admits_nobody(self) -> None:
        """Unless the pod tolerates the cordon's taint, which the node need not carry."""
        assert judged(on={"is_unschedulable": True}) is Verdict.UNSCHEDULABLE
        tolerating = (Toleration(key=CORDON, operator="Exists"),)
        assert judged(on={"is_unschedulable": True}, tolerations=tolerating) is Verdict.ADMITTED

    def test_a_node_that_is_not_ready_admits_nobody(self) -> None:
        """A toleration does not help: we place nothing where it cannot start."""
        everything = (Toleration(operator="Exists"),)
        assert judged(on={"is_ready": False}, tolerations=everything) is Verdict.NOT_READY

    def test_the_first_broken_rule_is_told(self) -> None:
        """In the order of kube-scheduler: cordon, taints, readiness, selector, affinity."""
        closed = {"is_unschedulable": True, "is_ready": False, "taints": (GPU_TAINT,)}
        demanding = {"node_selector": {"a": "b"}} | affinity(expression("x", "Exists"))
        assert judged(on=closed, **demanding) is Verdict.UNSCHEDULABLE
        del closed["is_unschedulable"]
        assert judged(on=closed, **demanding) is Verdict.TAINTED
        del closed["taints"]
        assert judged(on=closed, **demanding) is Verdict.NOT_READY
        assert judged(**demanding) is Verdict.SELECTOR
        assert judged(on={"labels": {"a": "b"}}, **demanding) is Verdict.AFFINITY


class TestTaints:
    """core/v1 Toleration.ToleratesTaint."""

    @pytest.mark.parametrize(
        ("toleration", "is_tolerated"),
        [
            pytest.param(Toleration(operator="Exists"), True, id="everything"),
            pytest.param(Toleration(key="nvidia.com/gpu", operator="Exists"), True, id="key exists"),
            pytest.param(Toleration(key="nvidia.com/gpu", value="present"), True, id="equal"),
            pytest.param(Toleration(key="nvidia.com/gpu", operator="", value="present"), True, id="default operator"),
            pytest.param(Toleration(key="nvidia.com/gpu", value="absent"), False, id="other value"),
            pytest.param(Toleration(key="other", operator="Exists"), False, id="other key"),
            pytest.param(
                Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoExecute"), False, id="other effect"
            ),
            pytest.param(
                Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule"), True, id="same effect"
            ),
            pytest.param(Toleration(value="present"), False, id="equal without key"),
            pytest.param(Toleration(key="nvidia.com/gpu", operator="Near"), False, id="unknown operator"),
        ],
    )
    def test_tolerations(self, toleration: Toleration, *, is_tolerated: bool) -> None:
        """Each form against one taint."""
        found = judged(on={"taints": (GPU_TAINT,)}, tolerations=(toleration,))
        assert found is (Verdict.ADMITTED if is_tolerated else Verdict.TAINTED)

    @pytest.mark.parametrize(
        ("operator", "value", "is_tolerated"),
        [("Lt", "10", True), ("Lt", "5", False), ("Gt", "4", True), ("Gt", "5", False), ("Gt", "x", False)],
    )
    def test_numeric_tolerations(self, operator: str, value: str, *, is_tolerated: bool) -> None:
        """The taint's value, 5 here, is compared with the toleration's."""
        taint = Taint(key="sla", value="5")
        found = judged(on={"taints": (taint,)}, tolerations=(Toleration(key="sla", operator=operator, value=value),))
        assert found is (Verdict.ADMITTED if is_tolerated else Verdict.TAINTED)

    def test_every_hard_taint_must_be_tolerated(self) -> None:
        """One toleration of two is not enough; a soft taint needs none."""
        one = Toleration(key="nvidia.com/gpu", operator="Exists")
        second = Taint(key="maintenance", effect="NoExecute")
        soft = Taint(key="rather-not", effect="PreferNoSchedule")
        assert judged(on={"taints": (GPU_TAINT, second)}, tolerations=(one,)) is Verdict.TAINTED
        assert judged(on={"taints": (GPU_TAINT, soft)}, tolerations=(one,)) is Verdict.ADMITTED


class TestLabels:
    """nodeSelector and required node affinity."""

    def test_every_label_of_the_selector_must_match(self) -> None:
        """A label that is missing is another value."""
        labels = {"labels": {"pool": "h100", "zone": "a"}}
        assert judged(on=labels, node_selector={"pool": "h100", "zone": "a"}) is Verdict.ADMITTED
        assert judged(on=labels, node_selector={"pool": "h100", "zone": "b"}) is Verdict.SELECTOR
        assert judged(on=labels, node_selector={"rack": ""}) is Verdict.SELECTOR

    @pytest.mark.parametrize(
        ("term", "holds"),
        [
            (expression("zone", "In", "a", "b"), True),
            (expression("zone", "In", "b"), False),
            (expression("rack", "In", "b"), False),
            (expression("zone", "NotIn", "b"), True),
            (expression("rack", "NotIn", "b"), True),
            (expression("zone", "NotIn", "a"), False),
            (expression("zone", "Exists"), True),
            (expression("rack", "Exists"), False),
            (expression("rack", "DoesNotExist"), True),
            (expression("zone", "DoesNotExist"), False),
            (expression("size", "Gt", "7"), True),
            (expression("size", "Gt", "8"), False),
            (expression("size", "Lt", "9"), True),
            (expression("size", "Lt", "8"), False),
            (expression("size", "Gt", "-1"), True),
            (expression("size", "Gt", "1", "2"), False),
            (expression("size", "Gt", "x"), False),
            (expression("size", "Gt", "-+5"), False),
            (expression("size", "Gt", "+5"), True),
            (expression("size", "Gt", "--5"), False),
            (expression("size", "Gt", "٣"), False),
            (expression("size", "Lt", str(2**63 - 1)), True),
            (expression("size", "Lt", str(2**63)), False),
            (expression("size", "Lt", "9" * 5000), False),
            (expression("zone", "Gt", "1"), False),
            (expression("rack", "Lt", "1"), False),
            (expression("zone", "Like", "a"), False),
            (NodeSelectorTerm(), False),
        ],
    )
    def test_operators(self, term: NodeSelectorTerm, *, holds: bool) -> None:
        """Each operator on labels zone=a and size=8; an empty term holds nowhere."""
        found = judged(on={"labels": {"zone": "a", "size": "8"}}, **affinity(term))
        assert found is (Verdict.ADMITTED if holds else Verdict.AFFINITY)

    def test_one_term_is_enough_and_all_of_it(self) -> None:
        """Terms are alternatives, requirements within one are not."""
        both = NodeSelectorTerm(
            expressions=(
                NodeRequirement(key="zone", operator="Exists"),
                NodeRequirement(key="rack", operator="Exists"),
            )
        )
        labels = {"labels": {"zone": "a"}}
        assert judged(on=labels, **affinity(both)) is Verdict.AFFINITY
        assert judged(on=labels, **affinity(both, expression("zone", "Exists"))) is Verdict.ADMITTED

    def test_no_terms_at_all_admit_nobody(self) -> None:
        """Affinity that is required and empty is not the same as none."""
        assert judged(**affinity()) is Verdict.AFFINITY
        assert judged(node_affinity=None) is Verdict.ADMITTED

    def test_fields_name_the_node(self) -> None:
        """DaemonSets pin their pods this way."""
        pinned = NodeSelectorTerm(fields=(NodeRequirement(key="metadata.name", operator="In", values=("n1",)),))
        assert judged(on={"name": "n1"}, **affinity(pinned)) is Verdict.ADMITTED
        assert judged(on={"name": "n2"}, **affinity(pinned)) is Verdict.AFFINITY


def test_equal_pods_share_one_judgement() -> None:
    """The order in which labels were written does not matter."""
    one, other = pod(node_selector={"a": "1", "b": "2"}), pod("x", node_selector={"b": "2", "a": "1"})
    assert constraints_of(one) == constraints_of(other)
    assert hash(constraints_of(one)) == hash(constraints_of(other))
    assert constraints_of(pod()) == Constraints()


def test_every_verdict_has_words() -> None:
    """Whoever waits is told why in a code and in a sentence."""
    refusals = set(Verdict) - {Verdict.ADMITTED, Verdict.ABSENT}
    assert set(REASON_OF_VERDICT) == set(TEXT_OF_VERDICT) == refusals
