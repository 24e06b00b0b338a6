"""What a decided allocation takes of devices, before the stream shows it."""

from services.core.allocations import ClaimAllocation, ClaimRef
from services.core.devices.values import Use
from services.core.exact_amounts import parse_amount

Holder = tuple[str, str, str]
"""Who takes devices: `claim`, or a promise: `name` (each with namespace and name), or `own` with pod and entry."""


def holder_of(ref: ClaimRef) -> Holder:
    """Return what tells the claim of a promise apart, whether or not the object exists yet."""
    return ("own", ref.pod, ref.entry) if ref.pod else ("name", ref.namespace, ref.name)


def uses_of_promise(promise: ClaimAllocation) -> tuple[Use, ...]:
    """Return what a promise takes."""
    return tuple(
        Use(
            device=(one.driver, one.pool, one.device),
            is_admin=one.is_admin,
            consumed=tuple((name, parse_amount(text)) for name, text in one.consumed) if one.is_share else None,
        )
        for one in promise.results
    )
