"""Who asks: read from the ConfigMap and the headers that the API server writes."""

import json
from typing import Any

import pytest

from services.core.front_proxy import FrontProxy, FrontProxyError, Requester, read_front_proxy, requester_of

PEM = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
DATA = {
    "requestheader-client-ca-file": PEM,
    "requestheader-allowed-names": json.dumps(["front-proxy-client"]),
    "requestheader-username-headers": json.dumps(["X-Remote-User"]),
    "requestheader-uid-headers": json.dumps(["X-Remote-Uid"]),
    "requestheader-group-headers": json.dumps(["X-Remote-Group"]),
    "requestheader-extra-headers-prefix": json.dumps(["X-Remote-Extra-"]),
}
PROXY = FrontProxy(
    authority_pem=PEM,
    allowed_names=("front-proxy-client",),
    user_headers=("X-Remote-User",),
    uid_headers=("X-Remote-Uid",),
    group_headers=("X-Remote-Group",),
    extra_prefixes=("X-Remote-Extra-",),
)


def test_the_config_map_says_how_the_front_proxy_is_known() -> None:
    """Lists are JSON in strings."""
    assert read_front_proxy({"data": DATA}) == PROXY


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ({}, "client-ca-file is missing; start kube-apiserver with --requestheader-client-ca-file"),
        ({**DATA, "requestheader-client-ca-file": "x"}, "client-ca-file is missing"),
        ({**DATA, "requestheader-username-headers": ""}, "username-headers is missing"),
        ({**DATA, "requestheader-allowed-names": "a,b"}, "allowed-names is no list of names: 'a,b'"),
        ({**DATA, "requestheader-group-headers": "[1]"}, "group-headers is no list of names"),
    ],
)
def test_what_is_missing_is_named(data: dict[str, Any], what: str) -> None:
    """Nobody is let in on half of it."""
    with pytest.raises(FrontProxyError, match=what):
        read_front_proxy({"data": data})


def test_only_the_allowed_names_are_the_front_proxy() -> None:
    """Where none is listed, every certificate of that authority is."""
    assert PROXY.allows("front-proxy-client")
    assert not PROXY.allows("somebody")
    assert FrontProxy(authority_pem=PEM).allows("somebody")


def test_headers_name_who_asks() -> None:
    """In any case of letters, several groups, and what else was told about them."""
    headers = [
        ("x-remote-user", "ann"),
        ("X-Remote-Uid", "7"),
        ("X-Remote-Group", "dev"),
        ("x-remote-group", "system:authenticated"),
        ("X-Remote-Extra-Example.com%2fNode", "n1"),
        ("X-Other", "x"),
    ]
    assert requester_of(headers, proxy=PROXY) == Requester(
        user="ann", uid="7", groups=("dev", "system:authenticated"), extra=(("example.com/node", ("n1",)),)
    )


@pytest.mark.parametrize("headers", [[], [("X-Remote-User", "")], [("X-Remote-Group", "system:masters")]])
def test_without_a_user_it_is_nobody(headers: list[tuple[str, str]]) -> None:
    """A group alone is no identity."""
    assert requester_of(headers, proxy=PROXY) is None
