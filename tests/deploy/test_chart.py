"""The chart: what it renders, what it refuses, and what the API server says of it."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.deploy.tools import DEFAULT, NAMESPACE, ROOT, Kubectl, ToolError, Tools

Render = Callable[..., list[dict[str, Any]]]

EVERYTHING: dict[str, Any] = {
    "commonLabels": {"team": "ml-platform"},
    "podAnnotations": {"example.com/a": "b"},
    "imagePullSecrets": ["pull"],
    "image": {"registry": "registry.example.com", "tag": "1.2.3"},
    "nodeSelector": {"pool": "system"},
    "tolerations": [{"key": "system", "operator": "Exists"}],
    "config": {"ownership": {"nodeSelector": {"pool": "gpu"}}},
    "env": {"PHALANX_LOG_LEVEL": "debug"},
    "ownership": {"create": True},
    "networkPolicies": {
        "callers": [{"namespaceSelector": {"matchLabels": {"platform": "true"}}}],
        "scrapers": [{"namespaceSelector": {"matchLabels": {"monitoring": "true"}}}],
        "subscribers": [{"namespaceSelector": {"matchLabels": {"platform": "true"}}}],
    },
}
TRIAL: dict[str, Any] = {
    "nats": {"replicas": 1, "storage": {"ephemeral": True}},
    "services": {"placer": {"replicas": 1}, "binder": {"replicas": 1}},
}
OWN_NATS: dict[str, Any] = {"nats": {"url": "tls://nats.example.com:4222"}}


def _pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]
        for one in objects
        if one["kind"] in {"Deployment", "StatefulSet"}
    }


@pytest.mark.parametrize(
    "values", [{}, EVERYTHING, TRIAL, OWN_NATS], ids=["default", "everything", "trial", "own NATS"]
)
def test_the_api_server_accepts_everything_that_is_rendered(
    render: Render, tools: Tools, kubectl: Kubectl, values: dict[str, Any]
) -> None:
    """Each object passes the real API server's dry run, with every field known to it."""
    kubectl.run("apply", "-f", "-", given=f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {NAMESPACE}}}}}")
    said = kubectl.run(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", given=tools.render(values)
    )
    assert len(said.splitlines()) == len(render(**values))


def test_the_plain_manifests_are_the_chart_with_its_defaults(tools: Tools) -> None:
    """`kubectl apply -k deploy/default` and helm install the same; `make manifests` writes them anew."""
    assert DEFAULT.read_text() == tools.render({}), "the chart has changed: run `make manifests` and commit"


def test_the_plain_manifests_can_be_applied_at_once(kubectl: Kubectl) -> None:
    """The namespace comes with them."""
    said = kubectl.run("kustomize", str(ROOT / "deploy" / "default"))
    assert said.startswith("apiVersion: v1\nkind: Namespace\n")
    kubectl.run("apply", "--server-side", "--validate=strict", "-k", str(ROOT / "deploy" / "default"))
    names = kubectl.run("get", "deployments,statefulsets", "-n", NAMESPACE, "-o", "name").split()
    assert "deployment.apps/phalanx-placer" in names
    assert "statefulset.apps/phalanx-nats" in names


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["default", "everything"])
def test_no_pod_has_more_rights_on_its_node_than_it_needs(render: Render, values: dict[str, Any]) -> None:
    """Pod Security `restricted`, a file system that cannot be written, and no token where none is used."""
    for name, pod in _pods(render(**values)).items():
        security = pod["securityContext"]
        assert security["runAsNonRoot"], name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name
            assert container["resources"]["limits"]["memory"], name
            assert container["livenessProbe"]["httpGet"]["path"] != container["readinessProbe"]["httpGet"]["path"], name
    has_token = {name: pod["automountServiceAccountToken"] for name, pod in _pods(render(**values)).items()}
    assert has_token["phalanx-placer"] is False
    assert has_token["phalanx-nats"] is False
    assert has_token["phalanx-binder"] is True


def test_settings_of_all_and_of_one_pod_reach_every_pod(render: Render) -> None:
    """What an administrator asks for holds for each pod of the chart."""
    for name, pod in _pods(render(**EVERYTHING)).items():
        assert pod["nodeSelector"] == {"pool": "system"}, name
        assert pod["tolerations"] == [{"key": "system", "operator": "Exists"}], name
        assert pod["imagePullSecrets"] == [{"name": "pull"}], name
        assert pod["priorityClassName"] == "phalanx", name
    given = {"services": {"placer": {"env": {"PHALANX_LOG_LEVEL": "error"}}}, "env": {"PHALANX_LOG_LEVEL": "debug"}}
    pods = _pods(render(**given))
    levels = {
        name: {one["name"]: one.get("value") for one in pods[name]["containers"][0]["env"]}["PHALANX_LOG_LEVEL"]
        for name in ("phalanx-placer", "phalanx-binder")
    }
    assert levels == {"phalanx-placer": "error", "phalanx-binder": "debug"}


def test_all_of_a_release_is_in_its_namespace(tools: Tools) -> None:
    """No namespace is written into the chart."""
    assert "phalanx-system" not in tools.render({"ownership": {"create": True}}, namespace="team-x").replace(
        "phalanx-system:", ""
    )


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"servces": {}}, "servces"),
        ({"services": {"watcher": {"replicas": 2}}}, "/services/watcher/replicas"),
        ({"nats": {"replicas": 2}}, "/nats/replicas"),
        ({"nats": {"url": "http://x"}}, "/nats/url"),
        ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
        ({"env": {"phalanx-level": "debug"}}, "phalanx-level"),
    ],
)
def test_wrong_values_are_refused_by_name(tools: Tools, values: dict[str, Any], told: str) -> None:
    """Helm says which value is wrong."""
    with pytest.raises(ToolError, match="values don't meet the specifications") as refused:
        tools.render(values)
    assert told in str(refused.value)
