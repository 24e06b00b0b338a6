"""ResourceQuota for pods: what a namespace uses, and whether one more pod fits."""

from collections.abc import Iterable, Mapping, Sequence

from services.core.quantities import QuantityError, added, larger, parse_quantity, shown
from services.sandbox.failures import ApiError, forbidden
from services.sandbox.objects import Obj, is_terminal, metadata, name_of, spec
from services.sandbox.store import Store

_ALIASES: Mapping[str, str] = {"cpu": "requests.cpu", "memory": "requests.memory", "count/pods": "pods"}
_COMPUTE = frozenset({"cpu", "memory"})


def _side(container: Obj, side: str) -> dict[str, int]:
    found = (container.get("resources") or {}).get(side) or {}
    return {name: parse_quantity(amount, resource=name) for name, amount in found.items()}


def usage_of(pod: Obj) -> dict[str, int]:
    """What one pod counts: requests and limits as `requests.NAME`, `limits.NAME`, and one of `pods`."""
    total: dict[str, int] = {"pods": 1}
    for side in ("requests", "limits"):
        running: dict[str, int] = {}
        starting: dict[str, int] = {}
        for container in spec(pod).get("containers") or ():
            running = added(running, _side(container, side))
        for container in spec(pod).get("initContainers") or ():
            starting = larger(starting, _side(container, side))
        overhead = spec(pod).get("overhead") or {}
        extra = {name: parse_quantity(amount, resource=name) for name, amount in overhead.items()}
        needed = added(larger(running, starting), extra)
        total.update({f"{side}.{name}": amount for name, amount in needed.items()})
    return total


def used_by(pods: Iterable[Obj]) -> dict[str, int]:
    """The sum over pods that have not finished."""
    total: dict[str, int] = {}
    for pod in pods:
        if not is_terminal(pod):
            total = added(total, usage_of(pod))
    return total


def _counted(name: str) -> str:
    return _ALIASES.get(name, name)


def _resource(name: str) -> str:
    return _counted(name).removeprefix("requests.").removeprefix("limits.")


def _text(amount: int, *, name: str) -> str:
    resource = _resource(name)
    if resource == "cpu" and amount % 1000:
        return f"{amount}m"
    return shown(amount, resource=resource)


def hard_limits(quota: Obj) -> dict[str, int]:
    """The limits that concern pods, by the name that the quota uses."""
    found = {}
    for name, amount in (spec(quota).get("hard") or {}).items():
        counted = _counted(name)
        if counted == "pods" or counted.startswith(("requests.", "limits.")):
            found[name] = parse_quantity(amount, resource=_resource(name))
    return found


def status_of(quota: Obj, pods: Sequence[Obj]) -> Obj:
    """The status that the quota controller would write."""
    used = used_by(pods)
    limits = hard_limits(quota)
    counted = {name: _text(used.get(_counted(name), 0), name=name) for name in limits}
    others = {name: "0" for name in spec(quota).get("hard") or {} if name not in limits}
    return {"hard": dict(spec(quota).get("hard") or {}), "used": {**others, **counted}}


def _unstated(limits: Mapping[str, int], pod: Obj) -> list[str]:
    """Resources that the quota limits and that a container leaves open, as `cpu for: main`."""
    found = []
    for name in sorted(limits):
        side, _, resource = _counted(name).partition(".")
        if resource not in _COMPUTE:
            continue
        missing = sorted(
            container.get("name", "")
            for container in spec(pod).get("containers") or ()
            if resource not in ((container.get("resources") or {}).get(side) or {})
        )
        if missing:
            found.append(f"{name} for: {','.join(missing)}")
    return found


def _listed(amounts: Mapping[str, int], names: Sequence[str]) -> str:
    return ",".join(f"{name}={_text(amounts.get(_counted(name), 0), name=name)}" for name in names)


def refusal(store: Store, pod: Obj) -> ApiError | None:
    """The 403 that quota admission answers for a new pod; None where it fits every quota of its namespace."""
    namespace = str(metadata(pod).get("namespace"))
    quotas = store.objects("resourcequotas", namespace=namespace)
    if not quotas:
        return None
    try:
        needed = usage_of(pod)
    except QuantityError as error:
        return forbidden("pods", name=name_of(pod), why=str(error))
    used = used_by(store.objects("pods", namespace=namespace))
    for quota in quotas:
        limits = hard_limits(quota)
        if unstated := _unstated(limits, pod):
            why = f"failed quota: {name_of(quota)}: must specify {'; '.join(unstated)}"
            return forbidden("pods", name=name_of(pod), why=why)
        over = sorted(
            name
            for name, limit in limits.items()
            if needed.get(_counted(name)) and used.get(_counted(name), 0) + needed[_counted(name)] > limit
        )
        if over:
            limited = ",".join(f"{name}={_text(limits[name], name=name)}" for name in over)
            why = (
                f"exceeded quota: {name_of(quota)}, requested: {_listed(needed, over)}, "
                f"used: {_listed(used, over)}, limited: {limited}"
            )
            return forbidden("pods", name=name_of(pod), why=why)
    return None
