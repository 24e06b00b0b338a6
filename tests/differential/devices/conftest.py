"""The allocator of kube-scheduler, built once per machine, and its answers, asked once for each seed."""

from collections.abc import Callable, Iterator

import pytest

from tests.differential.devices.drawing import Question, draw
from tests.differential.devices.oracle import Answer, Oracle, running_oracle
from tests.kubernetes import build

Asked = Callable[[int], tuple[Question, Answer]]


@pytest.fixture(scope="session", name="oracle")
def _oracle() -> Iterator[Oracle]:
    with running_oracle(build.ensure_program(build.allocator())) as oracle:
        yield oracle


@pytest.fixture(scope="session", name="asked")
def _asked(oracle: Oracle) -> Asked:
    """Return the question of a seed with the allocator's answer."""
    known: dict[int, tuple[Question, Answer]] = {}

    def ask(seed: int) -> tuple[Question, Answer]:
        if seed not in known:
            question = draw(seed)
            known[seed] = question, oracle.ask(question)
        return known[seed]

    return ask
