"""What an audit may read: each source with its path, the right that it takes, and the fields that are kept.

Only what checks look at is kept: a cluster has 50,000 pods, and their whole objects would not fit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

METRICS_KEPT = (
    "kubernetes_feature_enabled",
    "apiserver_requested_deprecated_apis",
    "apiserver_resource_objects",
)
"""Families of the API server's metrics that are kept; there are megabytes of others."""

_META = ("metadata.name", "metadata.namespace", "metadata.uid", "metadata.creationTimestamp")
_RUN = ("image", "command", "args")
_ALIVE = (*_META, "metadata.deletionTimestamp", "metadata.finalizers")


class Form(StrEnum):
    """How a source is read."""

    LIST = "list"
    DOCUMENT = "document"
    """One JSON document; it becomes the only item."""
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One thing to read.

    `versions` are tried in order, and the first that is served counts. `keep` are dotted paths; empty keeps all.
    `query` narrows a list.
    """

    key: str
    about: str
    form: Form = Form.LIST
    group: str = ""
    versions: tuple[str, ...] = ("v1",)
    resource: str = ""
    kind: str = ""
    namespace: str = ""
    path: str = ""
    accept: str = ""
    query: Mapping[str, str] | None = None
    keep: tuple[str, ...] = ()

    def path_in(self, version: str) -> str:
        """Return the request path in one API version."""
        if self.path:
            return self.path
        root = f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"
        return f"{root}/namespaces/{self.namespace}/{self.resource}" if self.namespace else f"{root}/{self.resource}"

    @property
    def rule(self) -> str:
        """The RBAC rule that reading this takes, as YAML on one line."""
        if self.path:
            return f'{{nonResourceURLs: ["{self.path}"], verbs: ["get"]}}'
        rule = f'{{apiGroups: ["{self.group}"], resources: ["{self.resource}"], verbs: ["list"]}}'
        return f"{rule} in a Role of namespace {self.namespace}" if self.namespace else rule


def _list(key: str, kind: str, *, about: str, group: str = "", **fields: Any) -> Source:
    return Source(key=key, kind=kind, about=about, group=group, **({"resource": key} | fields))


SCHEDULING = "scheduling.k8s.io"
RESOURCE = "resource.k8s.io"
CERTIFICATES = "certificates.k8s.io"

SOURCES: tuple[Source, ...] = (
    Source(key="version", form=Form.DOCUMENT, path="/version", about="version of the API server"),
    Source(key="groups", form=Form.DOCUMENT, path="/apis", about="API groups and versions that are served"),
    Source(key="metrics", form=Form.TEXT, path="/metrics", about="feature gates and use of deprecated APIs"),
    Source(
        key="flagz",
        form=Form.DOCUMENT,
        path="/flagz",
        accept="application/json;v=v1beta1;g=config.k8s.io;as=Flagz",
        about="flags of the API server",
    ),
    _list(
        "nodes",
        "Node",
        about="kernels, container runtimes, kubelets",
        keep=(*_META, "metadata.labels", "status.nodeInfo"),
    ),
    _list(
        "pods",
        "Pod",
        about="members of groups, control-plane components",
        keep=(
            "metadata.name",
            "metadata.namespace",
            "metadata.uid",
            "metadata.deletionTimestamp",
            "metadata.labels.component",
            "spec.nodeName",
            "spec.schedulerName",
            "spec.schedulingGroup",
            "spec.schedulingGates",
            "spec.priority",
            "spec.preemptionPolicy",
            "spec.resourceClaims",
            "spec.containers",
            "status.phase",
        ),
    ),
    _list("namespaces", "Namespace", about="labels of namespaces", keep=(*_ALIVE, "metadata.labels")),
    _list(
        "services",
        "Service",
        about="services that kube-proxy serves",
        keep=(*_META, "spec.type", "spec.ports", "spec.externalTrafficPolicy"),
    ),
    Source(
        key="proxy-config",
        kind="ConfigMap",
        resource="configmaps",
        namespace="kube-system",
        query={"fieldSelector": "metadata.name=kube-proxy"},
        about="configuration of kube-proxy",
    ),
    _list(
        "daemonsets",
        "DaemonSet",
        group="apps",
        about="kube-proxy, CNIs, device drivers",
        keep=(*_META, "spec.template"),
    ),
    _list("deployments", "Deployment", group="apps", about="controllers and adapters", keep=(*_META, "spec.template")),
    Source(
        key="proxy-events",
        kind="Event",
        group="events.k8s.io",
        resource="events",
        namespace="default",
        about="what kube-proxies said when they started, kept for an hour",
        keep=(*_META, "reason", "regarding", "note"),
    ),
    Source(
        key="cold-starts",
        kind="Event",
        resource="events",
        query={"fieldSelector": "reason=ColdStart"},
        about="cold starts that were measured, kept for an hour",
        keep=(*_META, "reason", "involvedObject"),
    ),
    _list(
        "podgroups",
        "PodGroup",
        group=SCHEDULING,
        versions=("v1beta1", "v1alpha3"),
        about="gangs of the native API",
    ),
    *(
        Source(
            key=f"{resource}-{version}",
            kind=kind,
            group=SCHEDULING,
            versions=(version,),
            resource=resource,
            keep=_META,
            about=f"objects of {version}, which 1.37 cannot read",
        )
        for version, resource, kind in (
            ("v1alpha1", "workloads", "Workload"),
            ("v1alpha2", "workloads", "Workload"),
            ("v1alpha2", "podgroups", "PodGroup"),
        )
    ),
    _list("deviceclasses", "DeviceClass", group=RESOURCE, about="classes of devices", keep=(*_META, "spec")),
    _list(
        "resourceslices", "ResourceSlice", group=RESOURCE, about="devices that drivers publish", keep=(*_META, "spec")
    ),
    _list(
        "resourceclaims",
        "ResourceClaim",
        group=RESOURCE,
        about="claims and their devices",
        keep=(*_ALIVE, "metadata.ownerReferences", "spec.devices.requests", "status"),
    ),
    _list("devicetaintrules", "DeviceTaintRule", group=RESOURCE, about="taints on devices"),
    _list(
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        group="autoscaling",
        versions=("v2",),
        about="autoscalers that go to zero",
    ),
    _list(
        "apiservices",
        "APIService",
        group="apiregistration.k8s.io",
        about="aggregated APIs",
        keep=(*_META, "spec", "status"),
    ),
    _list(
        "podcertificaterequests",
        "PodCertificateRequest",
        group=CERTIFICATES,
        versions=("v1", "v1beta1"),
        about="requests for pod certificates",
        keep=(*_META, "spec.signerName", "spec.podName", "status"),
    ),
    _list(
        "clustertrustbundles",
        "ClusterTrustBundle",
        group=CERTIFICATES,
        versions=("v1", "v1beta1"),
        about="published trust anchors",
    ),
    _list(
        "clusterroles",
        "ClusterRole",
        group="rbac.authorization.k8s.io",
        about="rights",
        keep=(*_META, "rules", "aggregationRule"),
    ),
    _list(
        "clusterrolebindings",
        "ClusterRoleBinding",
        group="rbac.authorization.k8s.io",
        about="who has rights",
        keep=(*_META, "roleRef", "subjects"),
    ),
    *(
        _list(
            resource,
            kind,
            group="admissionregistration.k8s.io",
            about="webhooks",
            keep=(*_META, "webhooks"),
        )
        for resource, kind in (
            ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
            ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
        )
    ),
)

BY_KEY: Mapping[str, Source] = {one.key: one for one in SOURCES}


def trimmed(manifest: Mapping[str, Any], source: Source) -> Mapping[str, Any]:
    """Return the part of an object that is kept. Of pods only those in kube-system keep containers."""
    if not source.keep:
        metadata = {key: value for key, value in (manifest.get("metadata") or {}).items() if key != "managedFields"}
        return {**manifest, "metadata": metadata}
    kept: dict[str, Any] = {"metadata": {}, "spec": {}, "status": {}}
    for path in source.keep:
        _copy(manifest, kept, path.split("."))
    if source.kind == "Pod":
        containers = kept["spec"].pop("containers", None)
        if kept["metadata"].get("namespace") == "kube-system":
            kept["spec"]["containers"] = _containers({"containers": containers}, fields=_RUN)
    elif "template" in kept["spec"]:
        inner = kept["spec"]["template"].get("spec") or {}
        kept["spec"]["template"] = {"spec": {"containers": _containers(inner, fields=_RUN)}}
    return kept


def _containers(spec: Mapping[str, Any], *, fields: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return containers without what may be secret: environment and volumes are left out."""
    return [{name: one[name] for name in fields if name in one} for one in spec.get("containers") or ()]


def _copy(source: Mapping[str, Any], into: dict[str, Any], path: list[str]) -> None:
    head, *rest = path
    if head not in source:
        return
    if not rest:
        into[head] = source[head]
        return
    if isinstance(source[head], Mapping):
        _copy(source[head], into.setdefault(head, {}), rest)


def kept_metrics(text: str) -> str:
    """Return the lines of a metrics page that checks read."""
    names = tuple(f"# HELP {name} " for name in METRICS_KEPT) + tuple(f"# TYPE {name} " for name in METRICS_KEPT)
    samples = tuple(f"{name}{mark}" for name in METRICS_KEPT for mark in ("{", " "))
    lines = [line for line in text.splitlines() if line.startswith(samples + names)]
    return "\n".join(lines) + "\n" if lines else ""
