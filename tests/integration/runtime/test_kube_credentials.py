"""Who the Kubernetes client says it is: kubeconfig, service account, rotation and TLS."""

import base64
import ipaddress
import ssl
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from services.runtime.kube import Credentials, KubeClient, KubeConfigError, KubeUnavailable
from tests.integration.runtime.test_kube_client import kubeconfig


@dataclass(slots=True)
class Guarded:
    """A server that lets one token in, over TLS."""

    accepted: str
    ca: Path
    port: int = 0
    seen: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://127.0.0.1:{self.port}"

    async def answer(self, request: web.Request) -> web.Response:
        """200 for the token, 401 for others."""
        self.seen.append(request.headers.get("Authorization", ""))
        passed = self.seen[-1] == f"Bearer {self.accepted}"
        return web.json_response({"kind": "Status"}, status=200 if passed else 401)


def self_signed(directory: Path) -> tuple[Path, Path]:
    """Certificate and key of a server at 127.0.0.1; the certificate is its own CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (directory / "tls.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (directory / "tls.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return directory / "tls.crt", directory / "tls.key"


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    """The TLS server."""
    certificate, key = self_signed(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    server_side = Guarded(accepted="right", ca=certificate)
    application = web.Application()
    application.router.add_get("/{path:.*}", server_side.answer)
    server = TestServer(application, scheme="https")
    await server.start_server(ssl=context)
    assert server.port is not None
    server_side.port = server.port
    yield server_side
    await server.close()


async def test_tls_is_verified_against_the_kubeconfig(guarded: Guarded, tmp_path: Path) -> None:
    """The CA of the kubeconfig is trusted, inline or as a file, and no other is."""
    user = {"token": "right"}
    inline = base64.b64encode(guarded.ca.read_bytes()).decode()
    clusters: dict[str, dict[str, Any]] = {
        "file": {"certificate-authority": str(guarded.ca)},
        "data": {"certificate-authority-data": inline},
        "off": {"insecure-skip-tls-verify": True},
    }
    for name, cluster in clusters.items():
        config = kubeconfig(tmp_path / name, server=guarded.url, user=user, **cluster)
        async with await KubeClient.open(config) as client:
            assert (await client.request("GET", "/version")).status == 200

    async with await KubeClient.open(kubeconfig(tmp_path / "no-ca", server=guarded.url, user=user)) as client:
        with pytest.raises(KubeUnavailable, match=r"(?i)certificate"):
            await client.request("GET", "/version")


async def test_a_pod_uses_its_service_account(guarded: Guarded, tmp_path: Path) -> None:
    """Without a kubeconfig, the mounted token and CA are used, and a rotated token replaces a refused one."""
    account = tmp_path / "serviceaccount"
    account.mkdir()
    (account / "ca.crt").write_bytes(guarded.ca.read_bytes())
    (account / "token").write_text("right\n", encoding="utf-8")
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(guarded.port)}

    async with KubeClient(await Credentials.find(None, environ=environ, service_account=account)) as client:
        assert (await client.request("GET", "/version")).status == 200
        guarded.accepted = "rotated"
        (account / "token").write_text("rotated", encoding="utf-8")
        assert (await client.request("GET", "/version")).status == 200

    assert guarded.seen == ["Bearer right", "Bearer right", "Bearer rotated"]


async def test_a_refused_token_that_did_not_change_is_not_repeated(guarded: Guarded, tmp_path: Path) -> None:
    """A 401 is asked again only when there is something new to say; unreadable files are no crash."""
    config = kubeconfig(
        tmp_path / "k", server=guarded.url, user={"token": "wrong"}, **{"certificate-authority": str(guarded.ca)}
    )
    async with await KubeClient.open(config) as client:
        assert (await client.request("GET", "/version")).status == 401
        config.unlink()
        assert (await client.request("GET", "/version")).status == 401
    assert guarded.seen == ["Bearer wrong", "Bearer wrong"]


async def test_exec_plugins_give_tokens(guarded: Guarded, tmp_path: Path) -> None:
    """A kubeconfig of a cloud cluster runs its plugin: at start, and again after a refusal."""
    token_file = tmp_path / "current"
    token_file.write_text("right", encoding="utf-8")
    plugin = tmp_path / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        'printf \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        f'"status":{{"token":"%s"}}}}\' "$(cat {token_file})"\n',
        encoding="utf-8",
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}
    config = kubeconfig(tmp_path / "k", server=guarded.url, user=user, **{"certificate-authority": str(guarded.ca)})

    async with await KubeClient.open(config) as client:
        assert (await client.request("GET", "/version")).status == 200
        guarded.accepted = "rotated"
        token_file.write_text("rotated", encoding="utf-8")
        assert (await client.request("GET", "/version")).status == 200


async def test_a_context_that_the_kubeconfig_lacks(tmp_path: Path) -> None:
    """The error names the context, and how to list those that there are."""
    config = tmp_path / "kubeconfig"
    one = "- {name: a, context: {cluster: c, user: u}}"
    rest = "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\n"
    config.write_text(f"current-context: a\ncontexts:\n{one}\n{rest}", encoding="utf-8")
    with pytest.raises(KubeConfigError) as caught:
        await KubeClient.open(config, context="other")
    assert str(caught.value) == (
        f"the kubeconfig {config} has no context 'other'; `kubectl config get-contexts -o name` lists those that it has"
    )


@pytest.mark.parametrize(
    "text", ["", "not: [yaml", "current-context: missing\ncontexts: []\nclusters: []\nusers: []\n"]
)
async def test_an_unusable_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    """Whatever is wrong with the file, the error names it and the setting."""
    config = tmp_path / "kubeconfig"
    config.write_text(text, encoding="utf-8")

    with pytest.raises(KubeConfigError, match="kubeconfig") as caught:
        await KubeClient.open(config)
    assert str(config) in str(caught.value)
    assert "PHALANX_KUBECONFIG" in str(caught.value)


async def test_the_default_kubeconfig_is_found(tmp_path: Path) -> None:
    """Outside a cluster and without a setting, $KUBECONFIG is read as kubectl does."""
    config = kubeconfig(tmp_path / "k", server="http://127.0.0.1:1", user={})

    async with await KubeClient.open(None, environ={"KUBECONFIG": str(config)}) as client:
        assert client.host == "http://127.0.0.1:1"


def test_the_models_are_not_loaded() -> None:
    """Reading credentials must not load the library's API models, which cost every process 70 MiB."""
    program = (
        "import asyncio, sys\n"
        "from services.runtime.kube import KubeClient, KubeConfigError\n"
        "try: asyncio.run(KubeClient.open(None, environ={'KUBECONFIG': 'missing'}))\n"
        "except KubeConfigError: pass\n"
        "print(len([name for name in sys.modules if name.startswith('kubernetes_asyncio')]))\n"
        "import kubernetes_asyncio\n"
        "print(kubernetes_asyncio.client.CoreV1Api.__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.split() == ["0", "CoreV1Api"]
