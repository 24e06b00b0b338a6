"""Values of Kubernetes' CEL libraries that CEL itself has not: quantities, versions, addresses and URLs, as texts.

A value is a pair of kind and canonical text, so that equal values are equal texts. `services.core.selectors` carries
them through the engine. The functions are those of k8s.io/apiserver 0.37 `pkg/cel/library`.
"""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import parse_qs, urlsplit

from services.core.exact_amounts import NANO, AmountError, parse_amount

QUANTITY, VERSION, IP, CIDR, URL = "quantity", "version", "ip", "cidr", "url"
KINDS = (QUANTITY, VERSION, IP, CIDR, URL)

Scalar = tuple[str, str]
"""Kind and canonical text; of a quantity the billionths in decimal."""

_INT64_LIMIT = 2**63
_VERSION = re.compile(
    r"(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,18})"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_LOOSE = re.compile(r"v?([0-9]{1,19})(?:\.([0-9]{1,19}))?(?:\.([0-9]{1,19}))?([-+].*)?", re.ASCII)


class SelectorValueError(ValueError):
    """A text that is not such a value, or an operation that such values have not."""


def quantity(text: str) -> Scalar:
    """Return a quantity."""
    try:
        return QUANTITY, str(parse_amount(text))
    except AmountError as error:
        raise SelectorValueError(str(error)) from error


def version(text: str) -> Scalar:
    """Return a version by semver 2.0, without its build metadata, which do not count in comparisons."""
    match = _VERSION.fullmatch(text)
    prerelease = match[4] if match else None
    if match is None or any(
        part.isdigit() and len(part) > 1 and part[0] == "0" for part in (prerelease or "").split(".")
    ):
        raise SelectorValueError(f"{text[:80]!r} is not a version such as 1.2.3")
    return VERSION, f"{match[1]}.{match[2]}.{match[3]}" + (f"-{prerelease}" if prerelease else "")


def loose_version(text: str, is_loose: bool) -> Scalar:  # noqa: FBT001 - arguments come from the expression
    """Return a version that may lack parts, begin with v, or have leading zeros."""
    match = _LOOSE.fullmatch(text) if is_loose else None
    if match is None:
        return version(text)
    numbers = ".".join(str(int(part or 0)) for part in match.group(1, 2, 3))
    return version(numbers + (match[4] or ""))


def address(text: str) -> Scalar:
    """Return an IP address."""
    return IP, str(_address(text))


def network(text: str) -> Scalar:
    """Return an address with the length of its network's prefix, as written: its host bits may be set."""
    host, slash, bits = text.partition("/")
    if not slash or not re.fullmatch(r"0|[1-9][0-9]{0,2}", bits, re.ASCII):
        raise SelectorValueError(f"{text[:80]!r} is not a network such as 10.0.0.0/8")
    found = _address(host)
    if int(bits) > found.max_prefixlen:
        raise SelectorValueError(f"{text[:80]!r} has a prefix of more than {found.max_prefixlen} bits")
    return CIDR, f"{found}/{bits}"


def url(text: str) -> Scalar:
    """Return an absolute URL, or an absolute path."""
    try:
        parts = urlsplit(text)
        is_usable = bool(parts.scheme) or text.startswith("/")
        _ = parts.port
    except ValueError as error:
        raise SelectorValueError(f"{text[:80]!r} is not a URL") from error
    if not is_usable or any(character.isspace() for character in text):
        raise SelectorValueError(f"{text[:80]!r} is not a URL")
    return URL, text


def compared(left: Scalar, right: Scalar) -> int:
    """Return -1, 0 or 1: how two quantities, or two versions, compare."""
    if left[0] != right[0] or left[0] not in {QUANTITY, VERSION}:
        raise SelectorValueError(f"a {left[0]} does not compare with a {right[0]}")
    if left[0] == QUANTITY:
        return (int(left[1]) > int(right[1])) - (int(left[1]) < int(right[1]))
    one, other = _precedence(left[1]), _precedence(right[1])
    return (one > other) - (one < other)


def added(left: Scalar, right: Scalar | int, *, sign: int = 1) -> Scalar:
    """Return a quantity with another, or an integer, added (or with `sign` -1 subtracted)."""
    amount = right * NANO if isinstance(right, int) else int(_only(right, QUANTITY))
    return QUANTITY, str(int(_only(left, QUANTITY)) + sign * amount)


def sign_of(value: Scalar) -> int:
    """Return -1, 0 or 1 for a quantity."""
    amount = int(_only(value, QUANTITY))
    return (amount > 0) - (amount < 0)


def is_integer(value: Scalar) -> bool:
    """Tell whether a quantity is a whole number of 64 bits."""
    units, rest = divmod(int(_only(value, QUANTITY)), NANO)
    return not rest and -_INT64_LIMIT <= units < _INT64_LIMIT


def as_integer(value: Scalar) -> int:
    """Return a quantity that is a whole number."""
    if not is_integer(value):
        raise SelectorValueError("the quantity is no integer")
    return int(value[1]) // NANO


def as_float(value: Scalar) -> float:
    """Return a quantity as a floating-point number."""
    return int(_only(value, QUANTITY)) / NANO


def version_part(value: Scalar, position: int) -> int:
    """Return major (0), minor (1) or patch (2) of a version."""
    return int(_only(value, VERSION).partition("-")[0].split(".")[position])


def family(value: Scalar) -> int:
    """Return 4 or 6 for an address."""
    return _address(_only(value, IP)).version


def address_is(value: Scalar, what: str) -> bool:
    """Tell whether an address is unspecified, loopback, link-local (multicast) or global unicast."""
    found = _address(_only(value, IP))
    if what == "is_link_local_multicast":
        text = str(found)
        return (
            found in IPv4Network("224.0.0.0/24")
            if isinstance(found, IPv4Address)
            else text.startswith(("ff02:", "ff12:"))
        )
    if what == "is_global_unicast":
        is_broadcast = found == IPv4Address("255.255.255.255")
        return not (
            found.is_unspecified or found.is_loopback or found.is_multicast or found.is_link_local or is_broadcast
        )
    return bool(getattr(found, what))


def is_canonical(text: str) -> bool:
    """Tell whether an address is written in its one canonical form."""
    return address(text)[1] == text


def contains(outer: Scalar, inner: Scalar | str) -> bool:
    """Tell whether a network contains an address or a network; a text is taken as the one that it can be."""
    if isinstance(inner, str):
        inner = network(inner) if "/" in inner else address(inner)
    around = _network(outer)
    if inner[0] == IP:
        found = _address(inner[1])
        return found.version == around.version and found in around
    within = _network(inner)
    if isinstance(around, IPv4Network):
        return isinstance(within, IPv4Network) and within.subnet_of(around)
    return isinstance(within, IPv6Network) and within.subnet_of(around)


def address_of(value: Scalar) -> Scalar:
    """Return the address of a network as written."""
    return IP, _only(value, CIDR).partition("/")[0]


def masked(value: Scalar) -> Scalar:
    """Return a network with its host bits cleared."""
    return CIDR, str(_network(value))


def prefix_length(value: Scalar) -> int:
    """Return the bits of a network's prefix."""
    return int(_only(value, CIDR).partition("/")[2])


def url_part(value: Scalar, what: str) -> str:
    """Return scheme, host with port, hostname, port or escaped path of a URL."""
    parts = urlsplit(_only(value, URL))
    match what:
        case "scheme":
            return parts.scheme
        case "host":
            return parts.netloc.rpartition("@")[2]
        case "hostname":
            return parts.hostname or ""
        case "port":
            return "" if parts.port is None else str(parts.port)
        case _:
            return parts.path


def url_query(value: Scalar) -> dict[str, list[str]]:
    """Return the values of each parameter of a URL."""
    return parse_qs(urlsplit(_only(value, URL)).query, keep_blank_values=True)


def _only(value: Scalar, kind: str) -> str:
    if value[0] != kind:
        raise SelectorValueError(f"expected a {kind}, got a {value[0]}")
    return value[1]


def _precedence(text: str) -> tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]:
    """Return what versions are ordered by: numbers, no prerelease after any, its parts (numbers before texts)."""
    numbers, dash, prerelease = text.partition("-")
    parts = tuple(
        (not part.isdigit(), int(part) if part.isdigit() else 0, "" if part.isdigit() else part)
        for part in prerelease.split(".")
        if dash
    )
    return tuple(int(part) for part in numbers.split(".")), not dash, parts


def _address(text: str) -> IPv4Address | IPv6Address:
    """Return an address. Zones, and IPv4 inside IPv6, are refused as the API server does."""
    try:
        found = ip_address(text)
    except ValueError as error:
        raise SelectorValueError(f"{text[:80]!r} is not an IP address") from error
    if isinstance(found, IPv6Address) and (found.scope_id is not None or found.ipv4_mapped is not None):
        raise SelectorValueError(f"{text[:80]!r} is an address with a zone or an IPv4 address in IPv6")
    return found


def _network(value: Scalar) -> IPv4Network | IPv6Network:
    return ip_network(_only(value, CIDR), strict=False)
