"""Who may read metrics: the API server is asked, and its answers are kept for a while, but not too many of them.

It has been asked before, by whoever passed the request on. It is asked again because that is not ours to rely on.
"""

from collections import OrderedDict
from dataclasses import dataclass

from services.autoscaler.ports import AccessApi
from services.core.front_proxy import Requester
from services.runtime.clock import Clock

MAX_ANSWERS = 4096
ALLOWED_S = 60.0
"""How long a right that was there is taken to be there: so late a right that is taken away has its effect."""
DENIED_S = 5.0
"""How long a right that was not there is taken to be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricAccess:
    """What somebody wants to do: to read a metric of a namespace."""

    requester: Requester
    namespace: str
    metric: str


class AccessDesk:
    """Asks, and remembers."""

    def __init__(self, api: AccessApi, *, clock: Clock) -> None:
        """Begin with no answers."""
        self._api = api
        self._clock = clock
        self._answers: OrderedDict[MetricAccess, tuple[bool, float]] = OrderedDict()

    async def is_allowed(self, access: MetricAccess) -> bool:
        """Tell whether it may be done. Raises ApiFailed."""
        kept = self._answers.get(access)
        if kept is not None and self._clock.monotonic() < kept[1]:
            self._answers.move_to_end(access)
            return kept[0]
        is_allowed = await self._api.reviewed(access.requester, namespace=access.namespace, metric=access.metric)
        ends_s = self._clock.monotonic() + (ALLOWED_S if is_allowed else DENIED_S)
        self._answers[access] = (is_allowed, ends_s)
        self._answers.move_to_end(access)
        while len(self._answers) > MAX_ANSWERS:
            self._answers.popitem(last=False)
        return is_allowed
