"""One pair of worlds for each check, by its id."""

from collections.abc import Mapping
from typing import Any

from services.cli.audit.evidence import Reading, State
from tests.unit.cli.audit.worlds import (
    Pair,
    api_service,
    bundle,
    certificate_request,
    claim,
    component,
    daemon_set,
    gates,
    group,
    hpa,
    members,
    meta,
    node,
    pod,
    proxy_config,
    role,
    rule,
    says,
    served,
    service,
    slice_,
    taint_rule,
    webhook,
    world,
)

_ON = "--feature-gates=GenericWorkload=true"
_OFF = "--feature-gates=GenericWorkload=false"
_GPU = {"name": "gpu-0"}
_IPVS = {"scheduler": "lc", "strictARP": True}
_OLD_OBJECT = {"metadata": meta("old", namespace="team")}
_UNREADABLE = Reading(
    state=State.FAILED, reason="StorageReadError", problem='no kind "PodGroup" is registered for version "v1alpha2"'
)
_DEPRECATED = (
    "# TYPE apiserver_requested_deprecated_apis gauge\n"
    'apiserver_requested_deprecated_apis{{group="policy",version="v1beta1",resource="pdb",removed_release="{}"}} {}\n'
)
_PROXY_EVENT = {
    "metadata": meta("e", namespace="default"),
    "reason": "IPVSDeprecation",
    "regarding": {"kind": "Node", "name": "n1"},
}
_MODEL = "gpu.example.com/productName"

GANG_API: Mapping[str, Pair] = {
    "gang-gate-partly-on": Pair(
        broken=lambda: world(pods=[component("kube-scheduler", _OFF), component("kube-controller-manager", _ON)]),
        healthy=lambda: world(pods=[component("kube-scheduler", _ON), component("kube-controller-manager", _ON)]),
        subject="component/kube-scheduler",
        field="--feature-gates=GenericWorkload",
    ),
    "gang-gate-without-api": Pair(
        broken=lambda: world(groups=served("v1")),
        healthy=world,
        subject="component/kube-apiserver",
        field="--runtime-config",
    ),
    "gang-gate-off": Pair(
        broken=lambda: world(metrics=gates(GenericWorkload=0), groups=served("v1")),
        healthy=world,
        subject="component/kube-apiserver",
        field="--feature-gates=GenericWorkload",
    ),
    "gang-alpha-only": Pair(
        broken=lambda: world(groups=served("v1", "v1alpha3")),
        healthy=lambda: world(groups=served("v1", "v1alpha3", "v1beta1")),
        subject="component/kube-apiserver",
        field="--runtime-config",
    ),
    "gang-removed-gates": Pair(
        broken=lambda: world(pods=[component("kube-scheduler", "--feature-gates=GangScheduling=true")]),
        healthy=lambda: world(pods=[component("kube-scheduler", _ON)]),
        subject="component/kube-scheduler",
        field="--feature-gates=GangScheduling",
    ),
    "gang-old-objects": Pair(
        broken=lambda: world(podgroups__v1alpha2=[_OLD_OBJECT]),
        healthy=lambda: world(podgroups__v1alpha2=Reading(state=State.ABSENT)),
        subject="podgroup/team/old",
        field="apiVersion",
    ),
    "gang-unreadable-objects": Pair(
        broken=lambda: world(podgroups=_UNREADABLE),
        healthy=lambda: world(podgroups=[group("g", min_count=1)]),
        subject="resource/podgroups",
        field="items",
    ),
}

GANGS: Mapping[str, Pair] = {
    "gang-too-few-members": Pair(
        broken=lambda: world(podgroups=[group("g", min_count=3)], pods=members(2)),
        healthy=lambda: world(podgroups=[group("g", min_count=2)], pods=members(2)),
        subject="podgroup/team/g",
        field="spec.schedulingPolicy.gang.minCount",
    ),
    "gang-orphan-members": Pair(
        broken=lambda: world(pods=members(2, of="lost")),
        healthy=lambda: world(podgroups=[group("lost", min_count=2)], pods=members(2, of="lost")),
        subject="pod/team/lost-0",
        field="spec.schedulingGroup.podGroupName",
    ),
    "gang-mixed-members": Pair(
        broken=lambda: world(
            podgroups=[group("g", min_count=2)],
            pods=[*members(2), pod("other", group="g", schedulerName="volcano")],
        ),
        healthy=lambda: world(podgroups=[group("g", min_count=2)], pods=members(2)),
        subject="podgroup/team/g",
        field="members' spec.schedulerName",
    ),
    "gang-single-disruption": Pair(
        broken=lambda: world(podgroups=[group("g", min_count=2, mode="single")], pods=members(2)),
        healthy=lambda: world(podgroups=[group("g", min_count=2, mode="single")], pods=members(3)),
        subject="podgroup/team/g",
        field="spec.disruptionMode",
    ),
    "gang-below-quorum": Pair(
        broken=lambda: world(podgroups=[group("g", min_count=2, is_scheduled=True)], pods=members(1, node="n1")),
        healthy=lambda: world(podgroups=[group("g", min_count=2, is_scheduled=True)], pods=members(2, node="n1")),
        subject="podgroup/team/g",
        field="status.conditions[type=PodGroupInitiallyScheduled]",
    ),
    "gang-stuck-deletion": Pair(
        broken=lambda: world(
            podgroups=[
                group("g", min_count=1, deletionTimestamp="x", finalizers=["scheduling.k8s.io/podgroup-protection"])
            ]
        ),
        healthy=lambda: world(
            podgroups=[group("g", min_count=1, finalizers=["scheduling.k8s.io/podgroup-protection"])]
        ),
        subject="podgroup/team/g",
        field="metadata.finalizers",
    ),
    "gang-gated-members": Pair(
        broken=lambda: world(
            podgroups=[group("g", min_count=2)], pods=members(2, schedulingGates=[{"name": "example.com/wait"}])
        ),
        healthy=lambda: world(podgroups=[group("g", min_count=2)], pods=members(2)),
        subject="pod/team/g-0",
        field="spec.schedulingGates",
    ),
}

PROXY: Mapping[str, Pair] = {
    "proxy-mode-ipvs": Pair(
        broken=lambda: world(proxy__config=proxy_config(mode="ipvs")),
        healthy=lambda: world(proxy__config=proxy_config(mode="nftables")),
        subject="configmap/kube-system/kube-proxy",
        field="data[config.conf].mode",
    ),
    "proxy-mode-unset": Pair(
        broken=lambda: world(proxy__config=proxy_config(mode="")),
        healthy=lambda: world(
            proxy__config=proxy_config(mode=""), daemonsets=[daemon_set("kube-proxy", args=("--proxy-mode=iptables",))]
        ),
        subject="configmap/kube-system/kube-proxy",
        field="data[config.conf].mode",
    ),
    "proxy-runtime-mode": Pair(
        broken=lambda: world(proxy__config=proxy_config(mode="iptables"), proxy__events=[_PROXY_EVENT]),
        healthy=lambda: world(proxy__config=proxy_config(mode="ipvs"), proxy__events=[_PROXY_EVENT]),
        subject="node/n1",
        field="event IPVSDeprecation",
    ),
    "proxy-kernel-too-old": Pair(
        broken=lambda: world(
            proxy__config=proxy_config(mode="ipvs"), nodes=[node("n1", kernelVersion="5.10.0-30-amd64")]
        ),
        healthy=lambda: world(proxy__config=proxy_config(mode="ipvs"), nodes=[node("n1", kernelVersion="5.13.1")]),
        subject="node/n1",
        field="status.nodeInfo.kernelVersion",
    ),
    "proxy-nodeport-exposure": Pair(
        broken=lambda: world(
            proxy__config=proxy_config(mode="ipvs"), services=[service("web", type_="NodePort", node_port=30080)]
        ),
        healthy=lambda: world(
            proxy__config=proxy_config(mode="ipvs", nodePortAddresses=["10.0.0.0/8"]),
            services=[service("web", type_="NodePort", node_port=30080)],
        ),
        subject="service/team/web",
        field="spec.ports[].nodePort",
    ),
    "proxy-localhost-nodeports": Pair(
        broken=lambda: world(proxy__config=proxy_config(mode="iptables", iptables={"localhostNodePorts": True})),
        healthy=lambda: world(proxy__config=proxy_config(mode="iptables", iptables={"localhostNodePorts": False})),
        subject="configmap/kube-system/kube-proxy",
        field="data[config.conf].iptables.localhostNodePorts",
    ),
    "proxy-ipvs-settings": Pair(
        broken=lambda: world(proxy__config=proxy_config(mode="ipvs", ipvs=_IPVS)),
        healthy=lambda: world(proxy__config=proxy_config(mode="ipvs", ipvs={"scheduler": "rr", "tcpTimeout": "0s"})),
        subject="configmap/kube-system/kube-proxy",
        field="data[config.conf].ipvs.scheduler",
    ),
    "proxy-iptables-writers": Pair(
        broken=lambda: world(proxy__config=proxy_config(mode="ipvs"), daemonsets=[daemon_set("calico-node")]),
        healthy=lambda: world(proxy__config=proxy_config(mode="nftables"), daemonsets=[daemon_set("calico-node")]),
        subject="daemonset/kube-system/calico-node",
        field="metadata.name",
    ),
    "proxy-service-count": Pair(
        broken=lambda: world(proxy__config=proxy_config(mode="iptables"), services=[service("a"), service("b")]),
        healthy=lambda: world(proxy__config=proxy_config(mode="nftables"), services=[service("a"), service("b")]),
        subject="configmap/kube-system/kube-proxy",
        field="data[config.conf].mode",
    ),
}

DEVICES: Mapping[str, Pair] = {
    "dra-taint-rule": Pair(
        broken=lambda: world(
            devicetaintrules=[taint_rule("r", selector={"device": "gpu-0"})],
            resourceslices=[slice_("s", _GPU)],
            resourceclaims=[claim("c", "gpu-0", users=("g-0",))],
            podgroups=[group("g", min_count=1)],
            pods=members(1, node="n1"),
        ),
        healthy=lambda: world(devicetaintrules=[taint_rule("r", selector={"device": "gpu-0"}, effect="None")]),
        subject="devicetaintrule/r",
        field="spec.taint.effect",
    ),
    "dra-taint-rule-breadth": Pair(
        broken=lambda: world(devicetaintrules=[taint_rule("r", selector={})]),
        healthy=lambda: world(devicetaintrules=[taint_rule("r", selector={"driver": "gpu.example.com"})]),
        subject="devicetaintrule/r",
        field="spec.deviceSelector",
    ),
    "dra-slice-taints": Pair(
        broken=lambda: world(resourceslices=[slice_("s", _GPU | {"taints": [{"key": "hot", "effect": "NoSchedule"}]})]),
        healthy=lambda: world(resourceslices=[slice_("s", _GPU)]),
        subject="resourceslice/s",
        field="spec.devices[gpu-0].taints",
    ),
    "dra-incomplete-pool": Pair(
        broken=lambda: world(resourceslices=[slice_("s", _GPU, count=2)]),
        healthy=lambda: world(
            resourceslices=[slice_("old", _GPU, generation=1, count=5), slice_("s", _GPU, generation=2)]
        ),
        subject="resourceslice/s",
        field="spec.pool.resourceSliceCount",
    ),
    "dra-double-allocation": Pair(
        broken=lambda: world(
            resourceslices=[slice_("s", _GPU)], resourceclaims=[claim("a", "gpu-0"), claim("b", "gpu-0")]
        ),
        healthy=lambda: world(
            resourceslices=[slice_("s", _GPU | {"allowMultipleAllocations": True})],
            resourceclaims=[claim("a", "gpu-0"), claim("b", "gpu-0")],
        ),
        subject="resourceclaim/team/a",
        field="status.allocation.devices.results",
    ),
    "dra-leaked-claim": Pair(
        broken=lambda: world(resourceclaims=[claim("c", "gpu-0", users=("gone",))]),
        healthy=lambda: world(resourceclaims=[claim("c", "gpu-0", users=("p",))], pods=[pod("p", node="n1")]),
        subject="resourceclaim/team/c",
        field="status.reservedFor",
    ),
    "dra-binding-right": Pair(
        broken=lambda: world(clusterroles=[role("old", rule("resource.k8s.io", "resourceclaims/status"))]),
        healthy=lambda: world(
            clusterroles=[role("new", rule("resource.k8s.io", "resourceclaims/status", "resourceclaims/binding"))]
        ),
        subject="clusterrole/old",
        field="rules",
    ),
    "dra-mixed-hardware": Pair(
        broken=lambda: world(
            resourceslices=[
                slice_("s", *({"name": one, "attributes": {_MODEL: {"string": one}}} for one in ("A100", "H100")))
            ]
        ),
        healthy=lambda: world(
            resourceslices=[
                slice_("s", *({"name": one, "attributes": {_MODEL: {"string": "H100"}}} for one in ("a", "b")))
            ]
        ),
        subject="resourceslice/s",
        field="spec.devices[].attributes.productName",
    ),
    "dra-shared-nodes": Pair(
        broken=lambda: world(
            pods=[
                pod("a", node="n1", resourceClaims=[{"name": "gpu"}]),
                pod("b", node="n1", resourceClaims=[{"name": "gpu"}], schedulerName="phalanx"),
            ]
        ),
        healthy=lambda: world(
            pods=[
                pod("a", node="n1", resourceClaims=[{"name": "gpu"}]),
                pod("b", node="n2", resourceClaims=[{"name": "gpu"}], schedulerName="phalanx"),
            ]
        ),
        subject="node/n1",
        field="pods' spec.schedulerName",
    ),
}

_EXTERNAL = "v1beta1.external.metrics.k8s.io"

ZERO: Mapping[str, Pair] = {
    "zero-no-adapter": Pair(
        broken=lambda: world(
            horizontalpodautoscalers=[hpa("h", "External")], apiservices=[api_service(_EXTERNAL, is_available=False)]
        ),
        healthy=lambda: world(
            horizontalpodautoscalers=[hpa("h", "External")], apiservices=[api_service(_EXTERNAL, is_available=True)]
        ),
        subject=f"apiservice/{_EXTERNAL}",
        field="status.conditions[type=Available]",
    ),
    "zero-cpu-in-the-mix": Pair(
        broken=lambda: world(horizontalpodautoscalers=[hpa("h", "External", "Resource")]),
        healthy=lambda: world(horizontalpodautoscalers=[hpa("h", "External"), hpa("i", "Resource", minimum=1)]),
        subject="horizontalpodautoscaler/team/h",
        field="spec.metrics",
    ),
    "zero-asleep-for-ever": Pair(
        broken=lambda: world(horizontalpodautoscalers=[hpa("h", "External", replicas=0, active="ScalingDisabled")]),
        healthy=lambda: world(horizontalpodautoscalers=[hpa("h", "External", replicas=0)]),
        subject="horizontalpodautoscaler/team/h",
        field="status.conditions[type=ScalingActive]",
    ),
    "zero-gate-skew": Pair(
        broken=lambda: world(pods=[component("kube-controller-manager", "--feature-gates=HPAScaleToZero=false")]),
        healthy=lambda: world(pods=[component("kube-controller-manager")]),
        subject="component/kube-controller-manager",
        field="--feature-gates=HPAScaleToZero",
    ),
    "zero-downgrade-trap": Pair(
        broken=lambda: world(horizontalpodautoscalers=[hpa("h", "External", replicas=0)]),
        healthy=lambda: world(horizontalpodautoscalers=[hpa("h", "External", replicas=2)]),
        subject="horizontalpodautoscaler/team/h",
        field="spec.minReplicas",
    ),
}

_COLD_START = {"reason": "ColdStart", "involvedObject": {"kind": "HPA", "namespace": "team", "name": "h"}}
_SLEEPER: Mapping[str, Any] = {"horizontalpodautoscalers": [hpa("h", "External")]}

UNMEASURED: Mapping[str, Pair] = {
    "zero-unmeasured": Pair(
        broken=lambda: world(**_SLEEPER),
        healthy=lambda: world(**_SLEEPER, cold__starts=[_COLD_START | {"metadata": meta("e", namespace="team")}]),
        subject="horizontalpodautoscaler/team/h",
        field="spec.minReplicas",
    ),
}

_SIGNERS = rule("certificates.k8s.io", "signers", verbs=("sign", "attest"), resourceNames=["example.com/*"])

CERTIFICATES: Mapping[str, Pair] = {
    "cert-not-served": Pair(
        broken=lambda: world(podcertificaterequests=Reading(state=State.READ, version="v1beta1")),
        healthy=lambda: world(podcertificaterequests=[], clustertrustbundles=[]),
        subject="resource/podcertificaterequests.certificates.k8s.io",
        field="versions",
    ),
    "cert-nobody-signs": Pair(
        broken=lambda: world(podcertificaterequests=[certificate_request("r", is_answered=False)]),
        healthy=lambda: world(podcertificaterequests=[certificate_request("r", is_answered=True)]),
        subject="podcertificaterequest/team/r",
        field="status.conditions",
    ),
    "cert-no-right-to-sign": Pair(
        broken=lambda: world(podcertificaterequests=[certificate_request("r", is_answered=True)]),
        healthy=lambda: world(
            podcertificaterequests=[certificate_request("r", is_answered=True)], clusterroles=[role("signer", _SIGNERS)]
        ),
        subject="signer/example.com/mtls",
        field="clusterroles' rules",
    ),
    "cert-bundle-near-expiry": Pair(
        broken=lambda: world(clustertrustbundles=[bundle("b", days=10)]),
        healthy=lambda: world(clustertrustbundles=[bundle("b", days=100)]),
        subject="clustertrustbundle/b",
        field="spec.trustBundle",
    ),
}

_OPERATOR = "example.registry/kuberay/operator:v{}"

SURROUNDINGS: Mapping[str, Pair] = {
    "api-deprecated-use": Pair(
        broken=lambda: world(metrics=_DEPRECATED.format("1.37", 1)),
        healthy=lambda: world(metrics=_DEPRECATED.format("1.37", 0)),
        subject="api/pdb.v1beta1.policy",
        field="apiserver_requested_deprecated_apis",
    ),
    "around-old-controller": Pair(
        broken=lambda: world(deployments=[daemon_set("kuberay", image=_OPERATOR.format("1.5.1"))]),
        healthy=lambda: world(deployments=[daemon_set("kuberay", image=_OPERATOR.format("9.0.0"))]),
        subject="deployment/kube-system/kuberay",
        field="spec.template.spec.containers[].image",
    ),
    "around-blocking-webhook": Pair(
        broken=lambda: world(validatingwebhookconfigurations=[webhook("w", "pods/binding")]),
        healthy=lambda: world(validatingwebhookconfigurations=[webhook("w", "pods/binding", policy="Ignore")]),
        subject="validatingwebhookconfiguration/w",
        field="webhooks[a.example.com].rules",
    ),
    "node-kubelet-skew": Pair(
        broken=lambda: world(nodes=[node("n1", kubeletVersion="v1.33.4")]),
        healthy=lambda: world(nodes=[node("n1", kubeletVersion="v1.34.0")]),
        subject="node/n1",
        field="status.nodeInfo.kubeletVersion",
    ),
    "node-old-runtime": Pair(
        broken=lambda: world(nodes=[node("n1", containerRuntimeVersion="containerd://1.7.27")]),
        healthy=lambda: world(nodes=[node("n1", containerRuntimeVersion="cri-o://1.34.0")]),
        subject="node/n1",
        field="status.nodeInfo.containerRuntimeVersion",
    ),
}

_PROBES: Mapping[str, Any] = {"probe__podgroup": [{"kind": "PodGroup"}], "probe__hpa": [{"kind": "HPA"}]}
_KEPT = {"kind": "Pod", "spec": {"schedulingGroup": {"podGroupName": "g"}}}
_STATUS = {"kind": "Status", "message": "denied by policy"}

ASKED: Mapping[str, Pair] = {
    "gang-field-dropped": Pair(
        broken=lambda: world(probe__pod=[{"kind": "Pod", "spec": {}}], podgroups=[group("g", min_count=1)]),
        healthy=lambda: world(probe__pod=[_KEPT], podgroups=[group("g", min_count=1)]),
        subject="component/kube-apiserver",
        field="spec.schedulingGroup",
    ),
    "probe-refused": Pair(
        broken=lambda: world(**_PROBES, probe__pod=[_STATUS]),
        healthy=lambda: world(**_PROBES, probe__pod=[_KEPT]),
        subject="pod/default/phalanx-audit-probe",
        field="create",
    ),
    "proxy-node-modes": Pair(
        broken=lambda: world(proxy__config=proxy_config(mode="nftables"), node__proxy__modes=[says("n1", mode="ipvs")]),
        healthy=lambda: world(
            proxy__config=proxy_config(mode="nftables"), node__proxy__modes=[says("n1", mode="nftables")]
        ),
        subject="node/n1",
        field="kube-proxy /proxyMode",
    ),
    "node-kubelet-gates": Pair(
        broken=lambda: world(node__kubelets=[says("n1", featureGates={"PodCertificateRequest": False})]),
        healthy=lambda: world(node__kubelets=[says("n1", featureGates={"PodCertificateRequest": True})]),
        subject="node/n1",
        field="kubelet /configz featureGates.PodCertificateRequest",
    ),
}

PAIRS: Mapping[str, Pair] = {
    **GANG_API,
    **GANGS,
    **PROXY,
    **DEVICES,
    **ZERO,
    **CERTIFICATES,
    **SURROUNDINGS,
    **ASKED,
    **UNMEASURED,
}
