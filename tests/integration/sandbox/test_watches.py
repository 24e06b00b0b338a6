"""Watches over HTTP: bookmarks, ends, disturbances, and clients that are too slow."""

import aiohttp
import pytest

from services.sandbox.cluster import ClusterSettings
from services.sandbox.store import Limits
from tests.e2e.waiting import until
from tests.fakes.clock import FakeClock
from tests.integration.sandbox.client import PODS, served


async def test_watch_shows_changes_in_order() -> None:
    """Creation, binding and deletion arrive as they were committed."""
    async with served() as client, client.watch() as watch:
        await client.create_pod("p")
        binding = {"metadata": {"name": "p"}, "target": {"name": "n"}}
        await client.call("POST", f"{PODS}/p/binding", binding)
        await client.call("DELETE", f"{PODS}/p", gracePeriodSeconds="0")
        types = [type_ for type_, _ in await watch.names(4)]
    # A pod is marked as being deleted before it goes, even where its grace period is zero.
    assert types == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]


async def test_bookmarks_come_periodically_and_at_the_end() -> None:
    """A quiet watch moves its client's resourceVersion on, and ends in order at its timeout."""
    clock = FakeClock()
    settings = ClusterSettings(has_controllers=False, bookmark_interval_s=0.01)
    async with served(settings, clock=clock) as client:
        query = {"allowWatchBookmarks": "true", "timeoutSeconds": "30"}
        async with client.watch(**query) as watch:
            first = await watch.next()
            await client.call("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
            current = str(client.sandbox.store.revision)
            versions = [first["object"]["metadata"]["resourceVersion"]]
            while versions[-1] != current:
                versions.append((await watch.next())["object"]["metadata"]["resourceVersion"])
            clock.advance(31)
            rest = await watch.rest()
        assert {event["type"] for event in rest} == {"BOOKMARK"}
    assert int(versions[0]) < int(current)


async def test_slow_watch_is_closed_and_can_resume() -> None:
    """A client that does not read loses its watch, never an event: it resumes from what it has seen."""
    settings = ClusterSettings(has_controllers=False, limits=Limits(watch_queue_events=50))
    async with served(settings) as client:
        since = str(client.sandbox.store.revision)
        async with client.watch() as slow:
            # Large objects fill the socket's buffers, so that the queue behind them grows.
            padding = {"padding": "x" * 100_000}
            created = 0
            while client.sandbox.watches.open(("pods",)):
                await client.create_pod(f"p{created:04d}", annotations=padding)
                created += 1
                assert created < 2000
            seen = len(await slow.rest())
        assert 0 < seen < created
        async with client.watch(resourceVersion=since) as resumed:
            assert resumed.response.status == 200


async def test_broken_watch_and_refused_resume() -> None:
    """Broken watches end abruptly, new ones are refused until released, and nothing is missed afterwards."""
    async with served() as client:
        since = str(client.sandbox.store.revision)
        async with client.watch() as watch:
            await until(client.sandbox.watches.open, what="an open watch")
            _, answer = await client.call("POST", "/_sandbox/watches", {"kinds": ["pods"], "action": "break"})
            with pytest.raises((aiohttp.ClientError, EOFError)):
                await watch.next()
        assert answer == {"broken": 1}
        await client.call("POST", "/_sandbox/watches", {"kinds": ["pods"], "action": "refuse", "code": 503})
        async with client.watch(resourceVersion=since) as refused:
            assert refused.response.status == 503
        await client.create_pod("p")
        await client.call("POST", "/_sandbox/watches", {"action": "release"})
        async with client.watch(resourceVersion=since) as watch:
            assert await watch.names(1) == [("ADDED", "p")]


async def test_compacted_history_expires_a_resume() -> None:
    """After a compaction the resumed watch gets 410 as an ERROR event."""
    async with served() as client:
        since = str(client.sandbox.store.revision)
        await client.call("POST", "/_sandbox/watches", {"action": "compact"})
        async with client.watch(resourceVersion=since) as watch:
            event = await watch.next()
            with pytest.raises(EOFError):
                await watch.next()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


async def test_raw_event_reaches_watches_but_not_the_store() -> None:
    """An outdated object can be shown to clients without changing what is stored."""
    async with served() as client:
        _, old = await client.create_pod("p")
        async with client.watch() as watch:
            await until(client.sandbox.watches.open, what="an open watch")
            document = {"kind": "pods", "type": "MODIFIED", "object": {"metadata": old["metadata"]}}
            _, answer = await client.call("POST", "/_sandbox/events", document)
            event = await watch.next()
        _, stored = await client.call("GET", f"{PODS}/p")
    assert answer == {"watches": 1}
    assert event["object"]["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]
    assert "spec" not in event["object"]
    assert "spec" in stored


async def test_api_that_appears_later() -> None:
    """A group that is not served answers 404 to everything, and works once it is switched on."""
    settings = ClusterSettings(has_controllers=False, apis=(("scheduling.k8s.io", ("v1",)),))
    path = "/apis/scheduling.k8s.io/v1beta1/podgroups"
    async with served(settings) as client:
        gone = [(await client.call("GET", one))[0] for one in (path, "/apis/scheduling.k8s.io/v1beta1")]
        _, group = await client.call("GET", "/apis/scheduling.k8s.io")
        await client.call("POST", "/_sandbox/apis", {"scheduling.k8s.io": ["v1", "v1alpha3"]})
        old, _ = await client.call("GET", path.replace("v1beta1", "v1alpha3"))
        still, _ = await client.call("GET", path)
        wrong, answer = await client.call("POST", "/_sandbox/apis", {"scheduling.k8s.io": ["v9"]})
    assert gone == [404, 404]
    assert [version["version"] for version in group["versions"]] == ["v1"]
    assert (old, still, wrong) == (200, 404, 400)
    assert "v9" in answer["error"]


async def test_watch_of_an_api_that_goes_away_is_broken() -> None:
    """Switching an API off ends its watches, as a restart of the API server would."""
    async with served() as client:
        async with client.watch("/apis/resource.k8s.io/v1/resourceslices") as watch:
            await until(client.sandbox.watches.open, what="an open watch")
            await client.call("POST", "/_sandbox/apis", {"resource.k8s.io": []})
            with pytest.raises((aiohttp.ClientError, EOFError)):
                await watch.next()
        code, _ = await client.call("GET", "/apis/resource.k8s.io/v1/resourceslices")
    assert code == 404


async def test_requests_are_counted_and_writes_logged() -> None:
    """Tests can ask what was asked: counts by verb, resource and code, and the writes in order."""
    async with served() as client:
        await client.call("DELETE", "/_sandbox/requests")
        await client.create_pod("p")
        await client.create_pod("p")
        await client.call("GET", PODS)
        _, found = await client.call("GET", "/_sandbox/requests")
    counts = {(row["verb"], row["resource"], row["code"]): row["count"] for row in found["counts"]}
    assert counts == {("create", "pods", 201): 1, ("create", "pods", 409): 1, ("list", "pods", 200): 1}
    assert [(write["verb"], write["code"]) for write in found["writes"]] == [("create", 201), ("create", 409)]
    assert '"name":"p"' in found["writes"][0]["body"]
