"""The policy: defaults own everything, and what contradicts itself is named."""

from services.core.policy import (
    JetStreamSource,
    MetricSource,
    OwnershipPolicy,
    Policy,
    TopologyLevel,
    TopologyPolicy,
    problems_of,
)


def test_an_empty_policy_owns_everything() -> None:
    """Without a file no other scheduler is expected anywhere."""
    policy = Policy()
    assert policy.ownership.owns_node({})
    assert policy.ownership.owns_device_class("gpu.example.com")
    assert policy.topology.levels == ()


def test_a_node_is_owned_where_it_has_every_label() -> None:
    """A selector is a conjunction, as everywhere in Kubernetes."""
    ownership = OwnershipPolicy(node_selector={"pool": "gangs", "tier": "gpu"})
    assert ownership.owns_node({"pool": "gangs", "tier": "gpu", "zone": "a"})
    assert not ownership.owns_node({"pool": "gangs"})
    assert not ownership.owns_node({"pool": "gangs", "tier": "cpu"})


def test_a_level_without_a_name_is_called_by_its_label() -> None:
    """People read the name in reasons, so there always is one."""
    assert TopologyLevel(node_label="topology.kubernetes.io/zone").name == "topology.kubernetes.io/zone"


def test_a_level_that_stands_twice_is_a_problem() -> None:
    """Two levels with one label would be one level, and two with one name could not be told apart."""
    levels = (
        TopologyLevel(name="zone", node_label="example.com/zone"),
        TopologyLevel(name="zone", node_label="example.com/rack"),
        TopologyLevel(name="row", node_label="example.com/zone"),
    )
    found = [(one.path, one.what.split(" ")[0]) for one in problems_of(Policy(topology=TopologyPolicy(levels=levels)))]
    assert found == [
        (("topology", "levels", 1, "name"), "'zone'"),
        (("topology", "levels", 2, "nodeLabel"), "'example.com/zone'"),
    ]


def test_an_unnamed_level_that_stands_twice_is_one_problem() -> None:
    """Its name is its label, which is named once."""
    levels = (TopologyLevel(node_label="example.com/zone"), TopologyLevel(node_label="example.com/zone"))
    found = [one.path for one in problems_of(Policy(topology=TopologyPolicy(levels=levels)))]
    assert found == [("topology", "levels", 1, "nodeLabel")]


def test_a_metric_has_one_source() -> None:
    """Of two, nobody could say which counts; another selector is another metric."""
    jetstream = JetStreamSource(stream="s", consumer="c")
    sources = tuple(
        MetricSource(metric="m", selector=selector, jetstream=jetstream)
        for selector in ({}, {"a": "1", "b": "2"}, {"b": "2", "a": "1"}, {"a": "1"})
    )
    found = [one.path for one in problems_of(Policy(metric_sources=sources))]
    assert found == [("metricSources", 2, "metric")]
