"""Looks whose the metrics API is, says so, and keeps the authority of our certificate in our own APIService.

Somebody else's is left alone: targets are woken all the same, and the HPA goes on reading where it read before.
"""

import base64
from collections.abc import Callable

from services.autoscaler.metrics import WakingMetrics
from services.autoscaler.ports import ApiFailed, RegistrationApi, WriteConflict
from services.core.metrics_registration import Owner, Registration, registration_of
from services.runtime.clock import Clock
from services.runtime.health import Readiness
from services.runtime.log import get

CONDITION = "external metrics api"
"""Name of the condition of readiness, which is for reading only: without the API targets are still woken."""
INTERVAL_S = 5.0

_log = get("autoscaler.registering")


class Registrar:
    """Looks regularly. `authority` returns the PEM of the authority of our certificate."""

    def __init__(
        self,
        api: RegistrationApi,
        *,
        service: str,
        authority: Callable[[], bytes],
        readiness: Readiness,
        metrics: WakingMetrics,
        clock: Clock,
    ) -> None:
        """Keep the parts; `run` looks."""
        self._api = api
        self._service = service
        self._authority = authority
        self._readiness = readiness
        self._metrics = metrics
        self._clock = clock
        self._told: tuple[Owner, str] | None = None

    async def run(self) -> None:
        """Look for ever."""
        while True:
            self._tell(await self.look())
            await self._clock.sleep(INTERVAL_S)

    async def look(self) -> Registration:
        """Return what there is now, after writing what is ours to write."""
        try:
            bundle = base64.b64encode(self._authority()).decode()
            found = registration_of(await self._api.registration(), service=self._service, ca_bundle=bundle)
            if found.ca_bundle is not None:
                await self._api.write_ca_bundle(found)
        except (ApiFailed, WriteConflict, OSError) as error:
            return Registration(owner=Owner.UNKNOWN, detail=str(error))
        return found

    def _tell(self, found: Registration) -> None:
        for owner in Owner:
            self._metrics.registration.labels(owner=owner.value).set(owner is found.owner)
        self._readiness.set(CONDITION, ready=True, detail=found.detail)
        if self._told != (found.owner, found.detail):
            self._told = (found.owner, found.detail)
            tell = _log.info if found.owner is Owner.OURS else _log.warning
            tell("metrics_api.registration", owner=found.owner.value, detail=found.detail)
