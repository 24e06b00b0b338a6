"""Freeing the claims of lost transactions, one write at a time, each on what was judged.

Unlike in a transaction nothing is repeated here: a claim that has changed since it was read may be in use again, and is
left to the next sweep.
"""

from collections.abc import Mapping, Sequence

from services.binder.metrics import ClaimMetrics
from services.binder.ports import Changed, ClaimApi, Manifest
from services.binder.world import World
from services.core.claim_bodies import metadata_of
from services.core.claim_writes import Delete, Done, Mark, WriteStatus, next_to_free
from services.core.objects import Pod, Uid
from services.core.sweeping_claims import Leak, leaked_claims
from services.core.transaction_answers import Meaning, meaning_of
from services.runtime.log import get

_log = get("binder.healing")

MAX_WRITES = 4
"""For one claim: its status, its marks, and the claim itself."""


class ClaimHealer:
    """Frees claims that nothing explains."""

    def __init__(self, api: ClaimApi, *, world: World, metrics: ClaimMetrics) -> None:
        """Keep the parts."""
        self._api = api
        self._world = world
        self._metrics = metrics

    async def read(self) -> Sequence[Manifest]:
        """Return all allocated claims; to be asked before the pods are read. Raises NoAnswer."""
        return await self._api.everyone()

    async def heal(self, claims: Sequence[Manifest], *, live: Mapping[Uid, Pod]) -> None:
        """Free what leaked. Raises NoAnswer."""
        for leak in leaked_claims(claims, cluster=self._world.cluster, ledger=self._world.ledger, live=live):
            # Each wait may have brought a transaction that uses the claim.
            again = leaked_claims([leak.claim], cluster=self._world.cluster, ledger=self._world.ledger, live=live)
            if again and await self._free(leak):
                self._metrics.healed.inc()
                _log.warning(
                    "claim.healed",
                    claim=leak.target.allocation.ref.name,
                    namespace=leak.target.allocation.ref.namespace,
                    transaction=leak.transaction,
                )

    async def _free(self, leak: Leak) -> bool:
        claim: Manifest | None = leak.claim
        for _ in range(MAX_WRITES):
            step = next_to_free(claim, target=leak.target, transaction=leak.transaction)
            if isinstance(step, Done) or claim is None:
                return True
            changed = await self._write(step, claim)
            if meaning_of(changed.answer) is not Meaning.TAKEN:
                return False
            claim = None if isinstance(step, Delete) else changed.manifest
        return False

    async def _write(self, step: object, claim: Manifest) -> Changed:
        metadata = metadata_of(claim)
        namespace, name = metadata["namespace"], metadata["name"]
        match step:
            case Mark(body=body):
                return await self._api.mark(namespace, name=name, body=body)
            case WriteStatus(body=body):
                return await self._api.write_status(namespace, name=name, body=body)
            case _:
                return await self._api.delete(
                    namespace, name=name, uid=metadata["uid"], version=metadata["resourceVersion"]
                )
