"""Gangs on a real control plane: whole or not at all, repaired, undone, and shown in Kubernetes' own words."""

import pytest

from services.core.decisions import Committed, Repairing, RolledBack, Waiting
from services.core.names import CONDITION_COMMITTED, CONDITION_INITIALLY_SCHEDULED, TRANSACTION_ANNOTATION
from services.sandbox.controllers.kubelets import RUN_SECONDS
from tests.e2e.api import Api
from tests.e2e.gangs import member, submit_group, submit_pods
from tests.e2e.kubernetes.gangs import (
    committed,
    decided,
    events_of,
    first_committed,
    last_bound_at,
    never_partly_bound,
    placed,
    submit_job,
)
from tests.e2e.kubernetes.refusals import refusing
from tests.e2e.kubernetes.rights import NAMESPACE, account_name
from tests.e2e.kubernetes.system import GPUS, System
from tests.e2e.waiting import eventually, until

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]

BINDER = f"system:serviceaccount:{NAMESPACE}:{account_name('binder')}"
SMALL = 16


async def test_two_gangs_of_64_run_one_after_the_other(system: System, api: Api) -> None:
    """Of two gangs that each need every GPU and whose pods come mixed, one is bound whole, then the other."""
    async with never_partly_bound(system, api, a=GPUS, b=GPUS):
        gangs = {group: await submit_group(api, group, min_count=GPUS) for group in ("a", "b")}
        await submit_pods(api, [member(api, group, index) for index in range(GPUS) for group in gangs])
        # Their last pods are created side by side: whichever gang is complete first may have the nodes.
        first = await first_committed(system, gangs)
        (second,) = gangs.keys() - {first}
        await decided(system, gangs[second], Waiting)
        await system.at_rest()
        assert len(await placed(api, first)) == GPUS
        assert await placed(api, second) == {}

        for index in range(GPUS):
            await api.patch("Pod", f"{first}-{index}", {"metadata": {"annotations": {RUN_SECONDS: "0.01"}}})
        await committed(system, gangs[second])
        await system.at_rest()
        assert len(await placed(api, second)) == GPUS
    bindings = system.audit.bindings(api.namespace)
    assert bindings.keys() == {BINDER}
    assert len(bindings[BINDER]) == 2 * GPUS
    assert set(bindings[BINDER].values()) == {1}


async def test_kubernetes_is_told_in_order(system: System, api: Api) -> None:
    """A group's condition is False while it waits, and True only in a revision after its last binding."""
    holder = await submit_job(system, api, "holder", size=GPUS)
    await committed(system, holder)
    gang = await submit_job(system, api, "late", size=SMALL)
    await decided(system, gang, Waiting)
    await eventually(lambda: _has_events(api, "late", type_="Warning"), what="events say why the gang waits")
    (history,) = system.witness.of("PodGroup", namespace=api.namespace, name="late").values()
    await until(lambda: history[-1].condition(CONDITION_INITIALLY_SCHEDULED), what="the group's condition is written")
    members = system.witness.of("Pod", namespace=api.namespace, group="late")
    await until(
        lambda: all(
            (one[-1].condition("PodScheduled").get("status"), one[-1].condition("PodScheduled").get("reason"))
            == ("False", "Unschedulable")
            for one in members.values()
        ),
        what="every member says that it cannot be scheduled",
    )

    await api.delete("Job", "holder")
    for pod in await placed(api, "holder"):
        await api.delete("Pod", pod, grace_s=0)
    await committed(system, gang)
    await until(
        lambda: history[-1].condition(CONDITION_INITIALLY_SCHEDULED).get("status") == "True",
        what="the group says that it is scheduled",
    )
    stated = [(one.revision, one.condition(CONDITION_INITIALLY_SCHEDULED)) for one in history]
    told = [(revision, condition) for revision, condition in stated if condition]
    assert told[0][1]["status"] == "False"
    assert told[0][1]["message"]
    became_true = next(revision for revision, condition in told if condition["status"] == "True")
    assert became_true > last_bound_at(members)
    assert all(condition["status"] == "True" for revision, condition in told if revision >= became_true)
    await until(lambda: history[-1].condition(CONDITION_COMMITTED).get("status") == "True", what="it says: committed")
    await eventually(lambda: _has_events(api, "late", type_="Normal"), what="an event says that it was committed")


async def test_a_refused_member_gets_another_node(system: System, api: Api) -> None:
    """An admission policy keeps one member off two nodes: it runs elsewhere, and nobody else is touched."""
    kept_off = ("node-001", "node-002")
    async with refusing(system, api, "r-7-", nodes=kept_off), never_partly_bound(system, api, r=SMALL):
        gang = await submit_job(system, api, "r", size=SMALL)
        done = await committed(system, gang)
        await system.at_rest()
        nodes = await placed(api, "r")
    assert len(nodes) == SMALL
    (node,) = [node for name, node in nodes.items() if name.startswith("r-7-")]
    assert node not in kept_off
    assert done.repaired == len({one.pod for event in events_of(system, gang, Repairing) for one in event.open}) > 0
    assert set(system.audit.bindings(api.namespace)[BINDER].values()) == {1}


async def test_without_a_repair_window_the_gang_is_undone_whole(system: System, api: Api) -> None:
    """Each bound member is marked before it is deleted, its Job has not failed, and its new pods run later."""
    async with never_partly_bound(system, api, u=SMALL):
        async with refusing(system, api, "u-5-", spares_dry_runs=True):
            gang = await submit_job(system, api, "u", size=SMALL, repair_window="0s")
            done = await decided(system, gang, RolledBack)
            assert not events_of(system, gang, Committed)
        undone = {one.uid for one in done.undone}
        assert len(undone) == SMALL - 1
        histories = system.witness.of("Pod", namespace=api.namespace, group="u")
        for uid in undone:
            ending = next(one for one in histories[uid] if one.is_ending)
            before = [one for one in histories[uid] if one.revision < ending.revision]
            assert before[-1].condition("DisruptionTarget")["status"] == "True"
            assert before[-1].manifest["metadata"]["annotations"][TRANSACTION_ANNOTATION]
        job = await api.get("Job", "u")
        assert not job["status"].get("failed")
        assert not [one for one in job["status"].get("conditions") or () if one["type"] in {"Failed", "FailureTarget"}]

        await committed(system, gang)
        await system.at_rest()
        assert len(await placed(api, "u")) == SMALL
    assert not (await api.get("Job", "u"))["status"].get("failed")


async def _has_events(api: Api, group: str, *, type_: str) -> bool:
    """Tell whether the group, and the Job that owns its members, have an event of this type."""
    found = {
        (event["involvedObject"]["kind"], event["involvedObject"]["name"])
        for event in await api.list("Event")
        if event["type"] == type_ and event["reportingComponent"].startswith("phalanx")
    }
    return {("PodGroup", group), ("Job", group)} <= found
