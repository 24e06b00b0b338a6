"""PlacementService over gRPC: questions about live state, answered by the thread that owns it."""

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio

from services.contracts.decision_codec import encode_reasons
from services.contracts.manifest_files import UnreadableManifest, read_manifests
from services.contracts.pb.placement.v1 import placement_service_pb2 as pb
from services.contracts.pb.placement.v1.placement_service_pb2_grpc import (
    PlacementServiceServicer,
    add_PlacementServiceServicer_to_server,
)
from services.contracts.streams import MAX_MESSAGE_BYTES
from services.contracts.subjects import gang_parts
from services.contracts.timestamps import to_timestamp
from services.core.objects import GangId
from services.core.plan import GangPlan
from services.core.quorum import GANG_KINDS
from services.placer.mind import Mind
from services.placer.questions import ANY_KIND, Explanation, NotSynced, PlanAnswer, TooMany, explanation, plan_question

SERVICE_NAME = "phalanx.placement.v1.PlacementService"

Context = grpc.aio.ServicerContext[Any, Any]


def register(server: grpc.aio.Server, *, mind: Mind) -> Sequence[str]:
    """Add the service to a server, and return its name."""
    add_PlacementServiceServicer_to_server(PlacementApi(mind), server)
    return (SERVICE_NAME,)


class PlacementApi(PlacementServiceServicer):
    """Answers Plan and Explain."""

    def __init__(self, mind: Mind) -> None:
        """Keep the mind that is asked."""
        self._mind = mind

    async def Plan(self, request: pb.PlanRequest, context: Context) -> pb.PlanResponse:  # noqa: N802 - as in the .proto
        """Return where pods would go if they were submitted now."""
        if len(request.manifests) > MAX_MESSAGE_BYTES:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"manifests: expected at most {MAX_MESSAGE_BYTES} bytes, got {len(request.manifests)}",
            )
        try:
            # Reading YAML is slow and needs no state: it is done beside the mind's thread.
            manifests = await asyncio.to_thread(read_manifests, request.manifests)
            question = plan_question(manifests, takes_all_schedulers=request.all_schedulers)
            answer = await self._mind.ask(question)
        except UnreadableManifest as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"manifests: {error}")
        except TooMany as error:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"manifests: {error}")
        except NotSynced as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        return plan_response(answer)

    async def Explain(self, request: pb.ExplainRequest, context: Context) -> pb.ExplainResponse:  # noqa: N802
        """Return why a gang waits, or where it runs."""
        gang_id = GangId(request.gang)
        try:
            gang_parts(gang_id)
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"gang: {error}")
        found = await self._mind.ask(lambda decider: explanation(decider, gang_id=gang_id))
        if found is None:
            asked = request.gang.removeprefix(f"{ANY_KIND}/")
            kind = gang_parts(gang_id)[0]
            if kind not in {*GANG_KINDS, ANY_KIND}:
                kinds = ", ".join(sorted(GANG_KINDS))
                text = (
                    f"gang: {kind} is no kind of gang, and no pods name a {kind} of that name; expected one of {kinds}"
                )
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
            await context.abort(
                grpc.StatusCode.NOT_FOUND,
                f"gang {asked} has no pods with schedulerName phalanx, and nothing was decided about it",
            )
        return explain_response(found)


def plan_response(answer: PlanAnswer) -> pb.PlanResponse:
    """Return an answer as a message."""
    response = pb.PlanResponse(revision=answer.revision, skipped_objects=answer.skipped)
    shorts = [_short_name(gang) for gang in answer.plans]
    for gang, gang_plan in answer.plans.items():
        name = _short_name(gang)
        # A group and a lone pod may share a name; then the kind goes in front.
        response.groups[gang if shorts.count(name) > 1 else name].CopyFrom(_plan_message(gang_plan))
    return response


def _short_name(gang: GangId) -> str:
    return gang.partition("/")[2]


def _plan_message(gang_plan: GangPlan) -> pb.GroupPlan:
    message = pb.GroupPlan(
        outcome=gang_plan.outcome.value,
        bound=dict(gang_plan.bound),
        nominate=dict(gang_plan.nominate),
        evict=gang_plan.evict,
        reasons=encode_reasons(gang_plan.reasons),
    )
    for claim, results in gang_plan.devices.items():
        for one in results:
            chosen = {"request": one.request, "driver": one.driver, "pool": one.pool, "device": one.device}
            message.devices[claim].add_struct().update(chosen)
    return message


def explain_response(found: Explanation) -> pb.ExplainResponse:
    """Return an explanation as a message."""
    return pb.ExplainResponse(
        gang=found.gang,
        state=found.state,
        min_count=found.min_count,
        existing=found.existing,
        placed=found.placed,
        finished=found.finished,
        reasons=encode_reasons(found.reasons),
        nodes=dict(found.nodes),
        transaction=found.transaction,
        since=None if found.since is None else to_timestamp(found.since),
        revision=found.revision,
        position=found.position,
        warnings=encode_reasons(found.warnings),
    )
