"""Judge the cases about waking by the core: each row of their events is one situation, with what it asks for.

A row is a moment, so nothing runs here: the HPA of the file is reduced as the autoscaler reduces it, the row's samples
become readings, and the verdict says how many replicas there will be.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from services.core.metric_readings import NEVER_READ, MetricKey, Reading, Sample, SourceState, Unknown, reading_of
from services.core.reduce_autoscaler import reduce_autoscaler
from services.core.scaling import Sources, Woken, asked_for, decide, must_disarm
from tests.cases.check import Case, UnknownWord

IN_FORCE = ("C35", "C39")

NOW = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
_QUEUE, _INFLIGHT = MetricKey(name="queue_depth"), MetricKey(name="inflight")


def judge_scaling(case: Case) -> list[str]:
    """Return a sentence for each row whose answer is another."""
    objects = list(yaml.safe_load_all(case.path.read_text()))
    hpa = next(one for one in objects if one and one["kind"] == "HorizontalPodAutoscaler")
    events = next(one for one in objects if one and one["kind"] == "ConfigMap")
    rows = yaml.safe_load(events["data"]["events.yaml"])
    judge = {"C35": _of_metrics, "C39": _of_zeros}[case.id]
    return [problem for row in rows for problem in judge(row, hpa)]


def _of_metrics(row: Mapping[str, Any], hpa: dict[str, Any]) -> Iterator[str]:
    """What two metrics ask for, given how many replicas there are."""
    notes = hpa["metadata"]["annotations"]
    fallback = "/".join(notes[f"cases.example.com/fallback-{key}"] for key in ("replicas", "failure-threshold"))
    metadata = hpa["metadata"] | {"annotations": {"phalanx.dev/fallback": fallback}}
    status = {"conditions": [{"type": "ScaledToZero", "status": "True" if row["cur"] == 0 else "False"}]}
    autoscaler = reduce_autoscaler(hpa | {"metadata": metadata, "status": status})
    sources: Sources = {_QUEUE: _state(row["queue"]), _INFLIGHT: _state(row["inflight"])}
    verdict = decide(autoscaler, replicas=row["cur"], sources=sources, now=NOW)
    asked = asked_for(autoscaler, replicas=row["cur"], sources=sources, now=NOW).replicas
    got = verdict.replicas if isinstance(verdict, Woken) else asked
    if got != row["want"]:
        yield f"{row}: got {got}"


def _of_zeros(row: Mapping[str, Any], hpa: dict[str, Any]) -> Iterator[str]:
    """Whose zero it is."""
    replicas = row.get("spec.replicas", row.get("replicas", 0))
    condition = row.get("scaledToZero", "True")
    wanted = row["want"] if "want" in row else row["then"]["want"]
    metric = row["metric"] if "metric" in row else row["then"]["metric"]
    match row.get("do"):
        case None:
            pass
        case "kubectl scale to 0":
            # It ran, and a relic of the sleep before was still there.
            condition = "False" if must_disarm(_autoscaler(hpa, row, condition), replicas=replicas) else condition
            replicas = 0
        case "kubectl scale to 1":
            replicas, wanted = 1, int(str(wanted).split(" ", 1)[0])
        case other:
            raise UnknownWord(f"do: {other}")
    autoscaler = _autoscaler(hpa, row, condition)
    verdict = decide(autoscaler, replicas=replicas, sources={_QUEUE: _state(metric)}, now=NOW)
    got = verdict.replicas if isinstance(verdict, Woken) else replicas
    if got != wanted:
        yield f"{row}: got {got}"


def _autoscaler(hpa: dict[str, Any], row: Mapping[str, Any], condition: str) -> Any:
    conditions = [] if condition == "absent" else [{"type": "ScaledToZero", "status": condition}]
    spec = hpa["spec"] | {"minReplicas": row.get("min", 0)}
    return reduce_autoscaler(hpa | {"spec": spec, "status": {"conditions": conditions}})


def _state(given: object) -> SourceState:
    """Return the state of a source after what a row says of it: one sample, or several in a row."""
    state = NEVER_READ
    for one in given if isinstance(given, list) else [given]:
        state = state.after(_reading(one))
    return state


def _reading(given: object) -> Reading:
    match given:
        case "error":
            return Unknown(why="is down")
        case "empty":
            return reading_of((), now=NOW)
        case {"value": value, "age": age}:
            taken_at = NOW - timedelta(seconds=float(str(age).removesuffix("s")))
            return reading_of((Sample(value=float(value), taken_at=taken_at),), now=NOW)
        case _:
            return reading_of((Sample(value=float(str(given)), taken_at=NOW),), now=NOW)
