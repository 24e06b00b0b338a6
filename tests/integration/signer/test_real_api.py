"""The signer on a real API server, with exactly the rights of `deploy/`: what it signs, denies, publishes, rotates."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from services.cli.processes import LocalProcess
from services.runtime.kube import KubeClient
from services.signer.certificates import certificates_in
from tests.e2e.waiting import eventually
from tests.integration.signer.cluster import SECRET_PATH, Scene, prepare
from tests.kubernetes.cluster import Cluster, ClusterConfig
from tests.kubernetes.fixtures import require_binaries
from tests.pki import TestAuthority

pytestmark = pytest.mark.kubernetes


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """An API server alone: nothing else answers requests, and nothing removes them."""
    require_binaries()
    with Cluster(ClusterConfig(controller_manager=False)) as running:
        yield running


@pytest.fixture
async def scene(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Scene]:
    """The cluster without requests, pods, authority and bundle."""
    async with await KubeClient.open(cluster.kubeconfig) as client:
        account = await prepare(client, cluster=cluster, folder=tmp_path)
        made = Scene(client=client, kubeconfig=account, folder=tmp_path)
        await made.clean()
        yield made


def leaf(chain: str) -> x509.Certificate:
    """The first certificate of a chain."""
    return x509.load_pem_x509_certificate(chain.encode())


def is_trusted(chain: str, bundle: str) -> bool:
    """Whether some certificate of the bundle signed the leaf."""
    for authority in x509.load_pem_x509_certificates(bundle.encode()):
        try:
            leaf(chain).verify_directly_issued_by(authority)
        except Exception:  # noqa: BLE001, S112 - each kind of mismatch has an exception of its own
            continue
        return True
    return False


async def counted(process: LocalProcess, series: str) -> float:
    """One number of `/metrics`."""
    async with aiohttp.ClientSession() as session, session.get(f"{process.http_url}/metrics") as answer:
        for line in (await answer.text()).splitlines():
            if line.startswith(series + " "):
                return float(line.split()[1])
    raise AssertionError(f"no series {series}")


async def test_a_pod_gets_what_the_policy_says_and_others_get_a_reason(scene: Scene) -> None:
    """The real server takes the certificate; every denial has the reason that its request has earned."""
    placer = await scene.pod("placer-0")
    other = await scene.pod("other-0", account="default")
    elsewhere = await scene.pod("placer-0", namespace="team-a")
    # One that is there before the signer is, and one whose key is weak.
    await scene.ask("early", pod=placer)
    async with scene.signing() as process:
        status = await scene.answer("early")
        assert [one["type"] for one in status["conditions"]] == ["Issued"]
        issued = leaf(status["certificateChain"])
        names = issued.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.UniformResourceIdentifier) == [
            "spiffe://phalanx.dev/ns/phalanx-system/sa/phalanx-placer"
        ]
        assert names.get_values_for_type(x509.DNSName) == ["phalanx-placer.phalanx-system.svc"]
        assert (issued.not_valid_after_utc - issued.not_valid_before_utc).total_seconds() == 2 * 3600
        assert is_trusted(status["certificateChain"], await scene.bundle())

        await scene.ask("account", pod=other)
        await scene.ask("namespace", pod=elsewhere)
        await scene.ask("claims", pod=other, serviceAccountName="phalanx-placer")
        await scene.ask("uid", pod=placer, podUID="another")
        await scene.ask("node", pod=placer, nodeName="n2")
        await scene.ask("gone", pod=placer, podName="placer-1")
        reasons = {
            name: (await scene.answer(name, namespace=namespace))["conditions"][0]
            for name, namespace in (
                ("account", "phalanx-system"),
                ("namespace", "team-a"),
                ("claims", "phalanx-system"),
                ("uid", "phalanx-system"),
                ("node", "phalanx-system"),
                ("gone", "phalanx-system"),
            )
        }
        assert {one["type"] for one in reasons.values()} == {"Denied"}
        assert {name: one["reason"] for name, one in reasons.items()} == {
            "account": "NotInPolicy",
            "namespace": "NotInPolicy",
            "claims": "OtherServiceAccount",
            "uid": "PodReplaced",
            "node": "OtherNode",
            "gone": "PodNotFound",
        }
        await scene.ask("rsa", pod=placer, key=rsa.generate_private_key(public_exponent=65537, key_size=3072))
        assert (await scene.answer("rsa"))["conditions"][0]["type"] == "Issued"

        async def all_counted() -> bool:
            denied = await counted(process, 'phalanx_signer_requests_total{result="denied"}')
            return denied == 6 and await counted(process, 'phalanx_signer_requests_total{result="issued"}') == 2

        await eventually(all_counted, what="eight answers are counted")
        assert "PRIVATE" not in process.tail()


async def test_the_authority_is_replaced_while_two_signers_answer(scene: Scene) -> None:
    """Each certificate is trusted by the bundle of its moment, and by the next one."""
    placer = await scene.pod("placer-0")
    async with scene.signing() as process, scene.signing("second"):
        await scene.ask("before", pod=placer)
        before = (await scene.answer("before"))["certificateChain"]
        old = await scene.bundle()
        await scene.rotate()

        async def is_new(name: str) -> str:
            await scene.ask(name, pod=placer)
            chain = str((await scene.answer(name))["certificateChain"])
            both = await scene.bundle()
            assert is_trusted(before, both)
            assert is_trusted(chain, both)
            return "" if is_trusted(chain, old) else chain

        numbers = iter(range(1000))
        after = await eventually(lambda: is_new(f"r-{next(numbers)}"), what="the new authority signs", timeout_s=120)
        assert len(certificates_in(await scene.bundle())) == 2
        # A signer that begins anew finds all of it.
        process.kill()
        process.start()
        await process.wait_ready()
        await scene.ask("again", pod=placer)
        assert is_trusted((await scene.answer("again"))["certificateChain"], await scene.bundle())
        assert is_trusted(after, await scene.bundle())


async def test_an_authority_of_somebody_else_signs_from_its_files(scene: Scene) -> None:
    """No Secret is made; its bundle is published before anything is signed."""
    placer = await scene.pod("placer-0")
    folder, authority = scene.folder / "ca", TestAuthority()
    folder.mkdir()
    for name, content in (("tls.crt", authority.certificate), ("tls.key", authority.key)):
        (folder / name).write_bytes(content)
    (folder / "ca.crt").write_bytes(authority.certificate)
    async with scene.signing(PHALANX_CA_DIR=os.fspath(folder)):
        await scene.ask("r", pod=placer)
        chain = (await scene.answer("r"))["certificateChain"]
        assert is_trusted(chain, authority.certificate.decode())
        assert certificates_in(await scene.bundle()) == certificates_in(authority.certificate.decode())
    assert (await scene.client.request("GET", SECRET_PATH)).status == 404


async def test_a_damaged_secret_is_left_as_it_is(scene: Scene) -> None:
    """Keys that somebody may still need are not overwritten; readiness says what to do."""
    await scene.pod("placer-0")
    async with scene.signing() as process:
        body = {"data": {"authorities.json": "e30="}}
        await scene.client.request_ok("PATCH", SECRET_PATH, body=body, content_type="application/merge-patch+json")

        async def says() -> bool:
            async with aiohttp.ClientSession() as session, session.get(f"{process.http_url}/readyz") as answer:
                return "is left as it is; restore it, or delete it" in await answer.text()

        await eventually(says, what="readiness names the Secret")
        kept = (await scene.client.request_ok("GET", SECRET_PATH)).json()
        assert kept["data"] == body["data"]
