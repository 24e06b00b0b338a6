"""What is known about devices that members could have and do not get: taints, pools that are not used, and too few."""

from services.core.devices.asking import wish_of
from services.core.devices.demands import DeviceDemand
from services.core.devices.fields import asked_of, bits
from services.core.devices.inventory import Devices
from services.core.devices.taints import are_tolerated
from services.core.devices.values import Ask
from services.core.reasons import Reason, ReasonCode


def device_reasons(devices: Devices, demand: DeviceDemand) -> list[Reason]:
    """Return the reasons that concern single devices and pools, with counts, for a demand that cannot be met."""
    asks = [
        ask
        for claim in demand.claims
        if claim.pinned is None
        for request in claim.spec.requests
        for ask in request.alternatives
    ]
    if not asks:
        return []
    return [*_counted(devices, asks), *_unusable(devices)]


def _counted(devices: Devices, asks: list[Ask]) -> list[Reason]:
    matching = free = tainted = 0
    for state in devices.states.values():
        here = usable = kept_off = 0
        for ask in asks:
            wish = wish_of(ask, devices.claims)
            if wish is None:
                continue
            answer = asked_of(state, wish, judge=devices.judge)
            here |= answer.matching
            usable |= answer.usable
            kept_off |= sum(
                1 << position
                for position, taints in state.taints.items()
                if answer.matching >> position & 1 and not are_tolerated(taints, ask.tolerations)
            )
        matching += here.bit_count()
        free += usable.bit_count()
        tainted += len(list(bits(kept_off & ~usable)))
    found = []
    if tainted:
        text = f"{tainted} of {matching} devices that match are tainted, and the claims do not tolerate it"
        found.append(Reason(code=ReasonCode.DEVICE_TAINT_NOT_TOLERATED, message=text, count=tainted))
    text = (
        f"{free} of {matching} devices that match could be had by one claim"
        if matching
        else "no device matches what these pods claim"
    )
    return [*found, Reason(code=ReasonCode.DEVICES_INSUFFICIENT, message=text, count=free, subject="devices")]


def _unusable(devices: Devices) -> list[Reason]:
    pools = [state.pool for _, state in sorted(devices.states.items()) if state.pool.problem]
    if not pools:
        return []
    first = pools[0]
    more = f", and {len(pools) - 1} more" if len(pools) > 1 else ""
    text = f"pool {first.id[0]}/{first.id[1]} is not used: {first.problem}{more}"
    return [Reason(code=ReasonCode.DEVICE_POOL_UNUSABLE, message=text, count=len(pools), subject=first.id[1])]
