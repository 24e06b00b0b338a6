"""The authorities are made, published and replaced, whoever dies or writes in between."""

import asyncio
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry

from services.core.authorities import RotationTerms
from services.runtime.health import Readiness
from services.signer.certificates import certificates_in, der_of
from services.signer.keeping import Keeper
from services.signer.metrics import SignerMetrics
from services.signer.ports import ApiFailed, CannotSign, Overtaken
from tests.fakes.authorities import FakeAuthorities
from tests.fakes.clock import FakeClock

SPREAD_S = 900.0
DAY_S = 86_400.0
TERMS = RotationTerms(lifetime=timedelta(days=100), renew_before=timedelta(days=30), spread=timedelta(seconds=SPREAD_S))


def keeper(store: FakeAuthorities, clock: FakeClock, *, terms: RotationTerms = TERMS) -> Keeper:
    """A signer's keeper; several may share a store."""
    return Keeper(
        store,
        terms=terms,
        trust_domain=lambda: "example.org",
        readiness=Readiness(clock=clock),
        metrics=SignerMetrics(CollectorRegistry()),
        clock=clock,
    )


async def settle(one: Keeper) -> None:
    """Let it do all that is due now."""
    while await one.turn():
        pass


async def signs(one: Keeper, clock: FakeClock, *, hours: float = 24) -> str:
    """The id of the authority that signs a certificate of so many hours."""
    return (await one.signing(until=clock.now() + timedelta(hours=hours))).authority.id


async def test_nothing_is_signed_before_the_first_authority_is_published() -> None:
    """A certificate that nobody can check is worse than one that comes a moment later."""
    store, clock = FakeAuthorities(), FakeClock()
    one = keeper(store, clock)
    with pytest.raises(CannotSign):
        await signs(one, clock)
    store.fails.add("publish")
    with pytest.raises(ApiFailed):
        await settle(one)
    with pytest.raises(CannotSign):
        await signs(one, clock)
    store.fails.clear()
    await settle(one)
    assert await signs(one, clock)
    assert len(store.stored.held) == 1


async def test_a_signer_that_starts_goes_on_with_the_same_authority() -> None:
    """Nothing is in the process that is not in the Secret."""
    store, clock = FakeAuthorities(), FakeClock()
    first = keeper(store, clock)
    await settle(first)
    signing = await signs(first, clock)
    second = keeper(store, clock)
    await settle(second)
    assert await signs(second, clock) == signing
    assert len(store.history) == 1


async def test_a_rotation_overlaps_on_both_sides() -> None:
    """Both are published before the new one signs, and the old one until what it signed has expired."""
    store, clock = FakeAuthorities(), FakeClock()
    one = keeper(store, clock)
    await settle(one)
    old = await signs(one, clock)
    store.ask()
    await settle(one)
    assert await signs(one, clock) == old
    assert len(certificates_in(store.published.text)) == 2
    clock.advance(SPREAD_S - 1)
    await settle(one)
    assert await signs(one, clock) == old
    clock.advance(1)
    await settle(one)
    new = await signs(one, clock)
    assert new != old
    assert len(certificates_in(store.published.text)) == 2
    clock.advance(2 * DAY_S)
    await settle(one)
    (left,) = store.stored.held
    assert left.authority.id == new
    assert certificates_in(store.published.text) == {der_of(left.certificate)}


async def test_what_a_person_asks_for_is_done_once() -> None:
    """The wish is gone when it is granted."""
    store, clock = FakeAuthorities(), FakeClock()
    one = keeper(store, clock)
    await settle(one)
    store.ask()
    await settle(one)
    assert not store.stored.is_asked
    assert len(store.stored.held) == 2


async def test_of_two_signers_that_start_at_once_one_makes_the_authority() -> None:
    """The write of the other rests on what is not so any more."""
    store, clock = FakeAuthorities(), FakeClock()
    one, other = keeper(store, clock), keeper(store, clock)
    results = await asyncio.gather(one.turn(), other.turn(), return_exceptions=True)
    assert any(isinstance(result, Overtaken) for result in results)
    await settle(other)
    await settle(one)
    assert len(store.history) == 1
    assert await signs(one, clock) == await signs(other, clock)
    assert len(store.stored.held) == 1


async def test_nothing_outlives_the_authority() -> None:
    """A certificate that would is put off until a new one signs."""
    store, clock = FakeAuthorities(), FakeClock()
    one = keeper(
        store, clock, terms=RotationTerms(lifetime=timedelta(days=1), renew_before=timedelta(), spread=timedelta())
    )
    await settle(one)
    with pytest.raises(CannotSign, match="expires"):
        await signs(one, clock, hours=25)


async def test_what_was_signed_is_written_down_before_it_is_signed() -> None:
    """Where that cannot be written, nothing is signed."""
    store, clock = FakeAuthorities(), FakeClock()
    one = keeper(store, clock)
    await settle(one)
    store.fails.add("write")
    with pytest.raises(ApiFailed):
        await signs(one, clock)
    store.fails.clear()
    await signs(one, clock)
    written = store.stored.held[0].authority.issued_until
    assert written is not None
    assert written >= clock.now() + timedelta(hours=24)
    writes = store.writes
    await signs(one, clock)
    assert store.writes == writes


async def test_a_bundle_that_somebody_changed_is_put_right() -> None:
    """What is believed is what the Secret says."""
    store, clock = FakeAuthorities(), FakeClock()
    one = keeper(store, clock)
    await settle(one)
    good = store.published.text
    await store.publish("", over=store.published)
    await settle(one)
    assert store.published.text == good
