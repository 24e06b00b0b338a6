"""The native scheduler on the same nodes: each counts what the other has placed, and touches only its own."""

import pytest

from services.core.decisions import Waiting
from services.core.reasons import ReasonCode
from tests.builders import pod_manifest
from tests.e2e.api import Api
from tests.e2e.gangs import member, submit_group, submit_pods
from tests.e2e.kubernetes.gangs import committed, decided, events_of, oversubscribed, placed
from tests.e2e.kubernetes.rights import NAMESPACE, account_name
from tests.e2e.kubernetes.system import GPUS, System
from tests.e2e.waiting import eventually
from tests.kubernetes.cluster import ClusterConfig

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]

CLUSTER = ClusterConfig(scheduler=True)

OURS = f"system:serviceaccount:{NAMESPACE}:{account_name('binder')}"
NATIVE = "system:kube-scheduler"
OTHERS = 10
"""GPUs that pods of the native scheduler hold."""


async def test_what_the_native_scheduler_placed_is_used_capacity(system: System, api: Api) -> None:
    """A gang that needs every GPU waits for the others' pods to go; a gang of what is left runs beside them."""
    others = [f"other-{index}" for index in range(OTHERS)]
    await submit_pods(
        api, [pod_manifest(name, namespace=api.namespace, scheduler="default-scheduler") for name in others]
    )

    async def are_others_bound() -> bool:
        found = [pod for pod in await api.list("Pod") if pod["metadata"]["name"] in others]
        return len([pod for pod in found if pod["spec"].get("nodeName")]) == OTHERS

    await eventually(are_others_bound, what="the native scheduler has placed its pods")
    rest = await submit_group(api, "rest", min_count=GPUS - OTHERS)
    whole = await submit_group(api, "whole", min_count=GPUS)
    await submit_pods(api, [member(api, "rest", index) for index in range(GPUS - OTHERS)])
    await committed(system, rest)
    await submit_pods(api, [member(api, "whole", index) for index in range(GPUS)])
    await decided(system, whole, Waiting)
    await system.at_rest()
    assert len(await placed(api, "rest")) == GPUS - OTHERS
    assert await oversubscribed(api) == {}

    for index in range(GPUS - OTHERS):
        await api.delete("Pod", f"rest-{index}", grace_s=0)
    await system.at_rest()
    assert await placed(api, "whole") == {}, "the others still hold their GPUs"
    last = events_of(system, whole, Waiting)[-1]
    assert ReasonCode.INSUFFICIENT_CAPACITY in {reason.code for reason in last.reasons}

    for name in others:
        await api.delete("Pod", name, grace_s=0)
    await committed(system, whole)
    await system.at_rest()
    assert len(await placed(api, "whole")) == GPUS
    bindings = system.audit.bindings(api.namespace)
    assert bindings.keys() == {OURS, NATIVE}
    assert set(bindings[NATIVE]) == set(others)
    assert not set(bindings[OURS]) & set(others)
    assert set(bindings[OURS].values()) | set(bindings[NATIVE].values()) == {1}


async def test_the_native_scheduler_leaves_our_waiting_members_alone(system: System, api: Api) -> None:
    """While our gang waits, the native scheduler places its own pod and writes nothing about ours."""
    gang = await submit_group(api, "big", min_count=GPUS + 1)
    await submit_pods(api, [member(api, "big", index) for index in range(GPUS + 1)])
    await decided(system, gang, Waiting)
    await api.create(pod_manifest("small", namespace=api.namespace, scheduler="default-scheduler"))

    async def is_bound() -> bool:
        return bool((await api.get("Pod", "small"))["spec"].get("nodeName"))

    await eventually(is_bound, what="the native scheduler has placed its pod")
    await system.at_rest()
    assert await placed(api, "big") == {}
    writers = {
        entry["manager"]
        for pod in await api.list("Pod")
        if pod["metadata"]["name"].startswith("big-")
        for entry in pod["metadata"]["managedFields"]
    }
    assert "kube-scheduler" not in writers
    assert NATIVE in system.audit.bindings(api.namespace)
