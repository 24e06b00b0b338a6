"""Formats that kubectl and other clients ask for: tables, and bodies that cannot be read."""

from tests.integration.sandbox.client import PODS, served

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


async def test_tables_of_lists_and_of_one_object() -> None:
    """Who does not ask for one gets objects as ever; an error stays a Status."""
    async with served() as client:
        await client.create_pod("w")
        for path in (PODS, f"{PODS}/w"):
            async with client.session.get(path, headers=TABLE) as response:
                table = await response.json()
            assert (table["kind"], table["rows"][0]["cells"][:3]) == ("Table", ["w", "0/1", "Pending"])
            assert table["metadata"]["resourceVersion"]
        async with client.session.get(PODS) as response:
            assert (await response.json())["kind"] == "PodList"
        async with client.session.get(f"{PODS}/other", headers=TABLE) as response:
            assert (response.status, (await response.json())["kind"]) == (404, "Status")


async def test_protobuf_bodies() -> None:
    """They are refused as such, so that a client can fall back to JSON."""
    async with served() as client:
        headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
        async with client.session.post(PODS, data=b"k8s\0", headers=headers) as response:
            assert response.status == 415
            assert (await response.json())["reason"] == "UnsupportedMediaType"
