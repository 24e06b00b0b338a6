"""Keeps the authorities: makes them, publishes them, hands over from one to the next.

Every change is written to the Secret first, on the condition that nobody else wrote, and published second. A signer
that dies in between is continued by the next, and two that run at once cannot each make an authority.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime

from services.core.authorities import RotationTerms, advance, signing_one, with_issued
from services.runtime.clock import Clock
from services.runtime.health import Readiness
from services.runtime.log import get
from services.signer.certificates import certificates_in, create_authority, der_of
from services.signer.metrics import SignerMetrics
from services.signer.ports import ApiFailed, AuthorityStore, CannotSign, HeldAuthority, Overtaken, StoredAuthorities

CONDITION = "authority"
"""Name of the condition of readiness."""
INTERVAL_S = 5.0
"""Between two looks at what is kept and published."""
WRITE_ATTEMPTS = 5

_log = get("signer.keeping")


class Keeper:
    """The authorities in the Secret. Satisfies `services.signer.ports.SigningSource`."""

    def __init__(
        self,
        store: AuthorityStore,
        *,
        terms: RotationTerms,
        trust_domain: Callable[[], str],
        readiness: Readiness,
        metrics: SignerMetrics,
        clock: Clock,
    ) -> None:
        """Keep the parts; `run` does the work."""
        self._store = store
        self._terms = terms
        self._trust_domain = trust_domain
        self._readiness = readiness
        self._metrics = metrics
        self._clock = clock
        self._known = StoredAuthorities()
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        """Look for ever."""
        self._readiness.set(CONDITION, ready=False, detail="reading the authorities")
        while True:
            try:
                has_changed = await self.turn()
            except (ApiFailed, Overtaken) as error:
                self._readiness.set(CONDITION, ready=self._can_sign(), detail=str(error))
                has_changed = False
            if not has_changed:
                await self._clock.sleep(INTERVAL_S)

    async def turn(self) -> bool:
        """Do what is due, and tell whether anything was. Raises ApiFailed and Overtaken."""
        async with self._writing:
            stored = await self._store.read()
            bundle = await self._store.bundle()
            present = certificates_in(bundle.text)
            now = self._clock.now()
            held = self._advanced(stored, published=present, now=now)
            has_changed = held != stored.held or stored.is_asked
            if has_changed:
                await self._store.write(held, over=stored)
                stored = await self._store.read()
                self._tell_rotation(held)
            self._known = stored
        if {der_of(one.certificate) for one in stored.held} != present:
            await self._store.publish(_bundle_of(stored.held), over=bundle)
            has_changed = True
        self._show()
        return has_changed

    async def signing(self, *, until: datetime) -> HeldAuthority:
        """Return the authority that signs, once it is written down until when what it signs is valid."""
        async with self._writing:
            for _ in range(WRITE_ATTEMPTS):
                found = self._signing()
                if found is None:
                    raise CannotSign("no authority is published yet")
                if until > found.authority.not_after:
                    raise CannotSign(f"the authority expires at {found.authority.not_after:%Y-%m-%dT%H:%M:%SZ}")
                issued = with_issued(found.authority, until=until)
                if issued is None:
                    return found
                held = [replace(one, authority=issued) if one is found else one for one in self._known.held]
                with contextlib.suppress(Overtaken):
                    await self._store.write(held, over=self._known)
                # Written by us or by somebody else: what is kept now is what counts.
                self._known = await self._store.read()
        raise CannotSign("other signers write all the time")

    def _advanced(
        self, stored: StoredAuthorities, *, published: Collection[bytes], now: datetime
    ) -> tuple[HeldAuthority, ...]:
        by_id = {one.authority.id: one for one in stored.held}
        result = advance(
            [one.authority for one in stored.held],
            published={key for key, one in by_id.items() if der_of(one.certificate) in published},
            now=now,
            terms=self._terms,
            is_asked=stored.is_asked,
        )
        held = tuple(replace(by_id[one.id], authority=one) for one in result.authorities)
        if not result.needs_new:
            return held
        lifetime = self._terms.lifetime
        return (*held, create_authority(now=_whole(now), lifetime=lifetime, trust_domain=self._trust_domain()))

    def _tell_rotation(self, held: Collection[HeldAuthority]) -> None:
        before, after = self._signing(), signing_one([one.authority for one in held])
        if after is not None and (before is None or before.authority.id != after.id) and self._known.version:
            self._metrics.rotations.inc()
            _log.info("authority.signs", authority=after.id, before=before.authority.id if before else "")

    def _show(self) -> None:
        self._metrics.authorities.set(len(self._known.held))
        found = self._signing()
        if found is None:
            self._readiness.set(CONDITION, ready=False, detail="an authority is made and published")
            return
        self._metrics.expiry.set(found.authority.not_after.timestamp())
        self._readiness.set(CONDITION, ready=True, detail=f"{found.authority.id} signs, of {len(self._known.held)}")

    def _signing(self) -> HeldAuthority | None:
        current = signing_one([one.authority for one in self._known.held])
        return next((one for one in self._known.held if one.authority is current), None)

    def _can_sign(self) -> bool:
        return self._signing() is not None


def _bundle_of(held: Collection[HeldAuthority]) -> str:
    return "".join(one.certificate.decode() for one in sorted(held, key=lambda one: one.authority.id))


def _whole(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)
