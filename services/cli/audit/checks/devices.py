"""Devices (DRA): taints and whom they hit, pools that nobody can use, devices given away twice or never given back."""

from collections.abc import Iterator, Mapping
from typing import Any

from services.cli.audit.checks.gangs import members_of, min_count_of
from services.cli.audit.evidence import Evidence, Manifest, subject_of
from services.cli.audit.findings import Finding, Severity
from services.cli.audit.registry import Case, Check, Finder, minor_of
from services.core.blast import (
    NO_EXECUTE,
    Device,
    Team,
    allocated,
    blast_of,
    device_of,
    pool_of,
    published,
    taint_of,
    users_of,
)

_THEME = "devices"
_PROTECTION = "resource.kubernetes.io/delete-protection"
_HARD = frozenset({"NoSchedule", "NoExecute"})
_ENDED = frozenset({"Succeeded", "Failed"})
_MISSING_SELECTOR_FIXED = "1.37.1"


def _taint_rules(case: Case) -> Iterator[Finding]:
    """Which devices, claims, pods and gangs a taint rule hits."""
    find = Finder("dra-taint-rule")
    evidence = case.evidence
    teams = teams_of(evidence)
    for rule in evidence.items("devicetaintrules"):
        if taint_of(rule).get("effect") not in _HARD:
            continue
        blast = blast_of(
            rule,
            claims=evidence.items("resourceclaims"),
            slices=evidence.items("resourceslices"),
            pods=evidence.items("pods"),
            teams=teams,
        )
        takes = "will delete" if blast.effect == NO_EXECUTE else "does not touch"
        lost = [f"{one.name}{' (falls below minCount)' if one.is_broken else ''}" for one in blast.losses]
        yield find(
            Severity.WARNING if blast.is_deadly else Severity.INFO,
            subject=subject_of(rule, kind="devicetaintrule"),
            field="spec.taint.effect",
            found=f"{blast.effect} on {blast.selected} of {blast.published} devices; {len(blast.claims)} claims use "
            f"them, and it {takes} {len(blast.victims)} pods"
            + (f"; gangs that lose members: {', '.join(lost)}" if lost and blast.is_deadly else ""),
            fix=f"phalanx taint remove {rule['metadata']['name']} when the maintenance is over; evictions heed neither "
            "PodDisruptionBudgets nor gangs",
        )


def teams_of(evidence: Evidence) -> tuple[Team, ...]:
    """Return the gangs of the native API with their living members."""
    members = members_of(evidence)
    found = []
    for group in evidence.items("podgroups"):
        key = (str(group["metadata"].get("namespace")), str(group["metadata"]["name"]))
        living = [pod for pod in members.get(key, []) if pod["status"].get("phase") not in _ENDED]
        uids = frozenset(str(pod["metadata"].get("uid")) for pod in living)
        found.append(Team(name="/".join(key), min_count=min_count_of(group), members=uids))
    return tuple(found)


def _rule_breadth(case: Case) -> Iterator[Finding]:
    """Rules that select everything, or nothing."""
    find = Finder("dra-taint-rule-breadth")
    for rule in case.evidence.items("devicetaintrules"):
        selector = (rule.get("spec") or {}).get("deviceSelector")
        subject = subject_of(rule, kind="devicetaintrule")
        effect = str(taint_of(rule).get("effect", ""))
        if selector is None:
            is_early = case.evidence.server_version == "1.37.0"
            yield find(
                Severity.ERROR if is_early else Severity.WARNING,
                subject=subject,
                field="spec.deviceSelector",
                found="missing: "
                + (
                    f"1.37.0 takes that for every device (fixed in {_MISSING_SELECTOR_FIXED})"
                    if is_early
                    else "the rule selects no device, and 1.37.0 took it for every device"
                ),
                fix="name a driver, pool or device, or delete the rule; `phalanx taint add` writes complete ones",
            )
        elif not any(selector.values()) and effect in _HARD:
            yield find(
                Severity.WARNING,
                subject=subject,
                field="spec.deviceSelector",
                found=f"{{}} selects every device of every driver, with {effect}",
                fix="name a driver, pool or device, unless the whole cluster is meant",
            )


def _slice_taints(case: Case) -> Iterator[Finding]:
    """Devices that their drivers took out of use."""
    find = Finder("dra-slice-taints")
    for item, name, device in published(case.evidence.items("resourceslices")):
        hard = [taint for taint in device.get("taints") or () if taint.get("effect") in _HARD]
        if hard:
            yield find(
                Severity.WARNING if any(one["effect"] == "NoExecute" for one in hard) else Severity.INFO,
                subject=subject_of(item, kind="resourceslice"),
                field=f"spec.devices[{name.name}].taints",
                found=f"{name}: " + ", ".join(f"{one.get('key')}:{one['effect']}" for one in hard),
                fix="see the driver's log on that node for the cause",
            )


def _incomplete_pools(case: Case) -> Iterator[Finding]:
    """Pools whose slices are not all there: none of their devices is used."""
    find = Finder("dra-incomplete-pool")
    pools: dict[tuple[str, str], dict[int, list[Manifest]]] = {}
    for item in case.evidence.items("resourceslices"):
        key, generation = pool_of(item)
        pools.setdefault(key, {}).setdefault(generation, []).append(item)
    for (driver, pool), generations in sorted(pools.items()):
        newest = generations[max(generations)]
        wanted = int((newest[0]["spec"].get("pool") or {}).get("resourceSliceCount") or 0)
        if len(newest) == wanted:
            continue
        yield find(
            Severity.ERROR,
            subject=subject_of(newest[0], kind="resourceslice"),
            field="spec.pool.resourceSliceCount",
            found=f"pool {driver}/{pool} has {len(newest)} of {wanted} slices in generation {max(generations)}: "
            "no device of the pool is used",
            fix="restart the driver that publishes the pool, and delete slices of pools that are gone",
        )


def _double_allocations(case: Case) -> Iterator[Finding]:
    """The same device in two claims: the API server does not refuse that."""
    find = Finder("dra-double-allocation")
    shareable = {
        device
        for _, device, definition in published(case.evidence.items("resourceslices"))
        if definition.get("allowMultipleAllocations")
    }
    holders: dict[Device, list[str]] = {}
    for claim in case.evidence.items("resourceclaims"):
        for result in allocated(claim):
            device = device_of(result)
            if result.get("adminAccess") or result.get("shareID") or device in shareable:
                continue
            holders.setdefault(device, []).append(subject_of(claim, kind="resourceclaim"))
    for device, claims in sorted(holders.items()):
        if len(claims) > 1:
            yield find(
                Severity.ERROR,
                subject=claims[0],
                field="status.allocation.devices.results",
                found=f"{device} is allocated to {len(claims)} claims: {', '.join(claims)}",
                fix="delete the pods of all but one of these claims, and find the two schedulers that share the driver",
            )


def _leaked_claims(case: Case) -> Iterator[Finding]:
    """Claims that hold devices for nobody."""
    find = Finder("dra-leaked-claim")
    living = {
        str(pod["metadata"].get("uid"))
        for pod in case.evidence.items("pods")
        if pod["status"].get("phase") not in _ENDED
    }
    for claim in case.evidence.items("resourceclaims"):
        status = claim["status"]
        if not status.get("allocation"):
            continue
        users = status.get("reservedFor") or ()
        gone = [one for one in users if one.get("resource") == "pods" and str(one.get("uid")) not in living]
        subject = subject_of(claim, kind="resourceclaim")
        if not users:
            yield find(
                Severity.INFO,
                subject=subject,
                field="status.reservedFor",
                found=f"empty, while {len(list(allocated(claim)))} devices are allocated: they serve nobody now",
                fix="delete the claim if no pod will use it again",
            )
        elif len(gone) == len(users):
            yield find(
                Severity.WARNING,
                subject=subject,
                field="status.reservedFor",
                found="names only pods that have ended or are gone: its devices are not given back",
                fix="see whether kube-controller-manager's resourceclaim controller runs; delete the claim by hand",
            )
        if _PROTECTION not in (claim["metadata"].get("finalizers") or ()):
            yield find(
                Severity.WARNING,
                subject=subject,
                field="metadata.finalizers",
                found=f"allocated without {_PROTECTION}: the allocation is never cleared when its users end",
                fix="whichever scheduler allocated it has to set the finalizer first; delete and recreate the claim",
            )


def _ageing_hardware(case: Case) -> Iterator[Finding]:
    """One class of devices, several models or driver versions."""
    find = Finder("dra-mixed-hardware")
    seen: dict[str, dict[str, dict[str, str]]] = {}
    for item, place, device in published(case.evidence.items("resourceslices")):
        for attribute, value in (device.get("attributes") or {}).items():
            short = attribute.rpartition("/")[2]
            if short in {"productName", "model", "driverVersion", "architecture"}:
                text = str(next(iter(value.values()), ""))
                seen.setdefault(place.driver, {}).setdefault(short, {}).setdefault(
                    text, subject_of(item, kind="resourceslice")
                )
    for driver, attributes in sorted(seen.items()):
        for name, values in sorted(attributes.items()):
            if len(values) > 1:
                yield find(
                    Severity.INFO,
                    subject=next(iter(values.values())),
                    field=f"spec.devices[].attributes.{name}",
                    found=f"devices of {driver} differ: {', '.join(sorted(values))}",
                    fix="gangs that need equal devices ask for it: matchAttribute in the claim, or a selector on "
                    "the attribute",
                )


def _shared_nodes(case: Case) -> Iterator[Finding]:
    """Several schedulers place pods with devices on the same nodes."""
    find = Finder("dra-shared-nodes")
    users: dict[str, dict[str, str]] = {}
    for pod in case.evidence.items("pods"):
        node = pod["spec"].get("nodeName")
        if node and pod["spec"].get("resourceClaims") and pod["status"].get("phase") not in _ENDED:
            users.setdefault(str(node), {}).setdefault(
                str(pod["spec"].get("schedulerName")), subject_of(pod, kind="pod")
            )
    shared = {node: names for node, names in users.items() if len(names) > 1}
    if shared:
        node, names = min(shared.items())
        yield find(
            Severity.WARNING,
            subject=f"node/{node}",
            field="pods' spec.schedulerName",
            found=f"{len(shared)} nodes have pods with claims of several schedulers ({', '.join(sorted(names))}): "
            "the API server does not stop them from allocating one device twice",
            fix="give each scheduler its own nodes or drivers: see docs/ownership.md",
        )
    yield from _shared_drivers(case.evidence, find)


def _shared_drivers(evidence: Evidence, find: Finder) -> Iterator[Finding]:
    """Drivers whose devices are held for pods of several schedulers, on whatever nodes."""
    schedulers = {
        str(pod["metadata"].get("uid")): str(pod["spec"].get("schedulerName")) for pod in evidence.items("pods")
    }
    users: dict[str, dict[str, str]] = {}
    for claim in evidence.items("resourceclaims"):
        names = {schedulers[uid] for uid in users_of(claim) if uid in schedulers}
        for result in allocated(claim):
            known = users.setdefault(str(result.get("driver")), {})
            for name in names:
                known.setdefault(name, subject_of(claim, kind="resourceclaim"))
    for driver, claims in sorted(users.items()):
        if len(claims) > 1:
            yield find(
                Severity.INFO,
                subject=f"driver/{driver}",
                field="status.allocation.devices.results",
                found="its devices are held for pods of several schedulers: "
                + ", ".join(f"{name} ({claim})" for name, claim in sorted(claims.items())),
                fix="make sure that no two of them see the same devices: by node, or by device class and selector",
            )


def _binding_right(case: Case) -> Iterator[Finding]:
    """Schedulers that may allocate claims by the old rights, and not by the new one (granular status authorization)."""
    find = Finder("dra-binding-right")
    if minor_of(case.evidence.server_version) < (1, 36) and not case.reaches("1.37"):
        return
    for role in case.evidence.items("clusterroles"):
        rules = [one for one in role.get("rules") or () if _covers(one, "resource.k8s.io", "apiGroups")]
        writes = any(_covers(one, "resourceclaims/status", "resources") and _may_write(one) for one in rules)
        binds = any(_covers(one, "resourceclaims/binding", "resources") and _may_write(one) for one in rules)
        drives = any(_covers(one, "resourceclaims/driver", "resources") for one in rules)
        if writes and not binds and not drives:
            yield find(
                Severity.WARNING,
                subject=subject_of(role, kind="clusterrole"),
                field="rules",
                found="may update resourceclaims/status and not resourceclaims/binding: from 1.36 on, its "
                "allocations are refused",
                fix='add {apiGroups: ["resource.k8s.io"], resources: ["resourceclaims/binding"], verbs: '
                '["update", "patch"]} '
                "where a scheduler uses the role",
            )


def _covers(rule: Mapping[str, Any], wanted: str, field: str) -> bool:
    given = rule.get(field) or ()
    return wanted in given or "*" in given


def _may_write(rule: Mapping[str, Any]) -> bool:
    return bool({"update", "patch", "*"} & set(rule.get("verbs") or ()))


_ALLOCATIONS = ("resourceclaims", "resourceslices")

CHECKS = tuple(
    Check(id=name, theme=_THEME, title=title, needs=needs, judge=judge)
    for name, title, needs, judge in (
        (
            "dra-taint-rule",
            "Taint rules and whom they hit",
            ("devicetaintrules", *_ALLOCATIONS, "pods", "podgroups"),
            _taint_rules,
        ),
        (
            "dra-taint-rule-breadth",
            "Taint rules that select everything or nothing",
            ("devicetaintrules", "version"),
            _rule_breadth,
        ),
        ("dra-slice-taints", "Devices that drivers took out of use", ("resourceslices",), _slice_taints),
        ("dra-incomplete-pool", "Pools with missing slices", ("resourceslices",), _incomplete_pools),
        ("dra-double-allocation", "Devices allocated twice", _ALLOCATIONS, _double_allocations),
        ("dra-leaked-claim", "Claims that hold devices for nobody", ("resourceclaims", "pods"), _leaked_claims),
        ("dra-binding-right", "Rights to allocate claims are incomplete", ("clusterroles", "version"), _binding_right),
        ("dra-mixed-hardware", "Devices of one driver differ", ("resourceslices",), _ageing_hardware),
        ("dra-shared-nodes", "Schedulers share nodes with devices", ("pods", "resourceclaims"), _shared_nodes),
    )
)
