"""The question to the placer over gRPC, about a target that is read from an API server."""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio
import orjson
import pytest

from services.autoscaler.adapters.placer import PlacerFit
from services.autoscaler.ports import Scale
from services.contracts.pb.placement.v1 import placement_service_pb2 as pb
from services.contracts.pb.placement.v1 import reason_pb2
from services.contracts.pb.placement.v1.placement_service_pb2_grpc import (
    PlacementServiceServicer,
    add_PlacementServiceServicer_to_server,
)
from services.core.fitting import DoesNotFit, Fits, FitUnknown
from services.core.reasons import ReasonCode
from services.core.reduce_autoscaler import reduce_autoscaler
from services.core.scaling import Autoscaler
from services.runtime import rpc
from services.runtime.health import Readiness
from services.runtime.kube import KubeClient
from services.sandbox import kubeconfig
from services.sandbox.app import running
from services.sandbox.cluster import ClusterSettings
from tests.hpas import hpa_manifest

NAMESPACE = "team-a"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
SCALE = Scale(path=f"{DEPLOYMENTS}/infer/scale", replicas=0, document={})
PLACED, WAITING = (pb.GroupPlan(outcome=one, bound=bound) for one, bound in (("placed", {"a": "n"}), ("waiting", {})))
LACKS = reason_pb2.Reason(code=reason_pb2.REASON_CODE_INSUFFICIENT_CAPACITY, message="0 of 2")


@dataclass(slots=True, kw_only=True)
class ScriptedPlacer(PlacementServiceServicer):
    """Answers as a test says, and keeps what it was asked."""

    answer: pb.PlanResponse | grpc.StatusCode = grpc.StatusCode.UNAVAILABLE
    questions: list[pb.PlanRequest] = field(default_factory=list)

    async def Plan(self, request: pb.PlanRequest, context: Any) -> pb.PlanResponse:  # noqa: N802 - the rpc's name
        """Answer."""
        self.questions.append(request)
        if isinstance(self.answer, grpc.StatusCode):
            await context.abort(self.answer, "the cluster is not synced")
            raise NotImplementedError("abort does not return")
        return self.answer


@dataclass(slots=True, kw_only=True)
class Ends:
    """The placer, and the question."""

    placer: ScriptedPlacer
    fit: PlacerFit
    client: KubeClient


@pytest.fixture
async def ends(tmp_path: Path) -> AsyncIterator[Ends]:
    """A placer, and a sandbox with one Deployment that sleeps."""
    placer = ScriptedPlacer()
    async with contextlib.AsyncExitStack() as stack:
        sandbox = await stack.enter_async_context(running(ClusterSettings(nodes=0, has_controllers=False)))
        kubeconfig.write(tmp_path / "kubeconfig", url=sandbox.url)
        port = await stack.enter_async_context(rpc.serve("127.0.0.1:0", _registered(placer), Readiness()))
        client = await stack.enter_async_context(await KubeClient.open(tmp_path / "kubeconfig"))
        fit = await stack.enter_async_context(PlacerFit(client, target=f"127.0.0.1:{port}"))
        await client.request_ok("POST", "/api/v1/namespaces", body={"metadata": {"name": NAMESPACE}})
        labels = {"app": "infer"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
        await client.request_ok("POST", DEPLOYMENTS, body={"metadata": {"name": "infer"}, "spec": spec})
        yield Ends(placer=placer, fit=fit, client=client)


def _registered(placer: ScriptedPlacer) -> Callable[[grpc.aio.Server], Sequence[str]]:
    def register(server: grpc.aio.Server) -> Sequence[str]:
        add_PlacementServiceServicer_to_server(placer, server)
        return ("phalanx.placement.v1.PlacementService",)

    return register


def autoscaler(**given: Any) -> Autoscaler:
    """The HPA."""
    manifest = hpa_manifest(**given)
    return reduce_autoscaler(manifest | {"metadata": manifest["metadata"] | {"uid": "u", "resourceVersion": "1"}})


async def test_the_target_is_asked_about_as_if_it_were_new(ends: Ends) -> None:
    """At the replicas that are to be, without what would let it stand for the pods that it has."""
    ends.placer.answer = pb.PlanResponse(groups={"team-a/infer-0": PLACED})
    assert await ends.fit.fit(autoscaler(), scale=SCALE, replicas=5) == Fits()
    (question,) = ends.placer.questions
    manifest = orjson.loads(question.manifests)
    assert question.all_schedulers
    assert (manifest["apiVersion"], manifest["kind"]) == ("apps/v1", "Deployment")
    assert manifest["metadata"] == {"name": "infer", "namespace": NAMESPACE}
    assert manifest["spec"]["replicas"] == 5
    assert manifest["spec"]["template"]["spec"]["containers"][0]["image"] == "i"
    assert "status" not in manifest


async def test_one_group_that_waits_is_no_fit(ends: Ends) -> None:
    """Those that would be placed are counted, and the others say what they lack."""
    waiting = pb.GroupPlan(outcome="waiting", reasons=[LACKS])
    ends.placer.answer = pb.PlanResponse(groups={"team-a/infer-0": PLACED, "team-a/infer-1": waiting})
    answer = await ends.fit.fit(autoscaler(), scale=SCALE, replicas=2)
    assert isinstance(answer, DoesNotFit)
    assert answer.placeable == 1
    assert [one.code for one in answer.reasons] == [ReasonCode.INSUFFICIENT_CAPACITY]


async def test_an_answer_without_groups_is_unknown(ends: Ends) -> None:
    """The placer does not know the pods of every kind that can be scaled."""
    ends.placer.answer = pb.PlanResponse(skipped_objects=1)
    answer = await ends.fit.fit(autoscaler(), scale=SCALE, replicas=2)
    assert answer == FitUnknown(why="cannot tell which pods a target of this kind would have")


async def test_a_placer_that_cannot_answer_says_why(ends: Ends) -> None:
    """Its own sentence is passed on."""
    ends.placer.answer = grpc.StatusCode.FAILED_PRECONDITION
    answer = await ends.fit.fit(autoscaler(), scale=SCALE, replicas=2)
    assert isinstance(answer, FitUnknown)
    assert answer.why.endswith("has no answer: the cluster is not synced")


async def test_a_placer_that_is_not_there_is_unknown(ends: Ends) -> None:
    """Nobody listens at the address."""
    async with PlacerFit(ends.client, target="127.0.0.1:1") as fit:
        answer = await fit.fit(autoscaler(), scale=SCALE, replicas=2)
    assert isinstance(answer, FitUnknown)
    assert answer.why.startswith("at 127.0.0.1:1 has no answer: ")


async def test_a_target_that_cannot_be_read_is_unknown(ends: Ends) -> None:
    """It is gone, or there is no right to read it."""
    scale = Scale(path=f"{DEPLOYMENTS}/other/scale", replicas=0, document={})
    answer = await ends.fit.fit(autoscaler(target="other"), scale=scale, replicas=2)
    assert isinstance(answer, FitUnknown)
    assert answer.why.startswith("was not asked, because Deployment/other cannot be read: ")
    assert not ends.placer.questions
