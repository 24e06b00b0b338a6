"""Small valid objects and the paths where they live, for the rows."""

from collections.abc import Mapping

from tests.contract.kubernetes_api.rows import Json

CORE = "/api/v1/namespaces/$ns"
PODS = f"{CORE}/pods"
CONFIG_MAPS = f"{CORE}/configmaps"
QUOTAS = f"{CORE}/resourcequotas"
NODES = "/api/v1/nodes"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/$ns/podgroups"
GROUPS_ALPHA = "/apis/scheduling.k8s.io/v1alpha3/namespaces/$ns/podgroups"
WORKLOADS = "/apis/scheduling.k8s.io/v1beta1/namespaces/$ns/workloads"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
JOBS = "/apis/batch/v1/namespaces/$ns/jobs"
DEPLOYMENTS = "/apis/apps/v1/namespaces/$ns/deployments"
REPLICA_SETS = "/apis/apps/v1/namespaces/$ns/replicasets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/$ns/leases"
HPAS = "/apis/autoscaling/v2/namespaces/$ns/horizontalpodautoscalers"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/$ns/resourceclaims"
CLAIM_TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/$ns/resourceclaimtemplates"
TAINT_RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
EVENTS = f"{CORE}/events"

POD_GATE = "example.com/hold"


def pod(name: str = "p", *, metadata: Mapping[str, Json] | None = None, **spec: Json) -> dict[str, Json]:
    """A pod of one container that no scheduler of the cluster looks at."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {
            "schedulerName": "contract",
            "containers": [{"name": "main", "image": "registry.example.com/none:1"}],
            **spec,
        },
    }


def group(name: str = "g", *, version: str = "v1beta1", **spec: Json) -> dict[str, Json]:
    """A PodGroup; a gang of two unless the spec says otherwise."""
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec},
    }


def binding(name: str = "p", *, node: str = "some-node", **metadata: Json) -> dict[str, Json]:
    """A Binding of a pod to a node."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def config_map(name: str = "c", *, data: Mapping[str, str] | None = None, **metadata: Json) -> dict[str, Json]:
    """A ConfigMap: the plainest object, for rows about the machinery that all kinds share."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": dict(data or {"k": "v"}),
    }


def lease(name: str = "l") -> dict[str, Json]:
    """A Lease."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": "n", "leaseDurationSeconds": 40},
    }


def node(name: str, **labels: str) -> dict[str, Json]:
    """A Node with a status, as a kubelet would report it."""
    resources = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "8"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def template(**spec: Json) -> dict[str, Json]:
    """The pod template of Jobs and Deployments."""
    return {"metadata": {"labels": {"app": "contract"}}, "spec": pod(**spec)["spec"]}


def job(name: str = "j", *, pods: Mapping[str, Json] | None = None, **spec: Json) -> dict[str, Json]:
    """A Job of two parallel pods."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "template": template(restartPolicy="Never", **(pods or {})),
            **spec,
        },
    }


def deployment(name: str = "d", *, replicas: int = 2) -> dict[str, Json]:
    """A Deployment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "contract"}},
            "template": template(),
        },
    }


def quota(**hard: str) -> dict[str, Json]:
    """A ResourceQuota; its keys are written with `__` for `.`."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {key.replace("__", "."): value for key, value in hard.items()}},
    }


def priority_class(name: str, *, value: int) -> dict[str, Json]:
    """A PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def claim(name: str = "k") -> dict[str, Json]:
    """A ResourceClaim asking for one device of a class that need not exist."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": claim_template()["spec"]["spec"],
    }


def claim_template(name: str = "one-gpu") -> dict[str, Json]:
    """A ResourceClaimTemplate asking for one device of a class that need not exist."""
    exactly = {"deviceClassName": "gpu.example.com"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }
