"""Whether feature gates are on: as components say, and where they cannot be seen, as what they do shows.

Managed control planes hide `/metrics` and the pods of their components. What is concluded from effects is marked.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from services.cli.audit.evidence import Evidence, Manifest, gates_in
from services.cli.audit.findings import Gap

GENERIC_WORKLOAD, SCALE_TO_ZERO = "GenericWorkload", "HPAScaleToZero"
SCHEDULER, CONTROLLER_MANAGER = "kube-scheduler", "kube-controller-manager"
DEFAULT_SCHEDULER = "default-scheduler"
PROTECTION = "scheduling.k8s.io/podgroup-protection"
SCHEDULED = "PodGroupInitiallyScheduled"
PATIENCE = timedelta(minutes=1)
"""A component writes within seconds; younger objects show nothing."""
_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The state of a gate in one component. `how` says what shows it, where it is inferred."""

    is_on: bool
    how: str = ""

    @property
    def is_inferred(self) -> bool:
        """Whether it was concluded from effects."""
        return bool(self.how)


def gate_of(evidence: Evidence, name: str) -> Gate | None:
    """Return a gate of the API server: what its metrics or flags say, else what it does; or None."""
    stated = evidence.gate(name)
    if stated is None:
        stated = _in_flagz(evidence, name)
    if stated is not None:
        return Gate(is_on=stated)
    return _of_workloads(evidence) if name == GENERIC_WORKLOAD else _of_scaling(evidence)


def tells_gate(name: str) -> Mapping[str, Callable[[Evidence], bool]]:
    """Return, for a check's `instead`, how to do without the metrics."""
    return {"metrics": lambda evidence: gate_of(evidence, name) is not None}


def component_gate_of(evidence: Evidence, component: str, name: str) -> Gate | None:
    """Return a gate of another component; None where neither its flags nor its work show it.

    A component that is seen and does not name the gate has its default, and counts as off: all gates here are off by
    default before 1.37, or are asked about because another component has them on.
    """
    if is_visible(evidence, component):
        stated = evidence.component_gate(component, name)
        return Gate(is_on=bool(stated)) if stated is not None or name == GENERIC_WORKLOAD else None
    if name == SCALE_TO_ZERO:
        return _slept(evidence) if component == CONTROLLER_MANAGER else None
    return _scheduled(evidence) if component == SCHEDULER else _protected(evidence)


def is_visible(evidence: Evidence, component: str) -> bool:
    """Tell whether the component's pods, and so its flags, can be seen."""
    return any(True for _ in evidence.component_flags(component))


def unseen(check: str, *components: str) -> Gap:
    """Return what a check says where it knows nothing of components."""
    return Gap(
        source="components (command lines of the control plane)",
        problem=f"{', '.join(components)}: no pod with the label component in kube-system, as with managed control "
        "planes, and nothing there shows what is set",
        fix="ask whoever runs the control plane for --feature-gates",
        checks=(check,),
    )


def _in_flagz(evidence: Evidence, name: str) -> bool | None:
    for document in evidence.items("flagz"):
        flags = document.get("flags")
        stated = gates_in(str(flags.get("feature-gates", "")) if isinstance(flags, dict) else "")
        if name in stated:
            return stated[name]
    return None


def _of_workloads(evidence: Evidence) -> Gate | None:
    """A pod keeps the name of its group only where the gate is on."""
    if any((pod["spec"] or {}).get("schedulingGroup") for pod in evidence.items("pods")):
        return Gate(is_on=True, how="pods keep spec.schedulingGroup")
    for item in evidence.items("probe-pod"):
        if item.get("kind") != "Status":
            is_kept = bool((item.get("spec") or {}).get("schedulingGroup"))
            return Gate(is_on=is_kept, how=f"a dry run {'keeps' if is_kept else 'drops'} spec.schedulingGroup")
    return None


def _of_scaling(evidence: Evidence) -> Gate | None:
    """An autoscaler may have minReplicas 0 only where the gate is, or was, on."""
    for item in evidence.items("probe-hpa"):
        is_refused = item.get("kind") == "Status"
        return Gate(
            is_on=not is_refused, how=f"a dry run with minReplicas 0 is {'refused' if is_refused else 'accepted'}"
        )
    if any((item.get("spec") or {}).get("minReplicas") == 0 for item in evidence.items("horizontalpodautoscalers")):
        return Gate(is_on=True, how="there are autoscalers with minReplicas 0")
    return None


def _native_groups(evidence: Evidence) -> Iterator[tuple[Manifest, list[Manifest]]]:
    """Yield the groups whose members are all of the native scheduler, with these."""
    members: dict[tuple[str, str], list[Manifest]] = {}
    for pod in evidence.items("pods"):
        name = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
        if name:
            members.setdefault((str(pod["metadata"].get("namespace")), str(name)), []).append(pod)
    for group in evidence.items("podgroups"):
        found = members.get((str(group["metadata"].get("namespace")), str(group["metadata"]["name"])), [])
        if all(pod["spec"].get("schedulerName") == DEFAULT_SCHEDULER for pod in found):
            yield group, found


def _scheduled(evidence: Evidence) -> Gate | None:
    """The scheduler says of each group that it has placed that it has; without the gate it never does."""
    missing = ""
    for group, members in _native_groups(evidence):
        name = f"{group['metadata'].get('namespace')}/{group['metadata']['name']}"
        is_bound = any(pod["spec"].get("nodeName") for pod in members)
        conditions = (group.get("status") or {}).get("conditions") or ()
        if is_bound and any(one.get("type") == SCHEDULED for one in conditions):
            return Gate(is_on=True, how=f"it wrote {SCHEDULED} on PodGroup {name}")
        if is_bound and _is_older(group, "creationTimestamp", evidence):
            missing = missing or name
    if missing:
        return Gate(is_on=False, how=f"members of PodGroup {missing} have nodes, and it has no condition {SCHEDULED}")
    return None


def _protected(evidence: Evidence) -> Gate | None:
    """The controller manager takes its finalizer from groups that are deleted and have no member."""
    for group, members in _native_groups(evidence):
        metadata = group["metadata"]
        is_empty = all(pod["status"].get("phase") in _ENDED for pod in members)
        is_held = "deletionTimestamp" in metadata and PROTECTION in (metadata.get("finalizers") or ())
        if is_empty and is_held and _is_older(group, "deletionTimestamp", evidence):
            name = f"{metadata.get('namespace')}/{metadata['name']}"
            return Gate(is_on=False, how=f"PodGroup {name} is deleted, has no member, and keeps {PROTECTION}")
    return None


def _slept(evidence: Evidence) -> Gate | None:
    """The controller manager notes which targets it has put to sleep."""
    for item in evidence.items("horizontalpodautoscalers"):
        conditions = (item.get("status") or {}).get("conditions") or ()
        if any(one.get("type") == "ScaledToZero" for one in conditions):
            return Gate(is_on=True, how="it has put targets to sleep")
    return None


def _is_older(item: Manifest, field: str, evidence: Evidence) -> bool:
    text = str(item["metadata"].get(field) or "")
    return bool(text) and evidence.read_at - datetime.fromisoformat(text) > PATIENCE
