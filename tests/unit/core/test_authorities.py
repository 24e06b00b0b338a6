"""How authorities follow each other, step by step."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from services.core.authorities import ISSUE_MARGIN, Authority, RotationTerms, advance, signing_one, with_issued

START = datetime(2026, 12, 1, tzinfo=UTC)
TERMS = RotationTerms(lifetime=timedelta(days=100), renew_before=timedelta(days=30), spread=timedelta(minutes=15))
FIRST = Authority(id="a", created_at=START, not_after=START + TERMS.lifetime)
SIGNING = replace(FIRST, published_at=START, activated_at=START)
SECOND = Authority(id="b", created_at=START + timedelta(days=70), not_after=START + timedelta(days=170))


def test_the_first_is_made_and_signs_once_it_is_published() -> None:
    """Nobody trusts anything yet, so nobody has to be waited for."""
    assert advance([], published=(), now=START, terms=TERMS).needs_new
    unpublished = advance([FIRST], published=(), now=START, terms=TERMS)
    assert signing_one(unpublished.authorities) is None
    assert not unpublished.needs_new
    published = advance([FIRST], published={"a"}, now=START, terms=TERMS)
    assert published.authorities == (SIGNING,)


def test_the_successor_is_made_in_time_and_once() -> None:
    """Not a moment before it is due, and no second one beside it."""
    due = FIRST.not_after - TERMS.renew_before
    assert not advance([SIGNING], published={"a"}, now=due - timedelta(seconds=1), terms=TERMS).needs_new
    assert advance([SIGNING], published={"a"}, now=due, terms=TERMS).needs_new
    assert not advance([SIGNING, SECOND], published={"a"}, now=due, terms=TERMS).needs_new


def test_a_person_may_ask_for_one_earlier() -> None:
    """Where one is under way already, asking changes nothing."""
    assert advance([SIGNING], published={"a"}, now=START, terms=TERMS, is_asked=True).needs_new
    assert not advance([SIGNING, SECOND], published={"a"}, now=START, terms=TERMS, is_asked=True).needs_new


def test_the_successor_signs_when_every_kubelet_has_it() -> None:
    """It waits from the moment in which it was seen in the bundle, not from that in which it was made."""
    seen_at = START + timedelta(days=71)
    seen = advance([SIGNING, SECOND], published={"a", "b"}, now=seen_at, terms=TERMS).authorities
    assert signing_one(seen) == SIGNING
    early = advance(seen, published={"a", "b"}, now=seen_at + TERMS.spread - timedelta(seconds=1), terms=TERMS)
    assert signing_one(early.authorities) == SIGNING
    on_time = advance(seen, published={"a", "b"}, now=seen_at + TERMS.spread, terms=TERMS).authorities
    current = signing_one(on_time)
    assert current is not None
    assert current.id == "b"


def test_the_former_stays_until_what_it_signed_has_expired() -> None:
    """Its clients renew one after the other."""
    until = START + timedelta(days=72)
    former = replace(SIGNING, superseded_at=START + timedelta(days=71), issued_until=until)
    current = replace(SECOND, published_at=SECOND.created_at, activated_at=former.superseded_at)
    kept = advance([former, current], published={"a", "b"}, now=until - timedelta(seconds=1), terms=TERMS)
    assert kept.authorities == (former, current)
    assert advance([former, current], published={"a", "b"}, now=until, terms=TERMS).authorities == (current,)


def test_an_expired_authority_is_replaced_at_once() -> None:
    """After an outage of months there is nothing left that could be believed meanwhile."""
    now = SIGNING.not_after + timedelta(days=1)
    assert advance([SIGNING], published={"a"}, now=now, terms=TERMS).needs_new
    successor = Authority(id="b", created_at=now, not_after=now + TERMS.lifetime)
    result = advance([SIGNING, successor], published={"a", "b"}, now=now, terms=TERMS)
    assert [one.id for one in result.authorities] == ["b"]
    assert signing_one(result.authorities) is not None


def test_the_end_of_what_was_signed_is_written_seldom() -> None:
    """Once with a margin, and not again within it."""
    until = START + timedelta(days=1)
    written = with_issued(SIGNING, until=until)
    assert written == replace(SIGNING, issued_until=until + ISSUE_MARGIN)
    assert with_issued(written, until=until + ISSUE_MARGIN) is None
    assert with_issued(written, until=until + ISSUE_MARGIN + timedelta(seconds=1)) is not None
