"""A Job that an undo would ruin is warned of before anything is bound, on the controllers of a real control plane."""

import pytest

from services.core.decisions import Proposed, RolledBack
from services.core.reasons import ReasonCode
from tests.builders import job_manifest
from tests.e2e.api import Api
from tests.e2e.gangs import submit_group
from tests.e2e.kubernetes.gangs import LONG_S, decided, events_of, placed
from tests.e2e.kubernetes.refusals import refusing
from tests.e2e.kubernetes.system import GPUS, System
from tests.e2e.waiting import eventually

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]


async def test_a_job_of_64_with_the_default_limit_is_warned_of_before_it_is_undone(system: System, api: Api) -> None:
    """The decision names the fields, Events on group and Job repeat it, and then it comes as it was said."""
    gang = await submit_group(
        api,
        "plain",
        min_count=GPUS,
        annotations={"phalanx.dev/repair-window": "0s"},
        version=system.group_version,
    )
    async with refusing(system, api, "plain-5-", spares_dry_runs=True):
        await api.create(job_manifest("plain", count=GPUS, group="plain", namespace=api.namespace))
        await decided(system, gang, RolledBack)
        (first, *_) = events_of(system, gang, Proposed)
        (warning,) = first.warnings
        assert (warning.code, warning.subject) == (ReasonCode.UNDO_FATAL, "spec.backoffLimit")
        assert warning.count == GPUS - 1
        await eventually(lambda: _told(api), what="group and Job were warned", timeout_s=LONG_S)
        await eventually(lambda: _has_failed(api), what="the Job has failed, as it was warned", timeout_s=LONG_S)
    await eventually(lambda: _is_empty(api), what="nothing is left of the gang", timeout_s=LONG_S)


async def _told(api: Api) -> bool:
    """Tell whether Events on both say so. They were made before the deletions that they warn of."""
    events = [one for one in await api.list("Event") if one["reason"] == ReasonCode.UNDO_FATAL]
    assert all("spec.podFailurePolicy" in one["message"] for one in events)
    return {one["involvedObject"]["kind"] for one in events} == {"PodGroup", "Job"}


async def _has_failed(api: Api) -> bool:
    conditions = (await api.get("Job", "plain")).get("status", {}).get("conditions") or ()
    return any(one["type"] == "Failed" and one["status"] == "True" for one in conditions)


async def _is_empty(api: Api) -> bool:
    return not await placed(api, "plain")
