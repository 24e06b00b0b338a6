"""`phalanx why` and `phalanx plan --placer` against a placer's gRPC interface, `phalanx decisions` against NATS."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
import yaml
from click.testing import CliRunner, Result

from services.cli import follow_decisions
from services.cli.main import main
from services.contracts.cloudevents import EventAttributes, headers
from services.contracts.decision_codec import (
    decision_id,
    decision_subject,
    decision_type,
    encode_decision,
    encode_reasons,
)
from services.contracts.pb.placement.v1 import placement_service_pb2 as pb
from services.contracts.pb.placement.v1.placement_service_pb2_grpc import (
    PlacementServiceServicer,
    add_PlacementServiceServicer_to_server,
)
from services.contracts.streams import STREAMS
from services.contracts.timestamps import to_timestamp
from services.core.decisions import (
    Assignment,
    Committed,
    Decision,
    DecisionEvent,
    OpenMember,
    Proposed,
    Refused,
    Repairing,
    RolledBack,
    Waiting,
)
from services.core.objects import GangId, NodeName, TransactionId, Uid
from services.core.reasons import Reason, ReasonCode
from services.runtime import rpc
from services.runtime.bus import Bus
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness
from tests.builders import START, node_manifest, pod_manifest, seconds

pytest_plugins = ("tests.nats_server",)

REASON = Reason(code=ReasonCode.INSUFFICIENT_CAPACITY, message="[3] of the 4 needed pods can be placed", count=1)
Context = grpc.aio.ServicerContext[Any, Any]


class FakePlacer(PlacementServiceServicer):
    """Answers as it was told, and keeps what it was asked."""

    def __init__(self) -> None:
        """Know two gangs."""
        self.asked: list[str] = []
        self.plans: list[pb.PlanRequest] = []
        self.refusal: tuple[grpc.StatusCode, str] | None = None

    async def Explain(self, request: pb.ExplainRequest, context: Context) -> pb.ExplainResponse:  # noqa: N802
        """Say what was told."""
        self.asked.append(request.gang)
        if self.refusal is not None:
            await context.abort(*self.refusal)
        if request.gang == "pod/team-a/ran-0":
            return pb.ExplainResponse(gang="podgroup/team-a/ran", state="finished", placed=2, finished=2)
        if request.gang == "podgroup/team-a/runs":
            nodes = {f"runs-{index}": f"n{index % 2}" for index in range(8)}
            return pb.ExplainResponse(
                gang=request.gang, state="running", min_count=8, existing=8, placed=8, nodes=nodes
            )
        return pb.ExplainResponse(
            gang=request.gang.replace("*/", "podgroup/"),
            state="waiting",
            min_count=4,
            existing=4,
            reasons=encode_reasons([REASON]),
            since=to_timestamp(START),
            position=2,
        )

    async def Plan(self, request: pb.PlanRequest, context: Context) -> pb.PlanResponse:  # noqa: N802
        """Place everything on one node."""
        self.plans.append(request)
        if self.refusal is not None:
            await context.abort(*self.refusal)
        return pb.PlanResponse(groups={"team-a/w": pb.GroupPlan(outcome="placed", bound={"w": "n1"})})


@pytest.fixture
def placer() -> FakePlacer:
    """A placer that answers as the test tells."""
    return FakePlacer()


@pytest.fixture
async def target(placer: FakePlacer) -> AsyncIterator[str]:
    """Its address."""

    def register(server: grpc.aio.Server) -> Sequence[str]:
        add_PlacementServiceServicer_to_server(placer, server)
        return ("phalanx.placement.v1.PlacementService",)

    async with rpc.serve("127.0.0.1:0", register, Readiness()) as port:
        yield f"127.0.0.1:{port}"


async def run(*arguments: str | Path) -> Result:
    """Run the command on a thread, as a process of its own would beside the servers of the test."""
    runner = CliRunner(env={"COLUMNS": "200", "PHALANX_PLACER": None, "PHALANX_NATS_URL": None})
    return await asyncio.to_thread(runner.invoke, main, [str(argument) for argument in arguments])


async def test_why_a_gang_waits(target: str, placer: FakePlacer) -> None:
    """State, since when, place in the queue, numbers, and each reason with its code."""
    result = await run("why", "train", "-n", "team-a", "--placer", target)
    assert result.exit_code == 0
    assert placer.asked == ["*/team-a/train"]
    assert [line.rstrip() for line in result.output.splitlines()] == [
        "podgroup/team-a/train: waiting since 12:00:00 UTC, number 2 in the queue",
        "  needs 4, 4 exist, 0 are placed",
        "  • [3] of the 4 needed pods can be placed  InsufficientCapacity",
    ]


async def test_where_a_gang_runs(target: str) -> None:
    """Nodes with how many pods, and the first of their names."""
    result = await run("why", "podgroup/team-a/runs", "--placer", target)
    lines = [line.split() for line in result.output.splitlines()]
    assert ["n0", "4", "runs-0,", "runs-2,", "runs-4", "…"] in lines
    assert ["n1", "4", "runs-1,", "runs-3,", "runs-5", "…"] in lines


async def test_why_a_member_of_a_group(target: str) -> None:
    """The answer is about the group, and says so; who has finished is counted."""
    result = await run("why", "pod/team-a/ran-0", "--placer", target)
    assert result.output.splitlines() == [
        "pod/team-a/ran-0 is a member of podgroup/team-a/ran",
        "podgroup/team-a/ran: finished",
        "  needs 0, 0 exist, 2 are placed, 2 have finished",
    ]


@pytest.mark.parametrize(
    ("gang", "doubt"),
    [("train", "is the namespace (-n)"), ("podgroup/team-a/train", "are kind, namespace and name")],
)
async def test_why_a_gang_that_nobody_knows(target: str, placer: FakePlacer, gang: str, doubt: str) -> None:
    """A name is most often in another namespace than the one that was asked for; of an id anything may be wrong."""
    placer.refusal = (grpc.StatusCode.NOT_FOUND, "nothing was decided about it")
    result = await run("why", gang, "--placer", target)
    expected = f"Error: nothing was decided about it; {doubt} right?\n"
    assert (result.exit_code, result.stderr) == (2, expected)


async def test_why_as_json(target: str) -> None:
    """For programs: the answer as in the public schema."""
    result = await run("why", "train", "-o", "json", "--placer", target)
    document = json.loads(result.output)
    assert (document["gang"], document["position"]) == ("podgroup/default/train", 2)
    assert document["reasons"][0]["code"] == "REASON_CODE_INSUFFICIENT_CAPACITY"


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, 2),
        (grpc.StatusCode.FAILED_PRECONDITION, 3),
        (grpc.StatusCode.INTERNAL, 3),
    ],
)
async def test_refusals_are_sentences(target: str, placer: FakePlacer, code: grpc.StatusCode, exit_code: int) -> None:
    """What the placer says is what is shown; the exit code says whose fault it is."""
    placer.refusal = (code, "the placer says why")
    result = await run("why", "train", "--placer", target)
    assert (result.exit_code, result.stderr) == (exit_code, "Error: the placer says why\n")


async def test_placer_that_cannot_be_reached() -> None:
    """The error says what to do in a cluster."""
    result = await run("why", "train", "--placer", "127.0.0.1:1")
    assert result.exit_code == 3
    assert "the placer at 127.0.0.1:1 cannot be reached" in result.stderr
    assert "kubectl -n phalanx-system port-forward svc/phalanx-placer 50051" in result.stderr


async def test_plan_on_a_live_cluster(target: str, placer: FakePlacer, tmp_path: Path) -> None:
    """All files go as one question, with the options; the answer is shown as without a placer."""
    first, second = tmp_path / "1.yaml", tmp_path / "2.json"
    first.write_text(yaml.safe_dump(node_manifest()))
    second.write_text(json.dumps(pod_manifest("w")))
    result = await run("plan", "-f", first, "-f", second, "--placer", target, "--all-schedulers")
    assert result.exit_code == 0
    assert "1 on n1" in result.output
    (request,) = placer.plans
    assert request.all_schedulers
    assert [one["kind"] for one in yaml.safe_load_all(request.manifests)] == ["Node", "Pod"]


async def test_plan_that_the_placer_refuses(target: str, placer: FakePlacer, tmp_path: Path) -> None:
    """Bad input is exit code 2 also where the placer finds it, and never 1, which means that something waits."""
    path = tmp_path / "pod.yaml"
    path.write_text(yaml.safe_dump(pod_manifest("w")))
    placer.refusal = (grpc.StatusCode.RESOURCE_EXHAUSTED, "manifests: expected at most 4096 pods, got 5000")
    result = await run("plan", "-f", path, "--placer", target)
    assert (result.exit_code, result.stderr) == (2, f"Error: {placer.refusal[1]}\n")
    placer.refusal = (grpc.StatusCode.FAILED_PRECONDITION, "the watcher does not follow yet: node")
    assert (await run("plan", "-f", path, "--placer", target)).exit_code == 3


ASSIGNED = tuple(Assignment(pod=f"w-{index}", uid=Uid(f"u{index}"), node=NodeName("n1")) for index in range(2))
EVENTS: dict[str, DecisionEvent] = {
    "waiting": Waiting(revision=1, min_count=4, existing=4, placeable=3, reasons=(REASON,)),
    "proposed": Proposed(revision=7, deadline=START + seconds(60), min_count=2, assignments=ASSIGNED),
    "repairing": Repairing(
        round=0, bound=ASSIGNED[:1], open=(OpenMember(pod="w-1", uid=Uid("u1")),), until=START, min_count=2
    ),
    "committed": Committed(members=ASSIGNED, repaired=1),
    "refused": Refused(reasons=(Reason(code=ReasonCode.FORBIDDEN, message="binding is forbidden"),)),
    "rolled_back": RolledBack(
        reasons=(Reason(code=ReasonCode.REPAIR_WINDOW_EXPIRED, message="too late"),), undone=ASSIGNED
    ),
}


async def publish(bus: Bus, event: DecisionEvent, *, gang: str = "podgroup/team-a/train", number: int = 1) -> None:
    """Write a decision as the services do."""
    decision = Decision(
        gang=GangId(gang),
        event=event,
        decided_at=START + seconds(number),
        transaction=TransactionId("" if isinstance(event, Waiting) else "tx"),
    )
    attributes = EventAttributes(
        id=decision_id(decision),
        source="/test",
        type=decision_type(decision),
        subject=gang,
        time=decision.decided_at,
    )
    await bus.publish(decision_subject(decision), data=encode_decision(decision), headers=headers(attributes))


@pytest.fixture
async def bus(nats_server: EmbeddedNats) -> AsyncIterator[Bus]:
    """A connection with the streams of every installation."""
    async with Bus(url=nats_server.url, name="test", readiness=Readiness()) as opened:
        await opened.ensure_streams(STREAMS)
        yield opened


async def test_decisions_once(bus: Bus, nats_server: EmbeddedNats) -> None:
    """Everything stored, a line each, and then the end."""
    for number, event in enumerate(EVENTS.values()):
        await publish(bus, event, number=number)
    result = await run("decisions", "--once", "--nats-url", nats_server.url)
    assert result.exit_code == 0
    lines = [line.split(maxsplit=4) for line in result.output.splitlines()]
    assert [line[3] for line in lines] == list(EVENTS)
    assert [line[4] for line in lines] == [
        "[3] of the 4 needed pods can be placed",
        "2 pods on 1 nodes, round 0, revision 7",
        "1 pods need another node, 1 are bound",
        "2 pods bound, 1 repaired, 0 left open",
        "binding is forbidden",
        "2 pods taken back, 0 kept: too late",
    ]
    assert lines[1][:2] == ["2026-07-01", "12:00:01.000000"]


async def test_decisions_of_one_gang_as_json(bus: Bus, nats_server: EmbeddedNats) -> None:
    """Each line is a document with the sequence, the id, and the decision as in the public schema."""
    await publish(bus, EVENTS["waiting"], gang="pod/team-a/other")
    await publish(bus, EVENTS["proposed"])
    result = await run(
        "decisions", "--once", "-o", "json", "--gang", "podgroup/team-a/train", "--nats-url", nats_server.url
    )
    (document,) = [json.loads(line) for line in result.output.splitlines()]
    assert (document["sequence"], document["id"]) == (2, "tx/proposed/0")
    assert document["proposed"]["assignments"][0] == {"pod": "w-0", "uid": "u0", "node": "n1"}


async def test_decisions_of_a_gang_by_its_name(bus: Bus, nats_server: EmbeddedNats) -> None:
    """As `phalanx why` takes it: gangs of every kind that have the name, in one namespace."""
    for number, gang in enumerate(
        ("podgroup/team-a/train", "job/team-a/train", "job/team-b/train", "job/team-a/other")
    ):
        await publish(bus, EVENTS["waiting"], gang=gang, number=number)
    asked = ("decisions", "--once", "--nats-url", nats_server.url, "--gang", "train")
    found = await run(*asked, "-n", "team-a")
    assert [line.split()[2] for line in found.output.splitlines()] == ["podgroup/team-a/train", "job/team-a/train"]
    assert "about train in namespace default (-n)" in (await run(*asked)).stderr


@pytest.mark.parametrize("url", ["http://127.0.0.1:50051", "https://127.0.0.1:50051/"])
async def test_an_address_that_is_a_url(url: str) -> None:
    """GRPC would look for a host of that name: the error says what to leave out."""
    result = await run("why", "train", "--placer", url)
    assert result.exit_code == 2
    assert "127.0.0.1:50051, got " in result.stderr
    assert f"leave {url.partition('//')[0]}// out" in result.stderr


async def test_a_configuration_beside_a_placer(target: str, tmp_path: Path) -> None:
    """It is not used, and that is said beside the output."""
    config, pods = tmp_path / "phalanx.yaml", tmp_path / "pods.yaml"
    config.write_text("{}")
    pods.write_text(yaml.safe_dump(pod_manifest()))
    result = await run("plan", "-f", str(pods), "--config", str(config), "--placer", target)
    assert f"{config}: not used, because the placer at {target}" in result.stderr


async def test_all_decisions(bus: Bus, nats_server: EmbeddedNats) -> None:
    """Without --all only the last of each gang and event."""
    for number in range(3):
        await publish(bus, EVENTS["waiting"], number=number)
    last = await run("decisions", "--once", "--nats-url", nats_server.url)
    everything = await run("decisions", "--once", "--all", "--nats-url", nats_server.url)
    assert [len(last.output.splitlines()), len(everything.output.splitlines())] == [1, 3]


async def test_decisions_where_there_are_none(bus: Bus, nats_server: EmbeddedNats) -> None:
    """An empty stream ends at once, and that there is nothing is said beside the output."""
    assert bus is not None
    for gang, name in ((), "any gang"), (("--gang", "pod/team-a/w"), "pod/team-a/w"):
        result = await run("decisions", "--once", "--nats-url", nats_server.url, *gang)
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == f"no decisions about {name} are kept\n"


async def test_decision_that_cannot_be_read(bus: Bus, nats_server: EmbeddedNats) -> None:
    """It is told beside the others, which are shown."""
    await bus.publish("phalanx.placement.v1.pod.team-a.bad.proposed", data=b"\xff", headers={})
    await publish(bus, EVENTS["proposed"])
    result = await run("decisions", "--once", "--nats-url", nats_server.url)
    assert "proposed" in result.stdout
    assert "message 1 on phalanx.placement.v1.pod.team-a.bad.proposed cannot be read" in result.stderr


async def test_decisions_on_a_server_that_phalanx_never_used(nats_server: EmbeddedNats) -> None:
    """It would wait for ever for the stream's end; it says so instead."""
    result = await run("decisions", "--once", "--nats-url", nats_server.url)
    assert result.exit_code == 1
    assert "PHALANX_PLACEMENT does not exist" in result.stderr


async def test_decisions_without_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends by itself ends; the error says where it looked, and what to do in a cluster."""
    monkeypatch.setattr(follow_decisions, "CONNECT_TIMEOUT_S", 0.5)
    result = await run("decisions", "--once", "--nats-url", "nats://127.0.0.1:1")
    assert result.exit_code == 1
    assert "no NATS server answers at nats://127.0.0.1:1" in result.stderr
    assert "port-forward" in result.stderr


async def test_decisions_of_a_server_that_comes_later(nats_server: EmbeddedNats, bus: Bus) -> None:
    """The command says what it waits for, and goes on by itself when it is there."""
    await publish(bus, EVENTS["proposed"])
    await nats_server.stop()
    code = "from services.cli.main import main; main()"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, "decisions", "--nats-url", nats_server.url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(30):
            note = (await process.stderr.readline()).decode()
            assert note.startswith(f"waiting for {nats_server.url}: ")
            assert "port-forward svc/nats 4222" in note
            await nats_server.start()
            assert b"podgroup/team-a/train" in await process.stdout.readline()
            assert await process.stderr.readline() == b"connected\n"
    finally:
        process.kill()
        await process.communicate()
