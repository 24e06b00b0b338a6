"""Scripted faults over HTTP: what the client sees, and what was stored all the same."""

import asyncio

import aiohttp
import pytest

from services.sandbox.faults import Action, Answer, Match
from tests.e2e.waiting import until
from tests.fakes.clock import FakeClock
from tests.integration.sandbox.client import PODS, served

_CREATION = Match(method="POST", path="/pods$")


async def test_answer_replaces_the_request() -> None:
    """A scripted answer comes with its reason, message and Retry-After, and nothing is stored."""
    async with served() as client:
        answer = Answer(code=429, reason="TooManyRequests", message="slow down", retry_after_s=3)
        client.sandbox.faults.add(_CREATION, Action(answer=answer))
        async with client.session.post(PODS, json={}) as response:
            status = await response.json()
            headers = response.headers
        created, _ = await client.create_pod("p")
    assert (response.status, status["reason"], status["message"]) == (429, "TooManyRequests", "slow down")
    assert headers["Retry-After"] == "3"
    assert created == 201


@pytest.mark.parametrize(("cut", "is_stored"), [("before", False), ("after", True)])
async def test_cut_connection_loses_the_answer(cut: str, *, is_stored: bool) -> None:
    """A cut after the effect is the lost answer: the client cannot tell it from a cut before."""
    async with served() as client:
        await client.call("POST", "/_sandbox/faults", {"match": {"method": "POST"}, "action": {"cut": cut}})
        with pytest.raises(aiohttp.ClientError):
            await client.create_pod("p")
        code, _ = await client.call("GET", f"{PODS}/p")
    assert code == (200 if is_stored else 404)


async def test_held_request_waits_for_its_release() -> None:
    """A held binding has no effect until it is released, then it has it as usual."""
    async with served() as client:
        await client.create_pod("p")
        fault = client.sandbox.faults.add(Match(path="/binding$"), Action(hold=True))
        binding = {"metadata": {"name": "p"}, "target": {"name": "n"}}
        request = asyncio.create_task(client.call("POST", f"{PODS}/p/binding", binding))
        await fault.wait_used()
        _, before = await client.call("GET", f"{PODS}/p")
        _, shown = await client.call("GET", "/_sandbox/faults")
        released, _ = await client.call("POST", f"/_sandbox/faults/{fault.id}/release")
        code, _ = await request
        _, after = await client.call("GET", f"{PODS}/p")
    assert "nodeName" not in before["spec"]
    assert shown[0]["held"] == 1
    assert (released, code) == (200, 201)
    assert after["spec"]["nodeName"] == "n"


async def test_delay_uses_the_clock_of_the_sandbox() -> None:
    """A delayed answer comes when the sandbox's own time has passed; `when: after` stores first."""
    clock = FakeClock()
    async with served(clock=clock) as client:
        client.sandbox.faults.add(_CREATION, Action(delay_s=60.0, when="after"))
        request = asyncio.create_task(client.create_pod("p"))
        await until(lambda: clock.sleeper_count == 1, what="the delayed request")
        stored, _ = await client.call("GET", f"{PODS}/p")
        assert not request.done()
        clock.advance(60.0)
        code, _ = await request
    assert (stored, code) == (200, 201)


async def test_second_page_can_expire_once() -> None:
    """A fault on `continue` makes one paged list fail in the middle; the next one succeeds."""
    async with served() as client:
        for name in ("a", "b", "c"):
            await client.create_pod(name)
        answer = Answer(code=410, reason="Expired", message="The provided continue parameter is too old")
        client.sandbox.faults.add(Match(method="GET", query="continue"), Action(answer=answer))
        _, first = await client.call("GET", PODS, limit="2")
        token = first["metadata"]["continue"]
        code, status = await client.call("GET", PODS, **{"limit": "2", "continue": token})
        again, rest = await client.call("GET", PODS, **{"limit": "2", "continue": token})
    assert (code, status["reason"]) == (410, "Expired")
    assert again == 200
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c"]


async def test_fault_on_the_body() -> None:
    """Only the binding to one node fails."""
    async with served() as client:
        for name in ("a", "b"):
            await client.create_pod(name)
        document = {
            "match": {"path": "binding$", "body": {"target": {"name": "bad"}}},
            "times": None,
            "action": {"answer": {"code": 500, "message": "etcd is away"}},
        }
        await client.call("POST", "/_sandbox/faults", document)
        codes = []
        for name, node in (("a", "bad"), ("b", "good")):
            binding = {"metadata": {"name": name}, "target": {"name": node}}
            codes.append((await client.call("POST", f"{PODS}/{name}/binding", binding))[0])
        await client.call("DELETE", "/_sandbox/faults")
        binding = {"metadata": {"name": "a"}, "target": {"name": "bad"}}
        codes.append((await client.call("POST", f"{PODS}/a/binding", binding))[0])
    assert codes == [500, 201, 201]


async def test_wrong_fault_is_explained() -> None:
    """A script with a mistake is refused, and names what is wrong."""
    async with served() as client:
        code, answer = await client.call("POST", "/_sandbox/faults", {"match": {"verb": "GET"}})
        unknown, _ = await client.call("DELETE", "/_sandbox/faults/f9")
        lost, paths = await client.call("GET", "/_sandbox/nowhere")
    assert code == 400
    assert "unknown fields ['verb']" in answer["error"]
    assert unknown == lost == 404
    assert "POST /_sandbox/faults" in paths["expected"]


async def test_client_that_leaves_ends_its_request() -> None:
    """A held request whose client has gone does not stay behind."""
    async with served() as client:
        fault = client.sandbox.faults.add(_CREATION, Action(hold=True))
        request = asyncio.create_task(client.create_pod("p"))
        await fault.wait_used()
        await until(lambda: fault.held_count == 1, what="the held request")
        request.cancel()
        await until(lambda: fault.held_count == 0, what="the end of the held request")
        assert client.sandbox.store.objects("pods") == []
