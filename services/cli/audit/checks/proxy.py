"""The mode of kube-proxy: ipvs goes (KEP-5495), and an unset mode means something else from 1.40 on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from services.cli.audit.evidence import Evidence, flags_of, subject_of
from services.cli.audit.findings import Finding, Severity
from services.cli.audit.registry import Case, Check, Finder

_THEME = "kube-proxy"
_NEEDS = ("proxy-config", "daemonsets")
IPVS_OFF, IPVS_GONE = "1.40", "1.43"
ROLLBACK = "roll back with the old mode and `nft delete table ip kube-proxy; nft delete table ip6 kube-proxy`"
_EVENTS = {"IPVSDeprecation": "ipvs", "KubeProxyDefaultMode": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """One place where kube-proxy is configured. `mode` is empty where none is set."""

    subject: str
    field: str
    mode: str
    document: Mapping[str, Any]


def settings_of(evidence: Evidence) -> Iterator[ProxySettings]:
    """Yield what configures kube-proxy: a DaemonSet's flags win over the ConfigMap, as in kube-proxy itself."""
    flags = list(_flags(evidence))
    for subject, one in flags:
        if "proxy-mode" in one:
            yield ProxySettings(subject=subject, field="--proxy-mode", mode=one["proxy-mode"], document={})
    if any("proxy-mode" in one for _, one in flags):
        return
    for item in evidence.items("proxy-config"):
        data = item.get("data") or {}
        for key, text in sorted(data.items()):
            document = _document(text)
            if document.get("kind") == "KubeProxyConfiguration":
                mode = str(document.get("mode") or "")
                yield ProxySettings(
                    subject=subject_of(item, kind="configmap"), field=f"data[{key}].mode", mode=mode, document=document
                )
                return
    for subject, one in flags:
        if "config" not in one:
            yield ProxySettings(subject=subject, field="--proxy-mode", mode="", document={})


def _flags(evidence: Evidence) -> Iterator[tuple[str, Mapping[str, str]]]:
    for item in evidence.items("daemonsets"):
        if item["metadata"].get("name") != "kube-proxy":
            continue
        for container in item["spec"]["template"]["spec"].get("containers") or ():
            found = flags_of([*(container.get("command") or ()), *(container.get("args") or ())])
            yield subject_of(item, kind="daemonset"), found


def _document(text: object) -> Mapping[str, Any]:
    try:
        found = yaml.safe_load(str(text))
    except yaml.YAMLError:
        return {}
    return found if isinstance(found, dict) else {}


def _mode_ipvs(case: Case) -> Iterator[Finding]:
    """Mode ipvs is configured."""
    find = Finder("proxy-mode-ipvs")
    for one in settings_of(case.evidence):
        if one.mode != "ipvs":
            continue
        if case.reaches(IPVS_GONE):
            severity, fate = Severity.ERROR, f"its code is removed in {IPVS_GONE}, and kube-proxy will not start"
        elif case.reaches(IPVS_OFF):
            severity, fate = (
                Severity.ERROR,
                f"it is off by default in {IPVS_OFF}, and kube-proxy will not start with it",
            )
        else:
            severity = Severity.WARNING
            fate = f"it still works in 1.37; off by default in {IPVS_OFF}, removed in {IPVS_GONE}"
        yield find(
            severity,
            subject=one.subject,
            field=one.field,
            found=f"ipvs: {fate}",
            fix="move to nftables: see the proxy-… findings for what differs, switch one node pool first (taint "
            "it, change "
            f"the mode, restart kube-proxy), then the others; {ROLLBACK}",
        )


def _mode_unset(case: Case) -> Iterator[Finding]:
    """No mode is set, and the default flips."""
    find = Finder("proxy-mode-unset")
    for one in settings_of(case.evidence):
        if one.mode:
            continue
        yield find(
            Severity.ERROR if case.reaches(IPVS_OFF) else Severity.WARNING,
            subject=one.subject,
            field=one.field,
            found=f"not set: the default is iptables, and becomes nftables in {IPVS_OFF}",
            fix="say what you want: `iptables` keeps today's behaviour, `nftables` is where it goes",
        )


def _said_by_proxies(case: Case) -> Iterator[Finding]:
    """Kube-proxies themselves said which mode they run in."""
    find = Finder("proxy-runtime-mode")
    nodes: dict[str, set[str]] = {}
    for event in case.evidence.items("proxy-events"):
        reason = str(event.get("reason", ""))
        if reason in _EVENTS:
            nodes.setdefault(reason, set()).add(str((event.get("regarding") or {}).get("name", "")))
    configured = {one.mode for one in settings_of(case.evidence)}
    for reason, names in sorted(nodes.items()):
        if _EVENTS[reason] in configured:
            continue
        first = min(names)
        yield find(
            Severity.WARNING,
            subject=f"node/{first}",
            field=f"event {reason}",
            found=f"kube-proxy on {len(names)} nodes runs in {_EVENTS[reason] or 'a mode that nobody set'}, which no "
            "configuration that can be seen says",
            fix="look for the configuration of kube-proxy on these nodes (flags, or a file of the image)",
            is_inferred=True,
        )


CHECKS = (
    Check(id="proxy-mode-ipvs", theme=_THEME, title="kube-proxy runs in mode ipvs", needs=_NEEDS, judge=_mode_ipvs),
    Check(id="proxy-mode-unset", theme=_THEME, title="kube-proxy's mode is not set", needs=_NEEDS, judge=_mode_unset),
    Check(
        id="proxy-runtime-mode",
        theme=_THEME,
        title="kube-proxies run in a mode that no configuration names",
        needs=(*_NEEDS, "proxy-events"),
        judge=_said_by_proxies,
    ),
)
