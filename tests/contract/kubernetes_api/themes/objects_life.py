"""Create, read, replace: what all kinds share."""

from tests.contract.kubernetes_api.objects import (
    CONFIG_MAPS,
    CORE,
    LEASES,
    NODES,
    PODS,
    config_map,
    lease,
    node,
    pod,
)
from tests.contract.kubernetes_api.rows import (
    ANY,
    Contains,
    Edited,
    Event,
    Pattern,
    Row,
    Watch,
    delete,
    get,
    merge,
    post,
    put,
)

_CREATED = post(CONFIG_MAPS, config_map(), save={"c": "", "uid": "metadata.uid", "rv": "metadata.resourceVersion"})

ROWS = (
    Row(
        name="create-fills-metadata",
        calls=(
            post(
                CONFIG_MAPS,
                config_map(labels={"a": "b"}),
                answer={
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {
                        "name": "c",
                        "namespace": "$ns",
                        "uid": Pattern(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
                        "resourceVersion": Pattern(r"\d+"),
                        "creationTimestamp": Pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
                        "labels": {"a": "b"},
                    },
                },
            ),
        ),
        watch=Watch(
            path=CONFIG_MAPS,
            query={"labelSelector": "a=b"},
            events=(Event(kind="ADDED", name="c"),),
            is_exact=True,
        ),
    ),
    Row(
        name="create-existing",
        setup=(_CREATED,),
        calls=(
            post(
                CONFIG_MAPS,
                config_map(),
                code=409,
                reason="AlreadyExists",
                message='configmaps "c" already exists',
                answer={"details": {"name": "c", "kind": "configmaps"}},
            ),
        ),
    ),
    Row(
        name="create-in-missing-namespace",
        calls=(
            post(
                "/api/v1/namespaces/$ns-none/pods",
                pod(),
                code=404,
                reason="NotFound",
                message='namespaces "$ns-none" not found',
                answer={"details": {"name": "$ns-none", "kind": "namespaces"}},
            ),
        ),
    ),
    Row(
        name="create-namespace-differs-from-url",
        calls=(
            post(
                CONFIG_MAPS,
                config_map(namespace="other"),
                code=400,
                reason="BadRequest",
                message="the namespace of the provided object does not match the namespace sent on the request",
            ),
        ),
    ),
    Row(
        name="create-generate-name",
        calls=(
            post(
                PODS,
                pod(metadata={"name": None, "generateName": "worker-"}),
                answer={"metadata": {"name": Pattern(r"worker-[a-z0-9]{5}"), "generateName": "worker-"}},
            ),
        ),
        watch=Watch(
            path=PODS,
            events=(Event(kind="ADDED", object={"metadata": {"name": Pattern(r"worker-[a-z0-9]{5}")}}),),
            is_exact=True,
        ),
    ),
    Row(
        name="create-without-name",
        calls=(
            post(
                CONFIG_MAPS,
                config_map(name=""),
                code=422,
                reason="Invalid",
                causes=(("metadata.name", "FieldValueRequired"),),
                message="name or generateName is required",
            ),
        ),
    ),
    Row(
        name="create-bad-json",
        calls=(post(CONFIG_MAPS, "not an object", code=400, reason="BadRequest"),),
    ),
    Row(
        name="create-other-kind",
        calls=(post(CONFIG_MAPS, pod(), code=400, reason="BadRequest"),),
    ),
    Row(
        name="get-missing",
        calls=(
            get(
                f"{CONFIG_MAPS}/none",
                code=404,
                reason="NotFound",
                message='configmaps "none" not found',
                answer={
                    "apiVersion": "v1",
                    "status": "Failure",
                    "details": {"name": "none", "kind": "configmaps"},
                },
            ),
        ),
    ),
    Row(
        name="get-missing-of-a-named-group",
        calls=(
            get(
                f"{LEASES}/none",
                code=404,
                reason="NotFound",
                message='leases.coordination.k8s.io "none" not found',
                answer={"details": {"group": "coordination.k8s.io", "kind": "leases"}},
            ),
        ),
    ),
    Row(
        name="get-unknown-resource",
        calls=(
            get(
                f"{CORE}/unicorns",
                code=404,
                message="the server could not find the requested resource",
                reason="NotFound",
            ),
        ),
    ),
    Row(
        name="replace-current",
        setup=(_CREATED,),
        calls=(
            put(
                f"{CONFIG_MAPS}/c",
                Edited(saved="c", changes={"data": {"k": "new"}}),
                answer={"data": {"k": "new"}, "metadata": {"uid": "$uid"}},
            ),
        ),
        watch=Watch(
            path=CONFIG_MAPS,
            query={"fieldSelector": "metadata.name=c"},
            events=(Event(kind="MODIFIED", name="c", object={"data": {"k": "new"}}),),
            is_exact=True,
        ),
    ),
    Row(
        name="replace-stale",
        setup=(_CREATED, merge(f"{CONFIG_MAPS}/c", {"data": {"k": "between"}})),
        calls=(
            put(
                f"{CONFIG_MAPS}/c",
                Edited(saved="c", changes={"data": {"k": "late"}}),
                code=409,
                reason="Conflict",
                message='Operation cannot be fulfilled on configmaps "c": the object has been modified; '
                "please apply your changes to the latest version and try again",
            ),
            get(f"{CONFIG_MAPS}/c", answer={"data": {"k": "between"}}),
        ),
    ),
    Row(
        name="replace-without-resource-version-wins",
        setup=(_CREATED, merge(f"{CONFIG_MAPS}/c", {"data": {"k": "between"}})),
        calls=(put(f"{CONFIG_MAPS}/c", config_map(data={"k": "forced"}), answer={"data": {"k": "forced"}}),),
    ),
    Row(
        name="replace-other-uid",
        setup=(_CREATED,),
        calls=(
            put(
                f"{CONFIG_MAPS}/c",
                config_map(uid="11111111-1111-1111-1111-111111111111"),
                code=409,
                reason="Conflict",
                message="Precondition failed: UID in precondition: 11111111-1111-1111-1111-111111111111",
            ),
        ),
    ),
    Row(
        name="replace-name-differs-from-url",
        setup=(_CREATED,),
        calls=(put(f"{CONFIG_MAPS}/c", config_map("other"), code=400, reason="BadRequest"),),
    ),
    Row(
        name="replace-missing",
        calls=(put(f"{CONFIG_MAPS}/none", config_map("none"), code=404, reason="NotFound"),),
    ),
    Row(
        name="replace-same-content-is-no-event",
        setup=(_CREATED,),
        calls=(
            put(
                f"{CONFIG_MAPS}/c",
                Edited(saved="c", changes={}),
                answer={"metadata": {"resourceVersion": "$rv"}},
            ),
            merge(f"{CONFIG_MAPS}/c", {"data": {"k": "marker"}}),
        ),
        watch=Watch(
            path=CONFIG_MAPS,
            query={"fieldSelector": "metadata.name=c"},
            events=(Event(kind="MODIFIED", name="c", object={"data": {"k": "marker"}}),),
            is_exact=True,
        ),
    ),
    Row(
        name="lease-create-and-renew",
        setup=(post(LEASES, lease()),),
        calls=(
            merge(
                f"{LEASES}/l",
                {"spec": {"renewTime": "2026-12-01T00:00:00.000000Z"}},
                answer={"spec": {"renewTime": "2026-12-01T00:00:00.000000Z", "holderIdentity": "n"}},
            ),
        ),
    ),
    Row(
        name="node-keeps-status-and-gets-taint",
        calls=(
            post(
                NODES,
                node("$ns-node"),
                answer={
                    "spec": {"taints": Contains([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])},
                    "status": {"allocatable": {"nvidia.com/gpu": "8"}},
                },
                save={"taints": "spec.taints"},
            ),
            get(f"{NODES}/$ns-node", answer={"status": {"allocatable": {"nvidia.com/gpu": "8"}}}),
        ),
    ),
    Row(
        name="node-cordon-by-patch",
        setup=(post(NODES, node("$ns-node")),),
        calls=(
            merge(
                f"{NODES}/$ns-node",
                {"spec": {"unschedulable": True}},
                answer={"spec": {"unschedulable": True}},
            ),
            delete(f"{NODES}/$ns-node"),
        ),
        watch=Watch(
            path=NODES,
            query={"fieldSelector": "metadata.name=$ns-node"},
            events=(
                Event(kind="MODIFIED", object={"spec": {"unschedulable": True}}),
                Event(kind="DELETED", name="$ns-node"),
            ),
        ),
    ),
    Row(
        name="namespace-active",
        calls=(get("/api/v1/namespaces/$ns", answer={"status": {"phase": "Active"}, "metadata": {"uid": ANY}}),),
    ),
)
