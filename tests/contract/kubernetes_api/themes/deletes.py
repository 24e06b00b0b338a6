"""Deletions: preconditions, grace, finalizers, owners, collections."""

from tests.contract.kubernetes_api.objects import CONFIG_MAPS, GROUPS, PODS, binding, config_map, group, pod
from tests.contract.kubernetes_api.rows import ANY, Event, Json, Row, Watch, delete, get, json_patch, merge, post

_P = f"{PODS}/p"
_POD = post(PODS, pod(), save={"uid": "metadata.uid", "rv": "metadata.resourceVersion"})
_BOUND = post(f"{_P}/binding", binding())
_GONE = get(_P, code=404, reason="NotFound")


def _options(**options: Json) -> dict[str, Json]:
    return {"apiVersion": "v1", "kind": "DeleteOptions", **options}


_FORCE = _options(gracePeriodSeconds=0)

ROWS = (
    Row(
        name="delete-unbound-pod-vanishes",
        setup=(_POD,),
        calls=(delete(_P, answer={"kind": "Pod", "metadata": {"uid": "$uid"}}), _GONE),
        watch=Watch(
            path=PODS,
            events=(Event(kind="DELETED", name="p", object={"metadata": {"uid": "$uid"}}),),
        ),
    ),
    Row(
        name="delete-bound-pod-waits-for-its-kubelet",
        setup=(_POD, _BOUND),
        calls=(
            delete(_P, answer={"metadata": {"deletionTimestamp": ANY, "deletionGracePeriodSeconds": 30}}),
            get(_P, answer={"metadata": {"deletionTimestamp": ANY}}),
            delete(_P, _FORCE),
            _GONE,
        ),
        watch=Watch(
            path=PODS,
            events=(
                Event(kind="MODIFIED", name="p", object={"metadata": {"deletionGracePeriodSeconds": 30}}),
                Event(kind="DELETED", name="p"),
            ),
        ),
    ),
    Row(
        name="delete-bound-pod-with-grace",
        setup=(_POD, _BOUND),
        calls=(
            delete(
                _P,
                _options(gracePeriodSeconds=7),
                answer={"metadata": {"deletionGracePeriodSeconds": 7}},
            ),
        ),
    ),
    Row(
        name="delete-grace-only-shrinks",
        setup=(_POD, _BOUND, delete(_P, _options(gracePeriodSeconds=10))),
        calls=(
            delete(_P, _options(gracePeriodSeconds=20), answer={"metadata": {"deletionGracePeriodSeconds": 10}}),
            delete(_P, _options(gracePeriodSeconds=5), answer={"metadata": {"deletionGracePeriodSeconds": 5}}),
        ),
    ),
    Row(
        name="delete-grace-by-query",
        setup=(_POD, _BOUND),
        calls=(delete(_P, query={"gracePeriodSeconds": "0"}), _GONE),
    ),
    Row(
        name="delete-finished-pod-vanishes",
        setup=(_POD, _BOUND, merge(f"{_P}/status", {"status": {"phase": "Succeeded"}})),
        calls=(delete(_P), _GONE),
    ),
    Row(
        name="delete-guarded-by-uid",
        setup=(_POD,),
        calls=(
            delete(
                _P,
                _options(preconditions={"uid": "11111111-1111-1111-1111-111111111111"}),
                code=409,
                reason="Conflict",
                message="the UID in the precondition (11111111-1111-1111-1111-111111111111) does not match "
                "the UID in record ($uid). The object might have been deleted and then recreated",
            ),
            get(_P, answer={"metadata": {"uid": "$uid"}}, absent=("metadata.deletionTimestamp",)),
            delete(_P, _options(preconditions={"uid": "$uid"})),
        ),
    ),
    Row(
        name="delete-guarded-by-version",
        setup=(_POD, merge(_P, {"metadata": {"labels": {"touched": "1"}}})),
        calls=(
            delete(
                _P,
                _options(preconditions={"uid": "$uid", "resourceVersion": "$rv"}),
                code=409,
                reason="Conflict",
                message="the ResourceVersion in the precondition ($rv) does not match the ResourceVersion in record",
            ),
        ),
    ),
    Row(
        name="delete-plain-object-guarded-by-uid",
        setup=(post(CONFIG_MAPS, config_map()),),
        calls=(
            delete(
                f"{CONFIG_MAPS}/c",
                _options(preconditions={"uid": "11111111-1111-1111-1111-111111111111"}),
                code=409,
                reason="Conflict",
                message="11111111-1111-1111-1111-111111111111",
            ),
        ),
    ),
    Row(
        name="delete-missing",
        calls=(delete(f"{PODS}/none", code=404, reason="NotFound", message='pods "none" not found'),),
    ),
    Row(
        name="delete-plain-object-answers-status",
        setup=(post(CONFIG_MAPS, config_map(), save={"uid": "metadata.uid"}),),
        calls=(
            delete(
                f"{CONFIG_MAPS}/c",
                answer={
                    "kind": "Status",
                    "status": "Success",
                    "details": {"name": "c", "kind": "configmaps", "uid": "$uid"},
                },
            ),
        ),
    ),
    Row(
        name="delete-waits-for-finalizer",
        setup=(post(CONFIG_MAPS, config_map(finalizers=["example.com/hold"])),),
        calls=(
            delete(
                f"{CONFIG_MAPS}/c",
                answer={"kind": "ConfigMap", "metadata": {"deletionTimestamp": ANY, "name": "c"}},
            ),
            get(f"{CONFIG_MAPS}/c", answer={"metadata": {"deletionTimestamp": ANY}}),
            json_patch(f"{CONFIG_MAPS}/c", [{"op": "remove", "path": "/metadata/finalizers"}]),
            get(f"{CONFIG_MAPS}/c", code=404, reason="NotFound"),
        ),
        watch=Watch(
            path=CONFIG_MAPS,
            query={"fieldSelector": "metadata.name=c"},
            events=(
                Event(kind="MODIFIED", name="c", object={"metadata": {"deletionTimestamp": ANY}}),
                Event(kind="DELETED", name="c"),
            ),
            is_exact=True,
        ),
    ),
    Row(
        name="delete-no-new-finalizers-while-terminating",
        setup=(
            post(CONFIG_MAPS, config_map(finalizers=["example.com/hold"])),
            delete(f"{CONFIG_MAPS}/c"),
        ),
        calls=(
            merge(
                f"{CONFIG_MAPS}/c",
                {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}},
                code=422,
                reason="Invalid",
                causes=(("metadata.finalizers", "FieldValueForbidden"),),
            ),
        ),
    ),
    Row(
        name="delete-recreate-has-new-uid",
        setup=(_POD, delete(_P)),
        calls=(
            post(PODS, pod(), save={"second": "metadata.uid"}),
            delete(_P, _options(preconditions={"uid": "$uid"}), code=409, reason="Conflict"),
            delete(_P, _options(preconditions={"uid": "$second"})),
        ),
    ),
    Row(
        name="delete-collection-by-label",
        setup=(
            post(PODS, pod("a", metadata={"labels": {"x": "1"}})),
            post(PODS, pod("b", metadata={"labels": {"x": "1"}})),
            post(PODS, pod("c")),
        ),
        calls=(
            delete(PODS, query={"labelSelector": "x=1"}),
            get(PODS, answer={"items": [{"metadata": {"name": "c"}}]}),
        ),
    ),
    Row(
        name="delete-group-stays-while-pods-live",
        setup=(
            post(GROUPS, group()),
            post(PODS, pod(schedulingGroup={"podGroupName": "g"})),
        ),
        calls=(
            delete(
                f"{GROUPS}/g",
                answer={
                    "metadata": {
                        "deletionTimestamp": ANY,
                        "finalizers": ["scheduling.k8s.io/podgroup-protection"],
                    }
                },
            ),
            delete(_P),
            get(f"{GROUPS}/g", code=404, reason="NotFound", eventually=True),
        ),
        watch=Watch(
            path=GROUPS,
            events=(
                Event(kind="MODIFIED", name="g", object={"metadata": {"deletionTimestamp": ANY}}),
                Event(kind="DELETED", name="g"),
            ),
        ),
    ),
    Row(
        name="delete-group-without-pods",
        setup=(post(GROUPS, group()), delete(f"{GROUPS}/g")),
        calls=(get(f"{GROUPS}/g", code=404, reason="NotFound", eventually=True),),
    ),
    Row(
        name="delete-owner-takes-dependents",
        setup=(
            post(CONFIG_MAPS, config_map("owner"), save={"owner": "metadata.uid"}),
            post(
                CONFIG_MAPS,
                config_map(
                    "child",
                    ownerReferences=[{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "$owner"}],
                ),
            ),
        ),
        calls=(
            delete(f"{CONFIG_MAPS}/owner", _options(propagationPolicy="Background")),
            get(f"{CONFIG_MAPS}/child", code=404, reason="NotFound", eventually=True),
        ),
    ),
    Row(
        name="delete-owner-orphans-dependents",
        setup=(
            post(CONFIG_MAPS, config_map("owner"), save={"owner": "metadata.uid"}),
            post(
                CONFIG_MAPS,
                config_map(
                    "child",
                    ownerReferences=[{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "$owner"}],
                ),
            ),
        ),
        calls=(
            delete(f"{CONFIG_MAPS}/owner", _options(propagationPolicy="Orphan")),
            get(f"{CONFIG_MAPS}/owner", code=404, reason="NotFound", eventually=True),
            get(f"{CONFIG_MAPS}/child", absent=("metadata.ownerReferences",), eventually=True),
        ),
    ),
)
