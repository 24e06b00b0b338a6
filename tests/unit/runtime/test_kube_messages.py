"""What the Kubernetes client reads off paths, bodies and byte streams."""

from collections.abc import AsyncIterator

import pytest

from services.runtime.kube import Gone, KubeError
from services.runtime.kube.faults import error_from_body
from services.runtime.kube.lines import LineTooLongError, split_lines
from services.runtime.kube.targets import target_of


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/pods", ("list", "pods", "", "")),
        ("GET", "/api/v1/namespaces", ("list", "namespaces", "", "")),
        ("GET", "/api/v1/namespaces/a", ("get", "namespaces", "", "a")),
        ("PUT", "/api/v1/namespaces/a/finalize", ("update", "namespaces/finalize", "", "a")),
        ("DELETE", "/api/v1/namespaces/a/pods/p", ("delete", "pods", "a", "p")),
        ("DELETE", "/api/v1/namespaces/a/pods", ("deletecollection", "pods", "a", "")),
        ("POST", "/api/v1/namespaces/a/pods/p/binding", ("create", "pods/binding", "a", "p")),
        (
            "PATCH",
            "/apis/resource.k8s.io/v1/namespaces/a/resourceclaims/c/status",
            ("patch", "resourceclaims/status.resource.k8s.io", "a", "c"),
        ),
        ("GET", "/readyz", ("get", "", "", "")),
    ],
)
def test_requests_are_named_as_rbac_names_them(method: str, path: str, expected: tuple[str, ...]) -> None:
    """Verb, resource with subresource and group, namespace and name follow from method and path."""
    target = target_of(method, path, query={})

    assert (target.verb, target.qualified_resource, target.namespace, target.name) == expected


def test_a_watch_is_its_own_verb() -> None:
    """RBAC grants watching apart from listing."""
    assert target_of("GET", "/api/v1/pods", query={"watch": "true"}).verb == "watch"


def test_a_forbidden_request_says_what_to_grant() -> None:
    """The message names verb and resource, so that the missing rule can be written from it."""
    body = b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no"}'
    error = error_from_body(body, status=403, target=target_of("GET", "/apis/apps/v1/deployments", query={}))

    assert "grant verb 'list' on resource 'deployments.apps'" in str(error)
    assert (error.verb, error.resource, error.path) == ("list", "deployments", "/apis/apps/v1/deployments")


def test_waiting_times_come_from_header_or_body() -> None:
    """Retry-After wins; the details of the status stand in for it."""
    target = target_of("GET", "/api/v1/pods", query={})
    body = b'{"code":429,"reason":"TooManyRequests","message":"later","details":{"retryAfterSeconds":7}}'

    assert error_from_body(body, status=429, target=target).retry_after_s == 7
    assert error_from_body(body, status=429, target=target, retry_after="2").retry_after_s == 2
    assert error_from_body(b"{}", status=429, target=target).retry_after_s is None


def test_an_answer_that_is_no_status_is_quoted() -> None:
    """A proxy in between answers in HTML: its text is the message, its status counts."""
    error = error_from_body(b"<h1>Bad gateway</h1>", status=502, target=target_of("GET", "/api", query={}))

    assert isinstance(error, KubeError)
    assert (error.status, error.reason) == (502, "Unknown")
    assert "Bad gateway" in str(error)


def test_an_expired_version_is_gone() -> None:
    """410 has a type of its own, since it is answered by a new list and not by a retry."""
    assert isinstance(error_from_body(b"{}", status=410, target=target_of("GET", "/", query={})), Gone)


async def stream(*chunks: bytes) -> AsyncIterator[bytes]:
    """Bytes as a connection might deliver them."""
    for chunk in chunks:
        yield chunk


@pytest.mark.parametrize(
    "chunks",
    [
        (b"one\ntwo\nthree\n",),
        (b"o", b"ne\nt", b"wo\n", b"thr", b"ee", b"\n"),
        (b"one\n\n\r\ntwo\nthree\nunfinished",),
        tuple(bytes([byte]) for byte in b"one\ntwo\nthree\n"),
    ],
)
async def test_lines_do_not_depend_on_chunks(chunks: tuple[bytes, ...]) -> None:
    """However the bytes arrive, the same whole lines come out; an unfinished last one is dropped."""
    assert [line async for line in split_lines(stream(*chunks))] == [b"one", b"two", b"three"]


async def test_a_line_without_end_is_refused() -> None:
    """Memory is bounded: a peer that never ends its line is cut off."""
    with pytest.raises(LineTooLongError):
        async for _ in split_lines(stream(*[b"x" * 60] * 3), limit=100):
            pass
