"""The policy: defaults own everything, and what contradicts itself is named."""

from typing import Any, get_args

import pytest

from services.core.metric_sources import (
    ExternalScalerSource,
    HttpSource,
    JetStreamSource,
    MetricSource,
    PrometheusSource,
    RedisSource,
    SourceSpec,
)
from services.core.policy import OwnershipPolicy, Policy, TopologyLevel, TopologyPolicy, problems_of


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


def entry(**given: Any) -> MetricSource:
    """One entry of metricSources."""
    return MetricSource(metric="m", **given)


REDIS = "redis:6379"


@pytest.mark.parametrize(
    ("source", "path", "what"),
    [
        (entry(), (), "has 0 sources, expected exactly one of"),
        (
            entry(http=HttpSource(url="http://a"), jetstream=JetStreamSource(stream="s", consumer="c")),
            (),
            "has 2 sources, expected exactly one of",
        ),
        (entry(redis=RedisSource(address=REDIS)), ("redis",), "expected either listKey or streamKey"),
        (
            entry(redis=RedisSource(address=REDIS, list_key="a", stream_key="b")),
            ("redis",),
            "expected either listKey or streamKey",
        ),
        (entry(redis=RedisSource(address=REDIS, list_key="a", group="g")), ("redis", "group"), "only streams have"),
        (
            entry(external_scaler=ExternalScalerSource(address="a:1", ca_file="/ca.crt")),
            ("externalScaler", "caFile"),
            "nothing is verified without TLS",
        ),
    ],
)
def test_what_contradicts_itself_in_a_source_is_named(source: MetricSource, path: tuple[str, ...], what: str) -> None:
    """Each with its place in the file."""
    (problem,) = problems_of(Policy(metric_sources=(source,)))
    assert problem.path == ("metricSources", 0, *path)
    assert what in problem.what


def test_every_kind_of_source_has_a_name_for_people() -> None:
    """It is what errors name, and has no secrets."""
    kinds = (
        JetStreamSource(stream="s", consumer="c"),
        PrometheusSource(url="http://p", query="q"),
        HttpSource(url="http://h/x?key=secret"),
        RedisSource(address=REDIS, list_key="jobs"),
        ExternalScalerSource(address="k:1"),
    )
    assert [str(one) for one in kinds] == [
        "consumer c of stream s",
        "Prometheus at http://p",
        "http://h/x",
        "list jobs in Redis at redis:6379",
        "scaler at k:1",
    ]
    assert {type(one) for one in kinds} == set(get_args(SourceSpec))
