"""What sizes of pods have been asked for lately: what room has to stay useful for.

Nothing is known in advance. The mix is a function of the pods that exist, by when they were created, so a placer that
was restarted knows the same mix as one that followed. It keeps whole numbers only: a sum of fractions would depend on
the order in which pods were seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

BUCKET_S = 3600
"""Pods created within the same hour weigh the same."""
HALF_LIFE_BUCKETS = 24
"""A pod weighs half as much as one that was created a day later."""
COARSE_TOTAL = 128
"""Below this many parts the coarse mix is told. More follow the mix closer, and the outlook is computed more often."""
FORGOTTEN_BUCKETS = 32 * HALF_LIFE_BUCKETS
"""What is older than the newest pod by more than this weighs nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Size:
    """What one pod takes: `devices` whole ones of `resource`, or `share_milli` thousandths of a single one.

    Both are 0 where it takes no device; `resource` is the extended resource's name, for example nvidia.com/gpu.
    """

    cpu_milli: int = 0
    memory_bytes: int = 0
    resource: str = ""
    devices: int = 0
    share_milli: int = 0

    @property
    def device_milli(self) -> int:
        """Thousandths of devices that the pod takes altogether."""
        return 1000 * self.devices + self.share_milli


@dataclass(slots=True, kw_only=True)
class SizeMix:
    """How many pods of each size exist, by the hour of their creation."""

    _counts: dict[int, dict[Size, int]] = field(default_factory=dict)

    def add(self, size: Size, *, created_at: datetime) -> None:
        """Count a pod."""
        sizes = self._counts.setdefault(_bucket(created_at), {})
        sizes[size] = sizes.get(size, 0) + 1

    def remove(self, size: Size, *, created_at: datetime) -> None:
        """Count a pod no more."""
        bucket = _bucket(created_at)
        sizes = self._counts[bucket]
        sizes[size] -= 1
        if not sizes[size]:
            del sizes[size]
        if not sizes:
            del self._counts[bucket]

    def coarse(self) -> Mapping[Size, int]:
        """Return the mix in few parts, so that it is the same most of the time although pods come and go.

        Each hour's weight is a whole number, the newest's 2 ** 32; what rounds to no part is left out.
        """
        newest = max(self._counts, default=0)
        weights: dict[Size, int] = {}
        for bucket, sizes in self._counts.items():
            if (age := newest - bucket) > FORGOTTEN_BUCKETS:
                continue
            weight = _WEIGHTS[age]
            for size, count in sizes.items():
                weights[size] = weights.get(size, 0) + weight * count
        part = 1
        total = sum(weights.values())
        while total // part >= COARSE_TOTAL:
            part *= 2
        parts = {size: (2 * weight + part) // (2 * part) for size, weight in sorted(weights.items())}
        return {size: count for size, count in parts.items() if count}


def _bucket(created_at: datetime) -> int:
    return int(created_at.timestamp()) // BUCKET_S


_WEIGHTS = tuple(int(2 ** (32 - age / HALF_LIFE_BUCKETS)) for age in range(FORGOTTEN_BUCKETS + 1))
