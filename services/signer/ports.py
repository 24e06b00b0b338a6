"""What the signer needs of the world outside, and how that can fail."""

from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from services.core.authorities import Authority
from services.core.signing import CertificateTerms, Denial, PodFacts

Manifest = Mapping[str, Any]


class ApiFailed(Exception):
    """The API server gave no answer, or not the one that is needed; the message says which right or peer is missing."""


class HistoryGone(Exception):
    """The server forgot the version from which to watch: list again."""


class Overtaken(Exception):
    """Somebody else wrote the object meanwhile, or it is gone: what was decided rests on nothing any more."""


class AnswerRefused(Exception):
    """The API server does not take this answer to a request, and would not take it a second time either."""


class CannotSign(Exception):
    """No authority can sign this now; the message says what is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAuthority:
    """An authority with its certificate and its key, both in PEM. `chain` follows a leaf where it is intermediate."""

    authority: Authority
    certificate: bytes
    key: bytes = field(repr=False)
    chain: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAuthorities:
    """What is in the Secret: nothing yet where `version` is None."""

    held: tuple[HeldAuthority, ...] = ()
    is_asked: bool = False
    """Whether a person asks for a new authority."""
    version: str | None = None
    metadata: Manifest = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The trust bundle, in PEM; empty where there is none yet."""

    text: str = ""
    version: str | None = None


class RequestApi(Protocol):
    """PodCertificateRequests of one signer, and the pods that they are for."""

    async def listed(self) -> tuple[tuple[Manifest, ...], str]:
        """Return all requests, and the version of the list. Raises ApiFailed."""

    def watched(self, version: str) -> AsyncIterator[Manifest]:
        """Yield requests that are new or changed, until the watch ends. Raises ApiFailed and HistoryGone."""

    async def pod(self, namespace: str, name: str) -> PodFacts | None:
        """Return what the live pod says, None where there is none. Raises ApiFailed."""

    async def deny(self, request: Manifest, *, denial: Denial, now: datetime) -> None:
        """Answer no. Raises ApiFailed, Overtaken and AnswerRefused."""

    async def issue(self, request: Manifest, *, chain: str, terms: CertificateTerms, now: datetime) -> None:
        """Answer with a certificate. Raises ApiFailed, Overtaken and AnswerRefused."""


class AuthorityStore(Protocol):
    """Where the authorities are kept, and where they are published."""

    async def read(self) -> StoredAuthorities:
        """Return what is kept. Raises ApiFailed, also where it cannot be understood: nothing is overwritten then."""

    async def write(self, held: Collection[HeldAuthority], *, over: StoredAuthorities) -> None:
        """Keep these, where nobody wrote since `over` was read. Raises ApiFailed and Overtaken."""

    async def bundle(self) -> Bundle:
        """Return what is published. Raises ApiFailed."""

    async def publish(self, text: str, *, over: Bundle) -> None:
        """Publish these certificates. Raises ApiFailed and Overtaken."""


class SigningSource(Protocol):
    """The authority that signs now."""

    async def signing(self, *, until: datetime) -> HeldAuthority:
        """Return it, ready to sign what is valid until then. Raises CannotSign and ApiFailed."""
