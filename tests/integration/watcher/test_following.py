"""The stream stays equal to the cluster, whatever happens to the API."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from services.contracts.cloudevents import attributes_of
from services.core.objects import Applied, Deleted, Kind, Node, PodGroup, WatchPhase
from services.runtime.embedded_nats import EmbeddedNats
from services.sandbox.faults import Action, Answer, Match
from services.watcher.kinds import WATCHED_KINDS
from tests.builders import NAMESPACE, node_manifest, pod_group_manifest, pod_manifest
from tests.integration.watcher.harness import RunningWatcher, Scene, until, watcher

CASES = Path(__file__).parents[2] / "cases"
GROUP = "scheduling.k8s.io"


@pytest.fixture
async def started(scene: Scene, nats_server: EmbeddedNats, tmp_path: Path) -> AsyncIterator[RunningWatcher]:
    """A watcher that has caught up."""
    async with watcher(nats_url=nats_server.url, api_url=scene.sandbox.url, directory=tmp_path) as running:
        await scene.equal()
        yield running


async def test_what_exists_is_published(scene: Scene, started: RunningWatcher) -> None:
    """After the first list the stream equals the cluster, and the watcher is ready."""
    assert len(scene.reader.writes(Kind.NODE)) == 3
    await until(lambda: started.readiness.is_ready, what="ready")
    state = scene.reader.state(Kind.POD_GROUP)
    assert state is not None
    assert state.api_version == "scheduling.k8s.io/v1beta1"


async def test_changes_follow(scene: Scene, started: RunningWatcher) -> None:
    """Creations, changes and deletions reach the stream as CloudEvents; a deletion as a tombstone that expires."""
    scene.put("pods", pod_manifest("w-0"))
    scene.put("nodes", node_manifest("node-001"))
    scene.delete("nodes", "node-002")
    await scene.equal()
    tombstone = "phalanx.cluster.v1.node._.node-002"
    deleted = scene.reader.current[tombstone]
    assert isinstance(deleted, Deleted)
    headers = scene.reader.headers[tombstone]
    assert headers["Nats-TTL"] == "3600s"
    assert attributes_of(headers).id == f"{deleted.metadata.uid}/deleted"
    assert attributes_of(headers).type == "phalanx.cluster.v1.node.deleted"
    assert started.metric("phalanx_watcher_objects", kind="node") == 2


async def test_what_is_no_news_is_not_published(scene: Scene, started: RunningWatcher) -> None:
    """A heartbeat changes nothing for placement."""
    node = scene.sandbox.store.find("nodes", name="node-001")
    assert node is not None
    before = len(scene.reader.writes(Kind.NODE))
    beaten = {**node["status"]["conditions"][0], "lastHeartbeatTime": "2026-07-01T13:00:00Z"}
    scene.put("nodes", node | {"status": node["status"] | {"conditions": [beaten]}})
    scene.put("nodes", node_manifest("late"))
    await scene.equal()
    assert len(scene.reader.writes(Kind.NODE)) == before + 1
    await until(
        lambda: started.metric("phalanx_watcher_versions_total", kind="node", verdict="unchanged") > 0,
        what="the heartbeat was seen",
    )


async def test_a_closed_watch_goes_on_without_a_list(scene: Scene, started: RunningWatcher) -> None:
    """What happened meanwhile is delivered from the last version on."""
    for name in ("a", "b", "c"):
        scene.sandbox.watches.break_open()
        scene.put("pods", pod_manifest(name))
        await scene.equal()
    assert started.metric("phalanx_watcher_relists_total", kind="pod", reason="gone") == 0
    assert scene.reader.phases(Kind.POD).count(WatchPhase.LISTING) == 1


async def test_a_forgotten_version_is_listed_anew_and_nobody_decides_meanwhile(
    scene: Scene, started: RunningWatcher
) -> None:
    """On 410 LISTING comes first, then the differences with tombstones for what was missed, then SYNCED."""
    scene.put("pods", pod_manifest("gone"))
    await scene.equal()
    scene.sandbox.watches.refuse(["pods"], code=503)
    scene.sandbox.watches.break_open(["pods"])
    scene.delete("pods", "gone", namespace=NAMESPACE)
    scene.put("pods", pod_manifest("new"))
    scene.sandbox.watches.compact(["pods"])
    scene.sandbox.watches.release(["pods"])
    await scene.synced(Kind.POD, times=2)
    await scene.equal()
    assert started.metric("phalanx_watcher_relists_total", kind="pod", reason="gone") == 1
    listing, synced = WatchPhase.LISTING, WatchPhase.SYNCED
    assert scene.reader.phases(Kind.POD) == [listing, synced, listing, synced]
    subjects = [subject for subject, _ in scene.reader.history]
    relisting = len(subjects) - 1 - subjects[::-1].index("phalanx.cluster.v1.watch._.pod")
    assert subjects.index(f"phalanx.cluster.v1.pod.{NAMESPACE}.new") < relisting


async def test_a_list_that_breaks_between_pages_starts_from_its_first_page(
    scene: Scene, nats_server: EmbeddedNats, tmp_path: Path
) -> None:
    """A 410 for the second page does not leave half a list."""
    for number in range(1500):
        scene.put("pods", pod_manifest(f"p-{number}"))
    fault = scene.sandbox.faults.add(
        Match(method="GET", path="/pods$", query="continue="), Action(answer=Answer(code=410, reason="Expired"))
    )
    async with watcher(nats_url=nats_server.url, api_url=scene.sandbox.url, directory=tmp_path) as running:
        await scene.equal()
        assert fault.used_count == 1
        assert running.metric("phalanx_watcher_relists_total", kind="pod", reason="gone_in_list") == 1


async def test_the_field_case_of_lost_deletions_and_a_stale_event(scene: Scene, started: RunningWatcher) -> None:
    """C30: what was deleted while the watch was broken is buried, and an old event does not bring it back."""
    plurals = {
        "Namespace": ("namespaces", ""),
        "Node": ("nodes", ""),
        "Pod": ("pods", ""),
        "PodGroup": ("podgroups", GROUP),
    }
    for document in yaml.safe_load_all((CASES / "C30-watch-410-relist.yaml").read_text()):
        if document["kind"] in plurals:
            plural, group = plurals[document["kind"]]
            scene.put(plural, document, group=group)
    await scene.equal()
    kinds = ["pods", "nodes", "podgroups"]
    scene.sandbox.watches.refuse(kinds, code=503)
    scene.sandbox.watches.break_open(kinds)
    ghost = scene.delete("pods", "ghost", namespace="cases-c30")
    scene.delete("pods", "live", namespace="cases-c30")
    scene.delete("nodes", "c30-n3")
    scene.delete("podgroups", "old", namespace="cases-c30", group=GROUP)
    scene.sandbox.watches.compact(kinds)
    scene.sandbox.watches.release(kinds)
    await scene.synced(Kind.POD, times=2)
    await scene.equal()
    buried = scene.reader.current["phalanx.cluster.v1.pod.cases-c30.ghost"]
    assert isinstance(buried, Deleted)
    assert buried.metadata.uid == ghost["metadata"]["uid"]
    await until(lambda: bool(scene.sandbox.watches.open(["pods"])), what="the watch is open again")
    assert scene.sandbox.watches.send("pods", type_="MODIFIED", obj=ghost)
    await until(
        lambda: started.metric("phalanx_watcher_versions_total", kind="pod", verdict="outdated") == 1,
        what="the stale event was seen",
    )
    await scene.equal()
    assert isinstance(scene.reader.current["phalanx.cluster.v1.pod.cases-c30.ghost"], Deleted)


async def test_an_outdated_version_never_replaces_a_newer_one(scene: Scene, started: RunningWatcher) -> None:
    """Neither of the same object, nor of one that was made anew under its name."""
    scene.put("nodes", node_manifest("n", gpus=8))
    first = scene.sandbox.store.find("nodes", name="n")
    assert first is not None
    scene.put("nodes", node_manifest("n", gpus=4))
    await scene.equal()
    scene.sandbox.watches.send("nodes", type_="MODIFIED", obj=first)
    scene.delete("nodes", "n")
    scene.put("nodes", node_manifest("n", gpus=2))
    await scene.equal()
    scene.sandbox.watches.send("nodes", type_="DELETED", obj=first)
    scene.sandbox.watches.send("nodes", type_="MODIFIED", obj=first)
    scene.put("nodes", node_manifest("after"))
    await scene.equal()
    assert started.metric("phalanx_watcher_versions_total", kind="node", verdict="outdated") == 3
    held = scene.reader.current["phalanx.cluster.v1.node._.n"]
    assert isinstance(held, Applied)
    assert isinstance(held.object, Node)
    assert held.object.allocatable["nvidia.com/gpu"] == 2


async def test_an_absent_api_is_a_state_and_is_taken_up_when_it_appears(
    scene: Scene, nats_server: EmbeddedNats, tmp_path: Path
) -> None:
    """Readers are told ABSENT; the watcher is ready, and says what is missing."""
    scene.sandbox.cluster.serve(GROUP, versions=["v1"])
    async with watcher(nats_url=nats_server.url, api_url=scene.sandbox.url, directory=tmp_path) as running:
        await scene.equal()
        state = scene.reader.state(Kind.POD_GROUP)
        assert state is not None
        assert state.phase is WatchPhase.ABSENT
        await until(lambda: running.readiness.is_ready, what="ready without PodGroups")
        assert "absent" in running.detail(Kind.POD_GROUP)
        assert running.metric("phalanx_watcher_phase", kind="podgroup", phase="absent") == 1
        scene.sandbox.cluster.serve(GROUP, versions=["v1", "v1beta1", "v1alpha3"])
        scene.put("podgroups", pod_group_manifest("g", min_count=2), group=GROUP)
        await scene.synced(Kind.POD_GROUP, times=1)
        await scene.equal()


async def test_objects_of_an_api_that_disappears_are_buried_and_come_back_with_it(
    scene: Scene, started: RunningWatcher
) -> None:
    """What cannot be seen does not exist for placement; the same objects return unchanged."""
    scene.put("podgroups", pod_group_manifest("g", min_count=2), group=GROUP)
    await scene.equal()
    scene.sandbox.cluster.serve(GROUP, versions=["v1"])
    await until(lambda: WatchPhase.ABSENT in scene.reader.phases(Kind.POD_GROUP), what="PodGroups are absent")
    await scene.equal()
    assert isinstance(scene.reader.current[f"phalanx.cluster.v1.podgroup.{NAMESPACE}.g"], Deleted)
    scene.sandbox.cluster.serve(GROUP, versions=["v1", "v1beta1"])
    await scene.synced(Kind.POD_GROUP, times=2)
    await scene.equal()
    await until(lambda: started.readiness.is_ready, what="ready again")


async def test_the_older_version_alone_is_followed(scene: Scene, nats_server: EmbeddedNats, tmp_path: Path) -> None:
    """Where only v1alpha3 is served, it is watched, and readers are told so."""
    scene.sandbox.cluster.serve(GROUP, versions=["v1", "v1alpha3"])
    scene.put("podgroups", pod_group_manifest("g", min_count=3), group=GROUP)
    async with watcher(nats_url=nats_server.url, api_url=scene.sandbox.url, directory=tmp_path):
        await scene.equal()
        state = scene.reader.state(Kind.POD_GROUP)
        assert state is not None
        assert state.api_version == "scheduling.k8s.io/v1alpha3"
        group = scene.reader.current[f"phalanx.cluster.v1.podgroup.{NAMESPACE}.g"]
        assert isinstance(group, Applied)
        assert isinstance(group.object, PodGroup)
        assert group.object.min_count == 3


async def test_a_malformed_object_is_left_out_and_its_good_form_stays(scene: Scene, started: RunningWatcher) -> None:
    """It is counted, the others go on, and its deletion is published all the same."""
    scene.put("nodes", node_manifest("n-0"))
    await scene.equal()
    node = scene.sandbox.store.find("nodes", name="n-0")
    assert node is not None
    scene.put("nodes", node | {"status": {"allocatable": {"cpu": "much"}}})
    scene.put("nodes", node_manifest("n-1"))
    await until(
        lambda: started.metric("phalanx_watcher_malformed_objects_total", kind="node") == 1, what="it is counted"
    )
    await until(lambda: "phalanx.cluster.v1.node._.n-1" in scene.reader.current, what="others go on")
    kept = scene.reader.current["phalanx.cluster.v1.node._.n-0"]
    assert isinstance(kept, Applied)
    assert isinstance(kept.object, Node)
    # Also a list does not bury it: it is there, only not understood.
    scene.sandbox.watches.compact(["nodes"])
    scene.sandbox.watches.break_open(["nodes"])
    await scene.synced(Kind.NODE, times=2)
    assert isinstance(scene.reader.current["phalanx.cluster.v1.node._.n-0"], Applied)
    scene.delete("nodes", "n-0")
    await scene.equal()


async def test_a_forbidden_kind_says_which_permission_is_missing(
    scene: Scene, nats_server: EmbeddedNats, tmp_path: Path
) -> None:
    """The watcher waits for it, the other kinds go on, and it resumes when the permission is there."""
    fault = scene.sandbox.faults.add(
        Match(method="GET", path="/api/v1/pods$"),
        Action(answer=Answer(code=403, reason="Forbidden")),
        times=None,
    )
    async with watcher(nats_url=nats_server.url, api_url=scene.sandbox.url, directory=tmp_path) as running:
        expected = "forbidden: list pods at the cluster scope; grant list, watch on pods"
        await until(lambda: running.detail(Kind.POD) == expected, what="the permission is named")
        await scene.synced(Kind.NODE, times=1)
        assert not running.readiness.is_ready
        scene.sandbox.faults.remove(fault.id)
        await scene.equal()
        await until(lambda: running.readiness.is_ready, what="ready again")


async def test_an_api_server_that_is_away_is_waited_for(scene: Scene, started: RunningWatcher) -> None:
    """Every request fails for a while: the watcher says so, and misses nothing."""
    fault = scene.sandbox.faults.add(Match(), Action(cut="before"), times=None)
    scene.sandbox.watches.break_open()
    await until(
        lambda: all("waiting for the API server" in started.detail(watched.kind) for watched in WATCHED_KINDS),
        what="every kind waits",
    )
    scene.put("pods", pod_manifest("meanwhile"))
    scene.delete("nodes", "node-003")
    scene.sandbox.faults.remove(fault.id)
    await scene.equal()
    await until(lambda: started.readiness.is_ready, what="ready again")
