"""A binding that is refused is repaired; where no repair is wanted, the gang is undone whole."""

import pytest

from services.core.decisions import Committed, Proposed, Repairing, RolledBack
from services.sandbox.faults import Action, Answer, Match
from services.sandbox.objects import is_deleting
from tests.e2e.api import Api
from tests.e2e.gangs import binding_counts, bound, committed, submit, submit_job
from tests.e2e.rest import watched
from tests.e2e.system import System
from tests.e2e.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIZE = 8
DENIED = Answer(code=422, reason="Invalid", message="admission webhook denied the request")


async def test_a_refused_member_gets_another_node(system: System, api: Api) -> None:
    """One refused binding costs one more round, and no other member anything."""
    refusal = system.apiserver.faults.add(
        Match(method="POST", path="/pods/g-5/binding$", lacks="dryRun"), Action(answer=DENIED)
    )
    async with watched(system) as watch:
        gang = await submit(api, "g", size=SIZE)
        watch.needed[gang] = SIZE
        done = await committed(system, gang)
        await system.quiet()
    assert refusal.used_count == 1
    assert done.repaired == 1
    events = [one.event for one in system.recorder.of(gang)]
    assert [type(event) for event in events if not isinstance(event, Repairing)] == [Proposed, Proposed, Committed]
    (repairing,) = [event for event in events if isinstance(event, Repairing)]
    (open_member,) = repairing.open
    assert open_member.pod == "g-5"
    assert bound(system.apiserver, gang)["g-5"] not in open_member.excluded_nodes
    counts = binding_counts(system.apiserver, api.namespace)
    assert counts == dict.fromkeys(bound(system.apiserver, gang), 1)
    assert len(counts) == SIZE


async def test_without_a_repair_window_the_gang_is_undone_whole_and_its_job_starts_again(
    system: System, api: Api
) -> None:
    """With a window of zero nothing of a failed gang stays; the Job recreates the pods, and they are placed."""
    refusal = system.apiserver.faults.add(
        Match(method="POST", path="/pods/j-5-[a-z0-9]+/binding$", lacks="dryRun"), Action(answer=DENIED), times=None
    )
    async with watched(system) as watch:
        gang = await submit_job(api, "j", size=SIZE, annotations={"phalanx.dev/repair-window": "0s"})
        watch.needed[gang] = SIZE

        def undone() -> list[RolledBack]:
            return [one.event for one in system.recorder.of(gang) if isinstance(one.event, RolledBack)]

        await until(undone, what="the gang is rolled back")
        system.apiserver.faults.remove(refusal.id)
        first = undone()[0]
        assert len(first.undone) == SIZE - 1
        assert not first.kept
        old = {one.pod for one in first.undone}
        store = system.apiserver.store
        left = {
            pod["metadata"]["name"] for pod in store.objects("pods", namespace=api.namespace) if not is_deleting(pod)
        }
        assert not old & left

        await committed(system, gang)
        await system.quiet()
        assert len(bound(system.apiserver, gang)) == SIZE
    counts = binding_counts(system.apiserver, api.namespace)
    assert set(counts.values()) == {1}
    job = await api.get("Job", "j")
    assert not job["status"].get("failed")
