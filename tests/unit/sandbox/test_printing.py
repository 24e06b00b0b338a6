"""Tables for kubectl: who gets one, and what stands in its cells."""

from datetime import timedelta
from typing import Any

import orjson
import pytest

from services.sandbox import printing
from tests.builders import START, Manifest, node_manifest, pod_group_manifest, pod_manifest

KUBECTL = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.mark.parametrize(
    ("accept", "is_wanted"),
    [
        (KUBECTL, True),
        ("application/json", False),
        ("application/json,application/json;as=Table;v=v1;g=meta.k8s.io", False),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json", False),
        ("", False),
    ],
)
def test_who_gets_a_table(accept: str, *, is_wanted: bool) -> None:
    """Only a client that prefers it: programs read objects."""
    assert printing.is_wanted(accept) == is_wanted


def printed(kind: str, *objects: Manifest, includes: str = "", after_s: float = 5) -> Any:
    """The table of a list."""
    items = [{**one, "metadata": {**one["metadata"], "creationTimestamp": START.isoformat()}} for one in objects]
    body = orjson.dumps({"kind": f"{kind}List", "metadata": {"resourceVersion": "7"}, "items": items})
    now = START + timedelta(seconds=after_s)
    return orjson.loads(printing.table_of(body, kind=kind, includes=includes, now=now))


def cells(kind: str, one: Manifest) -> dict[str, Any]:
    """The cells of one object by the names of their columns."""
    table = printed(kind, one)
    return dict(zip([column["name"] for column in table["columnDefinitions"]], table["rows"][0]["cells"], strict=True))


def test_pods() -> None:
    """What `kubectl get pods` shows elsewhere, and the node with `-o wide`."""
    status = {"phase": "Running", "containerStatuses": [{"ready": True, "restartCount": 2}]}
    shown = cells("Pod", pod_manifest("w", nodeName="n1") | {"status": status})
    assert shown == {"Name": "w", "Ready": "1/1", "Status": "Running", "Restarts": 2, "Age": "5s", "Node": "n1"}
    table = printed("Pod", pod_manifest("w"))
    assert [one["priority"] for one in table["columnDefinitions"]] == [0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({}, "Pending"),
        ({"phase": "Succeeded"}, "Completed"),
        ({"phase": "Failed"}, "Error"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
    ],
)
def test_states_of_pods(status: Manifest, word: str) -> None:
    """In the words of kubectl."""
    assert cells("Pod", pod_manifest("w") | {"status": status})["Status"] == word


def test_pod_that_is_deleted() -> None:
    """It says so until it is gone."""
    leaving = pod_manifest("w") | {"status": {"phase": "Running"}}
    leaving["metadata"]["deletionTimestamp"] = START.isoformat()
    assert cells("Pod", leaving)["Status"] == "Terminating"


def test_other_kinds() -> None:
    """Nodes, Jobs and groups have what one looks for; kinds without columns of their own have name and age."""
    cordoned = node_manifest("n1", gpus=8)
    cordoned["spec"] = {"unschedulable": True}
    assert cells("Node", cordoned)["Status"] == "Ready,SchedulingDisabled"
    assert cells("Node", cordoned)["GPUs"] == "8"
    job = {"metadata": {"name": "j"}, "spec": {"completions": 4}, "status": {"succeeded": 3}}
    assert cells("Job", job) == {"Name": "j", "Status": "Running", "Completions": "3/4", "Age": "5s"}
    group = pod_group_manifest("g", min_count=4)
    assert cells("PodGroup", group) == {"Name": "g", "Policy": "gang of 4", "Scheduled": "Unknown", "Age": "5s"}
    assert cells("Namespace", {"metadata": {"name": "n"}}) == {"Name": "n", "Age": "5s"}


@pytest.mark.parametrize(
    ("after_s", "text"), [(0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172800, "2d")]
)
def test_ages(after_s: float, text: str) -> None:
    """In the largest unit of which there are two."""
    assert printed("Pod", pod_manifest("w"), after_s=after_s)["rows"][0]["cells"][4] == text


@pytest.mark.parametrize(("includes", "kind"), [("", "PartialObjectMetadata"), ("Object", "Pod"), ("None", None)])
def test_what_rows_carry(includes: str, kind: str | None) -> None:
    """The metadata, unless the client asks for more or for less."""
    (row,) = printed("Pod", pod_manifest("w"), includes=includes)["rows"]
    assert (row["object"] or {}).get("kind") == kind
