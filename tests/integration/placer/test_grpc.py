"""PlacementService over a real channel: answers on live state, and every error that a caller can make."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import grpc
import grpc.aio
import pytest
import yaml
from google.protobuf.json_format import MessageToDict
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from services.contracts.cluster_codec import change_subject, encode_change
from services.contracts.pb.placement.v1 import placement_service_pb2 as pb
from services.contracts.pb.placement.v1.placement_service_pb2_grpc import PlacementServiceStub
from services.contracts.streams import MAX_MESSAGE_BYTES
from services.core.attention import DecisionPolicy
from services.core.cluster import NEEDED_KINDS, OPTIONAL_KINDS
from services.core.objects import Applied, ClusterChange, ClusterObject, NodeName
from services.placer.adapters.grpc_api import SERVICE_NAME, register
from services.placer.mind import Mind
from services.placer.questions import MAX_PODS
from services.runtime import rpc
from services.runtime.bus import Message
from services.runtime.health import Readiness
from tests import groups
from tests.builders import (
    START,
    Manifest,
    members,
    node,
    node_manifest,
    pod,
    pod_group,
    pod_group_manifest,
    pod_manifest,
    seconds,
    synced,
)


@pytest.fixture
async def mind() -> AsyncIterator[Mind]:
    """A mind that nothing was shown yet."""
    async with Mind(policy=DecisionPolicy(settle=timedelta(0))) as opened:
        yield opened


@pytest.fixture
def readiness() -> Readiness:
    """What the process says about itself."""
    return Readiness()


@pytest.fixture
async def channel(mind: Mind, readiness: Readiness) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to the service on a free port."""
    async with (
        rpc.serve("127.0.0.1:0", lambda server: register(server, mind=mind), readiness) as port,
        grpc.aio.insecure_channel(
            f"127.0.0.1:{port}", options=[("grpc.max_send_message_length", 2 * MAX_MESSAGE_BYTES)]
        ) as opened,
    ):
        yield opened


@pytest.fixture
def placer(channel: grpc.aio.Channel) -> PlacementServiceStub:
    """The service, as another platform calls it."""
    return PlacementServiceStub(channel)


async def change(mind: Mind, *changes: ClusterChange) -> None:
    """Show changes to the mind, and let it decide one second later."""
    messages = [
        Message(subject=change_subject(one), data=encode_change(one), headers={}, sequence=index)
        for index, one in enumerate(changes, start=1)
    ]
    await mind.think(changes=messages, decisions=(), now=START, epoch=None)
    await mind.think(changes=(), decisions=(), now=START + seconds(1), epoch=0)


async def show(mind: Mind, *objects: ClusterObject) -> None:
    """Show objects on a cluster that is followed."""
    await change(mind, *synced(), *(Applied(object=item) for item in objects))


def text_of(*manifests: Manifest) -> bytes:
    """Several documents."""
    return yaml.safe_dump_all(manifests).encode()


async def plan(placer: PlacementServiceStub, *manifests: Manifest, all_schedulers: bool = False) -> pb.PlanResponse:
    """Ask where the manifests' pods would go."""
    request = pb.PlanRequest(manifests=text_of(*manifests), all_schedulers=all_schedulers)
    answer: pb.PlanResponse = await placer.Plan(request)
    return answer


async def refusal(call: object) -> tuple[grpc.StatusCode, str]:
    """The error of a call."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call  # type: ignore[misc]
    return caught.value.code(), caught.value.details() or ""


async def test_plan_on_live_state(mind: Mind, placer: PlacementServiceStub) -> None:
    """What runs and what is promised is in the way; groups are named without their kind."""
    await show(mind, node("n1", gpus=4), pod("runs", node="n1"), pod("promised"))
    answer = await plan(
        placer,
        pod_group_manifest("g", min_count=2),
        *(pod_manifest(f"g-{index}", group="g") for index in range(2)),
        pod_manifest("alone", gpus=4),
    )
    groups = MessageToDict(answer)["groups"]
    assert groups["team-a/g"] == {"outcome": "placed", "bound": {"g-0": "n1", "g-1": "n1"}}
    assert groups["team-a/alone"]["outcome"] == "waiting"
    assert groups["team-a/alone"]["reasons"][0]["code"] == "REASON_CODE_INSUFFICIENT_CAPACITY"
    assert answer.revision == len(synced()) + 3


async def test_plan_with_imagined_nodes(mind: Mind, placer: PlacementServiceStub) -> None:
    """Would it fit if that node were bought?"""
    await show(mind, node("n1", gpus=0))
    assert (await plan(placer, pod_manifest("w"))).groups["team-a/w"].outcome == "waiting"
    answer = await plan(placer, pod_manifest("w"), node_manifest("n9"), {"kind": "Service", "apiVersion": "v1"})
    assert dict(answer.groups["team-a/w"].bound) == {"w": "n9"}
    assert answer.skipped_objects == 1


async def test_pods_of_a_group_that_is_only_live_join_it(mind: Mind, placer: PlacementServiceStub) -> None:
    """Its members count, those that run are not told again, and those that wait are placed with the new ones."""
    live = members("g", count=2, annotations={"phalanx.dev/repair-window": "0s"})
    await show(
        mind, node("n1", gpus=4), pod_group("g", min_count=4), *(replace(one, node=NodeName("n1")) for one in live[:1])
    )
    await change(mind, Applied(object=live[1]))
    more = [pod_manifest(f"g-{index}", group="g") for index in (2, 3)]
    found = (await plan(placer, *more)).groups["team-a/g"]
    assert (found.outcome, dict(found.bound)) == ("placed", {"g-1": "n1", "g-2": "n1", "g-3": "n1"})
    alone = (await plan(placer, *more[:1])).groups["team-a/g"]
    assert (alone.outcome, alone.reasons[0].message) == ("incomplete", "3 of the 4 needed pods exist")
    # With its own PodGroup it is another group.
    other = (await plan(placer, pod_group_manifest("g", min_count=2), *more)).groups["team-a/g"]
    assert (other.outcome, sorted(other.bound)) == ("placed", ["g-2", "g-3"])


async def test_owner_that_is_only_live_counts(mind: Mind, placer: PlacementServiceStub) -> None:
    """The dump of some pods is enough: how many are needed the placer knows."""
    await show(mind, node(), groups.job(parallelism=3, is_gang=True))
    pods = [pod_manifest(f"train-{index}") for index in range(2)]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}
    for one in pods:
        one["metadata"]["ownerReferences"] = [reference | {"uid": groups.uid_of("Job", "train")}]
    found = (await plan(placer, *pods)).groups["team-a/train"]
    assert (found.outcome, found.reasons[0].message) == ("incomplete", "2 of the 3 needed pods exist")


async def test_plan_of_missing_members(mind: Mind, placer: PlacementServiceStub) -> None:
    """A group whose pods are not all given is incomplete, and not waiting for room."""
    await show(mind, node())
    answer = await plan(placer, pod_group_manifest("g", min_count=3), pod_manifest("g-0", group="g"))
    assert answer.groups["team-a/g"].outcome == "incomplete"


async def test_plan_for_other_schedulers(mind: Mind, placer: PlacementServiceStub) -> None:
    """Only where it is asked for."""
    await show(mind, node())
    theirs = pod_manifest("w", scheduler="default-scheduler")
    assert not (await plan(placer, theirs)).groups
    assert (await plan(placer, theirs, all_schedulers=True)).groups["team-a/w"].outcome == "placed"


async def test_group_and_pod_of_one_name_are_told_apart(mind: Mind, placer: PlacementServiceStub) -> None:
    """Then the kind stands in front; nothing is dropped."""
    await show(mind, node())
    answer = await plan(placer, pod_group_manifest("w", min_count=1), pod_manifest("w-0", group="w"), pod_manifest("w"))
    assert sorted(answer.groups) == ["pod/team-a/w", "podgroup/team-a/w"]


@pytest.mark.parametrize(
    ("manifests", "sentence"),
    [
        (b"kind: [", "manifests: not YAML or JSON"),
        (b"just text", "expected a Kubernetes object, got str"),
        (b"kind: PodList", "PodList: expected a list of objects in items"),
        (b"kind: Pod\nmetadata: {name: w, namespace: a}\nspec: 7", "pod a/w: spec: expected an object, got 7"),
        (b"kind: Pod\nmetadata: abc\n", "metadata: expected an object, got 'abc'"),
        (
            b"kind: Pod\nmetadata: {name: a/b}\nspec: {}",
            "metadata.name: expected a name without spaces, slashes and wildcards, got 'a/b'",
        ),
        (
            b"kind: Pod\nmetadata: {name: w, namespace: a}\nspec: {containers: [{resources: {requests: {cpu: x}}}]}",
            "pod a/w: spec.containers[0].resources.requests.cpu",
        ),
        (
            b"kind: PodGroup\nmetadata: {name: g, namespace: a}\nspec: {schedulingPolicy: {gang: {minCount: x}}}",
            "podgroup a/g: spec.schedulingPolicy.gang.minCount",
        ),
    ],
)
async def test_unreadable_manifests(mind: Mind, placer: PlacementServiceStub, manifests: bytes, sentence: str) -> None:
    """The caller reads which object and field are wrong, what was expected, and what was found."""
    await show(mind, node())
    code, details = await refusal(placer.Plan(pb.PlanRequest(manifests=manifests)))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert sentence in details


async def test_too_many_bytes(placer: PlacementServiceStub) -> None:
    """Counted before anything is read."""
    code, details = await refusal(placer.Plan(pb.PlanRequest(manifests=b"#" * (MAX_MESSAGE_BYTES + 1))))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert details == "manifests: expected at most 4194304 bytes, got 4194305"


async def test_too_many_pods(mind: Mind, placer: PlacementServiceStub) -> None:
    """A question may hold as many pods as a gang."""
    await show(mind, node())
    one = "kind: Pod\nmetadata: {name: p-%d}\nspec: {schedulerName: phalanx, containers: [{name: m}]}"
    text = "\n---\n".join(one % index for index in range(MAX_PODS + 1))
    code, details = await refusal(placer.Plan(pb.PlanRequest(manifests=text.encode())))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert details == "manifests: expected at most 4096 pods, got 4097"


async def test_cluster_that_is_not_followed(placer: PlacementServiceStub) -> None:
    """An answer could be wrong, so there is none; what is missing is named."""
    code, details = await refusal(plan(placer, pod_manifest("w")))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert details == f"the watcher does not follow yet: {', '.join((*NEEDED_KINDS, *OPTIONAL_KINDS))}"


async def test_explain_of_a_waiting_gang(mind: Mind, placer: PlacementServiceStub) -> None:
    """State, numbers, reasons, place in the queue, and since when."""
    await show(mind, node(gpus=1), pod_group("train", min_count=2), *members("train", count=2))
    answer = await placer.Explain(pb.ExplainRequest(gang="podgroup/team-a/train"))
    assert (answer.state, answer.min_count, answer.existing, answer.placed) == ("waiting", 2, 2, 0)
    assert answer.position == 1
    assert answer.since.ToDatetime(tzinfo=START.tzinfo) == START + seconds(1)
    assert "1 of the 2" in answer.reasons[0].message


async def test_explain_of_a_proposed_gang(mind: Mind, placer: PlacementServiceStub) -> None:
    """Nodes by pod, and the transaction."""
    await show(mind, node(), pod("w-0"))
    answer = await placer.Explain(pb.ExplainRequest(gang="pod/team-a/w-0"))
    assert answer.state == "proposed"
    assert dict(answer.nodes) == {"w-0": "n1"}
    assert answer.transaction.startswith("20260701T120001")
    assert not answer.reasons


async def test_explain_of_an_unknown_gang(mind: Mind, placer: PlacementServiceStub) -> None:
    """The sentence says what would make it known."""
    await show(mind, node())
    code, details = await refusal(placer.Explain(pb.ExplainRequest(gang="podgroup/team-a/other")))
    assert code is grpc.StatusCode.NOT_FOUND
    assert "podgroup/team-a/other" in details
    assert "schedulerName phalanx" in details


async def test_explain_of_an_unknown_kind(mind: Mind, placer: PlacementServiceStub) -> None:
    """The sentence lists the kinds that there are."""
    await show(mind, node())
    code, details = await refusal(placer.Explain(pb.ExplainRequest(gang="deployment/team-a/web")))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "deployment is no kind of gang" in details
    assert "jobset, kueue, lws" in details


@pytest.mark.parametrize("gang", ["", "train", "team-a/train", "a/b/c/d", "podgroup//train"])
async def test_explain_of_what_is_no_gang_id(placer: PlacementServiceStub, gang: str) -> None:
    """The sentence shows what one looks like."""
    code, details = await refusal(placer.Explain(pb.ExplainRequest(gang=gang)))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "podgroup/team-a/train" in details


async def test_questions_are_answered_side_by_side(mind: Mind, placer: PlacementServiceStub) -> None:
    """Many callers at once; each has its own answer."""
    await show(mind, *(node(f"n{index}") for index in range(50)))
    answers = await asyncio.gather(*(plan(placer, pod_manifest(f"w-{index}")) for index in range(40)))
    assert [list(answer.groups) for answer in answers] == [[f"team-a/w-{index}"] for index in range(40)]


async def test_health_follows_readiness(channel: grpc.aio.Channel, readiness: Readiness) -> None:
    """By the name of the service, as load balancers ask."""
    health = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest(service=SERVICE_NAME)
    watching = health.Watch(request)
    assert (await watching.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
    readiness.set("cluster", ready=True)
    assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVING
    watching.cancel()


async def test_reflection_lists_the_service(channel: grpc.aio.Channel) -> None:
    """So that grpcurl works without the .proto files."""
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    answer = await call.read()
    assert SERVICE_NAME in {one.name for one in answer.list_services_response.service}
