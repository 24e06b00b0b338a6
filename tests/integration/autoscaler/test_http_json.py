"""Numbers in JSON documents, from a server that answers well, badly, slowly, or something else."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from services.autoscaler.adapters.http_json import HttpQueues
from services.autoscaler.adapters.http_reader import MAX_BYTES, HttpReader
from services.autoscaler.ports import SourceFailed
from services.core.metric_sources import HttpSource
from services.runtime.clock import SystemClock
from tests.kubernetes.certificates import create_authority, issue

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

TOKEN = "opensesame"


@contextlib.asynccontextmanager
async def server(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server, and its address."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def answering(body: str, *, status: int = 200, content_type: str = "application/json") -> Handler:
    """Answer always the same."""

    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.Response(text=body, status=status, content_type=content_type)

    return handler


async def read(source: HttpSource, *, timeout_s: float = 30) -> float:
    """The one number of a source."""
    async with HttpReader(timeout_s=timeout_s) as reader:
        (sample,) = await HttpQueues(reader, clock=SystemClock()).read(source)
    return sample.value


@pytest.mark.parametrize(
    ("body", "pointer", "value"),
    [
        ("7", "", 7),
        ('{"queue": {"depth": 12}}', "/queue/depth", 12),
        ('[{"a/b": "3.5"}]', "/0/a~1b", 3.5),
        ('{"depth": 0}', "/depth", 0),
        ('{"depth": 1e30}', "/depth", 1e30),
    ],
)
async def test_the_number_is_found(body: str, pointer: str, value: float) -> None:
    """By a JSON pointer, also where it is written as text."""
    async with server(answering(body)) as url:
        assert await read(HttpSource(url=f"{url}/stats?key=secret", pointer=pointer)) == value


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("<html>login</html>", r"answered text/html, expected JSON \(http.*/stats\): '<html>"),
        ('{"depth": NaN}', "expected JSON"),
        ("{}", "has nothing at '/depth'; expected a number"),
        ('{"depth": true}', "has 'True' at '/depth'; expected a number"),
        ('{"depth": null}', "has 'None' at '/depth'"),
        ('{"depth": "many"}', "has 'many' at '/depth'"),
        ('{"depth": [1, 2]}', r"has '\[1, 2\]' at '/depth'"),
    ],
)
async def test_what_is_no_number_is_said(body: str, why: str) -> None:
    """Without the query of the address, in which there may be a secret."""
    kind = "text/html" if body.startswith("<") else "application/json"
    async with server(answering(body, content_type=kind)) as url:
        with pytest.raises(SourceFailed, match=why) as caught:
            await read(HttpSource(url=f"{url}/stats?key=secret", pointer="/depth"))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("status", [204, 302, 401, 500])
async def test_every_other_status_is_an_error(status: int) -> None:
    """Also a redirect, to a page that people log in on."""
    async with server(answering("1" if status != 204 else "", status=status)) as url:
        with pytest.raises(SourceFailed, match=f"answered with status {status}"):
            await read(HttpSource(url=url))


async def test_too_much_is_not_read() -> None:
    """However it is sent."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            for _ in range(64):
                await response.write(b" " * (MAX_BYTES // 16))
        return response

    async with server(handler) as url:
        with pytest.raises(SourceFailed, match="answered more than"):
            await read(HttpSource(url=url))


async def test_a_server_that_never_answers_is_given_up() -> None:
    """After a time that is short here."""
    released = asyncio.Event()

    async def handler(_request: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.Response(text="1")

    async with server(handler) as url:
        with pytest.raises(SourceFailed, match="gave no answer within"):
            await read(HttpSource(url=url), timeout_s=0.2)
        released.set()


async def test_a_server_that_is_down_is_said() -> None:
    """With its address."""
    with pytest.raises(SourceFailed, match=r"gave no answer \(http://127.0.0.1:1/\)"):
        await read(HttpSource(url="http://127.0.0.1:1/"))


async def test_a_token_is_sent_as_the_file_has_it_now(tmp_path: Path) -> None:
    """It is read each time, because mounted Secrets change."""
    file = tmp_path / "token"

    async def handler(request: web.Request) -> web.StreamResponse:
        is_right = request.headers.get("Authorization") == f"Bearer {TOKEN}"
        return web.Response(text="4", status=200 if is_right else 401)

    async with server(handler) as url:
        source = HttpSource(url=url, bearer_token_file=str(file))
        with pytest.raises(SourceFailed, match="No such file"):
            await read(source)
        _write(file, "wrong")
        with pytest.raises(SourceFailed, match="status 401"):
            await read(source)
        _write(file, f"{TOKEN}\n")
        assert await read(source) == 4


async def test_the_servers_certificate_is_verified(tmp_path: Path) -> None:
    """By the authority in the file; without one, by those of the system, of which it is none."""
    authority = create_authority(tmp_path, name="ca")
    certificate, key = issue(authority, folder=tmp_path, name="server")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    async with server(answering("2"), tls=tls) as url:
        assert await read(HttpSource(url=url, ca_file=str(authority.certificate_file))) == 2
        with pytest.raises(SourceFailed, match="certificate"):
            await read(HttpSource(url=url))


def _write(file: Path, text: str) -> None:
    file.write_text(text)
