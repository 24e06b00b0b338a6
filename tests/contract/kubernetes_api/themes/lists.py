"""Lists: label and field selectors, pages, snapshots."""

from tests.contract.kubernetes_api.objects import (
    CONFIG_MAPS,
    GROUPS,
    LEASES,
    NODES,
    PODS,
    binding,
    config_map,
    group,
    lease,
    node,
    pod,
)
from tests.contract.kubernetes_api.rows import Count, Pattern, Row, delete, get, merge, post

_THREE = tuple(
    post(CONFIG_MAPS, config_map(name, labels={"app": "list", "index": str(index)}))
    for index, name in enumerate(("a", "b", "c"))
)
_APP = {"labelSelector": "app=list"}
_PODS = (
    post(PODS, pod("free")),
    post(PODS, pod("bound")),
    post(PODS, pod("other", schedulerName="another")),
    post(f"{PODS}/bound/binding", binding("bound", node="n1")),
)


def _names(*names: str) -> dict[str, object]:
    return {"items": [{"metadata": {"name": name}} for name in names]}


def _pods_by_field(name: str, selector: str, *names: str) -> Row:
    call = get(PODS, query={"fieldSelector": selector}, answer=_names(*names))
    return Row(name=name, setup=_PODS, calls=(call,))


def _by_label(name: str, selector: str, *names: str) -> Row:
    call = get(CONFIG_MAPS, query={"labelSelector": f"app=list,{selector}"}, answer=_names(*names))
    return Row(name=name, setup=_THREE, calls=(call,))


ROWS = (
    Row(
        name="list-has-kind-and-version",
        setup=_THREE,
        calls=(
            get(
                CONFIG_MAPS,
                query=_APP,
                answer={
                    "kind": "ConfigMapList",
                    "apiVersion": "v1",
                    "metadata": {"resourceVersion": Pattern(r"\d+")},
                    **_names("a", "b", "c"),
                },
                absent=("metadata.continue", "items.0.kind", "items.0.apiVersion"),
            ),
        ),
    ),
    Row(
        name="list-empty",
        calls=(get(PODS, answer={"kind": "PodList", "items": []}),),
    ),
    _by_label("list-label-equals", "index=1", "b"),
    _by_label("list-label-not-equals", "index!=1", "a", "c"),
    _by_label("list-label-in", "index in (0,2)", "a", "c"),
    _by_label("list-label-not-in", "index notin (0)", "b", "c"),
    _by_label("list-label-exists", "index", "a", "b", "c"),
    _by_label("list-label-absent", "!index"),
    Row(
        name="list-label-malformed",
        calls=(
            get(
                PODS,
                query={"labelSelector": "a in"},
                code=400,
                reason="BadRequest",
                message="unable to parse requirement",
            ),
        ),
    ),
    _pods_by_field("list-field-name", "metadata.name=free", "free"),
    _pods_by_field("list-field-node", "spec.nodeName=n1", "bound"),
    _pods_by_field("list-field-unbound", "spec.nodeName=,spec.schedulerName=contract", "free"),
    _pods_by_field("list-field-not-equal", "spec.nodeName!=", "bound"),
    _pods_by_field("list-field-scheduler", "spec.schedulerName=another", "other"),
    _pods_by_field("list-field-phase", "status.phase!=Pending"),
    _pods_by_field("list-field-namespace", "metadata.namespace=$ns,status.phase=Pending", "bound", "free", "other"),
    Row(
        name="list-field-unsupported",
        calls=(
            get(
                PODS,
                query={"fieldSelector": "spec.schedulingGroup.podGroupName=g"},
                code=400,
                reason="BadRequest",
                message="field label not supported: spec.schedulingGroup.podGroupName",
            ),
        ),
    ),
    Row(
        name="list-groups-field-unsupported",
        calls=(get(GROUPS, query={"fieldSelector": "spec.priority=0"}, code=400, reason="BadRequest"),),
    ),
    Row(
        name="list-cluster-wide",
        setup=(post(PODS, pod("alone-$ns")), post(GROUPS, group("group-$ns"))),
        calls=(
            get(
                "/api/v1/pods",
                query={"fieldSelector": "metadata.name=alone-$ns"},
                answer={"items": [{"metadata": {"namespace": "$ns"}}]},
            ),
            get(
                "/apis/scheduling.k8s.io/v1beta1/podgroups",
                query={"fieldSelector": "metadata.name=group-$ns"},
                answer={"kind": "PodGroupList", "items": [{"metadata": {"namespace": "$ns"}}]},
            ),
        ),
    ),
    Row(
        name="list-nodes-by-label",
        setup=(post(NODES, node("$ns-1", rack="$ns")), post(NODES, node("$ns-2", rack="other"))),
        calls=(get(NODES, query={"labelSelector": "rack=$ns"}, answer=_names("$ns-1")),),
    ),
    Row(
        name="list-pages",
        setup=_THREE,
        calls=(
            get(
                CONFIG_MAPS,
                query={"limit": "2", "fieldSelector": "metadata.name!=kube-root-ca.crt"},
                answer=_names("a", "b"),
                save={"next": "metadata.continue", "rv": "metadata.resourceVersion"},
            ),
            get(
                CONFIG_MAPS,
                query={"limit": "2", "continue": "$next", "fieldSelector": "metadata.name!=kube-root-ca.crt"},
                answer={**_names("c"), "metadata": {"resourceVersion": "$rv"}},
                absent=("metadata.continue",),
            ),
        ),
    ),
    Row(
        name="list-pages-count-what-remains",
        setup=tuple(post(PODS, pod(name)) for name in ("a", "b", "c")),
        calls=(
            get(
                PODS,
                query={"limit": "1"},
                answer={**_names("a"), "metadata": {"remainingItemCount": 2}},
            ),
            get(
                PODS,
                query={"limit": "1", "labelSelector": "!none"},
                answer=_names("a"),
                absent=("metadata.remainingItemCount",),
            ),
        ),
    ),
    Row(
        name="list-pages-show-one-snapshot",
        setup=tuple(post(PODS, pod(name)) for name in ("a", "b", "c")),
        calls=(
            get(
                PODS,
                query={"limit": "1"},
                answer=_names("a"),
                save={"next": "metadata.continue", "rv": "metadata.resourceVersion"},
            ),
            delete(f"{PODS}/b"),
            post(PODS, pod("bb")),
            get(
                PODS,
                query={"limit": "5", "continue": "$next"},
                answer={**_names("b", "c"), "metadata": {"resourceVersion": "$rv"}},
            ),
            get(PODS, answer=_names("a", "bb", "c")),
        ),
    ),
    Row(
        name="list-continue-after-history-is-gone",
        setup=(
            *(post(LEASES, lease(name)) for name in ("a", "b", "c")),
            get(LEASES, query={"limit": "1"}, answer=_names("a"), save={"next": "metadata.continue"}),
            merge(f"{LEASES}/b", {"spec": {"holderIdentity": "m"}}),
            merge(f"{LEASES}/b", {"spec": {"holderIdentity": "n"}}),
        ),
        forgets_history=True,
        calls=(
            get(
                LEASES,
                query={"limit": "1", "continue": "$next"},
                code=410,
                reason="Expired",
                message="The provided continue parameter is too old to display a consistent list result",
            ),
            get(LEASES, answer=_names("a", "b", "c")),
        ),
    ),
    Row(
        name="list-continue-malformed",
        calls=(
            get(
                PODS,
                query={"limit": "1", "continue": "nonsense"},
                code=400,
                reason="BadRequest",
                message="continue key is not valid",
            ),
        ),
    ),
    Row(
        name="list-not-older-than-zero",
        setup=(post(PODS, pod("a")),),
        calls=(
            get(
                PODS,
                query={"resourceVersion": "0"},
                answer=_names("a"),
                eventually=True,
            ),
        ),
    ),
    Row(
        name="list-from-the-future",
        calls=(
            get(
                PODS,
                query={"resourceVersion": "999999999999"},
                code=504,
                reason="Timeout",
                message="Too large resource version",
            ),
        ),
    ),
    Row(
        name="list-bad-resource-version",
        calls=(get(PODS, query={"resourceVersion": "x"}, code=400),),
    ),
    Row(name="list-items-count", setup=_THREE, calls=(get(CONFIG_MAPS, query=_APP, answer={"items": Count(3)}),)),
)
