"""A running gang on the real control plane: kubelets reject members of it, and the store of NATS is deleted."""

import pytest

from services.contracts.streams import CLUSTER_STREAM, PLACEMENT_STREAM, TRANSACTIONS_STREAM
from services.core.decisions import Committed
from services.core.objects import NodeName
from services.sandbox.controllers.kubelets import RUN_SECONDS
from tests.builders import GPU, job_manifest
from tests.e2e.api import Api
from tests.e2e.gangs import submit_group
from tests.e2e.kubernetes.gangs import committed, events_of, placed, submit_job
from tests.e2e.kubernetes.system import System
from tests.e2e.waiting import eventually, until

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]

SIZE = 12
LIAR = "node-001"
OFFERED = 16
"""GPUs that the node tells of itself; its kubelet has eight."""
LONG_S = 90.0


async def test_members_that_a_kubelet_rejects_run_elsewhere(system: System, api: Api) -> None:
    """A node offers more than it has: what it rejects is made anew, and goes to other nodes beside the survivors."""
    node = await api.get("Node", LIAR)
    room = {kind: node["status"][kind] | {GPU: str(OFFERED)} for kind in ("capacity", "allocatable")}
    await api.patch("Node", LIAR, {"status": room}, subresource="status")

    def is_followed() -> bool:
        known = system.recorder.cluster.inventory.node(NodeName(LIAR))
        return known is not None and known.allocatable.get(GPU) == OFFERED

    try:
        # Before the pods: the stream keeps the order, so that the placer knows it too.
        await until(is_followed, what="the watcher has told of the node's offer")
        gang = await submit_job(system, api, "rejected", size=SIZE)
        first = await committed(system, gang)
        assert {one.node for one in first.members} == {LIAR}

        async def is_whole() -> bool:
            system.check()
            return len(await placed(api, "rejected")) == SIZE

        await until(lambda: len(events_of(system, gang, Committed)) > 1, what="others are bound", timeout_s=LONG_S)
        await eventually(is_whole, what="the gang is whole again", timeout_s=LONG_S)
    finally:
        await api.patch("Node", LIAR, {"status": {kind: node["status"][kind] for kind in room}}, subresource="status")
    pods = await api.list("Pod")
    rejected = {pod["metadata"]["uid"] for pod in pods if pod["status"].get("reason") == f"OutOf{GPU}"}
    assert rejected
    later = [one for event in events_of(system, gang, Committed)[1:] for one in event.members]
    assert len(later) >= len(rejected) > 0
    # Whoever was sent after the first rejection was known went elsewhere.
    assert LIAR not in {one.node for one in later}
    assert not {one.uid for one in later} & rejected


async def test_a_deleted_store_of_the_bus_costs_no_restart(system: System, api: Api) -> None:
    """All streams go while a gang runs; the running one stays as it is, and the next is bound by the same processes."""
    before = await submit_job(system, api, "before", size=SIZE)
    await committed(system, before)
    await system.at_rest()
    nodes = await placed(api, "before")
    for stream in (CLUSTER_STREAM, PLACEMENT_STREAM, TRANSACTIONS_STREAM):
        await system.jetstream.delete_stream(stream.name)
    system.recorder.forget()

    async def has_streams() -> bool:
        names = {one.config.name for one in await system.jetstream.streams_info()}
        return {CLUSTER_STREAM.name, PLACEMENT_STREAM.name} <= names

    await eventually(has_streams, what="the streams are made again")
    await system.is_ready_again()
    gang = await submit_group(api, "after", min_count=SIZE, version=system.group_version)
    job = job_manifest("after", count=SIZE, group="after", namespace=api.namespace)
    job["spec"]["template"]["metadata"]["annotations"] = {RUN_SECONDS: "0"}
    await api.create(job)
    await committed(system, gang, timeout_s=LONG_S)
    assert len(await placed(api, "after")) == SIZE
    assert await placed(api, "before") == nodes
    assert not events_of(system, before, Committed)
