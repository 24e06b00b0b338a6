"""What sizes of pods have been asked for lately: what room has to stay useful for.

Nothing is known in advance. The mix is a function of the pods that exist, by when they were created, so a placer that
was restarted knows the same mix as one that followed. It keeps whole numbers only: a sum of fractions would depend on
the order in which pods were seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from services.core.objects import Pod
from services.core.quantities import CPU

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
    """How many pods of each size exist, by the hour of their creation.

    Pods that take no device are not counted: nothing has to stay useful for them but what devices need beside them.
    """

    _counts: dict[int, dict[Size, int]] = field(default_factory=dict)
    _newest: int = 0
    #: Weight of each size, beside a pod of the newest hour with 2 ** 32.
    _weights: dict[Size, int] = field(default_factory=dict)
    _coarse: Mapping[Size, int] | None = None

    def add(self, size: Size, *, created_at: datetime) -> None:
        """Count a pod."""
        self._count(size, bucket=_bucket(created_at), change=1)

    def remove(self, size: Size, *, created_at: datetime) -> None:
        """Count a pod no more."""
        self._count(size, bucket=_bucket(created_at), change=-1)

    def add_pod(self, pod: Pod) -> None:
        """Count a pod of the cluster."""
        self.add(size_of(pod), created_at=pod.metadata.created_at)

    def remove_pod(self, pod: Pod) -> None:
        """Count a pod of the cluster no more."""
        self.remove(size_of(pod), created_at=pod.metadata.created_at)

    def copy(self) -> "SizeMix":
        """Return a mix that can be changed without changing this one."""
        counts = {bucket: dict(sizes) for bucket, sizes in self._counts.items()}
        return SizeMix(_counts=counts, _newest=self._newest, _weights=dict(self._weights), _coarse=self._coarse)

    def coarse(self) -> Mapping[Size, int]:
        """Return the mix in few parts, so that it is the same most of the time although pods come and go.

        What rounds to no part is left out.
        """
        if self._coarse is None:
            total, part = sum(self._weights.values()), 1
            while total // part >= COARSE_TOTAL:
                part *= 2
            parts = {size: (2 * weight + part) // (2 * part) for size, weight in sorted(self._weights.items())}
            self._coarse = {size: count for size, count in parts.items() if count}
        return self._coarse

    def _count(self, size: Size, *, bucket: int, change: int) -> None:
        if not size.device_milli:
            return
        self._coarse = None
        sizes = self._counts.setdefault(bucket, {})
        sizes[size] = sizes.get(size, 0) + change
        if not sizes[size]:
            del sizes[size]
        if not sizes:
            del self._counts[bucket]
        newest = max(self._counts, default=0)
        if newest != self._newest:
            # Everybody's age is another now.
            self._newest = newest
            self._weights = {}
            for other, others in self._counts.items():
                for one, count in others.items():
                    self._weigh(one, age=newest - other, count=count)
        else:
            self._weigh(size, age=newest - bucket, count=change)

    def _weigh(self, size: Size, *, age: int, count: int) -> None:
        weight = self._weights.get(size, 0) + count * _weight(age)
        self._weights[size] = weight
        if not weight:
            del self._weights[size]


def size_of(pod: Pod) -> Size:
    """Return the size of a pod by its extended resource; of several, the one of which it asks for most."""
    devices, resource = max(
        ((amount, name) for name, amount in pod.requests.items() if "/" in name and amount > 0), default=(0, "")
    )
    return Size(
        cpu_milli=pod.requests.get(CPU, 0),
        memory_bytes=pod.requests.get("memory", 0),
        resource=resource,
        devices=devices,
    )


def _weight(age: int) -> int:
    return _WEIGHTS[age] if age < len(_WEIGHTS) else 0


def _bucket(created_at: datetime) -> int:
    return int(created_at.timestamp()) // BUCKET_S


_WEIGHTS = tuple(int(2 ** (32 - age / HALF_LIFE_BUCKETS)) for age in range(FORGOTTEN_BUCKETS + 1))
