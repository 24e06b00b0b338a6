"""Autoscalers that go to zero (KEP-2021): whether they can, and whether they ever come back."""

from collections.abc import Iterator, Mapping
from typing import Any

from services.cli.audit.evidence import Evidence, Manifest, subject_of
from services.cli.audit.findings import Finding, Gap, Severity
from services.cli.audit.gates import CONTROLLER_MANAGER, component_gate_of, gate_of, is_visible, tells_gate, unseen
from services.cli.audit.gates import SCALE_TO_ZERO as _GATE
from services.cli.audit.registry import Case, Check, Finder

_THEME = "scale to zero"
_HPAS = "horizontalpodautoscalers"
_FROM_OUTSIDE = frozenset({"External", "Object"})
EXTERNAL_API, CUSTOM_API = "v1beta1.external.metrics.k8s.io", "v1beta1.custom.metrics.k8s.io"


def to_zero(evidence: Evidence) -> Iterator[Manifest]:
    """Yield the autoscalers that may go to zero."""
    for item in evidence.items(_HPAS):
        if (item.get("spec") or {}).get("minReplicas") == 0:
            yield item


def _condition(item: Manifest, name: str) -> Mapping[str, Any]:
    conditions = (item.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == name), {})


def _kinds(item: Manifest) -> set[str]:
    return {str(one.get("type")) for one in (item.get("spec") or {}).get("metrics") or ()}


def _adapter(case: Case) -> Iterator[Finding]:
    """The metrics that would wake a target are not served."""
    find = Finder("zero-no-adapter")
    services = {item["metadata"]["name"]: item for item in case.evidence.items("apiservices")}
    for kind, api in (("External", EXTERNAL_API), ("Object", CUSTOM_API)):
        users = [item for item in to_zero(case.evidence) if kind in _kinds(item)]
        if not users:
            continue
        service = services.get(api)
        available = _condition(service, "Available") if service else {}
        if available.get("status") == "True":
            continue
        what = f"APIService {api} is " + (f"not available: {available.get('message', '')}" if service else "missing")
        yield find(
            Severity.ERROR,
            subject=f"apiservice/{api}" if service else subject_of(users[0], kind="horizontalpodautoscaler"),
            field="status.conditions[type=Available]" if service else "spec.metrics",
            found=f"{what}; {len(users)} autoscalers with minReplicas 0 need it to wake up",
            fix="install or repair the metrics adapter (KEDA, prometheus-adapter, or Phalanx' autoscaler)",
        )


def _cpu_in_the_mix(case: Case) -> Iterator[Finding]:
    """A CPU or memory metric keeps the last replica for ever."""
    find = Finder("zero-cpu-in-the-mix")
    for item in to_zero(case.evidence):
        others = sorted(_kinds(item) - _FROM_OUTSIDE)
        if others:
            yield find(
                Severity.WARNING,
                subject=subject_of(item, kind="horizontalpodautoscaler"),
                field="spec.metrics",
                found=f"minReplicas 0 beside metrics of type {', '.join(others)}: the largest counts, and any use "
                "above zero "
                "keeps one replica",
                fix="remove these metrics, or set minReplicas to 1 so that nobody expects zero",
            )


def _asleep_for_ever(case: Case) -> Iterator[Finding]:
    """Asleep without the condition that lets the autoscaler wake it."""
    find = Finder("zero-asleep-for-ever")
    for item in to_zero(case.evidence):
        active = _condition(item, "ScalingActive")
        asleep = (item.get("status") or {}).get("currentReplicas", 0) == 0
        if asleep and active.get("status") == "False" and active.get("reason") == "ScalingDisabled":
            yield find(
                Severity.ERROR,
                subject=subject_of(item, kind="horizontalpodautoscaler"),
                field="status.conditions[type=ScalingActive]",
                found="ScalingDisabled at zero replicas: this autoscaler did not put the target to sleep, and "
                "never wakes it",
                fix='scale the target to 1 by hand once; or annotate the autoscaler phalanx.dev/wake: "true", '
                "and Phalanx wakes it",
            )


def _gate_skew(case: Case) -> Iterator[Finding | Gap]:
    """The gate differs between API server and controller manager."""
    find = Finder("zero-gate-skew")
    ours = gate_of(case.evidence, _GATE)
    theirs = component_gate_of(case.evidence, CONTROLLER_MANAGER, _GATE)
    if ours is None or not ours.is_on:
        return
    if theirs is not None and not theirs.is_on:
        yield find(
            Severity.ERROR,
            subject="component/kube-controller-manager",
            field=f"--feature-gates={_GATE}",
            found="off, while the API server accepts minReplicas 0: targets that sleep stay asleep",
            fix=f"set {_GATE}=true on kube-controller-manager",
            is_inferred=ours.is_inferred,
        )
    is_used = any(True for _ in to_zero(case.evidence))
    if theirs is None and is_used and not is_visible(case.evidence, CONTROLLER_MANAGER):
        yield unseen("zero-gate-skew", CONTROLLER_MANAGER)


def _downgrade(case: Case) -> Iterator[Finding]:
    """What would be stuck at zero after going back to an older release."""
    find = Finder("zero-downgrade-trap")
    asleep = [item for item in to_zero(case.evidence) if (item.get("status") or {}).get("currentReplicas", 0) == 0]
    if asleep:
        yield find(
            Severity.INFO,
            subject=subject_of(asleep[0], kind="horizontalpodautoscaler"),
            field="spec.minReplicas",
            found=f"{len(asleep)} targets sleep at zero: after a downgrade below 1.37, or with {_GATE} off, "
            "nothing wakes them",
            fix="before a downgrade set minReplicas to 1 and wait until each has a replica",
        )


def _unmeasured(case: Case) -> Iterator[Finding]:
    """Nobody has measured how long the first request waits."""
    find = Finder("zero-unmeasured")
    measured = {
        (str(one.get("namespace")), str(one.get("name")))
        for event in case.evidence.items("cold-starts")
        if event.get("reason") == "ColdStart" and (one := event.get("involvedObject") or {})
    }
    sleepers = list(to_zero(case.evidence))
    unknown = [
        item
        for item in sleepers
        if (str(item["metadata"].get("namespace")), str(item["metadata"]["name"])) not in measured
    ]
    if unknown:
        first = unknown[0]["metadata"]
        yield find(
            Severity.INFO,
            subject=subject_of(unknown[0], kind="horizontalpodautoscaler"),
            field="spec.minReplicas",
            found=f"{len(unknown)} of {len(sleepers)} autoscalers with minReplicas 0 have no Event ColdStart (kept for "
            "an hour): how long the first request waits may never have been measured",
            fix=f"measure it before anybody relies on it: phalanx coldstart {first.get('namespace')}/{first['name']}",
            is_inferred=True,
        )


CHECKS = tuple(
    Check(
        id=name,
        theme=_THEME,
        title=title,
        needs=(_HPAS, *more),
        judge=judge,
        instead=tells_gate(_GATE) if "metrics" in more else {},
    )
    for name, title, more, judge in (
        ("zero-no-adapter", "The metrics that wake a target are not served", ("apiservices",), _adapter),
        ("zero-cpu-in-the-mix", "CPU or memory keeps a target awake", (), _cpu_in_the_mix),
        ("zero-asleep-for-ever", "A target sleeps and nothing will wake it", (), _asleep_for_ever),
        ("zero-gate-skew", "The gate is on in one component only", ("metrics", "pods"), _gate_skew),
        ("zero-downgrade-trap", "Sleeping targets and a downgrade", (), _downgrade),
        ("zero-unmeasured", "Nobody measured a cold start", ("cold-starts",), _unmeasured),
    )
)
