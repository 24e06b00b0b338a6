"""Pods: defaults that schedulers rely on, creation rules, and the few fields that may change later."""

from collections.abc import Iterator, Sequence
from typing import Any

from services.sandbox.failures import (
    Cause,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from services.sandbox.objects import Obj, is_deleting, set_default, spec, status
from services.sandbox.validation import pod_specs

_SYSTEM_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it "
    "was previously negative)"
)


def _default_container(container: Obj) -> None:
    resources = dict(container.get("resources") or {})
    limits = resources.get("limits")
    if limits:
        # A limit without a request is also the request: what schedulers count.
        resources["requests"] = {**limits, **(resources.get("requests") or {})}
    container["resources"] = resources
    always = container.get("image", "").rpartition(":")[2] in {"latest", container.get("image", "")}
    set_default(
        container,
        {
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always" if always else "IfNotPresent",
        },
    )


def _quality(holder: Obj) -> str:
    """The QoS class: Guaranteed only where cpu and memory limits equal requests in every container."""
    containers = [*(holder.get("containers") or ()), *(holder.get("initContainers") or ())]
    resources = [container.get("resources") or {} for container in containers]
    counted = ("cpu", "memory")
    if not any(
        name in (found.get(side) or {}) for found in resources for side in ("limits", "requests") for name in counted
    ):
        return "BestEffort"
    exact = all(
        (found.get("limits") or {}).get(name) is not None
        and (found.get("limits") or {}).get(name) == (found.get("requests") or {}).get(name)
        for found in resources
        for name in counted
    )
    return "Guaranteed" if exact else "Burstable"


def _default_tolerations(holder: Obj) -> None:
    found = list(holder.get("tolerations") or ())
    for key in _SYSTEM_TOLERATIONS:
        if any(entry.get("key") in {key, None} and entry.get("effect") in {"NoExecute", None} for entry in found):
            continue
        found.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    holder["tolerations"] = found


def _default_containers(holder: Obj) -> None:
    for name in ("containers", "initContainers"):
        if holder.get(name):
            holder[name] = [dict(container) for container in holder[name]]
            for container in holder[name]:
                _default_container(container)


def default_template(template: Obj | None, *, restart_policy: str | None) -> Obj:
    """A pod template with the defaults that the API server fills in before any pod is made of it."""
    found = dict(template or {})
    holder = found["spec"] = dict(spec(found))
    _default_containers(holder)
    set_default(
        holder,
        {
            "restartPolicy": restart_policy,
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "default-scheduler",
        },
    )
    return found


def default_pod(new: Obj, old: Obj | None) -> None:
    """Fill what the API server fills; status starts as Pending whatever the client sent."""
    holder = new["spec"] = dict(spec(new))
    if old is not None:
        _default_containers(holder)
        return
    holder = new["spec"] = default_template(new, restart_policy="Always")["spec"]
    _default_tolerations(holder)
    set_default(
        holder,
        {
            "serviceAccountName": "default",
            "serviceAccount": holder.get("serviceAccountName") or "default",
            "enableServiceLinks": True,
        },
    )
    new["status"] = {"phase": "Pending", "qosClass": _quality(holder)}
    if holder.get("schedulingGates"):
        gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
        message = "Scheduling is blocked due to non-empty scheduling gates"
        new["status"]["conditions"] = [{**gated, "message": message, "lastTransitionTime": None}]


def _restart_policy(holder: Obj) -> Iterator[Cause]:
    supported = ("Always", "OnFailure", "Never")
    if holder.get("restartPolicy") not in supported:
        yield unsupported("spec.restartPolicy", value=holder.get("restartPolicy"), supported=supported)


def _image_blind(containers: Sequence[Obj]) -> list[Obj]:
    # The pull policy is a default that follows the image, so it may differ with it.
    ignored = ("image", "imagePullPolicy")
    return [{name: value for name, value in one.items() if name not in ignored} for one in containers]


def _frozen_part(holder: Obj) -> Obj:
    ignored = {"activeDeadlineSeconds", "tolerations", "schedulingGates", "containers", "initContainers"}
    part = {name: value for name, value in holder.items() if name not in ignored}
    part["containers"] = _image_blind(holder.get("containers") or ())
    part["initContainers"] = _image_blind(holder.get("initContainers") or ())
    return {name: value for name, value in part.items() if value not in (None, {}, [])}


def _added_tolerations(new: Sequence[Obj], old: Sequence[Obj]) -> Iterator[Cause]:
    def timeless(toleration: Obj) -> Obj:
        return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}

    kept = [timeless(toleration) for toleration in new]
    if any(timeless(toleration) not in kept for toleration in old):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden_field("spec.tolerations", detail=detail)


def _removed_gates(new: Sequence[Obj], old: Sequence[Obj]) -> Iterator[Cause]:
    known = {gate.get("name") for gate in old}
    for index, gate in enumerate(new):
        if gate.get("name") not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield forbidden_field(f"spec.schedulingGates[{index}].name", detail=detail)


def _update(new: Obj, old: Obj) -> Iterator[Cause]:
    for name in ("containers", "initContainers"):
        if len(new.get(name) or ()) != len(old.get(name) or ()):
            yield forbidden_field(f"spec.{name}", detail="pod updates may not add or remove containers")
            return
    yield from _added_tolerations(new.get("tolerations") or (), old.get("tolerations") or ())
    yield from _removed_gates(new.get("schedulingGates") or (), old.get("schedulingGates") or ())
    before, after = _frozen_part(old), _frozen_part(new)
    if old.get("schedulingGates"):
        wanted, had = after.pop("nodeSelector", {}), before.pop("nodeSelector", {})
        if any(wanted.get(key) != value for key, value in had.items()):
            detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            yield invalid_value("spec.nodeSelector", value=wanted, detail=detail)
        # Narrowing of affinity is not judged here: while gated, any change of it is taken.
        after.pop("affinity", None)
        before.pop("affinity", None)
    if before != after:
        changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        shown = "\n".join(f"  {name}: {_value(before, name)} -> {_value(after, name)}" for name in changed)
        yield forbidden_field("spec", detail=f"pod updates may not change fields other than {_UPDATABLE}\n{shown}")


def _value(part: Obj, name: str) -> Any:
    return part.get(name, "unset")


def validate_pod(new: Obj, old: Obj | None) -> Sequence[Cause]:
    """Creation rules, or what an update may not touch."""
    if old is None:
        return [*pod_specs.creation("spec", holder=spec(new)), *_restart_policy(spec(new))]
    return list(_update(spec(new), spec(old)))


def validate_pod_status(new: Obj, old: Obj | None) -> Sequence[Cause]:
    """The node of a pod is never changed through its status; conditions need a type and a status."""
    causes: list[Cause] = []
    for index, condition in enumerate(status(new).get("conditions") or ()):
        if not condition.get("type"):
            causes.append(required(f"status.conditions[{index}].type"))
    if old is not None and is_deleting(old) != is_deleting(new):
        causes.append(forbidden_field("metadata.deletionTimestamp", detail="field is immutable"))
    return causes
