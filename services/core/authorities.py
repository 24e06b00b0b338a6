"""How the signer's certificate authorities follow each other without a moment in which somebody is not believed.

An authority is published before it signs, for long enough that every kubelet has written it into its pods; then it
takes over; and it stays published until the last certificate that it signed has expired. So at every moment each side
of each connection trusts the certificate of the other, whichever of them was renewed first.

All moments are written down beside the keys, and `advance` is a function of them: any number of signers may run, and
one that starts goes on where the last one stopped.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

ISSUE_MARGIN = timedelta(hours=6)
"""By so much more than needed the end of what an authority signed is written down, so that it is written seldom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """One certificate authority. Moments that have not come are None.

    It signs from `activated_at` to `superseded_at`. `issued_until` is when the last certificate that it signed will
    have expired; it is written down before such a certificate is signed.
    """

    id: str
    created_at: datetime
    not_after: datetime
    published_at: datetime | None = None
    activated_at: datetime | None = None
    superseded_at: datetime | None = None
    issued_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationTerms:
    """How long an authority lives, how long before its end its successor is made, and how long that is only published.

    `renew_before` has to be longer than `spread` and the longest certificate together.
    """

    lifetime: timedelta
    renew_before: timedelta
    spread: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """The authorities as they are from now on, and whether one more has to be made."""

    authorities: tuple[Authority, ...]
    needs_new: bool


def signing_one(authorities: Sequence[Authority]) -> Authority | None:
    """Return the authority that signs now."""
    for one in authorities:
        if one.activated_at is not None and one.superseded_at is None:
            return one
    return None


def advance(
    authorities: Sequence[Authority],
    *,
    published: Collection[str],
    now: datetime,
    terms: RotationTerms,
    is_asked: bool = False,
) -> Advance:
    """Return what time has done to the authorities.

    `published` has the ids that are in the trust bundle now, and `is_asked` says that a person wants a new authority.
    """
    seen = [
        replace(one, published_at=now) if one.published_at is None and one.id in published else one
        for one in authorities
    ]
    kept = tuple(one for one in _handed_over(seen, now=now, terms=terms) if not _is_over(one, now=now))
    current = signing_one(kept)
    has_successor = any(one.activated_at is None for one in kept)
    if current is None:
        return Advance(authorities=kept, needs_new=not has_successor)
    is_due = is_asked or now >= current.not_after - terms.renew_before
    return Advance(authorities=kept, needs_new=is_due and not has_successor)


def _handed_over(authorities: Sequence[Authority], *, now: datetime, terms: RotationTerms) -> Sequence[Authority]:
    """Let the successor sign, where it has been published for long enough."""
    current = signing_one(authorities)
    waiting = [one for one in authorities if one.activated_at is None and one.published_at is not None]
    if not waiting:
        return authorities
    successor = min(waiting, key=lambda one: (one.created_at, one.id))
    assert successor.published_at is not None
    # Where nothing signs, nobody waits to go on being believed: there is no reason to wait.
    if current is not None and now < current.not_after and now < successor.published_at + terms.spread:
        return authorities
    return [
        replace(one, activated_at=now)
        if one is successor
        else (replace(one, superseded_at=now) if one is current else one)
        for one in authorities
    ]


def _is_over(authority: Authority, *, now: datetime) -> bool:
    """Tell whether nobody holds a valid certificate of an authority that signs no more."""
    if authority.superseded_at is None:
        return False
    return now >= min(authority.issued_until or authority.superseded_at, authority.not_after)


def with_issued(authority: Authority, *, until: datetime) -> Authority | None:
    """Return the authority with a later end of what it signed, or None where a later one is written down already."""
    if authority.issued_until is not None and until <= authority.issued_until:
        return None
    return replace(authority, issued_until=until + ISSUE_MARGIN)
