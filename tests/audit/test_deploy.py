"""`deploy/audit`: accepted by the real API server, and the account's rights are those that an audit uses."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from services.cli.audit.collecting import collect
from services.cli.audit.evidence import State
from services.cli.audit.optional_sources import OPTIONAL
from services.cli.audit.sources import SOURCES
from services.runtime.kube import KubeClient
from tests.audit.accounts import (
    ACCOUNT,
    HOME,
    account_kubeconfig,
    apply_rights,
    dry_run,
    granted,
    granted_urls,
    manifests,
)
from tests.audit.states import report_of
from tests.e2e.kubernetes.audit import Audit
from tests.kubernetes.cluster import Cluster, ClusterConfig
from tests.kubernetes.connection import Target, connected
from tests.kubernetes.fixtures import require_binaries

pytestmark = pytest.mark.kubernetes

OPEN_TO_ALL = {"/version", "/apis"}
"""Paths that every account may get."""


async def test_job_and_account_on_a_real_api_server(tmp_path: Path) -> None:
    """Both manifests are accepted strictly; with the account's token all is read, every right is used and no other."""
    require_binaries()
    log = Audit.within(tmp_path)
    config = ClusterConfig(controller_manager=False, apiserver_args=log.apiserver_args)
    async with (
        Cluster(config) as cluster,
        connected(Target.from_kubeconfig(cluster.kubeconfig)) as api,
    ):
        await apply_rights(api)
        for name in ("job.yaml", "cronjob.yaml"):
            (manifest,) = manifests(name)
            stored = await dry_run(api, manifest)
            assert stored["metadata"]["name"] == ACCOUNT
        kubeconfig = await account_kubeconfig(api, cluster=cluster, folder=tmp_path)
        async with await KubeClient.open(kubeconfig) as client:
            evidence = await collect(client, tell=lambda _source, _count: None)
    states = {key: one.state for key, one in evidence.readings.items() if key not in {each.key for each in OPTIONAL}}
    assert {key for key, state in states.items() if state is State.FAILED} == set()
    assert {gap.source.split()[0] for gap in report_of(evidence).gaps} <= {"components"}
    requests = [one for one in log.requests() if one.user == f"system:serviceaccount:{HOME}:{ACCOUNT}"]
    assert not [one for one in requests if one.is_forbidden]
    asked = {(one.namespace, one.right.group, one.right.resource) for one in requests if one.right is not None}
    assert asked == granted()
    assert {one.right.verb for one in requests if one.right is not None} == {"list"}
    urls = {urlsplit(one.uri).path for one in requests if one.right is None}
    assert urls - OPEN_TO_ALL == granted_urls()


def test_the_account_may_read_what_checks_look_at_and_nothing_else() -> None:
    """A source that is added needs its rule, and one that goes leaves none behind."""
    assert granted() == {(one.namespace, one.group, one.resource) for one in SOURCES if not one.path}
    assert granted_urls() == {one.path for one in SOURCES if one.path} - OPEN_TO_ALL


def test_the_job_runs_as_the_account_and_is_not_root() -> None:
    """Both manifests run one and the same pod, which can neither write nor gain rights on its node."""
    (job,), (cron,) = manifests("job.yaml"), manifests("cronjob.yaml")
    pod = job["spec"]["template"]["spec"]
    assert pod == cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == ACCOUNT
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["command"] == ["python3", "-m", "services.cli", "audit"]
