"""Whom a taint on devices hits: claims, pods, and the gangs that fall below what they need.

What is read here are allocations, for they alone say which pod holds which device. As the eviction controller of
Kubernetes does (KEP-5055): only pods that are on a node and in a claim's `reservedFor` are deleted, what they tolerate
is read from the allocation, and neither PodDisruptionBudgets nor gangs are asked.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Manifest = Mapping[str, Any]

NO_EXECUTE = "NoExecute"
_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Device:
    """The name of a device, unique in the cluster."""

    driver: str
    pool: str
    name: str

    def __str__(self) -> str:
        """Return it as people write it."""
        return f"{self.driver}/{self.pool}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """A gang, as far as losses matter to it: the members that it has, and how many it needs."""

    name: str
    min_count: int
    members: frozenset[str]
    """Uids of the members that have not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A gang that loses members."""

    name: str
    min_count: int
    lost: int
    left: int

    @property
    def is_broken(self) -> bool:
        """Whether fewer are left than it needs."""
        return self.left < self.min_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A pod that is deleted. `after_s` is how long it tolerates the taint."""

    namespace: str
    name: str
    uid: str
    after_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Blast:
    """What a taint rule does. With another effect than NoExecute `victims` are those that NoExecute would delete."""

    effect: str
    selected: int
    published: int
    claims: tuple[str, ...]
    """`<namespace>/<name>` of the claims that hold selected devices."""
    victims: tuple[Victim, ...]
    tolerant: int
    """Pods that use selected devices and tolerate the taint for ever."""
    losses: tuple[Loss, ...]
    """Gangs that would lose members, as far as they are known."""

    @property
    def is_deadly(self) -> bool:
        """Whether pods are deleted."""
        return self.effect == NO_EXECUTE and bool(self.victims)

    @property
    def broken(self) -> tuple[Loss, ...]:
        """Gangs of which fewer are left than they need."""
        return tuple(one for one in self.losses if one.is_broken)


def allocated(claim: Manifest) -> Iterator[Mapping[str, Any]]:
    """Yield the results of a claim's allocation, one for each device."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    yield from (allocation.get("devices") or {}).get("results") or ()


def device_of(result: Mapping[str, Any]) -> Device:
    """Return the device of an allocation's result."""
    return Device(driver=str(result.get("driver")), pool=str(result.get("pool")), name=str(result.get("device")))


def is_selected(rule: Manifest, device: Device) -> bool:
    """Tell whether a DeviceTaintRule selects a device: no selector selects none, an empty one all (KEP-5055)."""
    selector = (rule.get("spec") or {}).get("deviceSelector")
    if selector is None:
        return False
    given = (selector.get("driver"), selector.get("pool"), selector.get("device"))
    actual = (device.driver, device.pool, device.name)
    return all(wanted is None or wanted == one for wanted, one in zip(given, actual, strict=True))


def taint_of(rule: Manifest) -> Mapping[str, Any]:
    """Return the taint of a rule."""
    return (rule.get("spec") or {}).get("taint") or {}


def published(slices: Iterable[Manifest]) -> Iterator[tuple[Manifest, Device, Mapping[str, Any]]]:
    """Yield every device of the newest generation of each pool, with its slice and its definition."""
    items = list(slices)
    newest: dict[tuple[str, str], int] = {}
    for item in items:
        key, generation = pool_of(item)
        newest[key] = max(newest.get(key, 0), generation)
    for item in items:
        (driver, pool), generation = pool_of(item)
        if generation == newest[driver, pool]:
            for device in item["spec"].get("devices") or ():
                yield item, Device(driver=driver, pool=pool, name=str(device.get("name"))), device


def pool_of(item: Manifest) -> tuple[tuple[str, str], int]:
    """Return driver, name and generation of a slice's pool."""
    pool = item["spec"].get("pool") or {}
    return (str(item["spec"].get("driver")), str(pool.get("name"))), int(pool.get("generation") or 0)


def users_of(claim: Manifest) -> frozenset[str]:
    """Return the uids of the pods that a claim is reserved for."""
    users = (claim.get("status") or {}).get("reservedFor") or ()
    return frozenset(str(one.get("uid")) for one in users if one.get("resource") == "pods")


def tolerated_s(result: Mapping[str, Any], taint: Mapping[str, Any]) -> int | None:
    """Return for how many seconds an allocated device may be used under a taint; None for ever."""
    limits = []
    for one in result.get("tolerations") or ():
        if not _covers(one, taint):
            continue
        if one.get("tolerationSeconds") is None:
            return None
        limits.append(max(0, int(one["tolerationSeconds"])))
    return min(limits, default=0)


def _covers(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Tell whether a toleration keeps an eviction off: only one that names NoExecute itself does."""
    if toleration.get("effect") != NO_EXECUTE or toleration.get("key") not in {None, "", taint.get("key")}:
        return False
    operator = toleration.get("operator") or "Equal"
    is_equal = operator == "Equal" and (toleration.get("value") or "") == (taint.get("value") or "")
    return operator == "Exists" or is_equal


def blast_of(
    rule: Manifest,
    *,
    claims: Iterable[Manifest],
    slices: Iterable[Manifest],
    pods: Iterable[Manifest],
    teams: Iterable[Team],
) -> Blast:
    """Return what a rule does now. `pods` may be only those that claims are reserved for."""
    taint = taint_of(rule)
    devices = [device for _, device, _ in published(slices)]
    hit = [(claim, found) for claim in claims if (found := _hit_by(rule, claim))]
    limits: dict[str, int | None] = {}
    for claim, results in hit:
        for result in results:
            limit = tolerated_s(result, taint)
            for uid in users_of(claim):
                limits[uid] = _shorter(limits[uid], limit) if uid in limits else limit
    living = {str(pod["metadata"].get("uid")): pod for pod in pods if _is_running(pod)}
    victims = tuple(
        sorted(
            (
                Victim(
                    namespace=str(living[uid]["metadata"].get("namespace")),
                    name=str(living[uid]["metadata"].get("name")),
                    uid=uid,
                    after_s=limit,
                )
                for uid, limit in limits.items()
                if uid in living and limit is not None
            ),
            key=lambda one: (one.namespace, one.name),
        )
    )
    return Blast(
        effect=str(taint.get("effect", "")),
        selected=sum(is_selected(rule, device) for device in devices),
        published=len(devices),
        claims=tuple(sorted(_name_of(claim) for claim, _ in hit)),
        victims=victims,
        tolerant=sum(limit is None and uid in living for uid, limit in limits.items()),
        losses=losses_of(teams, lost=frozenset(one.uid for one in victims)),
    )


def losses_of(teams: Iterable[Team], *, lost: frozenset[str]) -> tuple[Loss, ...]:
    """Return the gangs that lose members, by name."""
    found = [
        Loss(
            name=team.name,
            min_count=team.min_count,
            lost=len(team.members & lost),
            left=len(team.members - lost),
        )
        for team in teams
        if team.members & lost
    ]
    return tuple(sorted(found, key=lambda one: one.name))


def _hit_by(rule: Manifest, claim: Manifest) -> list[Mapping[str, Any]]:
    return [result for result in allocated(claim) if is_selected(rule, device_of(result))]


def _shorter(one: int | None, other: int | None) -> int | None:
    """Return the shorter of two times; None is for ever."""
    given = [each for each in (one, other) if each is not None]
    return min(given, default=None)


def _is_running(pod: Manifest) -> bool:
    is_bound = bool((pod.get("spec") or {}).get("nodeName"))
    return is_bound and (pod.get("status") or {}).get("phase") not in _ENDED


def _name_of(claim: Manifest) -> str:
    metadata = claim["metadata"]
    return f"{metadata.get('namespace')}/{metadata.get('name')}"
