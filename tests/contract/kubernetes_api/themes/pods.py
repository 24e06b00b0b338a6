"""Pods: defaults, the link to a group, scheduling gates, and what may change after creation."""

from tests.contract.kubernetes_api.objects import POD_GATE, PODS, pod
from tests.contract.kubernetes_api.rows import (
    ANY,
    Contains,
    Event,
    Json,
    Row,
    Watch,
    get,
    json_patch,
    merge,
    post,
    strategic,
)

_GATES = [{"name": POD_GATE}, {"name": "example.com/second"}]
_GATED = post(PODS, pod(schedulingGates=_GATES))
_FORBIDDEN = "pod updates may not change fields other than"


def _frozen(name: str, changes: Json, *, original: Json) -> Row:
    call = merge(
        f"{PODS}/p",
        {"spec": changes},
        code=422,
        reason="Invalid",
        causes=(("spec", "FieldValueForbidden"),),
        message=_FORBIDDEN,
    )
    return Row(name=name, setup=(post(PODS, original),), calls=(call,))


ROWS = (
    Row(
        name="pod-create-defaults",
        calls=(
            post(
                PODS,
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "p"},
                    "spec": {"containers": [{"name": "main", "image": "registry.example.com/none:1"}]},
                },
                answer={
                    "metadata": {"uid": ANY, "creationTimestamp": ANY, "resourceVersion": ANY},
                    "spec": {
                        "schedulerName": "default-scheduler",
                        "restartPolicy": "Always",
                        "terminationGracePeriodSeconds": 30,
                        "priority": 0,
                    },
                    "status": {"phase": "Pending"},
                },
                absent=("spec.nodeName",),
            ),
        ),
    ),
    Row(
        name="pod-unknown-priority-class",
        calls=(
            post(
                PODS,
                pod(priorityClassName="nope"),
                code=403,
                reason="Forbidden",
                message="no PriorityClass with name nope was found",
            ),
        ),
    ),
    Row(
        name="pod-system-priority-class",
        calls=(post(PODS, pod(priorityClassName="system-node-critical"), answer={"spec": {"priority": 2000001000}}),),
    ),
    Row(
        name="pod-group-need-not-exist",
        calls=(
            post(
                PODS,
                pod(schedulingGroup={"podGroupName": "later"}),
                answer={"spec": {"schedulingGroup": {"podGroupName": "later"}}},
            ),
        ),
    ),
    Row(
        name="pod-group-link-empty",
        calls=(
            post(
                PODS,
                pod(schedulingGroup={}),
                code=422,
                reason="Invalid",
                causes=(("spec.schedulingGroup.podGroupName", "FieldValueInvalid"),),
                message="must specify one of: `podGroupName`",
            ),
        ),
    ),
    Row(
        name="pod-group-link-bad-name",
        calls=(
            post(
                PODS,
                pod(schedulingGroup={"podGroupName": "Not_Valid"}),
                code=422,
                reason="Invalid",
                causes=(("spec.schedulingGroup.podGroupName", "FieldValueInvalid"),),
            ),
        ),
    ),
    _frozen("pod-group-link-set-later", {"schedulingGroup": {"podGroupName": "g"}}, original=pod()),
    _frozen(
        "pod-group-link-changed",
        {"schedulingGroup": {"podGroupName": "h"}},
        original=pod(schedulingGroup={"podGroupName": "g"}),
    ),
    _frozen(
        "pod-group-link-cleared-while-gated",
        {"schedulingGroup": None},
        original=pod(schedulingGroup={"podGroupName": "g"}, schedulingGates=_GATES),
    ),
    _frozen("pod-scheduler-name-changed", {"schedulerName": "other"}, original=pod()),
    _frozen("pod-node-name-set-by-patch", {"nodeName": "n"}, original=pod()),
    Row(
        name="pod-create-with-node-name",
        calls=(post(PODS, pod(nodeName="n"), answer={"spec": {"nodeName": "n"}}),),
    ),
    Row(
        name="pod-gates-set-condition",
        calls=(
            post(
                PODS,
                pod(schedulingGates=_GATES),
                answer={
                    "status": {
                        "conditions": Contains(
                            [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
                        )
                    }
                },
            ),
        ),
    ),
    Row(
        name="pod-gates-with-node-name",
        calls=(
            post(
                PODS,
                pod(schedulingGates=_GATES, nodeName="n"),
                code=422,
                reason="Invalid",
                causes=(("spec.nodeName", "FieldValueForbidden"),),
            ),
        ),
    ),
    Row(
        name="pod-gates-removed-one-by-one",
        setup=(_GATED,),
        calls=(
            strategic(
                f"{PODS}/p",
                {"spec": {"schedulingGates": [{"$patch": "delete", "name": POD_GATE}]}},
                answer={"spec": {"schedulingGates": [{"name": "example.com/second"}]}},
            ),
            json_patch(
                f"{PODS}/p",
                [{"op": "remove", "path": "/spec/schedulingGates/0"}],
                absent=("spec.schedulingGates",),
            ),
        ),
        watch=Watch(
            path=PODS,
            events=(
                Event(
                    kind="MODIFIED",
                    name="p",
                    object={"spec": {"schedulingGates": [{"name": "example.com/second"}]}},
                ),
                Event(kind="MODIFIED", name="p", absent=("spec.schedulingGates",)),
            ),
            is_exact=True,
        ),
    ),
    Row(
        name="pod-gates-cannot-be-added",
        setup=(post(PODS, pod()),),
        calls=(
            merge(
                f"{PODS}/p",
                {"spec": {"schedulingGates": _GATES}},
                code=422,
                reason="Invalid",
                causes=(("spec.schedulingGates[0].name", "FieldValueForbidden"),),
                message="only deletion is allowed, but found new scheduling gate",
            ),
        ),
    ),
    Row(
        name="pod-gated-node-selector-may-grow",
        setup=(post(PODS, pod(schedulingGates=_GATES, nodeSelector={"a": "1"})),),
        calls=(
            merge(f"{PODS}/p", {"spec": {"nodeSelector": {"b": "2"}}}),
            merge(
                f"{PODS}/p",
                {"spec": {"nodeSelector": {"a": "changed"}}},
                code=422,
                reason="Invalid",
                causes=(("spec.nodeSelector", "FieldValueInvalid"),),
            ),
        ),
    ),
    Row(
        name="pod-toleration-may-be-added",
        setup=(post(PODS, pod()),),
        calls=(
            json_patch(
                f"{PODS}/p",
                [
                    {
                        "op": "add",
                        "path": "/spec/tolerations/-",
                        "value": {"key": "extra", "operator": "Exists"},
                    }
                ],
                answer={"spec": {"tolerations": Contains([{"key": "extra"}])}},
            ),
        ),
    ),
    Row(
        name="pod-without-containers",
        calls=(
            post(
                PODS,
                pod(containers=[]),
                code=422,
                reason="Invalid",
                causes=(("spec.containers", "FieldValueRequired"),),
            ),
        ),
    ),
    Row(
        name="pod-probe-of-the-gate-by-dry-run",
        calls=(
            post(
                PODS,
                pod(schedulingGroup={"podGroupName": "g"}),
                query={"dryRun": "All"},
                answer={"spec": {"schedulingGroup": {"podGroupName": "g"}}},
            ),
            get(f"{PODS}/p", code=404, reason="NotFound"),
        ),
    ),
)
