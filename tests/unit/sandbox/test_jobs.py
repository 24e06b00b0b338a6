"""Jobs in the sandbox: pods created, counted once, replaced, and ended."""

import pytest

from services.sandbox import table
from services.sandbox.cluster import ClusterSettings
from services.sandbox.controllers import indexes
from services.sandbox.objects import condition_status, metadata, status
from tests.builders import NAMESPACE
from tests.unit.sandbox.world import job, world


async def test_pods_carry_labels_owner_and_finalizer() -> None:
    """A Job's pods can be found by its labels and are held until they are counted."""
    async with world() as here:
        made = here.create(table.JOB, job(parallelism=2, completions=2))
        await here.settle()
        pods = here.pods()
    assert len(pods) == 2
    labels = metadata(pods[0])["labels"]
    assert labels["batch.kubernetes.io/job-name"] == "j"
    assert labels["batch.kubernetes.io/controller-uid"] == metadata(made)["uid"]
    assert metadata(pods[0])["ownerReferences"][0]["controller"] is True
    assert metadata(pods[0])["finalizers"] == ["batch.kubernetes.io/job-tracking"]


async def test_job_completes_when_its_pods_have_run() -> None:
    """Bound pods run for the default time, succeed, are counted, and the Job is complete."""
    async with world() as here:
        here.create(table.JOB, job(parallelism=2, completions=2))
        await here.settle()
        here.bind(here.pods())
        await here.run_for(29)
        assert here.phases() == ["Running", "Running"]
        await here.run_for(2)
        done = here.found(table.JOB, "j")
        assert here.phases() == ["Succeeded", "Succeeded"]
    assert status(done)["succeeded"] == 2
    assert condition_status(done, "Complete") == "True"


async def test_annotation_overrides_run_time() -> None:
    """The annotation on the pod decides how long it runs, and 0 means until it is deleted."""
    async with world() as here:
        here.create(table.JOB, job("quick", annotations={"sandbox.phalanx.dev/run-seconds": "5"}))
        here.create(table.JOB, job("endless", annotations={"sandbox.phalanx.dev/run-seconds": "0"}))
        await here.settle()
        here.bind(here.pods())
        await here.run_for(1000)
        assert condition_status(here.found(table.JOB, "quick"), "Complete") == "True"
        assert condition_status(here.found(table.JOB, "endless"), "Complete") is None


async def test_deleted_pod_counts_as_failure_and_is_replaced() -> None:
    """Deleting a pod is a failure that counts towards the back-off limit, and a new pod takes its place."""
    async with world(ClusterSettings(nodes=1, job_backoff_s=2.0)) as here:
        here.create(table.JOB, job(parallelism=1, completions=1))
        await here.settle()
        first = metadata(here.pods()[0])["name"]
        here.delete(table.POD, first)
        await here.settle()
        assert here.pods() == []
        assert status(here.found(table.JOB, "j"))["failed"] == 1
        await here.run_for(2)
        names = [metadata(pod)["name"] for pod in here.pods()]
    assert len(names) == 1
    assert names != [first]


async def test_backoff_limit_fails_the_job() -> None:
    """One failure more than the limit ends the Job and its active pods."""
    async with world(ClusterSettings(nodes=1, job_backoff_s=1.0)) as here:
        here.create(table.JOB, job(parallelism=1, completions=1, backoffLimit=1))
        for _ in range(2):
            await here.run_for(5)
            here.delete(table.POD, metadata(here.active_pods()[0])["name"])
        await here.run_for(5)
        failed = here.found(table.JOB, "j")
        assert here.active_pods() == []
    assert condition_status(failed, "Failed") == "True"
    assert status(failed)["failed"] == 2


async def test_failure_policy_ignores_disruptions() -> None:
    """A pod marked as disrupted before its deletion is replaced without counting."""
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    async with world() as here:
        here.create(table.JOB, job(podFailurePolicy={"rules": [rule]}, backoffLimit=0))
        await here.settle()
        here.bind(here.pods())
        await here.settle()
        name = metadata(here.pods()[0])["name"]
        stored = here.cluster.writer.require(table.POD, namespace=NAMESPACE, name=name)
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        conditions = [*status(stored.obj)["conditions"], condition]
        here.cluster.writer.commit(stored, {**stored.obj, "status": {**status(stored.obj), "conditions": conditions}})
        here.delete(table.POD, name)
        await here.run_for(1)
        after = here.found(table.JOB, "j")
        names = [metadata(pod)["name"] for pod in here.active_pods()]
    assert "failed" not in status(after)
    assert condition_status(after, "Failed") is None
    assert len(names) == 1
    assert names != [name]


async def test_exit_code_rule_fails_the_job_at_once() -> None:
    """A rule on exit codes with FailJob ends the Job although its back-off limit is not reached."""
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    annotations = {"sandbox.phalanx.dev/exit-code": "42", "sandbox.phalanx.dev/run-seconds": "1"}
    async with world() as here:
        here.create(table.JOB, job(annotations=annotations, podFailurePolicy={"rules": [rule]}))
        await here.settle()
        here.bind(here.pods())
        await here.run_for(2)
        failed = here.found(table.JOB, "j")
    reasons = {condition["reason"] for condition in status(failed)["conditions"] if condition["type"] == "Failed"}
    assert reasons == {"PodFailurePolicy"}


async def test_suspend_takes_pods_away_without_counting_them() -> None:
    """A suspended Job has no pods and no failures; resuming creates them again."""
    async with world() as here:
        here.create(table.JOB, job(parallelism=3, completions=3))
        await here.settle()
        here.patch(table.JOB, "j", suspend=True)
        await here.settle()
        suspended = here.found(table.JOB, "j")
        assert here.pods() == []
        here.patch(table.JOB, "j", suspend=False)
        await here.settle()
        assert len(here.pods()) == 3
    assert condition_status(suspended, "Suspended") == "True"
    assert "failed" not in status(suspended)


async def test_indexed_job_numbers_its_pods_and_fills_gaps() -> None:
    """Each index has one pod at a time; a lost index is started again under the same number."""
    index = "batch.kubernetes.io/job-completion-index"
    async with world() as here:
        here.create(table.JOB, job(parallelism=3, completions=3, completionMode="Indexed"))
        await here.settle()
        numbers = sorted(metadata(pod)["labels"][index] for pod in here.pods())
        lost = next(pod for pod in here.pods() if metadata(pod)["labels"][index] == "1")
        here.delete(table.POD, metadata(lost)["name"])
        await here.run_for(2)
        again = sorted(metadata(pod)["labels"][index] for pod in here.pods())
        here.bind(here.pods())
        await here.run_for(31)
        done = here.found(table.JOB, "j")
    assert numbers == again == ["0", "1", "2"]
    assert status(done)["completedIndexes"] == "0-2"
    assert condition_status(done, "Complete") == "True"


async def test_quota_delays_pods_but_loses_no_count() -> None:
    """Where a quota refuses pods, the Job goes on as soon as it allows them."""
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
    async with world() as here:
        here.create(here.cluster.store.kind("resourcequotas"), quota)
        here.create(table.JOB, job(parallelism=2, completions=2))
        await here.run_for(3)
        assert len(here.pods()) == 1
        here.bind(here.pods())
        await here.run_for(35)
        here.bind(here.active_pods())
        await here.run_for(35)
        done = here.found(table.JOB, "j")
    assert status(done)["succeeded"] == 2


async def test_orphaned_pods_are_no_longer_held() -> None:
    """Deleting a Job without a policy orphans its pods, and nothing keeps them from being deleted."""
    async with world() as here:
        here.create(table.JOB, job())
        await here.settle()
        here.delete(table.JOB, "j")
        await here.settle()
        assert here.get(table.JOB, "j") is None
        orphan = here.pods()[0]
        assert "ownerReferences" not in metadata(orphan)
        here.delete(table.POD, metadata(orphan)["name"])
        await here.settle()
        assert here.pods() == []


@pytest.mark.parametrize(("text", "numbers"), [("", set()), ("0", {0}), ("0,2-4", {0, 2, 3, 4}), ("1-2,7", {1, 2, 7})])
def test_indexes_are_read_and_written(text: str, numbers: set[int]) -> None:
    """Completion indexes survive being written and read."""
    assert indexes.parse(text) == numbers
    assert indexes.shown(numbers) == text
