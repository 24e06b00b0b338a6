"""Whatever happens when: no certificate that is valid is distrusted by anybody during a rotation."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from services.core.authorities import Authority, RotationTerms, advance, signing_one, with_issued

START = datetime(2026, 12, 1, tzinfo=UTC)
SPREAD = timedelta(minutes=15)
TERMS = RotationTerms(lifetime=timedelta(days=10), renew_before=timedelta(days=4), spread=SPREAD)
LONGEST_LEAF = timedelta(days=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A certificate that somebody holds."""

    authority: str
    not_after: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What happens next: time passes, the signer looks or does not, its publication arrives or does not."""

    pause: timedelta
    is_published: bool
    is_asked: bool
    leaf: timedelta


TURNS = st.lists(
    st.builds(
        Turn,
        pause=st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=1)),
        is_published=st.booleans(),
        is_asked=st.booleans(),
        leaf=st.timedeltas(min_value=timedelta(hours=1), max_value=LONGEST_LEAF),
    ),
    max_size=60,
)


@given(turns=TURNS)
def test_a_valid_certificate_is_trusted_by_a_kubelet_that_is_behind(turns: list[Turn]) -> None:
    """A kubelet sees the bundle of a moment ago, up to the time that a new authority is only published."""
    now = START
    authorities: tuple[Authority, ...] = ()
    leaves: list[Leaf] = []
    # Where nothing valid signed before, as at the very start, nobody is waited for.
    unannounced: set[str] = set()
    bundles: list[tuple[datetime, frozenset[str]]] = [(START, frozenset())]
    for number, turn in enumerate(turns):
        now += turn.pause
        before = signing_one(authorities)
        result = advance(authorities, published=bundles[-1][1], now=now, terms=TERMS, is_asked=turn.is_asked)
        authorities = result.authorities
        after = signing_one(authorities)
        if after is not None and (before is None or now >= before.not_after):
            unannounced.add(after.id)
        if result.needs_new:
            made = Authority(id=str(number), created_at=now, not_after=now + TERMS.lifetime)
            authorities = (*authorities, made)
        if turn.is_published:
            bundles.append((now, frozenset(one.id for one in authorities)))
        current = signing_one(authorities)
        if current is not None and now + turn.leaf <= current.not_after:
            issued = with_issued(current, until=now + turn.leaf) or current
            authorities = tuple(issued if one is current else one for one in authorities)
            leaves.append(Leaf(authority=current.id, not_after=now + turn.leaf))
        believed = _believed(bundles, now=now)
        valid = {leaf.authority for leaf in leaves if leaf.not_after > now}
        assert valid - unannounced <= believed
        assert valid <= bundles[-1][1]


@given(turns=TURNS)
def test_there_is_never_more_than_one_that_signs_and_one_that_waits(turns: list[Turn]) -> None:
    """However often somebody asks, and however late the bundle is published."""
    now = START
    authorities: tuple[Authority, ...] = ()
    bundle: frozenset[str] = frozenset()
    for number, turn in enumerate(turns):
        now += turn.pause
        result = advance(authorities, published=bundle, now=now, terms=TERMS, is_asked=turn.is_asked)
        authorities = result.authorities
        if result.needs_new:
            made = Authority(id=str(number), created_at=now, not_after=now + TERMS.lifetime)
            authorities = (*authorities, made)
        if turn.is_published:
            bundle = frozenset(one.id for one in authorities)
        waiting = [one for one in authorities if one.activated_at is None]
        signing = [one for one in authorities if one.activated_at is not None and one.superseded_at is None]
        assert len(waiting) <= 1
        assert len(signing) <= 1


def _believed(bundles: list[tuple[datetime, frozenset[str]]], *, now: datetime) -> frozenset[str]:
    """What a kubelet believes that is as late as it may be: the newest bundle that is at least so old."""
    return [ids for moment, ids in bundles if moment <= now - SPREAD or moment == START][-1]
