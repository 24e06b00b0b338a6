"""The Kubernetes client against a scripted server that answers as kube-apiserver does."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from services.runtime import telemetry
from services.runtime.kube import Gone, KubeClient, KubeError, KubeUnavailable, WatchEvent

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
PODS = "/api/v1/pods"


def status(code: int, *, reason: str, message: str = "no") -> dict[str, Any]:
    """A Status object as the API server sends it."""
    return {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}


def refused(code: int, *, reason: str, **headers: str) -> web.Response:
    """An unsuccessful answer."""
    return web.json_response(status(code, reason=reason), status=code, headers=headers)


def pod(name: str, *, version: int, **more: Any) -> dict[str, Any]:
    """The least of a pod."""
    return {"metadata": {"name": name, "resourceVersion": str(version)}, **more}


def line(kind: str, thing: dict[str, Any]) -> bytes:
    """One line of a watch."""
    return orjson.dumps({"type": kind, "object": thing}) + b"\n"


@dataclass(slots=True)
class Api:
    """A server whose answers are given by the test, and the requests that it saw."""

    handlers: dict[str, Handler] = field(default_factory=dict)
    seen: list[web.Request] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    async def dispatch(self, request: web.Request) -> web.StreamResponse:
        """Answer as the test said for that path; 404 for others."""
        self.seen.append(request)
        self.bodies.append(await request.read())
        handler = self.handlers.get(request.path)
        return refused(404, reason="NotFound") if handler is None else await handler(request)


@pytest.fixture
async def api() -> AsyncIterator[tuple[Api, str]]:
    """The scripted server and its URL."""
    scripted = Api()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", scripted.dispatch)
    server = TestServer(application)
    await server.start_server(shutdown_timeout=0.1)
    yield scripted, f"http://127.0.0.1:{server.port}"
    await server.close()


def kubeconfig(path: Path, *, server: str, user: dict[str, Any], **cluster: Any) -> Path:
    """A kubeconfig with one context."""
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": {"server": server, **cluster}}],
                "users": [{"name": "u", "user": user}],
            }
        ),
        encoding="utf-8",
    )
    return path


@pytest.fixture
async def client(api: tuple[Api, str], tmp_path: Path) -> AsyncIterator[KubeClient]:
    """A client of the scripted server."""
    config = kubeconfig(tmp_path / "kubeconfig", server=api[1] + "/", user={"token": "t0"})
    async with await KubeClient.open(config) as opened:
        yield opened


async def test_a_request_arrives_as_it_was_made(api: tuple[Api, str], client: KubeClient) -> None:
    """Method, query, body, content type, identity and trace are what the server sees; the answer is what it said."""
    scripted, _ = api

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({"ok": True}, status=201, headers={"Warning": "299 - old"})

    path = "/api/v1/namespaces/a/pods/p/binding"
    scripted.handlers[path] = answer
    traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    tracer = telemetry.setup("binder", {}).get_tracer("t")
    with tracer.start_as_current_span("s", context=telemetry.extract({"traceparent": traceparent})):
        reply = await client.request(
            "POST", path, query={"dryRun": "All", "labelSelector": "a=b,c in (d e)"}, body={"x": [1]}
        )

    (request,) = scripted.seen
    assert (reply.status, reply.json(), reply.headers["warning"]) == (201, {"ok": True}, "299 - old")
    assert dict(request.query) == {"dryRun": "All", "labelSelector": "a=b,c in (d e)"}
    assert scripted.bodies == [b'{"x":[1]}']
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["Authorization"] == "Bearer t0"
    assert request.headers["traceparent"] == traceparent


async def test_patches_keep_their_content_type(api: tuple[Api, str], client: KubeClient) -> None:
    """Bytes are sent untouched under the type that the caller names."""
    scripted, _ = api
    await client.request("PATCH", PODS, body=b"[]", content_type="application/json-patch+json")

    assert scripted.seen[0].headers["Content-Type"] == "application/json-patch+json"
    assert scripted.bodies == [b"[]"]


async def test_a_refusal_is_an_error_with_its_reason(api: tuple[Api, str], client: KubeClient) -> None:
    """`request` returns what the server said, `request_ok` raises it with status, reason and waiting time."""
    scripted, _ = api

    async def busy(_request: web.Request) -> web.Response:
        return refused(429, reason="TooManyRequests", **{"Retry-After": "3"})

    scripted.handlers[PODS] = busy
    assert (await client.request("GET", PODS)).status == 429
    with pytest.raises(KubeError) as caught:
        await client.request_ok("GET", PODS)

    error = caught.value
    assert (error.status, error.reason, error.message, error.retry_after_s) == (429, "TooManyRequests", "no", 3)
    assert (error.verb, error.resource, error.path) == ("list", "pods", PODS)


async def test_a_missing_permission_is_named(api: tuple[Api, str], client: KubeClient) -> None:
    """A 403 on a watch says which verb on which resource has to be granted."""
    scripted, _ = api

    async def forbidden(_request: web.Request) -> web.Response:
        return refused(403, reason="Forbidden")

    scripted.handlers["/apis/resource.k8s.io/v1/resourceclaims"] = forbidden
    with pytest.raises(KubeError, match=r"grant verb 'watch' on resource 'resourceclaims\.resource\.k8s\.io'"):
        async for _ in client.watch("/apis/resource.k8s.io/v1/resourceclaims", resource_version="1"):
            pass


async def test_lists_come_in_pages(api: tuple[Api, str], client: KubeClient) -> None:
    """Pages follow the continue token; the version that was asked for is named on the first page only."""
    scripted, _ = api

    async def page(request: web.Request) -> web.Response:
        token = request.query.get("continue")
        metadata = {"resourceVersion": "7"} | ({} if token else {"continue": "next"})
        return web.json_response({"metadata": metadata, "items": [pod(token or "first", version=1)]})

    scripted.handlers[PODS] = page
    query = {"resourceVersion": "0", "fieldSelector": "spec.nodeName="}
    pages = [found async for found in client.list_pages(PODS, limit=1, query=query)]

    assert [found.items[0]["metadata"]["name"] for found in pages] == ["first", "next"]
    assert [(found.resource_version, found.continue_token) for found in pages] == [("7", "next"), ("7", "")]
    assert dict(scripted.seen[0].query) == {"limit": "1", **query}
    assert dict(scripted.seen[1].query) == {"limit": "1", "continue": "next", "fieldSelector": "spec.nodeName="}


async def test_an_empty_list_has_a_version(api: tuple[Api, str], client: KubeClient) -> None:
    """`items: null` is how the server writes an empty list; its version is what a watch starts from."""
    scripted, _ = api

    async def nothing(_request: web.Request) -> web.Response:
        return web.json_response({"metadata": {"resourceVersion": "9"}, "items": None})

    scripted.handlers[PODS] = nothing
    (page,) = [found async for found in client.list_pages(PODS)]
    assert (page.items, page.resource_version) == ((), "9")


async def test_a_list_that_expires_between_pages_is_gone(api: tuple[Api, str], client: KubeClient) -> None:
    """The first page arrives, then Gone says that the list has to start again."""
    scripted, _ = api

    async def page(request: web.Request) -> web.Response:
        if "continue" in request.query:
            return refused(410, reason="Expired")
        return web.json_response({"metadata": {"continue": "x", "resourceVersion": "1"}, "items": []})

    scripted.handlers[PODS] = page
    pages = client.list_pages(PODS)
    await anext(pages)
    with pytest.raises(Gone):
        await anext(pages)


def watching(*parts: bytes, cut: bool = False, wait: asyncio.Event | None = None) -> Handler:
    """A watch that sends these parts and then ends, is cut off, or waits."""

    async def serve(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for part in parts:
            await response.write(part)
        if wait is not None:
            await wait.wait()
        if cut:
            assert request.transport is not None
            request.transport.abort()
        return response

    return serve


async def collected(client: KubeClient, **more: Any) -> list[WatchEvent]:
    """All events of a watch until it ends."""
    return [event async for event in client.watch(PODS, resource_version="5", **more)]


async def test_watch_events_arrive_in_order(api: tuple[Api, str], client: KubeClient) -> None:
    """Events and bookmarks come as sent, with their size; a finished stream just ends."""
    scripted, _ = api
    lines = [
        line("ADDED", pod("a", version=6)),
        line("BOOKMARK", {"metadata": {"resourceVersion": "9"}}),
        line("DELETED", pod("a", version=10)),
    ]
    joined = b"".join(lines)
    scripted.handlers[PODS] = watching(joined[:20], joined[20:50], joined[50:])

    events = await collected(client, timeout_s=2.5, query={"labelSelector": "x"})

    assert [event.type for event in events] == ["ADDED", "BOOKMARK", "DELETED"]
    assert [event.object["metadata"]["resourceVersion"] for event in events] == ["6", "9", "10"]
    assert events[0].raw_size == len(lines[0]) - 1
    assert dict(scripted.seen[0].query) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "3",
        "labelSelector": "x",
    }


async def test_an_object_of_any_size_fits(api: tuple[Api, str], client: KubeClient) -> None:
    """A line far above the limits of line readers arrives whole."""
    scripted, _ = api
    large = pod("big", version=6, spec={"text": "x" * 3_000_000})
    scripted.handlers[PODS] = watching(line("ADDED", large), line("MODIFIED", pod("big", version=7)))

    events = await collected(client)

    assert events[0].object == large
    assert events[1].object["metadata"]["resourceVersion"] == "7"


async def test_a_cut_watch_ends_with_what_arrived(api: tuple[Api, str], client: KubeClient) -> None:
    """A broken connection in the middle of a line loses that line only: its event comes again on the next watch."""
    scripted, _ = api
    scripted.handlers[PODS] = watching(line("ADDED", pod("a", version=6)), b'{"type":"ADD', cut=True)

    assert [event.object["metadata"]["name"] for event in await collected(client)] == ["a"]


@pytest.mark.parametrize("in_stream", [True, False])
async def test_a_watch_from_too_old_a_version_is_gone(
    api: tuple[Api, str], client: KubeClient, *, in_stream: bool
) -> None:
    """410 is Gone, as an answer and as an ERROR event."""
    scripted, _ = api

    async def expired(_request: web.Request) -> web.Response:
        return refused(410, reason="Expired")

    in_line = watching(line("ERROR", status(410, reason="Expired", message="too old resource version")))
    scripted.handlers[PODS] = in_line if in_stream else expired
    with pytest.raises(Gone):
        await collected(client)


async def test_other_error_events_are_raised(api: tuple[Api, str], client: KubeClient) -> None:
    """An ERROR event that is not 410 keeps its status and reason."""
    scripted, _ = api
    scripted.handlers[PODS] = watching(line("ERROR", status(500, reason="InternalError")))

    with pytest.raises(KubeError) as caught:
        await collected(client)
    assert (caught.value.status, caught.value.reason) == (500, "InternalError")
    assert not isinstance(caught.value, Gone)


async def connection_ended(request: web.Request) -> None:
    """Wait until the server noticed that the other side left."""
    async with asyncio.timeout(5):
        while request.transport is not None and not request.transport.is_closing():  # noqa: ASYNC110
            await asyncio.sleep(0.005)  # the server offers nothing to wait on


async def test_leaving_a_watch_closes_its_connection(api: tuple[Api, str], client: KubeClient) -> None:
    """Whoever stops watching early leaves nothing open at the server."""
    scripted, _ = api
    scripted.handlers[PODS] = watching(line("ADDED", pod("a", version=6)), wait=asyncio.Event())
    async with contextlib.aclosing(client.watch(PODS, resource_version="5")) as events:
        await anext(events)
    await connection_ended(scripted.seen[0])


async def test_many_watches_leave_room_for_requests(api: tuple[Api, str], tmp_path: Path) -> None:
    """Open watches, as many as there are connections, do not stop a request."""
    scripted, url = api
    scripted.handlers[PODS] = watching(line("ADDED", pod("a", version=6)), wait=asyncio.Event())
    config = kubeconfig(tmp_path / "k", server=url, user={"token": "t"})
    async with await KubeClient.open(config, connections=2) as client, contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            events = await stack.enter_async_context(contextlib.aclosing(client.watch(PODS, resource_version="5")))
            await anext(events)
        assert (await client.request("GET", "/version", timeout_s=5)).status == 404


async def test_no_answer_is_unavailable(api: tuple[Api, str], client: KubeClient, tmp_path: Path) -> None:
    """Refused connections, cut answers and timeouts are one kind of error that names the server and the request."""
    scripted, _ = api

    async def cut(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def late(_request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    scripted.handlers |= {"/cut": cut, "/late": late}
    for path in ("/cut", "/late"):
        with pytest.raises(KubeUnavailable, match=f"GET {path}"):
            await client.request("GET", path, timeout_s=0.2)

    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    config = kubeconfig(tmp_path / "other", server=f"http://127.0.0.1:{port}", user={})
    async with await KubeClient.open(config) as other:
        with pytest.raises(KubeUnavailable, match=f"127.0.0.1:{port}"):
            await other.request("GET", "/version")
        with pytest.raises(KubeUnavailable, match=PODS):
            await collected(other)


async def test_discovery_says_what_is_served(api: tuple[Api, str], client: KubeClient) -> None:
    """Versions and resources of groups; a group that is not served is empty and not an error."""
    scripted, _ = api

    def fixed(document: dict[str, Any]) -> Handler:
        async def answer(_request: web.Request) -> web.Response:
            return web.json_response(document)

        return answer

    versions = [{"version": "v1", "groupVersion": "resource.k8s.io/v1"}, {"version": "v1beta2"}]
    scripted.handlers |= {
        "/api": fixed({"versions": ["v1"]}),
        "/api/v1": fixed({"resources": [{"name": "pods"}, {"name": "pods/binding"}]}),
        "/apis/resource.k8s.io": fixed({"versions": versions}),
    }

    assert await client.served_versions("") == ("v1",)
    assert await client.served_versions("resource.k8s.io") == ("v1", "v1beta2")
    assert await client.served_versions("scheduling.k8s.io") == ()
    assert await client.resources("", "v1") == {"pods", "pods/binding"}
    assert await client.resources("scheduling.k8s.io", "v1beta1") == frozenset()

    async def forbidden(_request: web.Request) -> web.Response:
        return refused(403, reason="Forbidden")

    scripted.handlers["/apis/apps"] = forbidden
    with pytest.raises(KubeError, match="403"):
        await client.served_versions("apps")


async def test_answers_of_something_else_are_not_taken_for_the_api(api: tuple[Api, str], client: KubeClient) -> None:
    """A login page, with or without a redirect before it, is an error and not an empty cluster."""
    scripted, _ = api

    async def login(_request: web.Request) -> web.Response:
        return web.Response(text="<html>please log in</html>", content_type="text/html")

    async def redirect(_request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/login"})

    scripted.handlers |= {PODS: login, "/api": redirect}
    with pytest.raises(KubeUnavailable, match="please log in"):
        await anext(client.list_pages(PODS))
    with pytest.raises(KubeError, match="302"):
        await client.served_versions("")
    scripted.handlers[PODS] = watching(b"<html>\n")
    with pytest.raises(KubeUnavailable, match="not JSON"):
        await collected(client)
