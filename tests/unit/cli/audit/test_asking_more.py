"""Dry runs and the node proxy, on a client that answers as it is told: what is a fact, and what a gap."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from services.cli.audit.asking_more import FIRST_NODES, probe, read_nodes
from services.cli.audit.checks import CHECKS
from services.cli.audit.evidence import Evidence, Reading, State
from services.cli.audit.judging import audit
from services.cli.audit.optional_sources import KUBELETS, NODE_PROXIES, PROBES, PROXY_MODES, NodeSource, Probe
from services.runtime.kube import KubeClient, KubeError, KubeUnavailable, Reply
from services.runtime.kube.targets import target_of
from tests.unit.cli.audit.worlds import node, proxy_config, world

POD = next(one for one in PROBES if isinstance(one, Probe))
MODES, GATES = (one for one in NODE_PROXIES if isinstance(one, NodeSource))
REACHABLE = proxy_config(mode="nftables", metricsBindAddress="0.0.0.0:10300")
Answer = Callable[[str], bytes]


class FakeClient:
    """Answers each path by a function, and keeps what was asked."""

    def __init__(self, answer: Answer) -> None:
        """Keep the function; it may raise."""
        self._answer = answer
        self.asked: list[tuple[str, str, Mapping[str, str]]] = []

    async def request_ok(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, **_rest: Any
    ) -> Reply:
        """Return the answer."""
        self.asked.append((method, path, query or {}))
        await asyncio.sleep(0)
        return Reply(status=200, body=self._answer(path), headers={})


def refusal(status: int, message: str, *, reason: str = "Forbidden") -> KubeError:
    """Return an error as the API server gives it."""
    return KubeError(status=status, reason=reason, message=message, target=target_of("POST", "/api/v1/pods", query={}))


def raising(error: Exception) -> Answer:
    """Return an answer that is always this error."""

    def answer(_path: str) -> bytes:
        raise error

    return answer


async def probed(answer: Answer) -> tuple[Reading, FakeClient]:
    """Carry out the dry run of a pod."""
    client = FakeClient(answer)
    return await probe(cast("KubeClient", client), POD, tell=lambda _source, _count: None), client


async def of_nodes(source: NodeSource, answer: Answer, *, evidence: Evidence) -> tuple[Reading, FakeClient]:
    """Read the nodes of a cluster."""
    client = FakeClient(answer)
    reading = await read_nodes(cast("KubeClient", client), source, evidence=evidence, tell=lambda _source, _count: None)
    return reading, client


def nodes(count: int) -> list[dict[str, Any]]:
    """Return so many nodes."""
    return [node(f"n{number}") for number in range(count)]


async def test_a_dry_run_is_one() -> None:
    """Nothing is ever sent without dryRun=All."""
    reading, client = await probed(lambda _path: b'{"kind": "Pod", "spec": {}}')
    assert client.asked == [("POST", "/api/v1/namespaces/default/pods", {"dryRun": "All"})]
    assert (reading.state, reading.items) == (State.READ, ({"kind": "Pod", "spec": {}},))


async def test_a_missing_right_is_a_gap_with_the_rule() -> None:
    """RBAC's refusal tells nothing about the cluster."""
    reading, _ = await probed(raising(refusal(403, 'pods is forbidden: User "u" cannot create resource "pods"')))
    assert reading.state is State.FAILED
    assert 'resources: ["pods"], verbs: ["create"]' in reading.fix


@pytest.mark.parametrize(
    "error",
    [
        refusal(403, 'pods "p" is forbidden: violates PodSecurity "restricted:latest"'),
        refusal(422, "spec: Invalid value", reason="Invalid"),
        refusal(400, 'admission webhook "w" denied the request', reason="BadRequest"),
    ],
)
async def test_a_refusal_of_the_object_is_a_fact(error: KubeError) -> None:
    """Admission and validation say what would happen to everybody's objects."""
    reading, _ = await probed(raising(error))
    assert reading.state is State.READ
    assert reading.items[0]["message"] == error.message


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (refusal(404, "not found", reason="NotFound"), State.ABSENT),
        (refusal(500, "broken", reason="InternalError"), State.FAILED),
        (KubeUnavailable("no answer"), State.FAILED),
    ],
)
async def test_no_answer_is_no_fact(error: Exception, state: State) -> None:
    """An API that is not served, or a server that fails."""
    assert (await probed(raising(error)))[0].state is state


async def test_every_node_is_asked_at_the_configured_port() -> None:
    """The mode of each, at the port of kube-proxy's own configuration."""
    evidence = world(nodes=nodes(40), proxy__config=REACHABLE)
    reading, client = await of_nodes(MODES, lambda _path: b"nftables\n", evidence=evidence)
    assert len(client.asked) == 40
    assert client.asked[0][1] == "/api/v1/nodes/n0:10300/proxy/proxyMode"
    assert {one["mode"] for one in reading.items} == {"nftables"}
    assert reading.problem == ""


async def test_a_port_on_loopback_is_not_even_tried() -> None:
    """The default cannot be reached from outside the node."""
    evidence = world(nodes=nodes(3), proxy__config=proxy_config(mode="nftables"))
    reading, client = await of_nodes(MODES, lambda _path: b"", evidence=evidence)
    assert client.asked == []
    assert reading.state is State.FAILED
    assert "metricsBindAddress is 127.0.0.1:10249, the default" in reading.problem


async def test_where_no_node_answers_the_others_are_left_alone() -> None:
    """Five thousand timeouts would take half an hour."""
    evidence = world(nodes=nodes(5000))
    reading, client = await of_nodes(GATES, raising(KubeUnavailable("timed out")), evidence=evidence)
    assert len(client.asked) == FIRST_NODES
    assert reading.state is State.FAILED


async def test_the_node_proxy_names_its_rule() -> None:
    """Without the right, the rule to add."""
    error = refusal(403, 'nodes "n0" is forbidden: User "u" cannot get resource "nodes/proxy"')
    reading, _ = await of_nodes(GATES, raising(error), evidence=world(nodes=nodes(2)))
    assert 'resources: ["nodes/proxy"], verbs: ["get"]' in reading.fix


async def test_what_some_nodes_say_is_judged_and_the_others_are_a_gap() -> None:
    """A finding on the node that answers; the check has not passed for the one that does not."""

    def answer(path: str) -> bytes:
        if "/n1/" in path:
            raise KubeUnavailable("timed out")
        return json.dumps({"kubeletconfig": {"featureGates": {"PodCertificateRequest": False}}}).encode()

    evidence = world(nodes=nodes(3))
    reading, _ = await of_nodes(GATES, answer, evidence=evidence)
    assert "1 of 3 nodes did not answer (n1" in reading.problem
    report = audit(world(node__kubelets=reading), checks=CHECKS, target="1.37")
    assert [one.subject for one in report.findings if one.check == "node-kubelet-gates"] == ["node/n0", "node/n2"]
    assert any("node-kubelet-gates" in gap.checks for gap in report.gaps)
    assert "node-kubelet-gates" not in report.passed


async def test_without_the_list_of_nodes_nothing_is_known() -> None:
    """Which nodes there are is the first thing to know."""
    unread = Reading(state=State.FAILED, problem="403", fix="a rule")
    reading, _ = await of_nodes(GATES, lambda _path: b"{}", evidence=world(nodes=unread))
    assert (reading.state, reading.fix) == (State.FAILED, "a rule")
    assert {KUBELETS, PROXY_MODES} == {one.key for one in NODE_PROXIES}
