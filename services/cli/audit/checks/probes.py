"""What dry runs tell (`--probe`): what the API server drops, and what it refuses."""

from collections.abc import Iterator

from services.cli.audit.findings import Finding, Severity
from services.cli.audit.optional_sources import NAMESPACE
from services.cli.audit.registry import Case, Check, Finder

_PROBES = ("probe-pod", "probe-podgroup", "probe-hpa")
_KINDS = {"probe-pod": "pod", "probe-podgroup": "podgroup", "probe-hpa": "horizontalpodautoscaler"}
_ADVICE = {
    "probe-pod": "see which policy or webhook refuses it; groups' pods of the same kind are refused too",
    "probe-podgroup": "see which policy or webhook refuses it; without PodGroups there are no native gangs",
    "probe-hpa": "set HPAScaleToZero=true on kube-apiserver and kube-controller-manager, or keep minReplicas at 1",
}


def _field_dropped(case: Case) -> Iterator[Finding]:
    """A pod that names a group comes back without it: nobody will ever know that it is a member."""
    find = Finder("gang-field-dropped")
    for item in case.evidence.items("probe-pod"):
        if item.get("kind") == "Status" or (item.get("spec") or {}).get("schedulingGroup"):
            continue
        groups = len(case.evidence.items("podgroups"))
        yield find(
            Severity.ERROR if groups else Severity.INFO,
            subject="component/kube-apiserver",
            field="spec.schedulingGroup",
            found="a pod that names its group is accepted and loses the name, without a warning"
            + (f"; there are {groups} PodGroups" if groups else ""),
            fix="set GenericWorkload=true on all three components, where anybody uses native gangs",
        )


def _refused(case: Case) -> Iterator[Finding]:
    """An object that should be accepted is refused."""
    find = Finder("probe-refused")
    for key in _PROBES:
        for item in case.evidence.items(key):
            if item.get("kind") == "Status":
                yield find(
                    Severity.WARNING,
                    subject=f"{_KINDS[key]}/{NAMESPACE}/phalanx-audit-probe",
                    field="create",
                    found=f"a dry run is refused: {item.get('message')}",
                    fix=_ADVICE[key],
                )


CHECKS = (
    Check(
        id="gang-field-dropped",
        theme="gang scheduling",
        title="Pods lose the name of their group",
        needs=("probe-pod", "podgroups"),
        judge=_field_dropped,
    ),
    Check(
        id="probe-refused",
        theme="surroundings",
        title="A dry run is refused",
        needs=_PROBES,
        judge=_refused,
    ),
)
