"""What is accepted and refused as a selector: by the real API server, and by us."""

import asyncio

import aiohttp
import pytest

from services.core.selectors import Selector, SelectorProblem, compile_selector
from tests.contract.selectors.expressions import ACCEPTED, NOT_SUPPORTED, REFUSED, REFUSED_BY_SERVER
from tests.kubernetes.cluster import Cluster

_PATH = "/apis/resource.k8s.io/v1/deviceclasses?dryRun=All"
_AT_ONCE = 8
_CREATED = 201


@pytest.mark.kubernetes
async def test_the_api_server_accepts_and_refuses_as_the_table_says(api_server: Cluster) -> None:
    """The dry run of a DeviceClass with each expression: the table is true of the server that is installed."""
    expressions = (*ACCEPTED, *NOT_SUPPORTED, *REFUSED, *REFUSED_BY_SERVER)
    turns = asyncio.Semaphore(_AT_ONCE)
    async with aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {api_server.token}"},
        connector=aiohttp.TCPConnector(ssl=api_server.ssl_context()),
    ) as session:

        async def is_accepted(expression: str) -> bool:
            item = {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": "tried"},
                "spec": {"selectors": [{"cel": {"expression": expression}}]},
            }
            async with turns, session.post(api_server.url + _PATH, json=item) as answer:
                assert answer.status in {_CREATED, 422}, await answer.text()
                return answer.status == _CREATED

        answers = await asyncio.gather(*(is_accepted(one) for one in expressions))
    accepted = [one for one, answer in zip(expressions, answers, strict=True) if answer]
    assert accepted == [*ACCEPTED, *NOT_SUPPORTED]


def test_the_table_is_long_enough() -> None:
    """At least eighty expressions, of both kinds."""
    assert len(ACCEPTED) + len(NOT_SUPPORTED) + len(REFUSED) >= 80
    assert len(REFUSED) >= 20


@pytest.mark.parametrize("expression", ACCEPTED)
def test_what_the_server_accepts_is_compiled(expression: str) -> None:
    """Nearly everything that can be stored can be evaluated."""
    assert isinstance(compile_selector(expression), Selector)


@pytest.mark.parametrize("expression", NOT_SUPPORTED)
def test_what_the_engine_lacks_is_a_problem_and_no_mismatch(expression: str) -> None:
    """What can be stored and not evaluated is said to be so."""
    found = compile_selector(expression)
    assert isinstance(found, SelectorProblem)
    assert found.message


@pytest.mark.parametrize("expression", REFUSED, ids=lambda one: one[:60])
def test_what_the_server_refuses_for_its_names_and_types_is_refused(expression: str) -> None:
    """Fields that devices do not have, wrong types, and results that are no answer."""
    assert isinstance(compile_selector(expression), SelectorProblem)
