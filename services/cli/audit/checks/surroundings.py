"""What runs around Kubernetes: APIs that go, controllers that do not know 1.37 yet, kubelets and runtimes of nodes."""

import importlib.resources
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import yaml

from services.cli.audit.evidence import Manifest, subject_of
from services.cli.audit.findings import Finding, Severity
from services.cli.audit.registry import Case, Check, Finder, minor_of

_THEME = "surroundings"
_SKEW = 3
"""Minors that a kubelet may be older than its API server (version skew policy)."""
_TAG = re.compile(r":v?(\d+\.\d+(?:\.\d+)?)")


@cache
def controllers() -> tuple[Mapping[str, Any], ...]:
    """Return what is known of controllers and the Kubernetes releases that they are tested with."""
    text = importlib.resources.files("services.cli.audit").joinpath("controllers.yaml").read_text()
    return tuple(yaml.safe_load(text)["controllers"])


def _deprecated_use(case: Case) -> Iterator[Finding]:
    """Somebody uses an API that is removed at or before the target."""
    find = Finder("api-deprecated-use")
    for labels, value in case.evidence.metrics.get("apiserver_requested_deprecated_apis", ()):
        removed = labels.get("removed_release", "")
        if not value:
            continue
        name = f"{labels.get('resource')}.{labels.get('version')}.{labels.get('group')}"
        is_due = bool(removed) and minor_of(removed) <= minor_of(case.target)
        yield find(
            Severity.ERROR if is_due else Severity.WARNING if removed else Severity.INFO,
            subject=f"api/{name}",
            field="apiserver_requested_deprecated_apis",
            found="was requested since the API server started; it is deprecated"
            + (f" and removed in {removed}" if removed else ""),
            fix="the audit log tells who asks (annotation k8s.io/deprecated); move them to the version that "
            "replaces it",
        )


def _old_controllers(case: Case) -> Iterator[Finding]:
    """Controllers of versions that their makers do not test with the target."""
    find = Finder("around-old-controller")
    workloads = [
        *((item, "deployment") for item in case.evidence.items("deployments")),
        *((item, "daemonset") for item in case.evidence.items("daemonsets")),
    ]
    for item, kind in workloads:
        for image in _images(item):
            known = next((one for one in controllers() if one["image"] in image), None)
            tag = _TAG.search(image)
            if known is None or tag is None:
                continue
            needed, version = str(known["since"]), tag[1]
            if minor_of(version) > minor_of(str(known["known_up_to"])):
                continue
            if needed and minor_of(version) >= minor_of(needed):
                continue
            yield find(
                Severity.WARNING,
                subject=subject_of(item, kind=kind),
                field="spec.template.spec.containers[].image",
                found=f"{known['name']} {version}: {known['what']}",
                fix=(f"upgrade it to {needed} or later first" if needed else str(known["fix"]))
                + f" ({known['source']})",
            )


def _images(item: Manifest) -> Iterator[str]:
    for container in item["spec"]["template"]["spec"].get("containers") or ():
        yield str(container.get("image", ""))


def _kubelet_skew(case: Case) -> Iterator[Finding]:
    """Kubelets that are too old for the target."""
    find = Finder("node-kubelet-skew")
    target = minor_of(case.target)
    for node in case.evidence.items("nodes"):
        version = str((node["status"].get("nodeInfo") or {}).get("kubeletVersion", "")).removeprefix("v")
        minor = minor_of(version)
        if minor != (0, 0) and minor[1] < target[1] - _SKEW:
            yield find(
                Severity.ERROR,
                subject=subject_of(node, kind="node"),
                field="status.nodeInfo.kubeletVersion",
                found=f"{version}: more than {_SKEW} minors older than {case.target}",
                fix="upgrade the node first",
            )


def _runtime(case: Case) -> Iterator[Finding]:
    """Container runtimes that are out of support."""
    find = Finder("node-old-runtime")
    for node in case.evidence.items("nodes"):
        runtime = str((node["status"].get("nodeInfo") or {}).get("containerRuntimeVersion", ""))
        name, _, version = runtime.partition("://")
        if name == "containerd" and (0, 0) < minor_of(version) < (2, 0):
            yield find(
                Severity.WARNING,
                subject=subject_of(node, kind="node"),
                field="status.nodeInfo.containerRuntimeVersion",
                found=f"{runtime}: kubelet 1.37 accepts containerd 1.x as deprecated",
                fix="upgrade containerd to 2.x together with the node",
            )


def _webhooks(case: Case) -> Iterator[Finding]:
    """Webhooks that can stop pods, bindings or groups from being written."""
    find = Finder("around-blocking-webhook")
    for key, kind in (
        ("validatingwebhookconfigurations", "validatingwebhookconfiguration"),
        ("mutatingwebhookconfigurations", "mutatingwebhookconfiguration"),
    ):
        for item in case.evidence.items(key):
            for hook in item.get("webhooks") or ():
                if hook.get("failurePolicy", "Fail") == "Fail" and any(
                    _blocks(rule) for rule in hook.get("rules") or ()
                ):
                    yield find(
                        Severity.INFO,
                        subject=subject_of(item, kind=kind),
                        field=f"webhooks[{hook.get('name')}].rules",
                        found="failurePolicy Fail on pods/binding or PodGroups: while it is down, no gang can be bound",
                        fix="narrow its rules or selectors, or set failurePolicy: Ignore",
                    )


def _blocks(rule: Mapping[str, Any]) -> bool:
    resources = set(rule.get("resources") or ())
    return bool(resources & {"pods/binding", "bindings", "podgroups", "pods/*", "*/*"})


CHECKS = tuple(
    Check(id=name, theme=_THEME, title=title, needs=needs, judge=judge)
    for name, title, needs, judge in (
        ("api-deprecated-use", "APIs that go are in use", ("metrics",), _deprecated_use),
        (
            "around-old-controller",
            "Controllers that do not know the release",
            ("deployments", "daemonsets"),
            _old_controllers,
        ),
        (
            "around-blocking-webhook",
            "Webhooks that can stop bindings",
            ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"),
            _webhooks,
        ),
        ("node-kubelet-skew", "Kubelets too old for the target", ("nodes",), _kubelet_skew),
        ("node-old-runtime", "Container runtimes out of support", ("nodes",), _runtime),
    )
)
