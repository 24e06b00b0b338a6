"""Discovery and health."""

from tests.contract.kubernetes_api.rows import Contains, Pattern, Row, get

ROWS = (
    Row(
        name="discovery-version",
        calls=(get("/version", answer={"gitVersion": "v1.37.2", "major": "1", "minor": "37"}),),
    ),
    Row(name="discovery-ready", calls=(get("/readyz"), get("/livez"))),
    Row(
        name="discovery-core-versions",
        calls=(get("/api", answer={"kind": "APIVersions", "versions": ["v1"]}),),
    ),
    Row(
        name="discovery-core-resources",
        calls=(
            get(
                "/api/v1",
                answer={
                    "kind": "APIResourceList",
                    "groupVersion": "v1",
                    "resources": Contains(
                        [
                            {"name": "pods", "namespaced": True, "kind": "Pod"},
                            {"name": "pods/binding", "namespaced": True, "kind": "Binding"},
                            {"name": "pods/status", "namespaced": True, "kind": "Pod"},
                            {
                                "name": "pods/eviction",
                                "kind": "Eviction",
                                "group": "policy",
                                "version": "v1",
                            },
                            {"name": "nodes", "namespaced": False, "kind": "Node"},
                        ]
                    ),
                },
            ),
        ),
    ),
    Row(
        name="discovery-groups",
        calls=(
            get(
                "/apis",
                answer={
                    "kind": "APIGroupList",
                    "groups": Contains(
                        [
                            {"name": "apps"},
                            {"name": "batch"},
                            {"name": "scheduling.k8s.io"},
                            {"name": "resource.k8s.io"},
                        ]
                    ),
                },
            ),
        ),
    ),
    Row(
        name="discovery-scheduling-versions",
        calls=(
            get(
                "/apis/scheduling.k8s.io",
                answer={
                    "kind": "APIGroup",
                    "name": "scheduling.k8s.io",
                    "versions": Contains(
                        [
                            {"groupVersion": "scheduling.k8s.io/v1", "version": "v1"},
                            {"groupVersion": "scheduling.k8s.io/v1beta1", "version": "v1beta1"},
                            {"groupVersion": "scheduling.k8s.io/v1alpha3", "version": "v1alpha3"},
                        ]
                    ),
                    "preferredVersion": {"version": Pattern("v1")},
                },
            ),
        ),
    ),
    Row(
        name="discovery-scheduling-resources",
        calls=(
            get(
                "/apis/scheduling.k8s.io/v1beta1",
                answer={
                    "groupVersion": "scheduling.k8s.io/v1beta1",
                    "resources": Contains(
                        [
                            {
                                "name": "podgroups",
                                "singularName": "podgroup",
                                "namespaced": True,
                                "kind": "PodGroup",
                                "verbs": Contains(["create", "delete", "get", "list", "patch", "update", "watch"]),
                            },
                            {"name": "podgroups/status", "kind": "PodGroup"},
                            {"name": "workloads", "kind": "Workload"},
                        ]
                    ),
                },
            ),
        ),
    ),
    Row(name="discovery-unknown-group", calls=(get("/apis/none.example.com", code=404),)),
    Row(name="discovery-unknown-version", calls=(get("/apis/scheduling.k8s.io/v9", code=404),)),
)
