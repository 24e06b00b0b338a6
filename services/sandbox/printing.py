"""Lists as kubectl asks for them: a Table whose columns the server chooses, with the cells that people look for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import orjson

from services.sandbox.objects import Obj

Cell: TypeAlias = Callable[[Obj, datetime], Any]

_NONE = "<none>"
_UNKNOWN = "<unknown>"
_UNITS = (("d", 86400, 2 * 86400), ("h", 3600, 2 * 3600), ("m", 60, 2 * 60))
"""Unit of an age, its seconds, and from how many seconds on it is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column. Those of a priority above 0 are shown with `-o wide` only."""

    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0


def is_wanted(accept: str) -> bool:
    """Tell whether a client prefers a table."""
    first = [part.strip() for part in accept.partition(",")[0].split(";")]
    return first[0] == "application/json" and "as=Table" in first and "g=meta.k8s.io" in first


def table_of(body: bytes, *, kind: str, includes: str, now: datetime) -> bytes:
    """Return the table of an encoded object or list.

    `includes` is what each row carries beside its cells: `None`, the whole `Object`, else its metadata.
    """
    given = orjson.loads(body)
    is_list = isinstance(given.get("items"), list)
    columns = (_NAME, *_COLUMNS.get(kind, ()), _AGE, *_WIDE.get(kind, ()))
    rows = [
        {"cells": [column.cell(item, now) for column in columns], "object": _carried(item, includes=includes)}
        for item in (given["items"] if is_list else [given])
    ]
    metadata = given["metadata"] if is_list else {"resourceVersion": given["metadata"]["resourceVersion"]}
    return orjson.dumps(
        {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": [_definition(column) for column in columns],
            "rows": rows,
        }
    )


def _definition(column: Column) -> Obj:
    name_format = "name" if column is _NAME else ""
    return {
        "name": column.name,
        "type": column.type,
        "format": name_format,
        "description": "",
        "priority": column.priority,
    }


def _carried(item: Obj, *, includes: str) -> Obj | None:
    if includes == "None":
        return None
    if includes == "Object":
        return item
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}


def age(text: str | None, now: datetime) -> str:
    """Return how long ago a moment was, in the largest unit of which there are two."""
    if not text:
        return _UNKNOWN
    seconds = max(int((now - datetime.fromisoformat(text)).total_seconds()), 0)
    for unit, length_s, least_s in _UNITS:
        if seconds >= least_s:
            return f"{seconds // length_s}{unit}"
    return f"{seconds}s"


def _status(obj: Obj) -> Mapping[str, Any]:
    return obj.get("status") or {}


def _spec(obj: Obj) -> Mapping[str, Any]:
    return obj.get("spec") or {}


def _condition(obj: Obj, kind: str) -> str:
    found = [one for one in _status(obj).get("conditions") or () if one.get("type") == kind]
    return str(found[0].get("status")) if found else "Unknown"


def _pod_ready(obj: Obj, _now: datetime) -> str:
    statuses: Sequence[Obj] = _status(obj).get("containerStatuses") or ()
    return f"{sum(bool(one.get('ready')) for one in statuses)}/{len(_spec(obj).get('containers') or ())}"


def _pod_status(obj: Obj, _now: datetime) -> str:
    phase = str(_status(obj).get("phase") or "Pending")
    if phase == "Succeeded":
        return "Completed"
    if obj["metadata"].get("deletionTimestamp") and phase != "Failed":
        return "Terminating"
    return str(_status(obj).get("reason") or ("Error" if phase == "Failed" else phase))


def _pod_restarts(obj: Obj, _now: datetime) -> int:
    return sum(int(one.get("restartCount") or 0) for one in _status(obj).get("containerStatuses") or ())


def _node_status(obj: Obj, _now: datetime) -> str:
    words = {"True": "Ready", "False": "NotReady"}
    cordoned = ",SchedulingDisabled" if _spec(obj).get("unschedulable") else ""
    return words.get(_condition(obj, "Ready"), "Unknown") + cordoned


def _node_gpus(obj: Obj, _now: datetime) -> str:
    return str((_status(obj).get("allocatable") or {}).get("nvidia.com/gpu", "0"))


def _job_status(obj: Obj, _now: datetime) -> str:
    for kind, word in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")):
        if _condition(obj, kind) == "True":
            return word
    return "Running"


def _job_completions(obj: Obj, _now: datetime) -> str:
    wanted = _spec(obj).get("completions") or _spec(obj).get("parallelism") or 1
    return f"{_status(obj).get('succeeded') or 0}/{wanted}"


def _group_policy(obj: Obj, _now: datetime) -> str:
    gang = (_spec(obj).get("schedulingPolicy") or {}).get("gang")
    return f"gang of {gang.get('minCount')}" if gang else "basic"


def _group_scheduled(obj: Obj, _now: datetime) -> str:
    return _condition(obj, "PodGroupInitiallyScheduled")


_NAME = Column(name="Name", cell=lambda obj, _now: obj["metadata"]["name"])
_AGE = Column(name="Age", cell=lambda obj, now: age(obj["metadata"].get("creationTimestamp"), now))

_COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "Pod": (
        Column(name="Ready", cell=_pod_ready),
        Column(name="Status", cell=_pod_status),
        Column(name="Restarts", cell=_pod_restarts, type="integer"),
    ),
    "Node": (Column(name="Status", cell=_node_status), Column(name="GPUs", cell=_node_gpus)),
    "Job": (Column(name="Status", cell=_job_status), Column(name="Completions", cell=_job_completions)),
    "PodGroup": (Column(name="Policy", cell=_group_policy), Column(name="Scheduled", cell=_group_scheduled)),
}

_WIDE: Mapping[str, tuple[Column, ...]] = {
    "Pod": (Column(name="Node", cell=lambda obj, _now: _spec(obj).get("nodeName") or _NONE, priority=1),),
}
