"""Watches: resuming, bookmarks, selectors that objects enter and leave, histories that are gone."""

from tests.contract.kubernetes_api.objects import (
    CONFIG_MAPS,
    GROUPS,
    LEASES,
    PODS,
    binding,
    config_map,
    group,
    lease,
    pod,
)
from tests.contract.kubernetes_api.rows import ANY, Event, Pattern, Row, Text, Watch, delete, get, merge, post

_C = f"{CONFIG_MAPS}/c"
_MINE = {"fieldSelector": "metadata.name=c"}
_CREATED = post(CONFIG_MAPS, config_map(), save={"rv": "metadata.resourceVersion", "uid": "metadata.uid"})


def _value(kind: str, value: str) -> Event:
    return Event(kind=kind, name="c", object={"data": {"k": value}})


ROWS = (
    Row(
        name="watch-life-of-an-object",
        calls=(_CREATED, merge(_C, {"data": {"k": "2"}}), delete(_C)),
        watch=Watch(
            path=CONFIG_MAPS,
            query=_MINE,
            events=(_value("ADDED", "v"), _value("MODIFIED", "2"), _value("DELETED", "2")),
            is_exact=True,
        ),
    ),
    Row(
        name="watch-objects-carry-kind-and-version",
        calls=(post(GROUPS, group()),),
        watch=Watch(
            path=GROUPS,
            events=(
                Event(
                    kind="ADDED",
                    name="g",
                    object={
                        "apiVersion": "scheduling.k8s.io/v1beta1",
                        "kind": "PodGroup",
                        "metadata": {"resourceVersion": Pattern(r"\d+")},
                    },
                ),
            ),
        ),
    ),
    Row(
        name="watch-resumes-after-a-version",
        setup=(
            _CREATED,
            merge(_C, {"data": {"k": "2"}}),
            merge(_C, {"data": {"k": "3"}}),
            delete(_C),
        ),
        calls=(),
        watch=Watch(
            path=CONFIG_MAPS,
            query={**_MINE, "resourceVersion": "$rv"},
            events=(_value("MODIFIED", "2"), _value("MODIFIED", "3"), _value("DELETED", "3")),
            is_exact=True,
        ),
    ),
    Row(
        name="watch-deleted-event-has-newer-version",
        setup=(
            _CREATED,
            delete(_C),
            post(CONFIG_MAPS, config_map(data={"k": "again"}), save={"second": "metadata.resourceVersion"}),
        ),
        calls=(),
        watch=Watch(
            path=CONFIG_MAPS,
            query={**_MINE, "resourceVersion": "$rv"},
            events=(
                Event(kind="DELETED", name="c", object={"metadata": {"uid": "$uid"}}),
                Event(kind="ADDED", name="c", object={"metadata": {"resourceVersion": "$second"}}),
            ),
            is_exact=True,
        ),
    ),
    Row(
        name="watch-from-zero-shows-what-exists",
        setup=(_CREATED,),
        calls=(merge(_C, {"data": {"k": "2"}}),),
        watch=Watch(
            path=CONFIG_MAPS,
            query={**_MINE, "resourceVersion": "0"},
            events=(_value("ADDED", "v"), _value("MODIFIED", "2")),
        ),
    ),
    Row(
        name="watch-from-empty-shows-what-exists",
        setup=(_CREATED,),
        calls=(merge(_C, {"data": {"k": "2"}}),),
        watch=Watch(
            path=CONFIG_MAPS,
            query={**_MINE, "resourceVersion": ""},
            events=(_value("ADDED", "v"), _value("MODIFIED", "2")),
            is_exact=True,
        ),
    ),
    Row(
        name="watch-too-old-is-an-error-event",
        setup=(
            post(LEASES, lease(), save={"rv": "metadata.resourceVersion"}),
            merge(f"{LEASES}/l", {"spec": {"holderIdentity": "m"}}),
            # The storage still knows the change that made its newest revision; the one before that is lost.
            merge(f"{LEASES}/l", {"spec": {"holderIdentity": "n"}}),
        ),
        forgets_history=True,
        calls=(),
        watch=Watch(
            path=LEASES,
            query={"resourceVersion": "$rv"},
            events=(
                Event(
                    kind="ERROR",
                    object={
                        "kind": "Status",
                        "status": "Failure",
                        "reason": "Expired",
                        "code": 410,
                        "message": Text("too old"),
                    },
                ),
            ),
            is_exact=True,
            ends=True,
        ),
    ),
    Row(
        name="watch-bad-resource-version",
        calls=(
            get(
                PODS,
                query={"watch": "true", "resourceVersion": "x"},
                code=500,
                message='resourceVersion: Invalid value: "x"',
            ),
        ),
    ),
    Row(
        name="watch-bookmark-before-timeout-and-end",
        setup=(_CREATED,),
        calls=(),
        watch=Watch(
            path=CONFIG_MAPS,
            query={**_MINE, "allowWatchBookmarks": "true", "timeoutSeconds": "3"},
            events=(
                Event(
                    kind="BOOKMARK",
                    object={
                        "kind": "ConfigMap",
                        "apiVersion": "v1",
                        "metadata": {"resourceVersion": Pattern(r"\d+")},
                    },
                ),
            ),
            ends=True,
        ),
    ),
    Row(
        name="watch-timeout-ends-in-silence",
        setup=(_CREATED,),
        calls=(),
        watch=Watch(
            path=CONFIG_MAPS,
            query={**_MINE, "timeoutSeconds": "1"},
            events=(),
            is_exact=True,
            ends=True,
        ),
    ),
    Row(
        name="watch-label-selector-enter-and-leave",
        setup=(_CREATED,),
        calls=(
            merge(_C, {"metadata": {"labels": {"in": "yes"}}}),
            merge(_C, {"data": {"k": "2"}}),
            merge(_C, {"metadata": {"labels": {"in": None}}, "data": {"k": "3"}}),
        ),
        watch=Watch(
            path=CONFIG_MAPS,
            query={"labelSelector": "in=yes"},
            events=(
                Event(kind="ADDED", name="c", object={"metadata": {"labels": {"in": "yes"}}}),
                Event(kind="MODIFIED", name="c", object={"data": {"k": "2"}}),
                Event(kind="DELETED", name="c", object={"data": {"k": "2"}}),
            ),
            is_exact=True,
        ),
    ),
    Row(
        name="watch-field-selector-binding-leaves",
        setup=(post(PODS, pod()),),
        calls=(post(f"{PODS}/p/binding", binding()),),
        watch=Watch(
            path=PODS,
            query={"fieldSelector": "spec.schedulerName=contract,spec.nodeName="},
            events=(Event(kind="DELETED", name="p", absent=("spec.nodeName",)),),
            is_exact=True,
        ),
    ),
    Row(
        name="watch-field-selector-binding-enters",
        setup=(post(PODS, pod()),),
        calls=(post(f"{PODS}/p/binding", binding()),),
        watch=Watch(
            path=PODS,
            query={"fieldSelector": "spec.nodeName!="},
            events=(Event(kind="ADDED", name="p", object={"spec": {"nodeName": "some-node"}}),),
            is_exact=True,
        ),
    ),
    Row(
        name="watch-cluster-wide",
        calls=(post(PODS, pod("only-$ns", metadata={"labels": {"row": "$ns"}})),),
        watch=Watch(
            path="/api/v1/pods",
            query={"labelSelector": "row=$ns"},
            events=(Event(kind="ADDED", name="only-$ns", object={"metadata": {"namespace": "$ns", "uid": ANY}}),),
            is_exact=True,
        ),
    ),
    Row(
        name="watch-no-event-for-refused-writes",
        setup=(post(PODS, pod()),),
        calls=(
            merge(f"{PODS}/p", {"spec": {"nodeName": "n"}}, code=422),
            post(f"{PODS}/p/binding", binding("other"), code=400),
            merge(f"{PODS}/p", {"metadata": {"labels": {"marker": "1"}}}),
        ),
        watch=Watch(
            path=PODS,
            events=(Event(kind="MODIFIED", name="p", object={"metadata": {"labels": {"marker": "1"}}}),),
            is_exact=True,
        ),
    ),
)
