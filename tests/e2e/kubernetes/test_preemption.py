"""A gang of higher priority on a full cluster, on the real control plane with real PodDisruptionBudgets."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from services.core.decisions import Proposed, Refused
from services.core.objects import GangId
from services.core.reasons import ReasonCode
from tests.e2e.api import Api
from tests.e2e.gangs import member, submit_group, submit_pods
from tests.e2e.kubernetes.gangs import committed, decided, emptied, events_of, placed, submit_job
from tests.e2e.kubernetes.system import GPUS, System
from tests.e2e.waiting import eventually

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]

URGENT = "urgent"
SIZE = 8
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest_asyncio.fixture(loop_scope="module")
async def urgent(system: System) -> AsyncIterator[str]:
    """A PriorityClass."""
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": URGENT}, "value": 1000}
    await system.client.request_ok("POST", CLASSES, body=body)
    yield URGENT
    await system.client.request_ok("DELETE", f"{CLASSES}/{URGENT}")


async def submit_urgent(system: System, api: Api, *, size: int = SIZE) -> GangId:
    """Create an urgent gang."""
    gang = await submit_group(api, URGENT, min_count=size, version=system.group_version)
    await submit_pods(api, [member(api, URGENT, index, priorityClassName=URGENT) for index in range(size)])
    return gang


async def test_a_gang_makes_room_whole_and_waits(system: System, api: Api, urgent: str) -> None:
    """All GPUs are held by a gang that needs all of its members: it goes whole, the urgent one runs, and it waits."""
    held = await submit_job(system, api, "held", size=GPUS)
    await committed(system, held)
    gang = await submit_urgent(system, api)
    await committed(system, gang)
    assert len(await placed(api, urgent)) == SIZE
    (proposal,) = events_of(system, gang, Proposed)
    assert len(proposal.victims) == GPUS
    assert {one.gang for one in proposal.victims} == {held}
    await system.at_rest()
    assert await placed(api, "held") == {}

    async def are_told() -> bool:
        events = await api.list("Event")
        return {"Preempting", "Preempted"} <= {one["reason"] for one in events}

    await eventually(are_told, what="both are told")
    await emptied(api)


async def test_a_disruption_budget_is_kept(system: System, api: Api, urgent: str) -> None:
    """Nobody of a gang with a budget of none is evicted; the urgent one is told whom it waits for."""
    held = await submit_job(system, api, "kept", size=GPUS)
    await committed(system, held)
    before = await placed(api, "kept")
    budgets = f"/apis/policy/v1/namespaces/{api.namespace}/poddisruptionbudgets"
    spec = {"minAvailable": GPUS, "selector": {"matchLabels": {"batch.kubernetes.io/job-name": "kept"}}}
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kept"}, "spec": spec}
    await system.client.request_ok("POST", budgets, body=body)

    async def is_watched() -> bool:
        budget = json.loads((await system.client.request_ok("GET", f"{budgets}/kept")).body)
        return int(budget.get("status", {}).get("currentHealthy") or 0) == GPUS

    await eventually(is_watched, what="the budget counts its pods as healthy")
    gang = await submit_urgent(system, api)
    refused = await decided(system, gang, Refused)
    assert refused.reasons[0].code is ReasonCode.VICTIM_STAYS
    assert "disruption budget" in refused.reasons[0].message
    assert await placed(api, "kept") == before
    assert await placed(api, urgent) == {}
    await emptied(api)
