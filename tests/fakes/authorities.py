"""The signer's Secret and trust bundle, and its requests, in memory: with versions, and failures on demand."""

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from datetime import datetime

from services.core.signing import CertificateTerms, Denial, PodFacts
from services.signer.ports import (
    ApiFailed,
    Bundle,
    HeldAuthority,
    Manifest,
    Overtaken,
    StoredAuthorities,
)


class FakeAuthorities:
    """Satisfies `services.signer.ports.AuthorityStore`; `fails` makes the calls of that name fail."""

    def __init__(self) -> None:
        self.stored = StoredAuthorities()
        self.published = Bundle()
        self.fails: set[str] = set()
        self.writes = 0
        #: Every bundle that was ever published, in order.
        self.history: list[str] = []

    async def read(self) -> StoredAuthorities:
        """What was written last."""
        await self._check("read")
        return self.stored

    async def write(self, held: Collection[HeldAuthority], *, over: StoredAuthorities) -> None:
        """Replace it, where it is still what was read."""
        await self._check("write")
        if over.version != self.stored.version:
            raise Overtaken("somebody else wrote")
        self.writes += 1
        self.stored = StoredAuthorities(held=tuple(held), version=str(self.writes))

    async def bundle(self) -> Bundle:
        """What is published."""
        await self._check("bundle")
        return self.published

    async def publish(self, text: str, *, over: Bundle) -> None:
        """Replace it, where it is still what was read."""
        await self._check("publish")
        if over.version != self.published.version:
            raise Overtaken("somebody else published")
        self.history.append(text)
        self.published = Bundle(text=text, version=str(len(self.history)))

    def ask(self) -> None:
        """A person asks for a new authority."""
        self.stored = replace(self.stored, is_asked=True)

    async def _check(self, call: str) -> None:
        # Another signer has its turn between any two calls.
        await asyncio.sleep(0)
        if call in self.fails:
            raise ApiFailed(f"{call} does not work")


class FakeRequests:
    """Satisfies `services.signer.ports.RequestApi`: `pods` by namespace and name, `answers` by name of the request."""

    def __init__(self) -> None:
        self.pods: dict[tuple[str, str], PodFacts] = {}
        self.answers: dict[str, Denial | str] = {}
        self.looks = 0
        self.failures: list[Exception] = []
        self.requests: list[Manifest] = []

    async def listed(self) -> tuple[tuple[Manifest, ...], str]:
        """All requests."""
        return tuple(self.requests), "1"

    async def watched(self, version: str) -> AsyncIterator[Manifest]:
        """Nothing, and then the end of the watch."""
        assert version == "1"
        for nothing in tuple[Manifest, ...]():
            yield nothing

    async def pod(self, namespace: str, name: str) -> PodFacts | None:
        """The pod, unless the next failure is due."""
        self.looks += 1
        if self.failures:
            raise self.failures.pop(0)
        return self.pods.get((namespace, name))

    async def deny(self, request: Manifest, *, denial: Denial, now: datetime) -> None:
        """Keep the denial."""
        assert now.microsecond == 0
        self._keep(request, denial)

    async def issue(self, request: Manifest, *, chain: str, terms: CertificateTerms, now: datetime) -> None:
        """Keep the certificate."""
        assert terms.not_before < now < terms.refresh_at < terms.not_after
        self._keep(request, chain)

    def _keep(self, request: Manifest, answer: Denial | str) -> None:
        name = request["metadata"]["name"]
        if name in self.answers:
            raise Overtaken("answered already")
        self.answers[name] = answer
