"""PodGroups and Workloads (scheduling.k8s.io) with the gate GenericWorkload on and its sub-gates off."""

from collections.abc import Iterator, Sequence

from services.sandbox.failures import (
    Cause,
    duplicate,
    immutable,
    invalid_value,
    required,
    too_many,
    unsupported,
)
from services.sandbox.objects import Obj, metadata, spec, status
from services.sandbox.validation import fields

HIGHEST_USER_PRIORITY = 1_000_000_000
_TEMPLATE_LIMIT = 8

_GATED = ("schedulingConstraints", "resourceClaims", "preemptionPolicy", "parentCompositePodGroupName")
"""Fields behind gates that are off: silently removed, as the API server does."""


def _ungated(holder: Obj, *, extra: tuple[str, ...] = ()) -> Obj:
    return {name: value for name, value in holder.items() if name not in (*_GATED, *extra)}


def default_group(new: Obj, old: Obj | None) -> None:
    """Drop gated fields, default the disruption mode, and ignore status at creation."""
    new["spec"] = _ungated(spec(new))
    new["spec"].setdefault("disruptionMode", {"single": {}})
    if old is None:
        new["status"] = {}


def default_workload(new: Obj, _old: Obj | None) -> None:
    """Drop gated fields of templates and default their disruption mode."""
    new["spec"] = _ungated(spec(new), extra=("compositePodGroupTemplates",))
    templates = new["spec"].get("podGroupTemplates")
    if templates:
        defaulted = [_ungated(template) for template in templates]
        for template in defaulted:
            template.setdefault("disruptionMode", {"single": {}})
        new["spec"]["podGroupTemplates"] = defaulted


def _policy(prefix: str, *, holder: Obj) -> Iterator[Cause]:
    policy = holder.get("schedulingPolicy")
    yield from fields.union(f"{prefix}.schedulingPolicy", holder=policy, members=("basic", "gang"))
    gang = (policy or {}).get("gang")
    if gang is None:
        return
    minimum = gang.get("minCount")
    path = f"{prefix}.schedulingPolicy.gang.minCount"
    if not minimum:
        yield required(path)
    elif minimum < 1:
        yield invalid_value(path, value=minimum, detail="must be greater than or equal to 1")


def _shared(prefix: str, *, holder: Obj) -> Iterator[Cause]:
    yield from _policy(prefix, holder=holder)
    mode = holder.get("disruptionMode")
    yield from fields.union(f"{prefix}.disruptionMode", holder=mode, members=("single", "all"))
    if holder.get("priorityClassName"):
        path = f"{prefix}.priorityClassName"
        yield from fields.dns_subdomain(path, value=holder["priorityClassName"])
    priority = holder.get("priority")
    if priority is not None and priority > HIGHEST_USER_PRIORITY:
        detail = f"must be less than or equal to {HIGHEST_USER_PRIORITY}"
        yield invalid_value(f"{prefix}.priority", value=priority, detail=detail)


def _policy_change(prefix: str, *, new: Obj, old: Obj) -> Iterator[Cause]:
    after, before = new.get("schedulingPolicy") or {}, old.get("schedulingPolicy") or {}
    if after.get("basic") != before.get("basic"):
        yield immutable(f"{prefix}.schedulingPolicy.basic", value=after.get("basic"))
    gang_path = f"{prefix}.schedulingPolicy.gang"
    if before.get("gang") is not None and after.get("gang") is None:
        yield invalid_value(gang_path, value=None, detail="field cannot be cleared once set")
    if before.get("gang") is None and after.get("gang") is not None:
        yield invalid_value(gang_path, value=after["gang"], detail="field cannot be set once created")


def validate_group(new: Obj, old: Obj | None) -> Sequence[Cause]:
    """Every rule of `PodGroupSpec`; on updates only minCount may move."""
    holder = spec(new)
    causes = list(_shared("spec", holder=holder))
    reference = holder.get("workloadRef")
    if reference is not None:
        names = ("workloadName", "templateName")
        causes.extend(fields.present("spec.workloadRef", holder=reference, names=names))
    if old is not None:
        frozen = ("workloadRef", "disruptionMode", "priorityClassName", "priority")
        causes.extend(_policy_change("spec", new=holder, old=spec(old)))
        causes.extend(
            immutable(f"spec.{name}", value=None) for name in frozen if holder.get(name) != spec(old).get(name)
        )
    return causes


def validate_group_status(new: Obj, _old: Obj | None) -> Sequence[Cause]:
    """Conditions must be complete; `resourceClaimStatuses` is gated off."""
    return list(conditions("status.conditions", found=status(new).get("conditions") or ()))


def conditions(path: str, *, found: Sequence[Obj]) -> Iterator[Cause]:
    """The rules of `metav1.Condition`."""
    seen: set[str] = set()
    for index, condition in enumerate(found):
        here = f"{path}[{index}]"
        type_ = condition.get("type") or ""
        if not type_:
            yield required(f"{here}.type", detail="must be set")
        elif type_ in seen:
            yield duplicate(here, value={"type": type_})
        else:
            yield from fields.qualified_key(f"{here}.type", key=type_)
        seen.add(type_)
        if condition.get("status") not in {"True", "False", "Unknown"}:
            supported = ("False", "True", "Unknown")
            yield unsupported(f"{here}.status", value=condition.get("status"), supported=supported)
        if not condition.get("lastTransitionTime"):
            yield required(f"{here}.lastTransitionTime", detail="must be set")
        if not condition.get("reason"):
            yield required(f"{here}.reason", detail="must be set")


def _templates(templates: Sequence[Obj]) -> Iterator[Cause]:
    path = "spec.podGroupTemplates"
    if len(templates) > _TEMPLATE_LIMIT:
        yield too_many(path, count=len(templates), limit=_TEMPLATE_LIMIT)
    seen: set[str] = set()
    for index, template in enumerate(templates):
        here = f"{path}[{index}]"
        name = template.get("name") or ""
        if not name:
            yield required(f"{here}.name")
        else:
            yield from fields.dns_label(f"{here}.name", value=name)
        if name in seen:
            yield duplicate(here, value={"name": name})
        seen.add(name)
        yield from _shared(here, holder=template)
    if len({(template.get("priorityClassName"), template.get("priority")) for template in templates}) > 1:
        yield invalid_value("spec", value=None, detail="detected multiple priority configurations")


def _template_changes(new: Sequence[Obj], old: Sequence[Obj]) -> Iterator[Cause]:
    path = "spec.podGroupTemplates"
    before = {template.get("name"): template for template in old}
    after = {template.get("name"): template for template in new}
    frozen = ("disruptionMode", "priorityClassName", "priority")
    for index, template in enumerate(new):
        known = before.get(template.get("name"))
        here = f"{path}[{index}]"
        if known is None:
            yield forbidden_item(here, verb="added")
            continue
        yield from _policy_change(here, new=template, old=known)
        yield from fields.unchanged(here, new=template, old=known, names=frozen)
    for index, template in enumerate(old):
        if template.get("name") not in after:
            yield forbidden_item(f"{path}[{index}]", verb="removed")


def forbidden_item(path: str, *, verb: str) -> Cause:
    """An element of a list that may be neither extended nor shortened."""
    return invalid_value(path, value=None, detail=f"item may not be {verb}")


def validate_workload(new: Obj, old: Obj | None) -> Sequence[Cause]:
    """Every rule of `WorkloadSpec`: templates neither come nor go, their minCount may move."""
    holder = spec(new)
    templates = holder.get("podGroupTemplates") or ()
    causes = list(_templates(templates))
    if not templates:
        members = ("podGroupTemplates", "compositePodGroupTemplates")
        causes.extend(fields.union("spec", holder=holder, members=members))
    reference = holder.get("controllerRef")
    if reference is not None:
        causes.extend(fields.present("spec.controllerRef", holder=reference, names=("kind", "name")))
    if old is not None:
        causes.extend(_template_changes(templates, spec(old).get("podGroupTemplates") or ()))
        causes.extend(fields.unchanged("spec", new=holder, old=spec(old), names=("controllerRef",)))
    return causes


def protect(new: Obj) -> None:
    """Add the finalizer that keeps a PodGroup while active pods name it, as admission does at creation."""
    finalizer = "scheduling.k8s.io/podgroup-protection"
    found = list(metadata(new).get("finalizers") or ())
    if finalizer not in found:
        new["metadata"]["finalizers"] = [*found, finalizer]
