"""What is wrong is named, with what to do about it, and never stands in the way of what is right."""

from pathlib import Path
from typing import Any

import pytest

from services.cli.processes import LocalProcess
from services.contracts.decision_codec import decode_reasons
from services.core.decisions import Waiting
from services.core.objects import GangId
from services.core.reasons import Reason, ReasonCode
from services.sandbox import table
from tests.builders import pod_manifest
from tests.e2e.api import Api
from tests.e2e.gangs import bound, committed, gang_id, member, submit, submit_group, submit_pods
from tests.e2e.system import System
from tests.e2e.waiting import eventually, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

GATE = "example.com/wait"


async def _reasons(system: System, gang: str) -> dict[ReasonCode, Reason]:
    """Return why a gang waits, once that is known."""
    await system.quiet()
    return {reason.code: reason for reason in decode_reasons((await system.explain(gang)).reasons)}


async def test_a_malformed_pod_is_named_and_the_rest_goes_on(system: System, api: Api) -> None:
    """A pod that cannot be understood waits for itself alone, and the reason names the field."""
    broken = pod_manifest("broken", namespace=api.namespace)
    broken["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots"
    # Past all validation, as an object of another version or a broken webhook would come.
    metadata = {"uid": "broken-1", "creationTimestamp": "2026-07-01T12:00:00Z"}
    stored = system.apiserver.store.insert(table.POD, {**broken, "metadata": broken["metadata"] | metadata})
    try:
        gang = await submit(api, "g", size=2)
        await committed(system, gang)
        lone = GangId(f"pod/{api.namespace}/broken")
        await until(lambda: isinstance(system.recorder.last(lone), Waiting), what="the malformed pod waits")
        (reason,) = decode_reasons((await system.explain(lone)).reasons)
        assert "spec.containers[0].resources.requests.cpu" in reason.message
        assert "lots" in reason.message
    finally:
        system.apiserver.store.remove(stored)


async def test_a_member_of_another_scheduler_is_named(system: System, api: Api) -> None:
    """A group of which one pod names another scheduler waits, and says which."""
    gang = await submit_group(api, "g", min_count=3)
    await submit_pods(api, [member(api, "g", 0), member(api, "g", 1), member(api, "g", 2, scheduler="other")])
    reasons = await _reasons(system, gang)
    assert "other" in reasons[ReasonCode.MIXED_SCHEDULERS].message
    assert "2 of the 3" in reasons[ReasonCode.MEMBERS_MISSING].message
    assert bound(system.apiserver, gang) == {}


async def test_a_pod_whose_group_is_missing_waits_for_it(system: System, api: Api) -> None:
    """The missing group is named, and its creation is all that was needed."""
    gang = gang_id(api, "late")
    await submit_pods(api, [member(api, "late", index) for index in range(2)])
    reason = (await _reasons(system, gang))[ReasonCode.GROUP_NOT_FOUND]
    assert "late" in reason.message
    assert api.namespace in reason.message
    await submit_group(api, "late", min_count=2)
    await committed(system, gang)


async def test_a_gated_member_is_named_and_waited_for(system: System, api: Api) -> None:
    """A scheduling gate holds its gang, and its removal lets the gang go."""
    gang = await submit_group(api, "g", min_count=2)
    gates: dict[str, Any] = {"schedulingGates": [{"name": GATE}]}
    await submit_pods(api, [member(api, "g", 0), member(api, "g", 1, **gates)])
    reasons = await _reasons(system, gang)
    assert reasons[ReasonCode.MEMBERS_GATED].count == 1
    await api.patch("Pod", "g-1", {"spec": {"schedulingGates": None}})
    await committed(system, gang)


async def test_the_group_api_may_go_and_come_back_in_another_version(system: System, api: Api) -> None:
    """Without PodGroups lone pods still run; once any version of them is served, gangs are placed again."""
    cluster = system.apiserver.cluster
    cluster.serve("scheduling.k8s.io", versions=("v1",))

    async def is_absent() -> bool:
        is_ready, text = await system.readyz("watcher")
        return is_ready and "absent: the API server does not serve podgroups" in text

    try:
        await eventually(is_absent, what="the watcher says that groups are not served, and is ready all the same")
        await submit_pods(
            api, [pod_manifest("alone", namespace=api.namespace), member(api, "g", 0), member(api, "g", 1)]
        )
        await committed(system, GangId(f"pod/{api.namespace}/alone"))
        gang = gang_id(api, "g")
        assert ReasonCode.GROUP_NOT_FOUND in await _reasons(system, gang)

        cluster.serve("scheduling.k8s.io", versions=("v1", "v1alpha3"))
        await submit_group(api, "g", min_count=2, version="v1alpha3")
        await committed(system, gang)
    finally:
        cluster.serve("scheduling.k8s.io", versions=("v1", "v1beta1", "v1alpha3"))


@pytest.mark.parametrize(
    ("service", "variable", "value", "said"),
    [
        ("watcher", "PHALANX_PUBLISH_IN_FLIGHT", "many", "expected whole number"),
        ("placer", "PHALANX_SETTLE_MS", "-1", "at least 0"),
        ("binder", "PHALANX_BIND_CONCURRENCY", "0", "at least 1"),
        ("autoscaler", "PHALANX_LOG_LEVEL", "loud", "one of debug, info"),
        ("placer", "PHALANX_SETLE_MS", "5", "did you mean PHALANX_SETTLE_MS?"),
    ],
)
async def test_a_wrong_setting_ends_the_service_with_advice(
    tmp_path: Path, service: str, variable: str, value: str, said: str
) -> None:
    """Exit code 2, and a sentence that names variable, value and what was expected."""
    process = LocalProcess(name=service, folder=tmp_path, environment={variable: value})
    process.start()
    await until(lambda: process.exit_code is not None, what="the process ended")
    assert process.exit_code == 2
    log = process.tail()
    assert variable in log
    assert said in log
