"""The groups themselves: gangs that can never run, that run with less than they need, or that cannot be deleted."""

from collections.abc import Iterator, Mapping

from services.cli.audit.evidence import Evidence, Manifest, subject_of
from services.cli.audit.findings import Finding, Severity
from services.cli.audit.registry import Case, Check, Finder

_THEME = "gang scheduling"
_NEEDS = ("podgroups", "pods")
_ENDED = frozenset({"Succeeded", "Failed"})
_PROTECTION = "scheduling.k8s.io/podgroup-protection"
_SCHEDULED = "PodGroupInitiallyScheduled"

Key = tuple[str, str]


def members_of(evidence: Evidence) -> Mapping[Key, list[Manifest]]:
    """Return the pods of each group, by the group's namespace and name."""
    found: dict[Key, list[Manifest]] = {}
    for pod in evidence.items("pods"):
        name = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
        if name:
            found.setdefault((str(pod["metadata"].get("namespace")), str(name)), []).append(pod)
    return found


def min_count_of(group: Manifest) -> int:
    """Return a gang's minCount; 0 for a group that is no gang."""
    gang = (group.get("spec") or {}).get("schedulingPolicy", {}).get("gang") or {}
    return int(gang.get("minCount") or 0)


def _groups(evidence: Evidence) -> Iterator[tuple[Manifest, list[Manifest]]]:
    members = members_of(evidence)
    for group in evidence.items("podgroups"):
        metadata = group["metadata"]
        yield group, members.get((str(metadata.get("namespace")), str(metadata["name"])), [])


def _is_ended(pod: Manifest) -> bool:
    return pod["status"].get("phase") in _ENDED


def _too_few_members(case: Case) -> Iterator[Finding]:
    """A gang asks for more members than exist."""
    find = Finder("gang-too-few-members")
    for group, members in _groups(case.evidence):
        needed, living = min_count_of(group), [pod for pod in members if not _is_ended(pod)]
        if not living or len(members) >= needed:
            continue
        yield find(
            Severity.WARNING,
            subject=subject_of(group, kind="podgroup"),
            field="spec.schedulingPolicy.gang.minCount",
            found=f"{needed}, but {len(members)} pods name this group: they wait, and nothing says so",
            fix=f"create the missing {needed - len(members)} pods, or lower minCount (it may be changed at any time)",
        )


def _orphan_members(case: Case) -> Iterator[Finding]:
    """Pods name a group that does not exist."""
    find = Finder("gang-orphan-members")
    known = {
        (str(one["metadata"].get("namespace")), str(one["metadata"]["name"]))
        for one in case.evidence.items("podgroups")
    }
    for key, members in sorted(members_of(case.evidence).items()):
        waiting = [pod for pod in members if not pod["spec"].get("nodeName") and not _is_ended(pod)]
        if key in known or not waiting:
            continue
        yield find(
            Severity.WARNING,
            subject=subject_of(waiting[0], kind="pod"),
            field="spec.schedulingGroup.podGroupName",
            found=f"names PodGroup {'/'.join(key)}, which does not exist; so do {len(waiting) - 1} other waiting pods: "
            "they wait for ever, without a condition or an event",
            fix=f"create PodGroup {key[1]} in namespace {key[0]}, or delete the pods",
        )


def _mixed_members(case: Case) -> Iterator[Finding]:
    """Members of one group disagree in what has to be equal."""
    find = Finder("gang-mixed-members")
    for group, members in _groups(case.evidence):
        for field in ("schedulerName", "priority", "preemptionPolicy"):
            values = {str(pod["spec"].get(field, "")) for pod in members if not _is_ended(pod)}
            if field == "priority" and values:
                values.add(str((group.get("spec") or {}).get("priority", 0)))
            if len(values) > 1:
                yield find(
                    Severity.ERROR if field == "priority" else Severity.WARNING,
                    subject=subject_of(group, kind="podgroup"),
                    field=f"members' spec.{field}",
                    found=f"members have {', '.join(sorted(value or 'none' for value in values))}"
                    + (" (the group's own among them)" if field == "priority" else "")
                    + ": kube-scheduler refuses or never completes such a group",
                    fix=f"recreate the members with one {field}; it cannot be changed in place",
                )


def _single_disruption(case: Case) -> Iterator[Finding]:
    """A gang that needs every member may lose one to a preemption."""
    find = Finder("gang-single-disruption")
    for group, members in _groups(case.evidence):
        needed = min_count_of(group)
        mode = (group.get("spec") or {}).get("disruptionMode") or {}
        living = [pod for pod in members if not _is_ended(pod)]
        if needed <= 1 or "single" not in mode or len(living) > needed:
            continue
        yield find(
            Severity.WARNING,
            subject=subject_of(group, kind="podgroup"),
            field="spec.disruptionMode",
            found=f"single, the default, while all {needed} members are needed: one preemption breaks the gang",
            fix="create such groups with disruptionMode: {all: {}}; the field cannot be changed later",
        )


def _below_quorum(case: Case) -> Iterator[Finding]:
    """The API calls a gang scheduled that has fewer running members than it needs."""
    find = Finder("gang-below-quorum")
    for group, members in _groups(case.evidence):
        needed = min_count_of(group)
        placed = sum(
            1
            for pod in members
            if (pod["spec"].get("nodeName") and pod["status"].get("phase") != "Failed" and not _is_going(pod))
        )
        if needed and placed < needed and _is_called_scheduled(group):
            yield find(
                Severity.ERROR,
                subject=subject_of(group, kind="podgroup"),
                field=f"status.conditions[type={_SCHEDULED}]",
                found=f"True, but {placed} of the {needed} needed members have a node: the API never takes True back",
                fix="recreate the missing members, or delete the rest; kube-scheduler will not repair the gang",
            )


def _stuck_group(case: Case) -> Iterator[Finding]:
    """A deleted group cannot go."""
    find = Finder("gang-stuck-deletion")
    for group, members in _groups(case.evidence):
        metadata = group["metadata"]
        if "deletionTimestamp" not in metadata or _PROTECTION not in (metadata.get("finalizers") or ()):
            continue
        active = [pod for pod in members if not _is_ended(pod)]
        if active:
            yield find(
                Severity.WARNING,
                subject=subject_of(group, kind="podgroup"),
                field="metadata.finalizers",
                found=f"is being deleted and waits for {len(active)} pods that still name it; it can still schedule",
                fix="delete or finish these pods; the finalizer goes by itself",
            )
        else:
            yield find(
                Severity.ERROR,
                subject=subject_of(group, kind="podgroup"),
                field="metadata.finalizers",
                found=f"is being deleted, no pod names it, and {_PROTECTION} stays: kube-controller-manager does "
                "not remove it",
                fix="set --feature-gates=GenericWorkload=true on kube-controller-manager; by hand: kubectl patch "
                "podgroup "
                f"{metadata['name']} -n {metadata.get('namespace')} --type=merge -p "
                f'\'{{"metadata":{{"finalizers":null}}}}\'',
                is_inferred=True,
            )


def _gated_members(case: Case) -> Iterator[Finding]:
    """Gates on members keep a gang below its quorum."""
    find = Finder("gang-gated-members")
    for group, members in _groups(case.evidence):
        gated = [pod for pod in members if pod["spec"].get("schedulingGates") and not _is_ended(pod)]
        needed = min_count_of(group)
        if not gated or len(members) - len(gated) >= needed:
            continue
        gates = sorted({str(gate.get("name")) for pod in gated for gate in pod["spec"]["schedulingGates"]})
        yield find(
            Severity.WARNING,
            subject=subject_of(gated[0], kind="pod"),
            field="spec.schedulingGates",
            found=f"{len(gated)} of {len(members)} members of PodGroup {group['metadata']['name']} carry "
            f"{', '.join(gates)}, so that fewer than the {needed} needed can be placed",
            fix="see why whoever set these gates does not remove them (Kueue: the queue's quota); none is "
            "removed by Kubernetes",
        )


def _is_going(pod: Manifest) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _is_called_scheduled(group: Manifest) -> bool:
    conditions = (group.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == _SCHEDULED and one.get("status") == "True" for one in conditions)


CHECKS = tuple(
    Check(id=name, theme=_THEME, title=title, needs=_NEEDS, judge=judge)
    for name, title, judge in (
        ("gang-too-few-members", "A gang needs more members than exist", _too_few_members),
        ("gang-orphan-members", "Pods name a group that does not exist", _orphan_members),
        ("gang-mixed-members", "Members of a group disagree", _mixed_members),
        ("gang-single-disruption", "A gang without spares may lose single members", _single_disruption),
        ("gang-below-quorum", "A gang counts as scheduled and is below its quorum", _below_quorum),
        ("gang-stuck-deletion", "A deleted group does not go", _stuck_group),
        ("gang-gated-members", "Gates keep a gang below its quorum", _gated_members),
    )
)
