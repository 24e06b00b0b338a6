"""What the Secret of the signer holds: one JSON document with every authority, its key and its moments."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from services.core.authorities import Authority
from services.signer.certificates import UnusableAuthority, authority_from
from services.signer.ports import HeldAuthority

FORM = 1
"""Raised when a document is written that an older signer would misread."""

_MOMENTS = ("published_at", "activated_at", "superseded_at", "issued_until")


class UnreadableAuthorities(ValueError):
    """The document is not one of ours; the message repeats nothing of it, because it may hold keys."""


def document_of(held: Iterable[HeldAuthority]) -> bytes:
    """Return the document."""
    return orjson.dumps({"form": FORM, "authorities": [_entry(one) for one in held]}, option=orjson.OPT_INDENT_2)


def read_document(data: bytes) -> tuple[HeldAuthority, ...]:
    """Return the authorities of a document. Raises UnreadableAuthorities."""
    try:
        document = orjson.loads(data)
        form, entries = int(document["form"]), document["authorities"]
        held = tuple(_held(entry) for entry in entries) if form == FORM else ()
    except (UnusableAuthority, ValueError, KeyError, TypeError) as error:
        # Neither the cause nor its text: they may quote what stands beside a key.
        raise UnreadableAuthorities(f"is not a document of the signer ({type(error).__name__})") from None
    if form != FORM:
        raise UnreadableAuthorities(f"has the form {form}, this signer knows {FORM}")
    return held


def _entry(one: HeldAuthority) -> Mapping[str, Any]:
    authority = one.authority
    moments = {name: getattr(authority, name) for name in _MOMENTS}
    return {
        "id": authority.id,
        "created_at": authority.created_at.isoformat(),
        **{name: value.isoformat() for name, value in moments.items() if value is not None},
        "certificate": one.certificate.decode(),
        "key": one.key.decode(),
    }


def _held(entry: Mapping[str, Any]) -> HeldAuthority:
    certificate, key = str(entry["certificate"]).encode(), str(entry["key"]).encode()
    found = authority_from(certificates=certificate, key=key)
    moments = {name: _moment(entry[name]) for name in _MOMENTS if name in entry}
    authority = Authority(
        id=str(entry["id"]),
        created_at=_moment(entry["created_at"]),
        not_after=found.authority.not_after,
        **moments,
    )
    return HeldAuthority(authority=authority, certificate=certificate, key=key)


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a moment without its zone")
    return moment.astimezone(UTC)
