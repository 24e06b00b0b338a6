"""Rules that many kinds share: names, labels, unions, immutability."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from services.sandbox.failures import Cause, immutable, invalid_value, required, too_long
from services.sandbox.objects import Obj

_LABEL_LIMIT = 63
_SUBDOMAIN_LIMIT = 253
_LABEL_PATTERN = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_PATTERN = rf"{_LABEL_PATTERN}(\.{_LABEL_PATTERN})*"
_LABEL = re.compile(_LABEL_PATTERN)
_SUBDOMAIN = re.compile(_SUBDOMAIN_PATTERN)
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    f"'{_LABEL_PATTERN}')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SUBDOMAIN_PATTERN}')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "
    "is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_KEY_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def dns_label(field: str, *, value: str) -> Iterator[Cause]:
    """A name without dots, at most 63 characters."""
    if "." in value and _SUBDOMAIN.fullmatch(value):
        yield invalid_value(field, value=value, detail="must not contain dots")
    elif not _LABEL.fullmatch(value):
        yield invalid_value(field, value=value, detail=_LABEL_TEXT)
    if len(value) > _LABEL_LIMIT:
        yield invalid_value(field, value=value, detail=f"must be no more than {_LABEL_LIMIT} bytes")


def dns_subdomain(field: str, *, value: str) -> Iterator[Cause]:
    """A name that may contain dots, at most 253 characters."""
    if len(value) > _SUBDOMAIN_LIMIT:
        yield invalid_value(field, value=value, detail=f"must be no more than {_SUBDOMAIN_LIMIT} bytes")
    if not _SUBDOMAIN.fullmatch(value):
        yield invalid_value(field, value=value, detail=_SUBDOMAIN_TEXT)


def qualified_key(field: str, *, key: str) -> Iterator[Cause]:
    """A label or annotation key: `name` or `domain/name`."""
    prefix, slash, name = key.rpartition("/")
    if slash and not _SUBDOMAIN.fullmatch(prefix):
        yield invalid_value(field, value=key, detail=f"prefix part {_SUBDOMAIN_TEXT}")
    if not _QUALIFIED.fullmatch(name):
        yield invalid_value(field, value=key, detail=_KEY_TEXT)
    elif len(name) > _LABEL_LIMIT:
        yield invalid_value(field, value=key, detail=f"name part must be no more than {_LABEL_LIMIT} bytes")


def labels(field: str, *, found: Mapping[str, Any]) -> Iterator[Cause]:
    """Keys and values of a label map."""
    for key, value in found.items():
        yield from qualified_key(field, key=key)
        if not value:
            continue
        if len(value) > _LABEL_LIMIT:
            yield invalid_value(field, value=value, detail=f"must be no more than {_LABEL_LIMIT} bytes")
        if not _QUALIFIED.fullmatch(value):
            yield invalid_value(field, value=value, detail=_VALUE_TEXT)


def annotations(field: str, *, found: Mapping[str, Any]) -> Iterator[Cause]:
    """Keys and total size of an annotation map."""
    limit = 256 * 1024
    for key in found:
        yield from qualified_key(field, key=key.lower())
    if sum(len(key) + len(value) for key, value in found.items()) > limit:
        yield too_long(field, limit=limit)


def union(field: str, *, holder: Any, members: tuple[str, ...]) -> Iterator[Cause]:
    """Exactly one of these members must be set."""
    present = [member for member in members if isinstance(holder, dict) and holder.get(member) is not None]
    listed = ", ".join(f"`{member}`" for member in members)
    if not present:
        yield invalid_value(field, value="", detail=f"must specify one of: {listed}")
    elif len(present) > 1:
        value = "{" + ", ".join(present) + "}"
        yield invalid_value(field, value=value, detail=f"must specify exactly one of: {listed}")


def unchanged(prefix: str, *, new: Obj, old: Obj, names: tuple[str, ...]) -> Iterator[Cause]:
    """These fields may not change between the versions."""
    for name in names:
        if new.get(name) != old.get(name):
            yield immutable(f"{prefix}.{name}", value=new.get(name))


def present(prefix: str, *, holder: Obj, names: tuple[str, ...]) -> Iterator[Cause]:
    """These fields must be given and not be empty."""
    for name in names:
        if not holder.get(name):
            yield required(f"{prefix}.{name}")


def at_least_zero(prefix: str, *, holder: Obj, names: tuple[str, ...]) -> Iterator[Cause]:
    """These counts, where given, are not negative."""
    for name in names:
        value = holder.get(name)
        if value is not None and value < 0:
            yield invalid_value(f"{prefix}.{name}", value=value, detail="must be greater than or equal to 0")
