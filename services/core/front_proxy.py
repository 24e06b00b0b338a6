"""Who asks an aggregated API: what the API server's front proxy says, and by what it is known.

The API server checks who somebody is, and passes the request on with a client certificate of its own and the name in
headers. ConfigMap `kube-system/extension-apiserver-authentication` says which authority signs that certificate, which
names it may have, and which headers are meant. Without the certificate, headers mean nothing.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

CONFIG_MAP = "extension-apiserver-authentication"
"""Name of the ConfigMap, in the namespace kube-system."""

MAX_GROUPS = 1024
"""Groups of one requester that are passed on."""

_PREFIX = "requestheader-"


class FrontProxyError(ValueError):
    """The ConfigMap does not say what is needed; the message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxy:
    """How the front proxy is known. Without `allowed_names` every certificate of the authority is."""

    authority_pem: str
    allowed_names: tuple[str, ...] = ()
    user_headers: tuple[str, ...] = ()
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()

    def allows(self, common_name: str) -> bool:
        """Tell whether a certificate of the authority with this name is the front proxy's."""
        return not self.allowed_names or common_name in self.allowed_names


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """Who asks, as the API server authenticated it."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())


def read_front_proxy(manifest: Mapping[str, Any]) -> FrontProxy:
    """Return what the ConfigMap says. Raises FrontProxyError."""
    data = manifest.get("data") or {}
    authority = str(data.get(f"{_PREFIX}client-ca-file") or "")
    if "BEGIN CERTIFICATE" not in authority:
        raise FrontProxyError(
            f"ConfigMap kube-system/{CONFIG_MAP}: {_PREFIX}client-ca-file is missing; start kube-apiserver with "
            "--requestheader-client-ca-file and --proxy-client-cert-file"
        )
    user_headers = _names(data, "username-headers")
    if not user_headers:
        raise FrontProxyError(f"ConfigMap kube-system/{CONFIG_MAP}: {_PREFIX}username-headers is missing")
    return FrontProxy(
        authority_pem=authority,
        allowed_names=_names(data, "allowed-names"),
        user_headers=user_headers,
        uid_headers=_names(data, "uid-headers"),
        group_headers=_names(data, "group-headers"),
        extra_prefixes=_names(data, "extra-headers-prefix"),
    )


def requester_of(headers: Iterable[tuple[str, str]], *, proxy: FrontProxy) -> Requester | None:
    """Return who is named in the headers of a request that came from the front proxy; None where nobody is."""
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name.lower(), []).append(value)
    user = _first(found, names=proxy.user_headers)
    if not user:
        return None
    groups = [value for name in proxy.group_headers for value in found.get(name.lower(), ())]
    return Requester(
        user=user,
        uid=_first(found, names=proxy.uid_headers),
        groups=tuple(groups[:MAX_GROUPS]),
        extra=tuple(sorted(_extra(found, prefixes=proxy.extra_prefixes).items())),
    )


def _extra(found: Mapping[str, list[str]], *, prefixes: Iterable[str]) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    for prefix in prefixes:
        for name, values in found.items():
            if name.startswith(prefix.lower()):
                key = unquote(name.removeprefix(prefix.lower()))
                extra[key] = (*extra.get(key, ()), *values)
    return extra


def _first(found: Mapping[str, list[str]], *, names: Iterable[str]) -> str:
    return next((value for name in names for value in found.get(name.lower(), ()) if value), "")


def _names(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    text = data.get(_PREFIX + key)
    if not text:
        return ()
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FrontProxyError(f"ConfigMap kube-system/{CONFIG_MAP}: {_PREFIX}{key} is no list of names: {text[:60]!r}")
    return tuple(name for name in names if name.strip())
