"""Two gangs, room for one: one is bound whole, the other waits whole and says why, until there is room."""

import pytest

from services.core.decisions import Waiting
from services.core.reasons import ReasonCode
from services.sandbox.controllers.kubelets import RUN_SECONDS
from tests.e2e.api import Api
from tests.e2e.gangs import binding_counts, bound, committed, member, submit_group, submit_pods
from tests.e2e.rest import watched
from tests.e2e.system import System
from tests.e2e.waiting import eventually, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIZE = 64


async def test_one_gang_is_bound_whole_and_the_other_waits_for_it(system: System, api: Api) -> None:
    """Of two gangs that each need the whole cluster, whose pods come interleaved, no one ever holds a part at rest."""
    async with watched(system) as watch:
        first = await submit_group(api, "a", min_count=SIZE)
        second = await submit_group(api, "b", min_count=SIZE)
        watch.needed.update({first: SIZE, second: SIZE})
        await submit_pods(api, [member(api, group, index) for index in range(SIZE) for group in ("a", "b")])

        await committed(system, first)
        assert len(bound(system.apiserver, first)) == SIZE
        await until(lambda: isinstance(system.recorder.last(second), Waiting), what="the second gang waits")
        await system.quiet()
        assert bound(system.apiserver, second) == {}
        await eventually(lambda: _is_told(api, "b"), what="group, members and an event say why the second gang waits")

        for index in range(SIZE):
            await api.patch("Pod", f"a-{index}", {"metadata": {"annotations": {RUN_SECONDS: "0.01"}}})
        await committed(system, second)
        await system.quiet()
        assert len(bound(system.apiserver, second)) == SIZE
    counts = binding_counts(system.apiserver, api.namespace)
    assert len(counts) == 2 * SIZE
    assert set(counts.values()) == {1}


async def _is_told(api: Api, group: str) -> bool:
    """What people and node autoscalers look at: the group's condition, the members' conditions, an event."""
    shown = await api.get("PodGroup", group)
    stated = {one["type"]: one for one in shown.get("status", {}).get("conditions") or ()}
    on_group = stated.get("PodGroupInitiallyScheduled", {})
    if on_group.get("status") != "False" or str(SIZE) not in on_group.get("message", ""):
        return False
    pods = [pod for pod in await api.list("Pod") if pod["metadata"]["name"].startswith(f"{group}-")]
    conditions = [one for pod in pods for one in pod["status"].get("conditions") or () if one["type"] == "PodScheduled"]
    if [(one["status"], one["reason"]) for one in conditions] != [("False", "Unschedulable")] * SIZE:
        return False
    reasons = {code.value for code in ReasonCode}
    return any(
        event["involvedObject"]["kind"] == "PodGroup"
        and event["involvedObject"]["name"] == group
        and event["type"] == "Warning"
        and event["reason"] in reasons
        for event in await api.list("Event")
    )
