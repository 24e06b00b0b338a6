"""Whether a binder runs: without one nobody removes a rule whose end is over."""

import asyncio

from services.cli.taint.rules import Manifest
from services.core.maintenance import end_of, written_end
from services.runtime.bus import Bus, BusUnavailable
from services.runtime.election import Holder
from services.runtime.health import Readiness
from services.runtime.leader_key import LEADERS_STREAM, key_of, leader_subject

PATIENCE_S = 5.0
"""How long a NATS server may take to answer."""


async def leading_binder(nats_url: str) -> str | None:
    """Return the instance that leads the binders, None where none does. Raises TimeoutError without a server."""
    bus = Bus(url=nats_url, name="phalanx-taint", readiness=Readiness())
    async with asyncio.timeout(PATIENCE_S), bus:
        try:
            found = await bus.last(LEADERS_STREAM, subject=leader_subject("binder"))
        except BusUnavailable:
            # No bucket of leaders: no service of Phalanx has used this server yet.
            return None
    if found is None:
        return None
    holder = key_of(found.data, found.headers, revision=found.sequence)
    return holder.instance if isinstance(holder, Holder) else None


async def who_ends(rule: Manifest, *, nats_url: str) -> str:
    """Return a sentence on who will remove a rule that has an end."""
    end = end_of(rule)
    moment = "" if end is None else written_end(end)
    by_hand = f"unless one runs then, nobody removes the rule: phalanx taint remove {rule['metadata']['name']}"
    try:
        instance = await leading_binder(nats_url)
    except TimeoutError:
        return (
            f"it ends at {moment} if a binder runs: whether one does cannot be seen, for no NATS server answers at "
            f"{nats_url} (--nats-url); {by_hand}"
        )
    if instance is None:
        return f"it ends at {moment} only if a binder runs, and none does now (asked NATS at {nats_url}); {by_hand}"
    return f"it ends at {moment}: binder {instance} removes it then"
