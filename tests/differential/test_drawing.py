"""The scenarios: the same from the same seed, and with enough of everything."""

from collections import Counter

from tests.differential.drawing import draw_scenario
from tests.differential.features import Feature

SEEDS = range(1, 301)
"""Those of `make long`."""
LEAST_SHARE = 0.2


def test_a_seed_is_a_scenario() -> None:
    """A seed that failed can be looked at again."""
    assert draw_scenario(7) == draw_scenario(7)
    assert draw_scenario(7) != draw_scenario(8)


def test_every_feature_is_in_a_fifth_of_the_seeds() -> None:
    """What is seldom drawn is hardly compared."""
    seeds = Counter(
        feature
        for seed in SEEDS
        for scenario in (draw_scenario(seed),)
        for feature in scenario.features.union(*(gang.features for gang in scenario.gangs))
    )
    assert {feature: seeds[feature] for feature in Feature if seeds[feature] < LEAST_SHARE * len(SEEDS)} == {}


def test_scenarios_are_small() -> None:
    """Two to eight nodes, one to four gangs: small enough that what differs can be understood."""
    scenarios = [draw_scenario(seed) for seed in SEEDS]
    assert {len(scenario.nodes) for scenario in scenarios} == set(range(2, 9))
    assert {len(scenario.gangs) for scenario in scenarios} == set(range(1, 5))


def test_names_of_seeds_never_meet() -> None:
    """Scenarios follow one another on one cluster: what one leaves behind must not be another's."""
    names = [node["metadata"]["name"] for seed in SEEDS for node in draw_scenario(seed).nodes]
    assert len(names) == len(set(names))
