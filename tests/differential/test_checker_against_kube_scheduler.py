"""The checker against the real kube-scheduler: it accepts what that binds, and is as strict where a no is proved."""

import pytest

from tests.differential.checker import violations
from tests.differential.comparison import compare
from tests.differential.conftest import Recorded
from tests.differential.native import Observation
from tests.differential.ours import Answer

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]

SEEDS = range(11, 21)


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_checker_accepts_what_kube_scheduler_binds(recorded: Recorded, seed: int) -> None:
    """A rule that it read too strictly would be held against us."""
    for observation in await recorded.of(seed):
        assert compare(observation, lambda _: Answer()).theirs_broken == ()


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_checker_is_as_strict_as_kube_scheduler(recorded: Recorded, seed: int) -> None:
    """Where kube-scheduler refuses a single pod, the checker has an objection to every node.

    kube-scheduler tries a single pod on all nodes, so its no is proved; of a gang it tries only two ways.
    """
    for observation in await recorded.of(seed):
        if len(observation.members) == 1 and not observation.is_placed:
            assert _accepted_nodes(observation) == []


def _accepted_nodes(observation: Observation) -> list[str]:
    """Nodes where the checker would let the only member be."""
    (pod,) = observation.members
    nodes = [item["metadata"]["name"] for item in observation.objects if item["kind"] == "Node"]
    return [
        node
        for node in nodes
        if not violations(observation.objects, members=[pod], nodes={pod["metadata"]["name"]: node}, wanted=1)
    ]
