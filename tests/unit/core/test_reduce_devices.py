"""What pods and groups say about devices, from their JSON."""

from typing import Any

import pytest

from services.core.manifests import FieldError
from services.core.objects import Kind, Pod, PodGroup
from services.core.pod_devices import NO_DEVICES, ContainerResource, PodClaim
from services.core.reduce import reduce
from services.core.reduce_devices import reduce_devices
from tests import builders


def reduced(*, status: dict[str, Any] | None = None, **spec: Any) -> Pod:
    """Return a pod that the API shows with these fields."""
    manifest = builders.pod_manifest(**{"gpus": 0} | spec) | {"status": status or {}}
    item = reduce(Kind.POD, manifest)
    assert isinstance(item, Pod)
    return item


def container(name: str, **requests: str) -> dict[str, Any]:
    """Return a container with requests; `__` in a name stands for the slash, `_` for a dot."""
    named = {key.replace("__", "/").replace("_", "."): amount for key, amount in requests.items()}
    return {"name": name, "image": "registry.example.com/none:1", "resources": {"requests": named}}


class TestClaims:
    """Entries of spec.resourceClaims."""

    def test_a_pod_without_claims_says_nothing(self) -> None:
        """Most pods share one value."""
        assert reduced().devices is NO_DEVICES

    def test_a_claim_is_named_by_the_pod_or_by_its_status(self) -> None:
        """A claim from a template has a name once the controller has made it, or none where none is needed."""
        entries = [
            {"name": "own", "resourceClaimName": "shared"},
            {"name": "made", "resourceClaimTemplateName": "one"},
            {"name": "unneeded", "resourceClaimTemplateName": "none"},
            {"name": "later", "resourceClaimTemplateName": "one"},
        ]
        status = {"resourceClaimStatuses": [{"name": "made", "resourceClaimName": "w-0-made-x"}, {"name": "unneeded"}]}
        assert reduced(resourceClaims=entries, status=status).devices.claims == (
            PodClaim(entry="own", claim="shared"),
            PodClaim(entry="made", claim="w-0-made-x", template="one"),
            PodClaim(entry="unneeded", template="none", is_unneeded=True),
            PodClaim(entry="later", template="one"),
        )

    def test_a_group_has_claims_too(self) -> None:
        """A PodGroup states them as a pod does."""
        manifest = builders.pod_group_manifest(
            min_count=2, resourceClaims=[{"name": "nics", "resourceClaimTemplateName": "nics"}]
        )
        manifest["status"] = {"resourceClaimStatuses": [{"name": "nics", "resourceClaimName": "g-nics-x"}]}
        item = reduce(Kind.POD_GROUP, manifest)
        assert isinstance(item, PodGroup)
        assert item.claims == (PodClaim(entry="nics", claim="g-nics-x", template="nics"),)

    def test_what_cannot_be_read_is_named(self) -> None:
        """The error has the path of the field."""
        with pytest.raises(FieldError, match=r"spec.resourceClaims\[1\].resourceClaimName"):
            reduce_devices({"resourceClaims": [{"name": "a"}, {"name": "b", "resourceClaimName": 5}]}, {})


class TestExtendedResources:
    """Extended resources that may stand for devices."""

    def test_requests_are_named_by_container_and_position(self) -> None:
        """Init containers come first, and positions count all requests of the container by name."""
        spec = {
            "initContainers": [
                container("first", example_com__gpu="2"),
                container("side", example_com__gpu="1") | {"restartPolicy": "Always"},
            ],
            "containers": [container("main", cpu="1", example_com__nic="1", example_com__gpu="3", zoo="1")],
        }
        assert reduce_devices(spec, {}).extended == (
            ContainerResource(
                index=0, position=0, container="first", resource="example.com/gpu", amount=2, is_initial=True
            ),
            ContainerResource(index=1, position=0, container="side", resource="example.com/gpu", amount=1),
            ContainerResource(index=2, position=1, container="main", resource="example.com/gpu", amount=3),
            ContainerResource(index=2, position=2, container="main", resource="example.com/nic", amount=1),
        )

    @pytest.mark.parametrize(
        ("resource", "may"),
        [
            ("example.com/gpu", True),
            ("deviceclass.resource.kubernetes.io/gpu", True),
            ("cpu", False),
            ("hugepages-2Mi", False),
            ("kubernetes.io/thing", False),
            ("requests.example.com/gpu", False),
        ],
    )
    def test_only_names_with_a_domain_of_their_own_may_be_devices(self, resource: str, may: bool) -> None:  # noqa: FBT001 - a row of the table
        """And the names of DeviceClasses."""
        spec = {"containers": [{"name": "main", "resources": {"requests": {resource: "1"}}}]}
        assert bool(reduce_devices(spec, {}).extended) is may

    def test_the_claim_that_was_made_is_known(self) -> None:
        """The pod's status names it."""
        status = {"extendedResourceClaimStatus": {"resourceClaimName": "w-0-extended-resources-x"}}
        assert reduced(status=status).devices.extended_claim == "w-0-extended-resources-x"
