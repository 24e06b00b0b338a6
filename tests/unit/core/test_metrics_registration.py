"""Whose the metrics API is."""

from typing import Any

import pytest

from services.core.metrics_registration import Owner, registration_of

OURS = "phalanx-system/phalanx-external-metrics"


def api_service(service: dict[str, str] | None, **spec: Any) -> dict[str, Any]:
    """An APIService."""
    return {"metadata": {"resourceVersion": "5"}, "spec": {**({"service": service} if service else {}), **spec}}


def ours(**spec: Any) -> dict[str, Any]:
    """The APIService that names our Service."""
    namespace, name = OURS.split("/")
    return api_service({"namespace": namespace, "name": name}, **spec)


def test_without_one_targets_are_only_woken() -> None:
    """And what is missing is said."""
    found = registration_of(None, service=OURS, ca_bundle="Q0E=")
    assert found.owner is Owner.ABSENT
    assert "does not exist" in found.detail
    assert found.ca_bundle is None


@pytest.mark.parametrize(
    ("service", "whose"),
    [({"namespace": "keda", "name": "adapter"}, "keda/adapter"), (None, "the API server itself")],
)
def test_that_of_somebody_else_is_left_alone(service: dict[str, str] | None, whose: str) -> None:
    """Whatever its authority is."""
    found = registration_of(api_service(service, caBundle="eA=="), service=OURS, ca_bundle="Q0E=")
    assert (found.owner, found.ca_bundle) == (Owner.FOREIGN, None)
    assert f"belongs to {whose}" in found.detail


def test_ours_gets_the_authority_of_our_certificate() -> None:
    """Onto the version that was seen; not again where it is there, nor where none is checked."""
    found = registration_of(ours(), service=OURS, ca_bundle="Q0E=")
    assert (found.owner, found.ca_bundle, found.resource_version) == (Owner.OURS, "Q0E=", "5")
    assert registration_of(ours(caBundle="Q0E="), service=OURS, ca_bundle="Q0E=").ca_bundle is None
    assert registration_of(ours(insecureSkipTLSVerify=True), service=OURS, ca_bundle="Q0E=").ca_bundle is None


def test_whether_the_api_server_sees_us_is_said() -> None:
    """In its own words where it does not."""
    condition = {"type": "Available", "status": "False", "message": "no response"}
    manifest = {**ours(caBundle="Q0E="), "status": {"conditions": [condition]}}
    assert "not available yet: no response" in registration_of(manifest, service=OURS, ca_bundle="Q0E=").detail
    manifest["status"] = {"conditions": [{**condition, "status": "True"}]}
    assert registration_of(manifest, service=OURS, ca_bundle="Q0E=").detail.startswith("served to the HPA")
