"""Some cold starts summed up: how long each phase takes, which one dominates, and what helps against that. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.core.cold_start import PHASES, TOTAL, Phase, took_s, total_s

ADVICE: Mapping[Phase, str] = {
    Phase.DECIDED: "the decision takes longest: see docs/cold-start.md",
    Phase.REPLICAS_SET: (
        "writing the replicas takes longest: look at the API server's latency and at its admission webhooks"
    ),
    Phase.PODS_CREATED: (
        "making the pods takes longest: look at quotas and admission webhooks, and at --kube-api-qps and "
        "--kube-api-burst of kube-controller-manager"
    ),
    Phase.PLACED: (
        "the placer's decision takes longest: if pods waited for room, keep some free, or let a node autoscaler keep "
        "spare nodes; `phalanx why` names what is missing"
    ),
    Phase.BOUND: (
        "binding takes longest: if nodes had to be added, keep spare ones; else look at the API server's latency"
    ),
    Phase.RUNNING: (
        "starting the containers takes longest: have the images on the nodes (a DaemonSet that pulls them, or smaller "
        "images), and imagePullPolicy IfNotPresent; then look at volumes and init containers"
    ),
    Phase.READY: (
        "getting ready takes longest: load less before the first answer, keep models on the node, and give the "
        "container a startupProbe with periodSeconds 1, for readiness is seen no sooner than a probe asks"
    ),
    Phase.FIRST_ITEM: "taking the first item takes longest: connect to the queue while the rest is still loading",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One cold start. `missing` says what had not happened when the watching ended; empty where nothing is missing."""

    ends_s: Mapping[Phase, float]
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Of the runs that were complete: percentiles by phase and `total`, and the phase with the greatest median."""

    p50_s: Mapping[str, float]
    p95_s: Mapping[str, float]
    dominating: Phase | None

    @property
    def advice(self) -> str:
        """What helps against the phase that dominates."""
        return "" if self.dominating is None else ADVICE[self.dominating]


def summed_up(runs: Sequence[Run]) -> Summary:
    """Return what the complete runs say together; nothing where there is none."""
    complete = [run.ends_s for run in runs if not run.missing]
    values: dict[str, list[float]] = {}
    for ends_s in complete:
        for phase, duration_s in took_s(ends_s).items():
            values.setdefault(phase, []).append(duration_s)
        values.setdefault(TOTAL, []).append(total_s(ends_s))
    p50_s = {name: percentile(found, 0.5) for name, found in values.items()}
    phases = [phase for phase in PHASES if phase in p50_s]
    return Summary(
        p50_s=p50_s,
        p95_s={name: percentile(found, 0.95) for name, found in values.items()},
        dominating=max(phases, key=lambda phase: p50_s[phase], default=None),
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of all does not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def as_json(runs: Sequence[Run], *, hpa: str, target: str, replicas: int) -> dict[str, Any]:
    """Return everything for programs."""
    summary = summed_up(runs)
    return {
        "hpa": hpa,
        "target": target,
        "replicas": replicas,
        "runs": [{"ends_s": dict(run.ends_s), "missing": run.missing} for run in runs],
        "p50_s": dict(summary.p50_s),
        "p95_s": dict(summary.p95_s),
        "dominating": summary.dominating,
        "advice": summary.advice,
    }
