"""PodGroups and Workloads: what validation says, what is dropped in silence, what may change later."""

from tests.contract.kubernetes_api.objects import (
    GROUPS,
    GROUPS_ALPHA,
    PODS,
    PRIORITY_CLASSES,
    WORKLOADS,
    group,
    pod,
    priority_class,
)
from tests.contract.kubernetes_api.rows import (
    ANY,
    Call,
    Count,
    Event,
    Json,
    Row,
    Watch,
    delete,
    get,
    merge,
    post,
)

_GANG = "spec.schedulingPolicy.gang"
_MIN_COUNT = f"{_GANG}.minCount"
_CREATED = post(GROUPS, group(), save={"uid": "metadata.uid", "rv": "metadata.resourceVersion"})


def _gang(min_count: Json) -> dict[str, Json]:
    return group(schedulingPolicy={"gang": {"minCount": min_count}})


def _refused(name: str, body: Json, *, cause: tuple[str, str], message: str = "", **expected: Json) -> Row:
    call = post(GROUPS, body, code=422, reason="Invalid", causes=(cause,), message=message, **expected)
    return Row(name=name, calls=(call,))


def _frozen(name: str, changes: Json, *fields: str, setup: tuple[Call, ...] = (_CREATED,)) -> Row:
    """A change of the created group that is refused because the fields are immutable."""
    causes = tuple((field, "FieldValueInvalid") for field in fields)
    call = merge(
        f"{GROUPS}/g",
        {"spec": changes},
        code=422,
        reason="Invalid",
        causes=causes,
        message="field is immutable",
    )
    return Row(name=name, setup=setup, calls=(call,))


ROWS = (
    Row(
        name="podgroup-create",
        calls=(
            post(
                GROUPS,
                group(),
                answer={
                    "apiVersion": "scheduling.k8s.io/v1beta1",
                    "kind": "PodGroup",
                    "metadata": {
                        "name": "g",
                        "namespace": "$ns",
                        "uid": ANY,
                        "finalizers": ["scheduling.k8s.io/podgroup-protection"],
                    },
                    "spec": {
                        "schedulingPolicy": {"gang": {"minCount": 2}},
                        "disruptionMode": {"single": {}},
                        "priority": 0,
                    },
                },
                absent=("metadata.generation",),
            ),
        ),
        watch=Watch(path=GROUPS, events=(Event(kind="ADDED", name="g"),), is_exact=True),
    ),
    Row(
        name="podgroup-both-versions-one-object",
        setup=(_CREATED,),
        calls=(
            get(
                f"{GROUPS_ALPHA}/g",
                answer={"apiVersion": "scheduling.k8s.io/v1alpha3", "metadata": {"uid": "$uid"}},
            ),
            merge(
                f"{GROUPS_ALPHA}/g",
                {"spec": {"schedulingPolicy": {"gang": {"minCount": 5}}}},
                answer={"apiVersion": "scheduling.k8s.io/v1alpha3"},
            ),
            get(f"{GROUPS}/g", answer={"spec": {"schedulingPolicy": {"gang": {"minCount": 5}}}}),
        ),
        watch=Watch(
            path=GROUPS,
            events=(Event(kind="MODIFIED", name="g", object={"apiVersion": "scheduling.k8s.io/v1beta1"}),),
        ),
    ),
    Row(
        name="podgroup-create-by-alpha-seen-by-beta",
        calls=(post(GROUPS_ALPHA, group(version="v1alpha3")), get(f"{GROUPS}/g")),
        watch=Watch(
            path=GROUPS,
            events=(Event(kind="ADDED", name="g", object={"apiVersion": "scheduling.k8s.io/v1beta1"}),),
        ),
    ),
    Row(
        name="podgroup-watch-by-alpha",
        calls=(post(GROUPS, group()),),
        watch=Watch(
            path=GROUPS_ALPHA,
            events=(Event(kind="ADDED", name="g", object={"apiVersion": "scheduling.k8s.io/v1alpha3"}),),
            is_exact=True,
        ),
    ),
    _refused("podgroup-min-count-zero", _gang(0), cause=(_MIN_COUNT, "FieldValueRequired")),
    _refused("podgroup-min-count-null", _gang(None), cause=(_MIN_COUNT, "FieldValueRequired")),
    _refused(
        "podgroup-min-count-missing",
        group(schedulingPolicy={"gang": {}}),
        cause=(_MIN_COUNT, "FieldValueRequired"),
        message="spec.schedulingPolicy.gang.minCount: Required value",
    ),
    _refused(
        "podgroup-min-count-negative",
        _gang(-1),
        cause=(_MIN_COUNT, "FieldValueInvalid"),
        message="Invalid value: -1: must be greater than or equal to 1",
    ),
    Row(
        name="podgroup-min-count-max-int32",
        calls=(post(GROUPS, _gang(2147483647)),),
    ),
    Row(
        name="podgroup-min-count-beyond-int32",
        calls=(post(GROUPS, _gang(2147483648), code=400, reason="BadRequest", message="cannot unmarshal number"),),
    ),
    _refused(
        "podgroup-no-policy",
        group(schedulingPolicy={}),
        cause=("spec.schedulingPolicy", "FieldValueInvalid"),
        message='spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`',
    ),
    _refused(
        "podgroup-both-policies",
        group(schedulingPolicy={"basic": {}, "gang": {"minCount": 1}}),
        cause=("spec.schedulingPolicy", "FieldValueInvalid"),
        message='Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`',
    ),
    _frozen(
        "podgroup-gang-to-basic",
        {"schedulingPolicy": {"gang": None, "basic": {}}},
        "spec.schedulingPolicy.basic",
        _GANG,
    ),
    _frozen("podgroup-change-disruption-mode", {"disruptionMode": {"single": None, "all": {}}}, "spec.disruptionMode"),
    _frozen(
        "podgroup-change-workload-ref",
        {"workloadRef": {"workloadName": "w", "templateName": "t"}},
        "spec.workloadRef",
    ),
    _frozen("podgroup-change-priority", {"priority": 7}, "spec.priority"),
    _frozen("podgroup-change-priority-class", {"priorityClassName": "other"}, "spec.priorityClassName"),
    Row(
        name="podgroup-disruption-mode-null-redefaults",
        setup=(_CREATED,),
        calls=(
            merge(
                f"{GROUPS}/g", {"spec": {"disruptionMode": None}}, answer={"spec": {"disruptionMode": {"single": {}}}}
            ),
        ),
    ),
    _refused(
        "podgroup-disruption-mode-empty",
        group(disruptionMode={}),
        cause=("spec.disruptionMode", "FieldValueInvalid"),
        message="must specify one of: `single`, `all`",
    ),
    _refused(
        "podgroup-disruption-mode-both",
        group(disruptionMode={"single": {}, "all": {}}),
        cause=("spec.disruptionMode", "FieldValueInvalid"),
        message="must specify exactly one of: `single`, `all`",
    ),
    Row(
        name="podgroup-disruption-mode-old-string",
        calls=(
            post(
                GROUPS,
                group(disruptionMode="Pod"),
                code=400,
                reason="BadRequest",
                message="cannot unmarshal string",
            ),
        ),
    ),
    Row(
        name="podgroup-unknown-priority-class",
        calls=(
            post(
                GROUPS,
                group(priorityClassName="nope"),
                code=403,
                reason="Forbidden",
                message="no PriorityClass with name nope was found",
            ),
        ),
    ),
    Row(
        name="podgroup-priority-from-class",
        setup=(post(PRIORITY_CLASSES, priority_class("$ns-high", value=1000)),),
        # Admission knows classes from a cache, which lags behind a class created just now.
        calls=(
            post(GROUPS, group(priorityClassName="$ns-high"), answer={"spec": {"priority": 1000}}, eventually=True),
        ),
    ),
    Row(
        name="podgroup-priority-differs-from-class",
        calls=(
            post(
                GROUPS,
                group(priority=5),
                code=403,
                reason="Forbidden",
                message="priority set in the pod group (5) must match the priority computed (0)",
            ),
        ),
    ),
    _refused(
        "podgroup-system-priority-class",
        group(priorityClassName="system-node-critical"),
        cause=("spec.priority", "FieldValueInvalid"),
        message="2000001000: must be less than or equal to 1000000000",
    ),
    Row(
        name="podgroup-gated-off-fields-dropped",
        calls=(
            post(
                GROUPS,
                group(
                    schedulingConstraints={"topology": [{"key": "topology.kubernetes.io/zone"}]},
                    resourceClaims=[{"name": "c", "resourceClaimName": "shared"}],
                    preemptionPolicy="Never",
                    parentCompositePodGroupName="parent",
                    workloadRef={"workloadName": "w", "templateName": "t"},
                ),
                answer={"spec": {"workloadRef": {"workloadName": "w", "templateName": "t"}}},
                absent=(
                    "spec.schedulingConstraints",
                    "spec.resourceClaims",
                    "spec.preemptionPolicy",
                    "spec.parentCompositePodGroupName",
                ),
            ),
        ),
    ),
    Row(
        name="podgroup-unknown-field-strict",
        calls=(
            post(
                GROUPS,
                group(podGroupTemplateRef={"name": "x"}),
                query={"fieldValidation": "Strict"},
                code=400,
                reason="BadRequest",
                message="strict decoding error: unknown field",
            ),
        ),
    ),
    Row(
        name="podgroup-min-count-up-and-down",
        setup=(_CREATED,),
        calls=tuple(
            merge(
                f"{GROUPS}/g",
                {"spec": {"schedulingPolicy": {"gang": {"minCount": count}}}},
                answer={
                    "metadata": {"uid": "$uid"},
                    "spec": {"schedulingPolicy": {"gang": {"minCount": count}}},
                },
            )
            for count in (6, 1)
        ),
        watch=Watch(
            path=GROUPS,
            events=tuple(
                Event(
                    kind="MODIFIED",
                    name="g",
                    object={"spec": {"schedulingPolicy": {"gang": {"minCount": count}}}},
                )
                for count in (6, 1)
            ),
            is_exact=True,
        ),
    ),
    Row(
        name="podgroup-min-count-while-terminating",
        setup=(
            _CREATED,
            post(PODS, pod(schedulingGroup={"podGroupName": "g"})),
            delete(f"{GROUPS}/g", answer={"metadata": {"deletionTimestamp": ANY}}),
        ),
        calls=(
            merge(
                f"{GROUPS}/g",
                {"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}},
                answer={"metadata": {"deletionTimestamp": ANY}},
            ),
        ),
    ),
    Row(
        name="podgroup-name-not-a-subdomain",
        calls=(
            post(
                GROUPS,
                group("Not_Valid"),
                code=422,
                reason="Invalid",
                causes=(("metadata.name", "FieldValueInvalid"),),
            ),
        ),
    ),
    Row(
        name="podgroup-status-only-by-subresource",
        setup=(_CREATED,),
        calls=(
            merge(
                f"{GROUPS}/g",
                {"status": {"conditions": [{"type": "Ignored", "status": "True"}]}},
                absent=("status.conditions",),
            ),
            merge(
                f"{GROUPS}/g/status",
                {
                    "spec": {"schedulingPolicy": {"gang": {"minCount": 9}}},
                    "status": {
                        "conditions": [
                            {
                                "type": "phalanx.dev/Committed",
                                "status": "True",
                                "reason": "Bound",
                                "message": "",
                                "lastTransitionTime": "2026-12-01T00:00:00Z",
                            }
                        ]
                    },
                },
                answer={
                    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
                    "status": {"conditions": [{"type": "phalanx.dev/Committed", "status": "True"}]},
                },
            ),
        ),
        watch=Watch(
            path=GROUPS,
            events=(Event(kind="MODIFIED", name="g", object={"status": {"conditions": Count(1)}}),),
            is_exact=True,
        ),
    ),
    Row(
        name="podgroup-condition-needs-reason",
        setup=(_CREATED,),
        calls=(
            merge(
                f"{GROUPS}/g/status",
                {"status": {"conditions": [{"type": "Broken", "status": "Maybe"}]}},
                code=422,
                reason="Invalid",
                causes=(
                    ("status.conditions[0].status", "FieldValueNotSupported"),
                    ("status.conditions[0].reason", "FieldValueRequired"),
                ),
            ),
        ),
    ),
    Row(
        name="workload-create",
        calls=(
            post(
                WORKLOADS,
                {
                    "apiVersion": "scheduling.k8s.io/v1beta1",
                    "kind": "Workload",
                    "metadata": {"name": "w"},
                    "spec": {"podGroupTemplates": [{"name": "worker", "schedulingPolicy": {"gang": {"minCount": 4}}}]},
                },
                answer={"spec": {"podGroupTemplates": [{"name": "worker"}]}},
                absent=("metadata.finalizers", "status"),
            ),
            delete(f"{WORKLOADS}/w", answer={"kind": "Status", "status": "Success"}),
            get(f"{WORKLOADS}/w", code=404, reason="NotFound"),
        ),
    ),
)
