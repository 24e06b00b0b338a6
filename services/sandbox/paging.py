"""Lists in pages: every page shows the moment of the first, until that moment is forgotten (410)."""

import base64
import binascii
from dataclasses import dataclass

import orjson

from services.sandbox.failures import ApiError, bad_request
from services.sandbox.store import Store
from services.sandbox.watching import Scope, Stored

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some objects of one moment, and how to go on."""

    items: list[Stored]
    revision: int
    next_token: str = ""
    remaining: int | None = None

    def encoded(self, scope: Scope) -> bytes:
        """The list object as bytes, made of the bytes that the items already have."""
        meta: dict[str, object] = {"resourceVersion": str(self.revision)}
        if self.next_token:
            meta["continue"] = self.next_token
        if self.remaining is not None:
            meta["remainingItemCount"] = self.remaining
        head = {"kind": f"{scope.kind.kind}List", "apiVersion": scope.kind.api_version(scope.version)}
        opening = orjson.dumps({**head, "metadata": meta})[:-1]
        return opening + b',"items":[' + b",".join([item.raw for item in self.items]) + b"]}"


def _token(number: int, offset: int) -> str:
    return base64.urlsafe_b64encode(orjson.dumps({"v": "sandbox/v1", "view": number, "offset": offset})).decode()


def _parse(token: str) -> tuple[int, int]:
    try:
        parsed = orjson.loads(base64.urlsafe_b64decode(token))
        return int(parsed["view"]), int(parsed["offset"])
    except (ValueError, binascii.Error, KeyError, TypeError) as error:
        raise bad_request(f"continue key is not valid: {error}") from error


def list_page(store: Store, scope: Scope, *, limit: int, token: str) -> Page:
    """One page of a scope; `limit` 0 means everything. Raises Expired where the token's view is gone."""
    if token:
        number, offset = _parse(token)
        view = store.snapshot(number)
        if view is None:
            raise ApiError(410, reason="Expired", message=_TOO_OLD)
        revision, items = view
    else:
        number, offset, revision = 0, 0, store.revision
        items = store.select(scope)
    end = offset + limit
    if not limit or end >= len(items):
        return Page(items=items[offset:], revision=revision)
    number = number or store.keep_snapshot(revision, items)
    # The API server does not count what a selector would still leave out.
    remaining = len(items) - end if scope.predicate is None else None
    return Page(items=items[offset:end], revision=revision, next_token=_token(number, end), remaining=remaining)
