"""Whether gang scheduling (KEP-4671) is switched on whole: in every component, in the right version, without leftovers.

`GenericWorkload` is beta and off by default in 1.37, and `scheduling.k8s.io/v1beta1` is off until it is asked for.
"""

from collections.abc import Iterator

from services.cli.audit.evidence import State, subject_of
from services.cli.audit.findings import Finding, Gap, Severity
from services.cli.audit.gates import GENERIC_WORKLOAD as GATE
from services.cli.audit.gates import component_gate_of, gate_of, is_visible, tells_gate, unseen
from services.cli.audit.registry import Case, Check, Finder, minor_of

GROUP = "scheduling.k8s.io"
READ_BY_SCHEDULER = "v1beta1"
REMOVED_GATES = ("GangScheduling", "WorkloadAwarePreemption")
COMPONENTS = ("kube-apiserver", "kube-scheduler", "kube-controller-manager")
OLD_SOURCES = ("workloads-v1alpha1", "workloads-v1alpha2", "podgroups-v1alpha2")
_THEME = "gang scheduling"


def _gate_partly_on(case: Case) -> Iterator[Finding | Gap]:
    """The gate is on in one component and off in another."""
    find = Finder("gang-gate-partly-on")
    evidence = case.evidence
    states = {name: component_gate_of(evidence, name, GATE) for name in COMPONENTS[1:]}
    states["kube-apiserver"] = gate_of(evidence, GATE)
    on = sorted(name for name, state in states.items() if state is not None and state.is_on)
    if not on:
        return
    for name, state in sorted(states.items()):
        if state is None or state.is_on:
            continue
        yield find(
            Severity.ERROR,
            subject=f"component/{name}",
            field=f"--feature-gates={GATE}",
            found=f"off, while it is on in {', '.join(on)}" + (f" ({state.how})" if state.how else ""),
            fix=f"set --feature-gates={GATE}=true on {name} too, or nowhere",
            is_inferred=any(one.is_inferred for one in states.values() if one is not None),
        )
    unknown = sorted(name for name, state in states.items() if state is None)
    if unknown:
        yield unseen("gang-gate-partly-on", *unknown)


def _gate_without_api(case: Case) -> Iterator[Finding]:
    """The gate is on, and the API that it needs is not served."""
    find = Finder("gang-gate-without-api")
    versions = case.evidence.served.get(GROUP, frozenset())
    gate = gate_of(case.evidence, GATE)
    if gate is None or not gate.is_on or READ_BY_SCHEDULER in versions:
        return
    yield find(
        Severity.ERROR,
        subject="component/kube-apiserver",
        field="--runtime-config",
        found=f"{GATE} is on, but {GROUP}/{READ_BY_SCHEDULER} is not served (served: {_listed(versions)}): "
        "a kube-scheduler with the gate on never becomes ready, and binds no pod at all",
        fix=f"add {GROUP}/{READ_BY_SCHEDULER}=true to --runtime-config of kube-apiserver",
        is_inferred=gate.is_inferred,
    )


def _gate_off(case: Case) -> Iterator[Finding]:
    """Gang scheduling is off: worth knowing, because manifests that use it are accepted all the same."""
    find = Finder("gang-gate-off")
    gate = gate_of(case.evidence, GATE)
    if gate is None or gate.is_on or case.evidence.served.get(GROUP, frozenset()) - {"v1"}:
        return
    yield find(
        Severity.INFO,
        subject="component/kube-apiserver",
        field=f"--feature-gates={GATE}",
        found="off, the default of 1.37: pods keep no spec.schedulingGroup, and no warning says so",
        fix=f"nothing, where nobody uses native gangs; else set {GATE}=true on all three components and "
        f"--runtime-config={GROUP}/{READ_BY_SCHEDULER}=true",
        is_inferred=gate.is_inferred,
    )


def _alpha_only(case: Case) -> Iterator[Finding]:
    """Only v1alpha3 is served: kube-scheduler reads v1beta1 alone."""
    find = Finder("gang-alpha-only")
    versions = case.evidence.served.get(GROUP, frozenset())
    if "v1alpha3" not in versions or READ_BY_SCHEDULER in versions:
        return
    yield find(
        Severity.ERROR,
        subject="component/kube-apiserver",
        field="--runtime-config",
        found=f"serves {GROUP}/v1alpha3 without {READ_BY_SCHEDULER}: a kube-scheduler with {GATE} on hangs while "
        "it lists "
        f"{READ_BY_SCHEDULER} PodGroups, and binds no pod at all",
        fix=f"add {GROUP}/{READ_BY_SCHEDULER}=true to --runtime-config of kube-apiserver",
    )


def _removed_gates(case: Case) -> Iterator[Finding | Gap]:
    """Gates that 1.37 no longer knows stand on a command line: the component refuses to start."""
    find = Finder("gang-removed-gates")
    evidence = case.evidence
    lines = {name: [flags.get("feature-gates", "") for flags in evidence.component_flags(name)] for name in COMPONENTS}
    for document in evidence.items("flagz"):
        flags = document.get("flags")
        if isinstance(flags, dict):
            lines["kube-apiserver"].append(str(flags.get("feature-gates", "")))
    for name, values in sorted(lines.items()):
        present = sorted({gate for value in values for gate in REMOVED_GATES if f"{gate}=" in value})
        for gate in present:
            yield find(
                Severity.ERROR,
                subject=f"component/{name}",
                field=f"--feature-gates={gate}",
                found=f"{gate} was merged into {GATE} and does not exist in 1.37: the component will not start",
                fix=f"remove {gate} from the flags of {name} before the upgrade; use {GATE}",
            )
    hidden = [name for name in COMPONENTS[1:] if not is_visible(evidence, name)]
    # A component of 1.37 that runs has none of them: it would not have started.
    if hidden and (0, 0) < minor_of(evidence.server_version) < (1, 37):
        yield unseen("gang-removed-gates", *hidden)


def _old_objects(case: Case) -> Iterator[Finding]:
    """Objects of versions that 1.37 cannot decode are left."""
    find = Finder("gang-old-objects")
    for key in OLD_SOURCES:
        resource, version = key.split("-")
        kind = "workload" if resource == "workloads" else "podgroup"
        for item in case.evidence.items(key):
            yield find(
                Severity.ERROR,
                subject=subject_of(item, kind=kind),
                field="apiVersion",
                found=f"is a {GROUP}/{version} object, which 1.37 cannot decode: afterwards lists of its kind "
                "fail with 500",
                fix=f"before the upgrade: kubectl delete {resource}.{version}.{GROUP} {item['metadata']['name']} "
                f"-n {item['metadata'].get('namespace', '')}",
            )


def _unreadable_objects(case: Case) -> Iterator[Finding]:
    """Lists fail because of objects that were left by an older server."""
    find = Finder("gang-unreadable-objects")
    reading = case.evidence.reading("podgroups")
    counted = [
        labels.get("resource", "")
        for labels, value in case.evidence.metrics.get("apiserver_resource_objects", ())
        if labels.get("group") == GROUP and value < 0
    ]
    is_refused = reading.state is State.FAILED and (
        reading.reason == "StorageReadError" or "is registered for version" in reading.problem
    )
    if not is_refused and not counted:
        return
    yield find(
        Severity.ERROR,
        subject="resource/podgroups" if is_refused else f"resource/{', '.join(sorted(counted))}",
        field="items",
        found=reading.problem if is_refused else "the server cannot count its objects, so some cannot be decoded",
        fix="objects of an older version are left in etcd: delete their keys below /registry/podgroups or "
        "/registry/workloads with etcdctl, after a backup; the API can neither read nor delete them",
        is_inferred=not is_refused,
    )


def _listed(versions: frozenset[str]) -> str:
    return ", ".join(sorted(versions)) or "nothing"


CHECKS = (
    Check(
        id="gang-gate-partly-on",
        theme=_THEME,
        title="GenericWorkload is on in some components only",
        needs=("metrics", "pods"),
        judge=_gate_partly_on,
        instead=tells_gate(GATE),
    ),
    Check(
        id="gang-gate-without-api",
        theme=_THEME,
        title="GenericWorkload is on without its API",
        needs=("metrics", "groups"),
        judge=_gate_without_api,
        instead=tells_gate(GATE),
    ),
    Check(
        id="gang-gate-off",
        theme=_THEME,
        title="Gang scheduling is off",
        needs=("metrics", "groups"),
        judge=_gate_off,
        instead=tells_gate(GATE),
    ),
    Check(
        id="gang-alpha-only",
        theme=_THEME,
        title="Only v1alpha3 of the scheduling API is served",
        needs=("groups",),
        judge=_alpha_only,
    ),
    Check(
        id="gang-removed-gates",
        theme=_THEME,
        title="Feature gates that 1.37 does not know are set",
        needs=("pods",),
        judge=_removed_gates,
    ),
    Check(
        id="gang-old-objects",
        theme=_THEME,
        title="Objects of removed scheduling versions are left",
        needs=OLD_SOURCES,
        judge=_old_objects,
    ),
    Check(
        id="gang-unreadable-objects",
        theme=_THEME,
        title="Stored scheduling objects cannot be decoded",
        needs=("metrics",),
        judge=_unreadable_objects,
    ),
)
