"""Jobs, Deployments, ReplicaSets, autoscalers, priority classes and nodes: defaults and the rules clients meet."""

from collections.abc import Iterator, Sequence

from services.sandbox.failures import (
    Cause,
    forbidden_field,
    immutable,
    invalid_value,
    required,
    unsupported,
)
from services.sandbox.objects import Obj, metadata, set_default, spec
from services.sandbox.selectors import selector_matches
from services.sandbox.validation import fields, pod_specs
from services.sandbox.validation.groups import HIGHEST_USER_PRIORITY
from services.sandbox.validation.pods import default_template

NOT_READY_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def default_job(new: Obj, old: Obj | None) -> None:
    """Parallelism, completions, back-off, and the generated selector and template labels."""
    holder = new["spec"] = dict(spec(new))
    if old is not None:
        return
    if holder.get("completions") is None and holder.get("parallelism") is None:
        holder["completions"] = 1
    # Always is not a Job's policy, so an absent one is left for validation to name.
    holder["template"] = default_template(holder.get("template"), restart_policy=None)
    set_default(
        holder,
        {
            "parallelism": 1,
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "manualSelector": False,
            "podReplacementPolicy": "Failed" if holder.get("podFailurePolicy") else "TerminatingOrFailed",
        },
    )
    new["status"] = {}


def label_job(new: Obj) -> None:
    """Give a new Job the selector and the labels by which its pods are found; needs the uid."""
    holder, meta = new["spec"], metadata(new)
    if holder.get("manualSelector"):
        return
    own = {
        "batch.kubernetes.io/controller-uid": meta["uid"],
        "controller-uid": meta["uid"],
        "batch.kubernetes.io/job-name": meta["name"],
        "job-name": meta["name"],
    }
    holder["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": meta["uid"]}}
    named = {key: value for key, value in own.items() if key.endswith("job-name")}
    meta["labels"] = {**(meta.get("labels") or {}), **named}
    template_meta = dict(holder["template"].get("metadata") or {})
    template_meta["labels"] = {**(template_meta.get("labels") or {}), **own}
    holder["template"] = {**holder["template"], "metadata": template_meta}


def _job(holder: Obj) -> Iterator[Cause]:
    pod = (holder.get("template") or {}).get("spec") or {}
    yield from pod_specs.creation("spec.template.spec", holder=pod)
    policy, supported = pod.get("restartPolicy"), ("OnFailure", "Never")
    path = "spec.template.spec.restartPolicy"
    if policy is None:
        yield required(path, detail='valid values: "OnFailure", "Never"')
    elif policy not in supported:
        yield unsupported(path, value=policy, supported=supported)
    yield from fields.at_least_zero("spec", holder=holder, names=("parallelism", "completions", "backoffLimit"))
    if holder.get("completionMode") == "Indexed" and holder.get("completions") is None:
        yield required("spec.completions", detail="when completion mode is Indexed")


def validate_job(new: Obj, old: Obj | None) -> Sequence[Cause]:
    """Creation rules; selector, completions (unless Indexed) and template are frozen."""
    causes = list(_job(spec(new)))
    if old is None:
        return causes
    names: tuple[str, ...] = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex")
    indexed = spec(old).get("completionMode") == "Indexed"
    names = names if indexed else (*names, "completions")
    causes.extend(fields.unchanged("spec", new=spec(new), old=spec(old), names=names))
    if not spec(old).get("suspend"):
        causes.extend(fields.unchanged("spec", new=spec(new), old=spec(old), names=("template",)))
    return causes


def default_deployment(new: Obj, old: Obj | None) -> None:
    """Replicas, strategy and history."""
    holder = new["spec"] = dict(spec(new))
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    set_default(
        holder,
        {"replicas": 1, "strategy": rolling, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
    )
    holder["template"] = default_template(holder.get("template"), restart_policy="Always")
    if old is None:
        new["status"] = {}


def default_replica_set(new: Obj, old: Obj | None) -> None:
    """Replicas; a new one starts without status."""
    holder = new["spec"] = dict(spec(new))
    set_default(holder, {"replicas": 1})
    holder["template"] = default_template(holder.get("template"), restart_policy="Always")
    if old is None:
        new["status"] = {"replicas": 0}


def validate_selected(new: Obj, old: Obj | None) -> Sequence[Cause]:
    """The selector must match the template's labels and never changes."""
    holder = spec(new)
    selector = holder.get("selector")
    template_labels = ((holder.get("template") or {}).get("metadata") or {}).get("labels") or {}
    causes: list[Cause] = []
    if not selector:
        causes.append(required("spec.selector"))
    elif not selector_matches(selector, template_labels):
        detail = "`selector` does not match template `labels`"
        causes.append(invalid_value("spec.template.metadata.labels", value=template_labels, detail=detail))
    pod = (holder.get("template") or {}).get("spec") or {}
    causes.extend(pod_specs.creation("spec.template.spec", holder=pod))
    causes.extend(fields.at_least_zero("spec", holder=holder, names=("replicas",)))
    if old is not None and selector != spec(old).get("selector"):
        causes.append(immutable("spec.selector", value=selector))
    return causes


def default_autoscaler(new: Obj, old: Obj | None) -> None:
    """One replica at least, and CPU at 80 % where no metric is named."""
    holder = new["spec"] = dict(spec(new))
    set_default(holder, {"minReplicas": 1})
    if not holder.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        holder["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if old is None:
        new["status"] = {"desiredReplicas": 0, "currentMetrics": None}


def validate_autoscaler(new: Obj, _old: Obj | None) -> Sequence[Cause]:
    """Bounds, and zero only where an Object or External metric can wake the target."""
    holder = spec(new)
    least, most = holder.get("minReplicas"), holder.get("maxReplicas") or 0
    causes = list(fields.at_least_zero("spec", holder=holder, names=("minReplicas", "maxReplicas")))
    if most < 1:
        causes.append(invalid_value("spec.maxReplicas", value=most, detail="must be greater than 0"))
    elif least is not None and most < least:
        detail = "must be greater than or equal to `minReplicas`"
        causes.append(invalid_value("spec.maxReplicas", value=most, detail=detail))
    reference = holder.get("scaleTargetRef") or {}
    causes.extend(fields.present("spec.scaleTargetRef", holder=reference, names=("kind", "name")))
    if not reference.get("apiVersion"):
        path = "spec.scaleTargetRef.apiVersion"
        causes.append(invalid_value(path, value="", detail="apiVersion must specify API group"))
    waking = any(metric.get("type") in {"Object", "External"} for metric in holder.get("metrics") or ())
    if least == 0 and not waking:
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        causes.append(forbidden_field("spec.metrics", detail=detail))
    return causes


def default_priority_class(new: Obj, _old: Obj | None) -> None:
    """A class lets its pods preempt unless it says otherwise."""
    set_default(new, {"value": 0, "preemptionPolicy": "PreemptLowerPriority"})


def validate_priority_class(new: Obj, old: Obj | None) -> Sequence[Cause]:
    """User classes stay below the system's; the value never changes."""
    value, name = new.get("value") or 0, metadata(new).get("name") or ""
    causes: list[Cause] = []
    if not name.startswith("system-") and value > HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        causes.append(forbidden_field("value", detail=detail))
    if old is not None and value != (old.get("value") or 0):
        causes.append(forbidden_field("value", detail="may not be changed in an update."))
    return causes


def default_node(new: Obj, _old: Obj | None) -> None:
    """Allocatable is capacity where only that is given."""
    found = dict(new.get("status") or {})
    if found.get("capacity") and not found.get("allocatable"):
        found["allocatable"] = found["capacity"]
    new["status"] = found
    new["spec"] = dict(spec(new))


def default_namespace(new: Obj, old: Obj | None) -> None:
    """The finalizer and phase that a namespace lives by."""
    if old is None:
        new["spec"] = {"finalizers": ["kubernetes"]}
        new["status"] = {"phase": "Active"}
        labels = dict(metadata(new).get("labels") or {})
        labels["kubernetes.io/metadata.name"] = metadata(new).get("name")
        new["metadata"]["labels"] = labels


def default_quota(new: Obj, old: Obj | None) -> None:
    """A new quota starts with nothing counted."""
    if old is None:
        new["status"] = {}
