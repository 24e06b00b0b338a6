"""From HTTP request to answer: route, apply faults, call the rules, count.

Reading the request and writing the answer may wait; between them everything is synchronous, so that what a write has
checked cannot change before it is stored.
"""

import asyncio
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

import orjson
import yaml
from aiohttp import web

from services.runtime import log
from services.sandbox import control, patching, printing, table
from services.sandbox.cluster import Cluster
from services.sandbox.deletion import DeleteOptions
from services.sandbox.failures import ApiError, bad_request, method_not_allowed, unsupported_media_type
from services.sandbox.faults import Action, Fault
from services.sandbox.objects import Obj, metadata, name_of
from services.sandbox.paging import Page, list_page
from services.sandbox.requests import Target, flag, number, scope_of, target_of, write_options
from services.sandbox.streaming import stream
from services.sandbox.subresources import SUCCESS_CREATED
from services.sandbox.watching import Stored

VERSION = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.2",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "",
    "goVersion": "",
    "compiler": "phalanx-sandbox",
    "platform": "linux/amd64",
}
_log = log.get("sandbox")
_HEALTH = frozenset({"livez", "readyz", "healthz"})
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_CUT = 0
_PROTOBUF = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer that is complete."""

    code: int
    body: bytes
    content_type: str = "application/json"
    retry_after_s: int = 0

    def response(self) -> web.Response:
        """The answer as aiohttp sends it."""
        headers = {"Content-Type": self.content_type}
        if self.retry_after_s:
            headers["Retry-After"] = str(self.retry_after_s)
        return web.Response(status=self.code, body=self.body, headers=headers)


def _json(code: int, obj: Any) -> Reply:
    return Reply(code=code, body=orjson.dumps(obj))


def _error(error: ApiError, *, retry_after_s: int = 0) -> Reply:
    return Reply(code=error.code, body=orjson.dumps(error.status()), retry_after_s=retry_after_s)


_NOT_SERVED = Reply(code=404, body=b"404 page not found\n", content_type="text/plain; charset=utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to a resource, read completely."""

    verb: str
    target: Target
    query: Mapping[str, str]
    body: bytes
    content_type: str

    def document(self) -> Obj:
        """The body as an object; raises 400 where it is none."""
        if not self.body:
            return {}
        if self.content_type == _PROTOBUF:
            raise unsupported_media_type()
        try:
            is_yaml = self.content_type == "application/yaml"
            parsed = yaml.safe_load(self.body) if is_yaml else orjson.loads(self.body)
        except (ValueError, yaml.YAMLError) as error:
            raise bad_request(f"the object provided is unrecognized: {error}") from error
        if not isinstance(parsed, dict):
            raise bad_request("the object provided is unrecognized (must be of type Object)")
        return parsed


def _verb(method: str, target: Target, query: Mapping[str, str]) -> str:
    if method == "GET":
        if flag(query, "watch"):
            return "watch"
        return "get" if target.name else "list"
    if method == "DELETE":
        return "delete" if target.name else "deletecollection"
    return {"POST": "create", "PUT": "update", "PATCH": "patch"}.get(method, method.lower())


class Handler:
    """Answers every request of one sandbox."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._control = control.Control(cluster)
        self._verbs: Mapping[str, Callable[[Call], Reply]] = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """The one entry point of all paths."""
        try:
            body = await request.read() if request.body_exists else b""
        except web.HTTPRequestEntityTooLarge:
            message = "Request entity too large: limit is 3145728"
            error = ApiError(413, reason="RequestEntityTooLarge", message=message)
            return _error(error).response()
        parts = request.path.strip("/").split("/")
        if parts[0] == "_sandbox":
            code, shown = self._control.answer(request.method, parts[1:], body)
            return _json(code, shown).response()
        faults = self._struck(request, body)
        reply = await self._suffer(request, faults, when="before")
        if reply is None:
            answer = await self._answer(request, parts, body)
            if not isinstance(answer, Reply):
                return answer
            reply = await self._suffer(request, faults, when="after") or answer
        return reply.response()

    def _struck(self, request: web.Request, body: bytes) -> list[Fault]:
        faults = self._cluster.faults
        if not faults:
            return []

        def parsed() -> Any:
            try:
                return orjson.loads(body)
            except ValueError:
                return None

        return faults.struck(method=request.method, path=request.path, query=request.query_string, body=parsed)

    async def _suffer(self, request: web.Request, faults: list[Fault], *, when: str) -> Reply | None:
        """Apply the faults of one moment; a reply ends the request."""
        for fault in faults:
            action: Action = fault.action
            if action.when == when:
                if action.hold:
                    await fault.wait_released()
                if action.delay_s:
                    await self._cluster.clock.sleep(action.delay_s)
            if action.cut == when:
                self._count_cut(request)
                if request.transport is not None:
                    request.transport.abort()
                raise asyncio.CancelledError
            if action.when == when and action.answer is not None:
                answer = action.answer
                error = ApiError(answer.code, reason=answer.reason, message=answer.message)
                self._count(request, answer.code)
                return _error(error, retry_after_s=answer.retry_after_s)
        return None

    def _count_cut(self, request: web.Request) -> None:
        self._count(request, _CUT)

    def _count(self, request: web.Request, code: int) -> None:
        target = target_of(request.path.strip("/").split("/"), self._cluster.served)
        if target is not None:
            verb = _verb(request.method, target, request.query)
            self._cluster.traffic.count(verb, target.resource, code)

    async def _answer(self, request: web.Request, parts: list[str], body: bytes) -> Reply | web.StreamResponse:
        if parts[0] in _HEALTH:
            return Reply(code=200, body=b"ok", content_type="text/plain; charset=utf-8")
        if parts == ["version"]:
            return _json(200, VERSION)
        target = target_of(parts, self._cluster.served)
        if target is None:
            found = self._cluster.served.discovery(parts) if request.method == "GET" else None
            if found is None:
                return self._nothing_there(parts)
            return _json(200, found)
        query = request.query
        verb = _verb(request.method, target, query)
        traffic = self._cluster.traffic
        if verb == "watch":
            traffic.count("watch", target.resource, 200)
            return await stream(self._cluster, request, target)
        call = Call(verb=verb, target=target, query=query, body=body, content_type=request.content_type)
        reply = self._printed(request, call, self._called(call))
        traffic.count(verb, target.resource, reply.code)
        if verb in _WRITES:
            traffic.log(
                verb=verb,
                resource=target.resource,
                namespace=target.namespace,
                name=target.name,
                query=request.query_string,
                code=reply.code,
                body=body,
            )
        return reply

    def _nothing_there(self, parts: list[str]) -> Reply:
        """Inside a served group version the API server answers as an API, elsewhere as a web server."""
        if self._cluster.served.discovery(parts[:2] if parts[0] == "api" else parts[:3]) is None:
            return _NOT_SERVED
        message = "the server could not find the requested resource"
        return _error(ApiError(404, reason="NotFound", message=message, details={}))

    def _called(self, call: Call) -> Reply:
        try:
            return self._verbs.get(call.verb, self._not_allowed)(call)
        except ApiError as error:
            return _error(error)
        except Exception as error:  # noqa: BLE001 - as the API server survives a panic of one request
            trace = traceback.format_exc()
            _log.error("request.failed", verb=call.verb, resource=call.target.resource, traceback=trace)
            return _error(ApiError(500, reason="InternalError", message=f"Internal error occurred: {error!r}"))

    def _printed(self, request: web.Request, call: Call, reply: Reply) -> Reply:
        """The answer as a table, where the client prefers one."""
        is_read = call.verb in {"get", "list"} and not call.target.subresource
        if not is_read or reply.code != HTTPStatus.OK or not printing.is_wanted(request.headers.get("Accept", "")):
            return reply
        includes = call.query.get("includeObject", "")
        body = printing.table_of(
            reply.body, kind=call.target.kind.kind, includes=includes, now=self._cluster.clock.now()
        )
        return replace(reply, body=body)

    def _not_allowed(self, _call: Call) -> Reply:
        raise method_not_allowed()

    def _stored(self, call: Call) -> Stored:
        target = call.target
        return self._cluster.writer.require(target.kind, namespace=target.namespace, name=target.name)

    def _shown(self, call: Call, stored: Stored, *, code: int = 200) -> Reply:
        if call.target.subresource == "scale":
            return _json(code, self._cluster.subresources.scale_of(stored))
        return Reply(code=code, body=stored.encoded(call.target.version))

    def _get(self, call: Call) -> Reply:
        if call.target.subresource not in {"", "status", "scale"}:
            raise method_not_allowed()
        return self._shown(call, self._stored(call))

    def _list(self, call: Call) -> Reply:
        scope = scope_of(call.target, call.query)
        self._check_not_future(number(call.query, "resourceVersion"))
        limit = number(call.query, "limit")
        page = list_page(self._cluster.store, scope, limit=limit, token=call.query.get("continue", ""))
        return Reply(code=200, body=page.encoded(scope))

    def _check_not_future(self, revision: int) -> None:
        current = self._cluster.store.revision
        if revision > current:
            message = f"Too large resource version: {revision}, current: {current}"
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            details: Obj = {"causes": [cause], "retryAfterSeconds": 1}
            raise ApiError(504, reason="Timeout", message=f"Timeout: {message}", details=details)

    def _create(self, call: Call) -> Reply:
        target, options = call.target, write_options(call.query)
        if target.subresource in {"binding", "eviction"}:
            return self._act(call)
        if target.name:
            raise method_not_allowed()
        stored = self._cluster.writer.create(
            target.kind, call.document(), namespace=target.namespace, version=target.version, options=options
        )
        return self._shown(call, stored, code=201)

    def _act(self, call: Call) -> Reply:
        target, options, document = call.target, write_options(call.query), call.document()
        if target.subresource == "binding":
            given = metadata(document).get("namespace")
            if given and given != target.namespace:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
            name = target.name or name_of(document)
            self._cluster.subresources.bind(document, namespace=target.namespace, name=name, options=options)
        else:
            self._cluster.subresources.evict(document, namespace=target.namespace, name=target.name, options=options)
        return _json(201, SUCCESS_CREATED)

    def _update(self, call: Call) -> Reply:
        target, options, document = call.target, write_options(call.query), call.document()
        if not target.name:
            raise method_not_allowed()
        old = self._stored(call)
        if target.subresource == "scale":
            return self._shown(call, self._cluster.subresources.rescale(old, document, options=options))
        if target.subresource == "finalize":
            return self._finalize(call, old, document)
        stored = self._cluster.writer.update(
            old, document, version=target.version, subresource=target.subresource, options=options
        )
        return self._shown(call, stored)

    def _finalize(self, call: Call, old: Stored, document: Obj) -> Reply:
        finalizers = (document.get("spec") or {}).get("finalizers") or []
        changed = {**old.obj, "spec": {**old.obj["spec"], "finalizers": finalizers}}
        return self._shown(call, self._cluster.writer.commit(old, changed))

    def _patch(self, call: Call) -> Reply:
        target, options = call.target, write_options(call.query)
        if not target.name or target.subresource not in {"", "status", "scale"}:
            raise method_not_allowed()
        old = self._stored(call)
        if target.subresource == "scale":
            return self._shown(call, self._rescaled(call, old))
        stored = self._cluster.writer.patch(
            old,
            call.body,
            content_type=call.content_type,
            version=target.version,
            subresource=target.subresource,
            options=options,
        )
        return self._shown(call, stored)

    def _rescaled(self, call: Call, old: Stored) -> Stored:
        scale = self._cluster.subresources.scale_of(old)
        patched = patching.apply(scale, call.body, content_type=call.content_type)
        return self._cluster.subresources.rescale(old, patched, options=write_options(call.query))

    def _delete(self, call: Call) -> Reply:
        target = call.target
        if target.subresource:
            raise method_not_allowed()
        options = DeleteOptions.parse(call.document(), call.query)
        old = self._stored(call)
        deleted = self._cluster.remover.delete(old, options)
        kind = target.kind
        if kind.returns_deleted or not deleted.is_gone:
            return self._shown(call, deleted.stored)
        details = {"name": target.name, "group": kind.group, "kind": kind.plural, "uid": metadata(old.obj)["uid"]}
        shown = {name: value for name, value in details.items() if value}
        return _json(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": shown})

    def _delete_collection(self, call: Call) -> Reply:
        if call.target.kind is table.NAMESPACE:
            raise method_not_allowed()
        options = DeleteOptions.parse(call.document(), call.query)
        scope = scope_of(call.target, call.query)
        deleted = self._cluster.remover.delete_collection(self._cluster.store.select(scope), options)
        page = Page(items=deleted, revision=self._cluster.store.revision)
        return Reply(code=200, body=page.encoded(scope))
