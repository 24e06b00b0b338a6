"""The gangs whose binder dies: small, of members that nobody recreates, and an API server that refuses one of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.core.decisions import Committed, Decision, DecisionEvent, Refused, RolledBack
from services.core.objects import GangId
from tests.builders import pod_group_manifest, pod_manifest
from tests.chaos.stage import Stage
from tests.device_manifests import pools, template_manifest, with_template
from tests.e2e.api import Api
from tests.e2e.gangs import submit_pods
from tests.e2e.waiting import eventually, until

PICKY, HOPELESS = "picky", "hopeless"
"""Names that the policy knows: refused on the first node alone, and everywhere. Dry runs are spared."""

FIRST_NODE = "node-001"
_POLICY = "chaos"
_ROOT = "/apis/admissionregistration.k8s.io/v1"
_INVALID = 422
ENDINGS = (Committed, Refused, RolledBack)
LIMIT_S = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A gang, what refuses it, and how it ends where nobody dies."""

    name: str
    ending: type[DecisionEvent]
    last_member: str
    repair_window: str = ""
    size: int = 4
    has_claims: bool = False
    """Its members claim a device each."""


REPAIR = Scenario(name="repair", ending=Committed, last_member=PICKY)
UNDO = Scenario(name="undo", ending=RolledBack, last_member=HOPELESS, repair_window="0s")
DEVICES = Scenario(name="devices", ending=Committed, last_member=PICKY, size=2, has_claims=True)
SCENARIOS = (REPAIR, UNDO, DEVICES)
BYSTANDERS = Scenario(name="bystanders", ending=Committed, last_member="plain-last", size=2)
"""A gang that nothing is refused and nobody kills anything about."""


async def submit(stage: Stage, api: Api, scenario: Scenario) -> GangId:
    """Create the group, an owner whose controller makes nothing, and the members."""
    owner = await api.client.request_ok(
        "POST",
        f"/api/v1/namespaces/{api.namespace}/configmaps",
        body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "train"}},
    )
    stage.check()
    annotations = {"phalanx.dev/repair-window": scenario.repair_window} if scenario.repair_window else {}
    await api.create(
        pod_group_manifest("train", min_count=scenario.size, namespace=api.namespace, annotations=annotations)
    )
    if scenario.has_claims:
        await api.create(template_manifest(namespace=api.namespace))
    names = [*(f"plain-{number}" for number in range(scenario.size - 1)), scenario.last_member]
    members = [_member(api, name, owner=owner.json(), has_claim=scenario.has_claims) for name in names]
    await submit_pods(api, members)
    return GangId(f"podgroup/{api.namespace}/train")


def _member(api: Api, name: str, *, owner: Mapping[str, Any], has_claim: bool) -> dict[str, Any]:
    controller = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    manifest = pod_manifest(
        name, namespace=api.namespace, group="train", gpus=int(not has_claim), terminationGracePeriodSeconds=5
    )
    manifest["metadata"]["ownerReferences"] = [controller]
    return with_template(manifest) if has_claim else manifest


async def publish_devices(stage: Stage) -> None:
    """Let each node have devices, for ever."""
    api = stage.api("default")
    for manifest in pools(stage.kubelets.names, count=DEVICES.size):
        await api.create(manifest)


def decisions(stage: Stage, gang: GangId) -> list[Decision]:
    """Return what was decided about a gang so far."""
    return [one.decision for one in stage.recorder.of(gang)]


def endings(stage: Stage, gang: GangId) -> list[DecisionEvent]:
    """Return the ends of a gang's transactions so far."""
    return [one.event for one in decisions(stage, gang) if isinstance(one.event, ENDINGS)]


async def rested(stage: Stage, gang: GangId, *, timeout_s: float = LIMIT_S) -> None:
    """Wait until a gang's transaction has ended and its journal entry is gone."""

    def has_ended() -> bool:
        return bool(endings(stage, gang)) and not any(one.gang == gang for one in stage.bucket.open())

    try:
        await until(has_ended, what=f"the transaction of {gang} has ended", timeout_s=timeout_s)
    except AssertionError as error:
        seen = [type(one.event).__name__ for one in decisions(stage, gang)]
        raise AssertionError(f"{error}; decided: {seen}; calls: {stage.orders.calls(gang.split('/')[1])}") from None


async def refuse_some(stage: Stage) -> None:
    """Make the API server refuse what the names above say, for ever; waits until it does."""
    reply = await stage.client.request("POST", f"{_ROOT}/validatingadmissionpolicies", body=_policy())
    assert reply.status == 201, reply.body
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": _POLICY},
        "spec": {"policyName": _POLICY, "validationActions": ["Deny"]},
    }
    await stage.client.request_ok("POST", f"{_ROOT}/validatingadmissionpolicybindings", body=binding)
    api = await stage.space("policy-probe")
    await api.create(pod_manifest(HOPELESS, namespace=api.namespace, scheduler="nobody", gpus=0))
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": HOPELESS},
        "target": {"apiVersion": "v1", "kind": "Node", "name": FIRST_NODE},
    }

    async def is_refused() -> bool:
        path = f"/api/v1/namespaces/{api.namespace}/pods/{HOPELESS}/binding"
        reply = await stage.client.request("POST", path, body=body)
        return reply.status == _INVALID and _POLICY in str(reply.body)

    await eventually(is_refused, what="the policy is in force")
    await api.delete("Pod", HOPELESS, grace_s=0)


def _policy() -> dict[str, Any]:
    is_dry = "(has(request.dryRun) && request.dryRun)"
    is_picky = f"(object.metadata.name == '{PICKY}' && object.target.name == '{FIRST_NODE}')"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": _POLICY},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [
                {
                    "expression": f"{is_dry} || !({is_picky} || object.metadata.name == '{HOPELESS}')",
                    "message": "not on this node",
                }
            ],
        },
    }
