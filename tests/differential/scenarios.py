"""A scenario as data: the objects of a small cluster, and the gangs that arrive in it one after the other."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tests.differential.features import Feature

Manifest = dict[str, Any]

SEED_LABEL = "differential.phalanx.dev/seed"
"""On every object of a scenario, so that it can be found and taken away."""


class Fate(StrEnum):
    """What has become of a pod that is there before the gangs."""

    RUNNING = "running"
    TERMINATING = "terminating"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingPod:
    """A pod that is bound already. `status` is written after it was created."""

    manifest: Manifest
    fate: Fate = Fate.RUNNING
    status: Manifest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A PersistentVolumeClaim with the volume that it is bound to."""

    claim: Manifest
    volume: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class GangCase:
    """One gang. `group` is None for a lone pod; `wanted` members must run for a yes."""

    name: str
    features: frozenset[Feature]
    pods: tuple[Manifest, ...]
    group: Manifest | None
    wanted: int

    @property
    def is_held_back(self) -> bool:
        """Whether kube-scheduler keeps the gang out of its queue, and so says nothing about it.

        It does while a member carries a gate, and while fewer than minCount exist.
        """
        is_gated = any(pod["spec"].get("schedulingGates") for pod in self.pods)
        return self.group is not None and (is_gated or len(self.pods) < self.wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What one seed stands for. `others` are cluster-scoped objects by their collection's path."""

    seed: int
    namespace: str
    namespaces: tuple[Manifest, ...]
    nodes: tuple[Manifest, ...]
    standing: tuple[StandingPod, ...]
    claims: tuple[Claim, ...]
    others: Mapping[str, tuple[Manifest, ...]]
    gangs: tuple[GangCase, ...]
    features: frozenset[Feature]
    """Those of the cluster."""
