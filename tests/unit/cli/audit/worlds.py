"""Evidence made by hand: for each check a world in which it finds something, and one in which it finds nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from services.cli.audit.evidence import Evidence, Reading, State
from services.cli.audit.optional_sources import OPTIONAL
from services.cli.audit.sources import BY_KEY

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
Manifest = dict[str, Any]


def world(**sources: Any) -> Evidence:
    """Return evidence in which all that is not named is there and empty; `_` in a name stands for `-`."""
    readings = {key: Reading(state=State.READ) for key in BY_KEY}
    readings |= {one.key: Reading(state=State.UNASKED) for one in OPTIONAL}
    readings["pods"] = Reading(state=State.READ, items=control_plane())
    readings["version"] = Reading(state=State.READ, items=({"gitVersion": "v1.37.2"},))
    readings["groups"] = Reading(state=State.READ, items=served())
    readings["metrics"] = Reading(state=State.READ, text=gates(GenericWorkload=1, HPAScaleToZero=1))
    for name, given in sources.items():
        reading = given
        if isinstance(given, str):
            reading = Reading(state=State.READ, text=given)
        elif not isinstance(given, Reading):
            reading = Reading(state=State.READ, items=tuple(given), version="v1")
        readings[name.replace("__", "-")] = reading
    return Evidence(origin="by hand", read_at=NOW, readings=readings)


def served(*versions: str) -> tuple[Manifest, ...]:
    """Return API groups in which scheduling.k8s.io has these versions, v1 and v1beta1 if none is given."""
    given = versions or ("v1", "v1beta1")
    return ({"groups": [{"name": "scheduling.k8s.io", "versions": [{"version": one} for one in given]}]},)


def gates(**states: int) -> str:
    """Return the API server's metrics for feature gates."""
    lines = [f'kubernetes_feature_enabled{{name="{name}",stage="BETA"}} {value}' for name, value in states.items()]
    return "\n".join(["# TYPE kubernetes_feature_enabled gauge", *lines, ""])


def meta(name: str, *, namespace: str = "", **fields: Any) -> Manifest:
    """Return metadata."""
    scoped = {"namespace": namespace} if namespace else {}
    return {"name": name, "uid": f"uid-{name}", "creationTimestamp": "2026-12-01T11:00:00Z", **scoped, **fields}


def pod(
    name: str, *, group: str = "", node: str = "", phase: str = "Running", meta_fields: Any = None, **spec: Any
) -> Manifest:
    """Return a pod of the default scheduler."""
    grouped = {"schedulingGroup": {"podGroupName": group}} if group else {}
    placed = {"nodeName": node} if node else {}
    return {
        "metadata": meta(name, namespace="team", **(meta_fields or {})),
        "spec": {"schedulerName": "default-scheduler", "priority": 0, **grouped, **placed, **spec},
        "status": {"phase": phase},
    }


def component(name: str, *flags: str) -> Manifest:
    """Return the static pod of a control-plane component, as kubeadm makes it."""
    return {
        "metadata": meta(f"{name}-cp", namespace="kube-system", labels={"component": name}),
        "spec": {"containers": [{"command": [name, *flags]}]},
        "status": {"phase": "Running"},
    }


def control_plane() -> tuple[Manifest, ...]:
    """Return the pods of scheduler and controller manager with the gate on."""
    gate = "--feature-gates=GenericWorkload=true"
    return component("kube-scheduler", gate), component("kube-controller-manager", gate)


def says(name: str, **fields: Any) -> Manifest:
    """Return what was read of a node itself."""
    return {"metadata": {"name": name}, **fields}


def group(name: str, *, min_count: int, is_scheduled: bool = False, mode: str = "all", **fields: Any) -> Manifest:
    """Return a PodGroup."""
    conditions = [{"type": "PodGroupInitiallyScheduled", "status": "True"}] if is_scheduled else []
    return {
        "metadata": meta(name, namespace="team", **fields),
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, "disruptionMode": {mode: {}}, "priority": 0},
        "status": {"conditions": conditions},
    }


def members(count: int, *, of: str = "g", **fields: Any) -> list[Manifest]:
    """Return pods that name a group."""
    return [pod(f"{of}-{index}", group=of, **fields) for index in range(count)]


def proxy_config(**fields: Any) -> list[Manifest]:
    """Return kube-proxy's ConfigMap."""
    document = {"kind": "KubeProxyConfiguration", "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", **fields}
    return [
        {"metadata": meta("kube-proxy", namespace="kube-system"), "data": {"config.conf": yaml.safe_dump(document)}}
    ]


def daemon_set(name: str, *, image: str = "example/image:v1.0.0", args: tuple[str, ...] = ()) -> Manifest:
    """Return a DaemonSet, or what serves as a Deployment here."""
    containers = [{"image": image, "command": [f"/usr/bin/{name}"], "args": list(args)}]
    return {"metadata": meta(name, namespace="kube-system"), "spec": {"template": {"spec": {"containers": containers}}}}


def node(name: str, **info: str) -> Manifest:
    """Return a node with facts about it."""
    facts = {"kernelVersion": "6.1.0", "kubeletVersion": "v1.37.2", "containerRuntimeVersion": "containerd://2.1.0"}
    return {"metadata": meta(name), "spec": {}, "status": {"nodeInfo": facts | info}}


def service(name: str, *, type_: str = "ClusterIP", node_port: int = 0) -> Manifest:
    """Return a Service."""
    port = {"port": 80, **({"nodePort": node_port} if node_port else {})}
    return {"metadata": meta(name, namespace="team"), "spec": {"type": type_, "ports": [port]}}


def slice_(name: str, *devices: Manifest, generation: int = 1, count: int = 1) -> Manifest:
    """Return a ResourceSlice of the pool `node-1`."""
    pool = {"name": "node-1", "generation": generation, "resourceSliceCount": count}
    return {"metadata": meta(name), "spec": {"driver": "gpu.example.com", "pool": pool, "devices": list(devices)}}


def claim(name: str, *devices: str, users: tuple[str, ...] = (), finalizers: Any = None) -> Manifest:
    """Return a ResourceClaim that holds devices for pods of these uids."""
    results = [{"driver": "gpu.example.com", "pool": "node-1", "device": one, "request": "gpu"} for one in devices]
    kept = ["resource.kubernetes.io/delete-protection"] if finalizers is None else finalizers
    return {
        "metadata": meta(name, namespace="team", finalizers=kept),
        "spec": {},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": one, "uid": f"uid-{one}"} for one in users],
        },
    }


def taint_rule(name: str, *, selector: Any, effect: str = "NoExecute") -> Manifest:
    """Return a DeviceTaintRule."""
    chosen = {} if selector is None else {"deviceSelector": selector}
    return {"metadata": meta(name), "spec": {**chosen, "taint": {"key": "example.com/broken", "effect": effect}}}


def hpa(name: str, *metrics: str, replicas: int = 1, active: str = "ValidMetricFound", minimum: int = 0) -> Manifest:
    """Return a HorizontalPodAutoscaler with metrics of these types."""
    status = "False" if active == "ScalingDisabled" else "True"
    return {
        "metadata": meta(name, namespace="team"),
        "spec": {"minReplicas": minimum, "metrics": [{"type": one} for one in metrics]},
        "status": {
            "currentReplicas": replicas,
            "conditions": [{"type": "ScalingActive", "status": status, "reason": active}],
        },
    }


def api_service(name: str, *, is_available: bool) -> Manifest:
    """Return an APIService."""
    condition = {"type": "Available", "status": str(is_available), "message": "no endpoints"}
    return {"metadata": meta(name), "spec": {}, "status": {"conditions": [condition]}}


def certificate_request(name: str, *, is_answered: bool) -> Manifest:
    """Return a PodCertificateRequest that is an hour old."""
    conditions = [{"type": "Issued", "status": "True"}] if is_answered else []
    return {
        "metadata": meta(name, namespace="team"),
        "spec": {"signerName": "example.com/mtls", "podName": "p"},
        "status": {"conditions": conditions},
    }


def bundle(name: str, *, days: int) -> Manifest:
    """Return a ClusterTrustBundle whose anchor expires in so many days."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - timedelta(days=400))
        .not_valid_after(NOW + timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    text = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return {"metadata": meta(name), "spec": {"signerName": "example.com/mtls", "trustBundle": text}}


def role(name: str, *rules: Mapping[str, Any]) -> Manifest:
    """Return a ClusterRole."""
    return {"metadata": meta(name), "rules": list(rules)}


def rule(group_name: str, *resources: str, verbs: tuple[str, ...] = ("update",), **fields: Any) -> Manifest:
    """Return one rule of a role."""
    return {"apiGroups": [group_name], "resources": list(resources), "verbs": list(verbs), **fields}


def webhook(name: str, *resources: str, policy: str = "Fail") -> Manifest:
    """Return a webhook configuration."""
    return {
        "metadata": meta(name),
        "webhooks": [{"name": "a.example.com", "failurePolicy": policy, "rules": [{"resources": list(resources)}]}],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A world where a check finds something and where, and one where it finds nothing, on the same subject."""

    broken: Callable[[], Evidence]
    healthy: Callable[[], Evidence]
    subject: str
    field: str
    target: str = "1.37"
