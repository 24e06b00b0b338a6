"""ResourceQuota admission: the answer to a pod that does not fit, and that refused pods cost nothing."""

from tests.contract.kubernetes_api.objects import PODS, QUOTAS, pod, quota
from tests.contract.kubernetes_api.rows import Call, Event, Json, Row, Watch, delete, get, post


def _quota(**hard: str) -> tuple[Call, Call]:
    """Creates a quota and waits until its usage has been counted: before that, admission does not know it."""
    return (
        post(QUOTAS, quota(**hard)),
        get(
            f"{QUOTAS}/q",
            answer={"status": {"used": {key.replace("__", "."): "0" for key in hard}}},
            eventually=True,
        ),
    )


def _asking(name: str, **requests: Json) -> dict[str, Json]:
    container = {
        "name": "main",
        "image": "registry.example.com/none:1",
        "resources": {"requests": requests, "limits": requests},
    }
    return pod(name, containers=[container])


ROWS = (
    Row(
        name="quota-pods-exceeded",
        setup=(*_quota(pods="1"), post(PODS, pod("a"))),
        calls=(
            post(
                PODS,
                pod("b"),
                code=403,
                reason="Forbidden",
                message='pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1',
                answer={"details": {"name": "b", "kind": "pods"}},
            ),
        ),
    ),
    Row(
        name="quota-gpus-exceeded",
        setup=(
            *_quota(**{"requests__nvidia__com/gpu": "4"}),
            post(PODS, _asking("a", **{"nvidia.com/gpu": "3"})),
        ),
        calls=(
            post(
                PODS,
                _asking("b", **{"nvidia.com/gpu": "2"}),
                code=403,
                reason="Forbidden",
                message="exceeded quota: q, requested: requests.nvidia.com/gpu=2, used: requests.nvidia.com/gpu=3, "
                "limited: requests.nvidia.com/gpu=4",
            ),
            post(PODS, _asking("c", **{"nvidia.com/gpu": "1"})),
        ),
        watch=Watch(path=PODS, events=(Event(kind="ADDED", name="c"),), is_exact=True),
    ),
    Row(
        name="quota-must-specify",
        setup=_quota(requests__cpu="4"),
        calls=(
            post(
                PODS,
                pod(),
                code=403,
                reason="Forbidden",
                message="failed quota: q: must specify requests.cpu for: main",
            ),
        ),
    ),
    Row(
        name="quota-freed-by-deletion",
        setup=(*_quota(pods="1"), post(PODS, pod("a")), delete(f"{PODS}/a")),
        calls=(post(PODS, pod("b"), eventually=True),),
    ),
    Row(
        name="quota-status-counts",
        setup=(*_quota(pods="5"), post(PODS, pod("a")), post(PODS, pod("b"))),
        calls=(get(f"{QUOTAS}/q", answer={"status": {"hard": {"pods": "5"}, "used": {"pods": "2"}}}, eventually=True),),
    ),
)
