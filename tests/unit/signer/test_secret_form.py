"""What is kept in the Secret can be read again, and nothing else is taken for it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from services.signer.certificates import UnusableAuthority, authority_from, create_authority
from services.signer.secret_form import UnreadableAuthorities, document_of, read_document
from tests.pki import TestAuthority

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def test_every_moment_survives() -> None:
    """Keys and moments come back as they were."""
    made = create_authority(now=NOW, lifetime=timedelta(days=10), trust_domain="example.org")
    other = create_authority(now=NOW, lifetime=timedelta(days=10), trust_domain="example.org")
    authority = replace(
        other.authority,
        published_at=NOW,
        activated_at=NOW + timedelta(hours=1),
        superseded_at=NOW + timedelta(hours=2),
        issued_until=NOW + timedelta(hours=3),
    )
    held = (made, replace(other, authority=authority))
    assert read_document(document_of(held)) == held


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda _: b"not JSON", id="not JSON"),
        pytest.param(lambda _: orjson.dumps([]), id="another shape"),
        pytest.param(lambda document: orjson.dumps(document | {"form": 2}), id="a later form"),
        pytest.param(lambda _: orjson.dumps({"form": 1, "authorities": [{"id": "x"}]}), id="lacks keys"),
        pytest.param(
            lambda document: orjson.dumps(
                {"form": 1, "authorities": [document["authorities"][0] | {"key": document["authorities"][1]["key"]}]}
            ),
            id="the key of another",
        ),
    ],
)
def test_anything_else_is_refused_without_quoting_it(change: object) -> None:
    """The message may end up in a log, and what it is about may be a key."""
    held = [create_authority(now=NOW, lifetime=timedelta(days=1), trust_domain="x") for _ in range(2)]
    assert callable(change)
    with pytest.raises(UnreadableAuthorities) as caught:
        read_document(change(orjson.loads(document_of(held))))
    assert "PRIVATE" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_files_that_are_no_authority_are_refused() -> None:
    """A leaf signs nothing, and a key belongs to its certificate."""
    authority, other = TestAuthority(), TestAuthority()
    leaf = authority.issue(uri="spiffe://x/y")
    with pytest.raises(UnusableAuthority, match="CA:TRUE"):
        authority_from(certificates=leaf.certificate, key=leaf.key)
    with pytest.raises(UnusableAuthority, match="not the key of"):
        authority_from(certificates=authority.certificate, key=other.key)
    with pytest.raises(UnusableAuthority, match="in PEM"):
        authority_from(certificates=b"", key=b"")
