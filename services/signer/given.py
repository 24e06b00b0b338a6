"""An authority that somebody else keeps: files in a folder, as cert-manager and mounted Secrets have them.

Rotation is theirs: `ca.crt`, which is published, has to have the new authority for a while before `tls.crt` does, and
the old one until what it signed has expired.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from services.runtime.clock import Clock
from services.runtime.health import Readiness
from services.runtime.log import get
from services.signer.certificates import UnusableAuthority, authority_from, certificates_in
from services.signer.keeping import CONDITION, INTERVAL_S
from services.signer.metrics import SignerMetrics
from services.signer.ports import ApiFailed, AuthorityStore, CannotSign, HeldAuthority, Overtaken

_log = get("signer.given")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    held: HeldAuthority
    trusted: str


class GivenAuthority:
    """The authority of a folder. Satisfies `services.signer.ports.SigningSource`."""

    def __init__(
        self, folder: Path, *, store: AuthorityStore, readiness: Readiness, metrics: SignerMetrics, clock: Clock
    ) -> None:
        """Keep the parts; `run` does the work."""
        self._folder = folder
        self._store = store
        self._readiness = readiness
        self._metrics = metrics
        self._clock = clock
        self._known: _Given | None = None

    async def run(self) -> None:
        """Read and publish for ever."""
        self._readiness.set(CONDITION, ready=False, detail=f"reading {self._folder}")
        while True:
            try:
                await self.turn()
            except (ApiFailed, Overtaken, UnusableAuthority, OSError) as error:
                _log.warning("authority.unusable", folder=str(self._folder), detail=str(error))
                self._readiness.set(CONDITION, ready=self._known is not None, detail=str(error))
            await self._clock.sleep(INTERVAL_S)

    async def turn(self) -> None:
        """Publish what the folder says is trusted, and only then sign. Raises UnusableAuthority, OSError, ApiFailed."""
        given = await asyncio.to_thread(self._read)
        bundle = await self._store.bundle()
        if certificates_in(given.trusted) != certificates_in(bundle.text):
            await self._store.publish(given.trusted, over=bundle)
        if self._known is None or self._known.held != given.held:
            self._metrics.rotations.inc()
        self._known = given
        self._metrics.authorities.set(len(certificates_in(given.trusted)))
        self._metrics.expiry.set(given.held.authority.not_after.timestamp())
        self._readiness.set(CONDITION, ready=True, detail=f"{given.held.authority.id} of {self._folder} signs")

    async def signing(self, *, until: datetime) -> HeldAuthority:
        """Return the authority of the files."""
        if self._known is None:
            raise CannotSign(f"nothing usable in {self._folder} yet")
        if until > self._known.held.authority.not_after:
            raise CannotSign("the authority expires before the certificate would")
        return self._known.held

    def _read(self) -> _Given:
        certificates = (self._folder / "tls.crt").read_bytes()
        held = authority_from(certificates=certificates, key=(self._folder / "tls.key").read_bytes())
        trusted = (self._folder / "ca.crt").read_text()
        if not certificates_in(trusted):
            raise UnusableAuthority(f"{self._folder / 'ca.crt'} has no certificate in PEM")
        return _Given(held=held, trusted=trusted)
