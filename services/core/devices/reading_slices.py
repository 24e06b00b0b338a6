"""A ResourceSlice from its JSON. What cannot be read makes the slice unusable and says why; nothing is guessed."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from sys import intern
from typing import Any

from services.core.devices.reading import decoded, encoded
from services.core.devices.values import (
    Attribute,
    AttributeName,
    Capacity,
    CapacityPolicy,
    Device,
    DeviceSlice,
    DeviceTaint,
    NodeRule,
)
from services.core.exact_amounts import amount_at
from services.core.manifests import (
    FieldError,
    flag_at,
    mapping_at,
    numbered,
    text_at,
    texts_at,
)
from services.core.objects import DeviceObject
from services.core.reduce_rules import node_terms

_INT64_LIMIT = 2**63
_NOWHERE = NodeRule()
_EVERYWHERE = NodeRule(is_all=True)
_KINDS: Mapping[str, type] = {"int": int, "bool": bool, "string": str, "version": str}

_Columns = dict[AttributeName, list[Attribute | None]]


def read_slice(item: DeviceObject) -> DeviceSlice:
    """Return the slice; one that cannot be read has a `problem` and no devices.

    Raises FieldError where not even its pool can be told.
    """
    spec = decoded(item.spec_json, at="spec")
    pool = mapping_at(spec, "pool", at="spec.pool")
    driver = intern(text_at(spec, "driver", at="spec.driver"))
    name = intern(text_at(pool, "name", at="spec.pool.name"))
    if not driver or not name:
        raise FieldError(field="spec.pool", expected="a driver and the name of a pool", got=(driver, name))
    identity: dict[str, Any] = {
        "name": item.metadata.name,
        "pool": (driver, name),
        "generation": _count(pool, "generation", at="spec.pool.generation"),
        "slice_count": _count(pool, "resourceSliceCount", at="spec.pool.resourceSliceCount"),
    }
    try:
        return _whole(spec, identity=identity, driver=driver)
    except FieldError as error:
        problem = f"slice {item.metadata.name}: {error}"
        return DeviceSlice(**identity, node=_node_of_unreadable(spec), problem=problem)


def _whole(spec: Mapping[str, Any], *, identity: Mapping[str, Any], driver: str) -> DeviceSlice:
    per_device = flag_at(spec, "perDeviceNodeSelection", at="spec.perDeviceNodeSelection")
    node = _EVERYWHERE if per_device else read_node_rule(spec, at="spec")
    devices: list[Device] = []
    columns: _Columns = {}
    entries = list(numbered(spec, "devices", at="spec.devices"))
    for position, (path, item) in enumerate(entries):
        where = read_node_rule(item, at=path) if per_device else node
        devices.append(_device(path, item, node=where))
        for attribute, value in _attributes(path, item, driver=driver):
            column = columns.setdefault(attribute, [None] * len(entries))
            column[position] = value
    return DeviceSlice(
        **identity,
        node=node,
        devices=tuple(devices),
        columns={name: tuple(column) for name, column in columns.items()},
        counter_sets=_counter_sets(spec),
    )


def _node_of_unreadable(spec: Mapping[str, Any]) -> NodeRule:
    name = spec.get("nodeName")
    return _on_node(name) if isinstance(name, str) and name else _EVERYWHERE


def read_node_rule(holder: Mapping[str, Any], *, at: str) -> NodeRule:
    """Return where something can be used: nodeName, allNodes or nodeSelector. Raises FieldError."""
    name = text_at(holder, "nodeName", at=f"{at}.nodeName")
    if name:
        return _on_node(name)
    if flag_at(holder, "allNodes", at=f"{at}.allNodes"):
        return _EVERYWHERE
    selector = mapping_at(holder, "nodeSelector", at=f"{at}.nodeSelector")
    return read_selector(selector, at=f"{at}.nodeSelector") if selector else _NOWHERE


def read_selector(selector: Mapping[str, Any], *, at: str) -> NodeRule:
    """Return a core/v1 NodeSelector as a rule. Raises FieldError."""
    return NodeRule(terms=node_terms(selector, at=at), selector_json=encoded(selector))


@lru_cache(maxsize=16384)
def _on_node(name: str) -> NodeRule:
    return NodeRule(name=name)


def _count(holder: Mapping[str, Any], key: str, *, at: str) -> int:
    value = holder.get(key, 0)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise FieldError(field=at, expected="a whole number of at least 0", got=value)
    return value


def _device(path: str, item: Mapping[str, Any], *, node: NodeRule) -> Device:
    name = text_at(item, "name", at=f"{path}.name")
    if not name:
        raise FieldError(field=f"{path}.name", expected="the name of a device", got=name)
    return Device(
        name=intern(name),
        node=node,
        capacity={
            intern(key): _capacity(value, path=path, name=key)
            for key, value in mapping_at(item, "capacity", at=f"{path}.capacity").items()
        },
        counters=tuple(_consumed(path, item)),
        taints=read_taints(item, at=path),
        is_shareable=flag_at(item, "allowMultipleAllocations", at=f"{path}.allowMultipleAllocations"),
        binds_to_node=flag_at(item, "bindsToNode", at=f"{path}.bindsToNode"),
        binding_conditions=texts_at(item, "bindingConditions", at=f"{path}.bindingConditions"),
        binding_failure_conditions=texts_at(item, "bindingFailureConditions", at=f"{path}.bindingFailureConditions"),
    )


def _attributes(path: str, item: Mapping[str, Any], *, driver: str) -> Iterator[tuple[AttributeName, Attribute]]:
    for name, value in mapping_at(item, "attributes", at=f"{path}.attributes").items():
        yield qualified(name, driver=driver), _attribute(value, path=path, name=name)


def _attribute(value: object, *, path: str, name: str) -> Attribute:
    if isinstance(value, dict) and len(value) == 1:
        ((kind, content),) = value.items()
        is_fitting = type(content) is _KINDS.get(kind)
        if is_fitting and (kind != "int" or -_INT64_LIMIT <= content < _INT64_LIMIT):
            return _attribute_of(kind, content)
    at = f"{path}.attributes[{name}]"
    raise FieldError(field=at, expected="exactly one of int, bool, string and version", got=value)


@lru_cache(maxsize=65536, typed=True)
def _attribute_of(kind: str, content: str | int | bool) -> Attribute:  # noqa: FBT001 - the value of an attribute
    """Keep one tuple per distinct value: a cluster has few, apart from those that are unique to a device."""
    return (kind, content)


@lru_cache(maxsize=4096)
def qualified(name: str, *, driver: str) -> AttributeName:
    """Return domain and id of an attribute's name."""
    domain, slash, identifier = name.partition("/")
    return (intern(domain), intern(identifier)) if slash else (driver, intern(name))


def _capacity(value: object, *, path: str, name: str) -> Capacity:
    at = f"{path}.capacity[{name}]"
    if not isinstance(value, dict):
        raise FieldError(field=at, expected="an object with a value", got=value)
    if len(value) == 1:
        return _plain_capacity(_amount(value, "value", at=at))
    policy = mapping_at(value, "requestPolicy", at=f"{at}.requestPolicy")
    return Capacity(amount=_amount(value, "value", at=f"{at}.value"), policy=_policy(policy, at=at) if policy else None)


@lru_cache(maxsize=4096)
def _plain_capacity(amount: int) -> Capacity:
    return Capacity(amount=amount)


def _policy(policy: Mapping[str, Any], *, at: str) -> CapacityPolicy:
    valid = mapping_at(policy, "validRange", at=f"{at}.requestPolicy.validRange")
    values = policy.get("validValues") or ()
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise FieldError(field=f"{at}.requestPolicy.validValues", expected="a list of quantities", got=values)
    step = _optional(valid, "step", at=f"{at}.requestPolicy.validRange.step")
    if step is not None and step <= 0:
        raise FieldError(field=f"{at}.requestPolicy.validRange.step", expected="a quantity above 0", got=valid["step"])
    return CapacityPolicy(
        default=_optional(policy, "default", at=f"{at}.requestPolicy.default"),
        values=tuple(
            _amount({"value": value}, "value", at=f"{at}.requestPolicy.validValues[{index}]")
            for index, value in enumerate(values)
        ),
        minimum=_optional(valid, "min", at=f"{at}.requestPolicy.validRange.min"),
        maximum=_optional(valid, "max", at=f"{at}.requestPolicy.validRange.max"),
        step=step,
    )


def _optional(holder: Mapping[str, Any], key: str, *, at: str) -> int | None:
    return None if holder.get(key) is None else _amount(holder, key, at=at)


def _amount(holder: Mapping[str, Any], key: str, *, at: str) -> int:
    amount = amount_at(holder, key, at=at)
    if amount < 0:
        raise FieldError(field=at, expected="a quantity of at least 0", got=holder.get(key))
    return amount


def _consumed(path: str, item: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    for here, use in numbered(item, "consumesCounters", at=f"{path}.consumesCounters"):
        name = intern(text_at(use, "counterSet", at=f"{here}.counterSet"))
        for counter, amount in _counters(use, at=here).items():
            yield name, counter, amount


def _counter_sets(spec: Mapping[str, Any]) -> Mapping[str, Mapping[str, int]]:
    found: dict[str, Mapping[str, int]] = {}
    for path, item in numbered(spec, "sharedCounters", at="spec.sharedCounters"):
        name = intern(text_at(item, "name", at=f"{path}.name"))
        if name in found:
            raise FieldError(field=f"{path}.name", expected="a name that no other counter set has", got=name)
        found[name] = _counters(item, at=path)
    return found


def _counters(holder: Mapping[str, Any], *, at: str) -> dict[str, int]:
    counters = mapping_at(holder, "counters", at=f"{at}.counters")
    return {
        intern(name): _amount(mapping_at(counters, name, at=at), "value", at=f"{at}.counters[{name}].value")
        for name in sorted(counters)
    }


def read_taints(item: Mapping[str, Any], *, at: str) -> tuple[DeviceTaint, ...]:
    """Return the taints of a device. Raises FieldError."""
    return tuple(read_taint(taint, at=path) for path, taint in numbered(item, "taints", at=f"{at}.taints"))


def read_taint(taint: Mapping[str, Any], *, at: str) -> DeviceTaint:
    """Return one taint, of a device or of a rule. Raises FieldError."""
    return DeviceTaint(
        key=text_at(taint, "key", at=f"{at}.key"),
        value=text_at(taint, "value", at=f"{at}.value"),
        effect=text_at(taint, "effect", at=f"{at}.effect"),
    )
