"""What a pod demands of devices: its claims by what they ask for, and those that are shared or have devices already.

Demands are made once for equal contents, so that they compare and hash by identity.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from services.core.allocations import ClaimRef, ExtendedRequest
from services.core.devices.values import ClaimSpec, NodeRule
from services.core.objects import NodeName, Uid
from services.core.reasons import Reason

SharedKey = tuple[str, str, str]
"""Namespace, and the name of a claim; or namespace, group, and entry of a claim that will be the group's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimDemand:
    """One claim of a pod.

    `shared` tells a claim apart that is not the pod's own; empty for one that is. `pinned` is where a claim can be used
    that has devices already, `pinned_node` the one node of a promise. `extended` are the resources by DeviceClass for
    which a claim has to be made.
    """

    spec: ClaimSpec
    shared: SharedKey | None = None
    pinned: NodeRule | None = None
    extended: tuple[ExtendedRequest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class DeviceDemand:
    """All of a pod. `problems` say why it cannot be placed at all; `extended` are resources that devices stand for.

    `extended_amounts` counts them; on nodes that advertise such a resource the device plugin serves it.
    """

    claims: tuple[ClaimDemand, ...] = ()
    problems: tuple[Reason, ...] = ()
    extended: frozenset[str] = frozenset()

    @property
    def shared(self) -> tuple[SharedKey, ...]:
        """Which claims that have no devices yet are shared with other pods."""
        return tuple(one.shared for one in self.claims if one.shared is not None and one.pinned is None)


NO_DEMAND = DeviceDemand()


class Demands:
    """Makes each demand once."""

    def __init__(self) -> None:
        """None has been made."""
        self._known: WeakValueDictionary[object, DeviceDemand] = WeakValueDictionary()

    def demand(
        self, *, claims: tuple[ClaimDemand, ...], problems: tuple[Reason, ...], extended: frozenset[str]
    ) -> DeviceDemand:
        """Return the demand with these contents."""
        key = (claims, problems, extended)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = DeviceDemand(claims=claims, problems=problems, extended=extended)
        return known


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClaimUse:
    """One claim of a certain pod: what it demands, and how the claim is named in an allocation."""

    demand: ClaimDemand
    ref: ClaimRef
    is_of_group: bool = False
    consumers: tuple[Uid, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUse:
    """All claims of a certain pod."""

    uses: tuple[PodClaimUse, ...] = ()
    problems: tuple[Reason, ...] = ()
    extended: frozenset[str] = frozenset()
    promised: Mapping[SharedKey, NodeName] = field(default_factory=dict)
