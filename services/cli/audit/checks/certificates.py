"""Pod certificates (KEP-4317) and trust bundles (KEP-3257): served, signed, allowed, and not about to expire."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509

from services.cli.audit.evidence import State, subject_of
from services.cli.audit.findings import Finding, Severity
from services.cli.audit.registry import Case, Check, Finder, minor_of

_THEME = "certificates"
_REQUESTS, _BUNDLES = "podcertificaterequests", "clustertrustbundles"
PATIENCE = timedelta(minutes=2)
"""A signer answers within seconds; the cleaner removes requests after 15 minutes."""
NEAR = timedelta(days=30)


def _not_served(case: Case) -> Iterator[Finding]:
    """The stable version of the API is not served."""
    find = Finder("cert-not-served")
    is_there = minor_of(case.evidence.server_version) >= (1, 37)
    for key in (_REQUESTS, _BUNDLES):
        reading = case.evidence.reading(key)
        if reading.state is State.ABSENT or reading.version == "v1beta1":
            yield find(
                Severity.INFO if reading.state is State.ABSENT else Severity.WARNING,
                subject=f"resource/{key}.certificates.k8s.io",
                field="versions",
                found="not served in v1, which 1.37 does by default"
                + (f" (only {reading.version}, which is off by default from 1.37 on)" if reading.version else ""),
                fix=("serve v1 again (--runtime-config of kube-apiserver)" if is_there else "upgrade to 1.37")
                + ", or install certificates from files meanwhile; change manifests to v1",
            )


def _nobody_signs(case: Case) -> Iterator[Finding]:
    """Requests that wait: no signer runs for this name."""
    find = Finder("cert-nobody-signs")
    waiting: dict[str, list[Mapping[str, Any]]] = {}
    for item in case.evidence.items(_REQUESTS):
        conditions = (item.get("status") or {}).get("conditions") or ()
        if not conditions and case.evidence.read_at - _created(item) > PATIENCE:
            waiting.setdefault(str(item["spec"].get("signerName")), []).append(item)
    for signer, items in sorted(waiting.items()):
        yield find(
            Severity.ERROR,
            subject=subject_of(items[0], kind="podcertificaterequest"),
            field="status.conditions",
            found=f"{len(items)} requests to {signer} have no answer after {int(PATIENCE.total_seconds() // 60)} "
            "minutes: "
            f"pod {items[0]['spec'].get('podName')} cannot start",
            fix=f"run a signer for {signer}; Kubernetes ships none",
        )


def _created(item: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(str(item["metadata"].get("creationTimestamp")))


def _rights(case: Case) -> Iterator[Finding]:
    """A signer that is asked for, and no role but the administrators' lets anybody sign."""
    find = Finder("cert-no-right-to-sign")
    names = {str(item["spec"].get("signerName")) for item in case.evidence.items(_REQUESTS)}
    names |= {
        str(item["spec"]["signerName"]) for item in case.evidence.items(_BUNDLES) if item["spec"].get("signerName")
    }
    asked = {str(item["spec"].get("signerName")) for item in case.evidence.items(_REQUESTS)}
    for name in sorted(names):
        for verb in ("sign", "attest") if name in asked else ("attest",):
            if any(
                _allows(rule, name, verb)
                for role in case.evidence.items("clusterroles")
                for rule in role.get("rules") or ()
            ):
                continue
            yield find(
                Severity.WARNING,
                subject=f"signer/{name}",
                field="clusterroles' rules",
                found=f"no ClusterRole, except those for everything, grants verb {verb} on "
                f"certificates.k8s.io/signers {name}",
                fix=f'grant {{apiGroups: ["certificates.k8s.io"], resources: ["signers"], resourceNames: ["{name}"], '
                f'verbs: ["{verb}"]}} to the signer',
            )


def _allows(rule: Mapping[str, Any], signer: str, verb: str) -> bool:
    """Tell whether a rule is meant for a signer; administrators' wildcards are not: no signer should have them."""
    names = rule.get("resourceNames") or ()
    is_named = not names or signer in names or f"{signer.partition('/')[0]}/*" in names
    is_meant = "certificates.k8s.io" in (rule.get("apiGroups") or ())
    is_granted = bool({verb, "*"} & set(rule.get("verbs") or ())) and _covers_signers(rule)
    return is_named and is_meant and is_granted


def _covers_signers(rule: Mapping[str, Any]) -> bool:
    return bool({"signers", "*"} & set(rule.get("resources") or ()))


def _near_expiry(case: Case) -> Iterator[Finding]:
    """Trust anchors that are about to expire, or have."""
    find = Finder("cert-bundle-near-expiry")
    for item in case.evidence.items(_BUNDLES):
        subject = subject_of(item, kind="clustertrustbundle")
        try:
            anchors = x509.load_pem_x509_certificates(str(item["spec"].get("trustBundle", "")).encode())
        except ValueError as error:
            yield find(
                Severity.WARNING,
                subject=subject,
                field="spec.trustBundle",
                found=f"cannot be read as PEM certificates: {error}",
                fix="publish the bundle again",
            )
            continue
        last = max(one.not_valid_after_utc for one in anchors)
        left = last - case.evidence.read_at
        if left < NEAR:
            yield find(
                Severity.ERROR if left < timedelta() else Severity.WARNING,
                subject=subject,
                field="spec.trustBundle",
                found=f"its last anchor {'expired' if left < timedelta() else 'expires'} on {last:%Y-%m-%d}",
                fix="rotate the CA: publish old and new together, wait for kubelets, then sign with the new one",
            )


CHECKS = tuple(
    Check(id=name, theme=_THEME, title=title, needs=needs, judge=judge)
    for name, title, needs, judge in (
        ("cert-not-served", "The certificates API is not served", (_REQUESTS, _BUNDLES), _not_served),
        ("cert-nobody-signs", "Requests that nobody signs", (_REQUESTS,), _nobody_signs),
        ("cert-no-right-to-sign", "Nobody may sign or attest", (_REQUESTS, _BUNDLES, "clusterroles"), _rights),
        ("cert-bundle-near-expiry", "Trust bundles that expire soon", (_BUNDLES,), _near_expiry),
    )
)
