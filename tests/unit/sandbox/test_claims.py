"""ResourceClaims in the sandbox: made from templates, needed to start, freed at the end."""

from services.sandbox import table
from services.sandbox.objects import Obj, metadata, spec, status
from tests.builders import NAMESPACE
from tests.unit.sandbox.world import World, pod, world

_FINALIZER = "resource.kubernetes.io/delete-protection"
_REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
_DEVICES = {"devices": {"requests": [_REQUEST]}}
_WANTED = [{"name": "gpu", "resourceClaimTemplateName": "t"}]


def _template() -> Obj:
    return {"metadata": {"name": "t"}, "spec": {"spec": _DEVICES}}


def _claims(here: World) -> list[Obj]:
    return here.cluster.store.objects("resourceclaims", group=table.RESOURCE)


def _allocate(here: World, *, holders: list[Obj]) -> None:
    """Allocate and reserve the only claim, as a scheduler does."""
    stored = here.cluster.writer.require(
        table.RESOURCE_CLAIM, namespace=NAMESPACE, name=metadata(_claims(here)[0])["name"]
    )
    protected = stored.full("v1")
    protected["metadata"]["finalizers"] = [_FINALIZER]
    stored = here.cluster.writer.update(stored, protected)
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-001", "device": "gpu-0"}
    changed = stored.full("v1")
    changed["status"] = {"allocation": {"devices": {"results": [result]}}}
    if holders:
        changed["status"]["reservedFor"] = [
            {"resource": "pods", "name": metadata(one)["name"], "uid": metadata(one)["uid"]} for one in holders
        ]
    here.cluster.writer.update(stored, changed, subresource="status")


async def test_claim_is_made_from_the_template() -> None:
    """The pod learns the name of a claim that it owns, also where the template comes later."""
    async with world() as here:
        here.create(table.POD, pod(resourceClaims=_WANTED))
        await here.settle()
        assert _claims(here) == []
        here.create(table.RESOURCE_CLAIM_TEMPLATE, _template())
        await here.settle()
        claim, owner = _claims(here)[0], here.found(table.POD, "p")
    assert metadata(claim)["ownerReferences"][0]["uid"] == metadata(owner)["uid"]
    assert metadata(claim)["annotations"]["resource.kubernetes.io/pod-claim-name"] == "gpu"
    names = [entry["resourceClaimName"] for entry in status(owner)["resourceClaimStatuses"]]
    assert names == [metadata(claim)["name"]]
    assert spec(claim)["devices"]["requests"][0]["exactly"]["count"] == 1


async def test_pod_starts_only_with_its_claim_allocated() -> None:
    """A bound pod waits for its claim; allocation after the binding is enough, the reservation is added."""
    async with world() as here:
        here.create(table.RESOURCE_CLAIM_TEMPLATE, _template())
        here.create(table.POD, pod(resourceClaims=_WANTED))
        await here.settle()
        here.bind(here.pods())
        await here.settle()
        assert here.phases() == ["Pending"]
        _allocate(here, holders=[])
        await here.settle()
        assert here.phases() == ["Running"]
        assert len(status(_claims(here)[0])["reservedFor"]) == 1


async def test_claim_of_a_deleted_pod_is_freed_and_removed() -> None:
    """Allocation, finalizer and claim go with the pod."""
    async with world() as here:
        here.create(table.RESOURCE_CLAIM_TEMPLATE, _template())
        here.create(table.POD, pod(resourceClaims=_WANTED))
        await here.settle()
        _allocate(here, holders=here.pods())
        here.bind(here.pods())
        await here.settle()
        here.delete(table.POD, "p")
        await here.settle()
        assert here.pods() == []
        assert _claims(here) == []


async def test_claim_of_a_finished_pod_is_removed() -> None:
    """A pod that has succeeded keeps no device."""
    async with world() as here:
        here.create(table.RESOURCE_CLAIM_TEMPLATE, _template())
        annotations = {"sandbox.phalanx.dev/run-seconds": "5"}
        here.create(table.POD, pod(annotations=annotations, resourceClaims=_WANTED, restartPolicy="Never"))
        await here.settle()
        _allocate(here, holders=here.pods())
        here.bind(here.pods())
        await here.run_for(6)
        assert here.phases() == ["Succeeded"]
        assert _claims(here) == []


async def test_shared_claim_is_freed_by_its_last_user() -> None:
    """A claim that pods name directly stays allocated until none of them is left, and is never deleted."""
    async with world() as here:
        here.create(table.RESOURCE_CLAIM, {"metadata": {"name": "shared"}, "spec": _DEVICES})
        wanted = [{"name": "gpu", "resourceClaimName": "shared"}]
        for name in ("one", "two"):
            here.create(table.POD, pod(name, resourceClaims=wanted))
        _allocate(here, holders=here.pods())
        here.bind(here.pods())
        await here.settle()
        here.delete(table.POD, "one")
        await here.settle()
        assert len(status(_claims(here)[0])["reservedFor"]) == 1
        here.delete(table.POD, "two")
        await here.settle()
        free = _claims(here)[0]
    assert "allocation" not in status(free)
    assert "finalizers" not in metadata(free)
