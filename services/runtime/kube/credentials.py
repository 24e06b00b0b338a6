"""Where the API server is and how we prove who we are, from a kubeconfig or from the pod's service account.

Reading kubeconfigs (contexts, exec plugins, OIDC, files beside data) is left to kubernetes_asyncio. Its packages load
all API models when imported (0.7 s, 70 MiB in every service), so only the modules that are used are loaded, with empty
stand-ins for the packages around them.
"""

import asyncio
import contextlib
import importlib
import importlib.util
import os
import ssl
import sys
import time
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from services.runtime.kube.faults import KubeConfigError

_LIBRARY = "kubernetes_asyncio"
_RECHECK_S = 60.0
_TOKEN_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


class Credentials:
    """Address, TLS context and the current `Authorization` value; tokens are read again as they rotate."""

    def __init__(self, *, kubeconfig: str | None) -> None:
        self._kubeconfig = kubeconfig
        self._library = _library()
        self._configuration: Any = self._library.Configuration()
        self._loader: Any = None
        self._read_at = 0.0
        self._reading = asyncio.Lock()
        self._ssl_context: ssl.SSLContext | None = None

    @classmethod
    async def find(cls, kubeconfig: Path | None, *, environ: Mapping[str, str] = os.environ) -> "Credentials":
        """The given kubeconfig, else the pod's service account, else the user's default kubeconfig."""
        credentials = cls(kubeconfig=_source(kubeconfig, environ=environ))
        await credentials._read()
        return credentials

    @property
    def host(self) -> str:
        """URL of the API server without a trailing slash."""
        return str(self._configuration.host).rstrip("/")

    @property
    def proxy(self) -> str | None:
        """HTTP proxy that the kubeconfig names."""
        return self._configuration.proxy or None

    @property
    def server_name(self) -> str | None:
        """Name in the server's certificate, where it differs from the host."""
        return self._configuration.tls_server_name or None

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """TLS as configured; None for plain HTTP. The same object for ever, so that pools keep it."""
        if self._ssl_context is None and self.host.startswith("https:"):
            self._ssl_context = self._new_ssl_context()
        return self._ssl_context

    async def authorization(self) -> str | None:
        """Value of the `Authorization` header, re-read from its source once a minute."""
        if time.monotonic() - self._read_at >= _RECHECK_S:
            await self._refresh()
        value = self._configuration.api_key.get("BearerToken")
        return None if value is None else str(value).strip()

    async def renew(self) -> bool:
        """Read everything again after the server called us unauthorised; whether anything changed."""
        before = self._configuration.api_key.get("BearerToken")
        async with self._reading:
            await self._read()
        if self._ssl_context is not None and self._configuration.cert_file:
            self._ssl_context.load_cert_chain(self._configuration.cert_file, self._configuration.key_file)
        return bool(before != self._configuration.api_key.get("BearerToken"))

    async def _refresh(self) -> None:
        async with self._reading:
            if time.monotonic() - self._read_at < _RECHECK_S:
                return
            if not self._has_exec_plugin():
                await self._read()
                return
            # A plugin may be slow or interactive: it runs again only when its token says so.
            if hasattr(self._loader, "exec_plugin_expiry"):
                with self._explained():
                    await self._loader.load_from_exec_plugin()
                self._configuration.api_key["BearerToken"] = self._loader.token
            self._read_at = time.monotonic()

    def _has_exec_plugin(self) -> bool:
        user = getattr(self._loader, "_user", None)
        return user is not None and "exec" in user

    async def _read(self) -> None:
        with self._explained():
            if self._kubeconfig is None:
                await asyncio.to_thread(
                    self._library.load_incluster_config, self._configuration, try_refresh_token=False
                )
            else:
                self._loader = await self._library.load_kube_config(
                    config_file=self._kubeconfig, client_configuration=self._configuration, persist_config=False
                )
        self._read_at = time.monotonic()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn whatever the reader raises (it is not choosy) into one error that names the source."""
        try:
            yield
        except Exception as error:
            source = self._kubeconfig or "service account of this pod"
            raise KubeConfigError(
                f"no usable Kubernetes credentials in {source}: {type(error).__name__}: {error}; "
                "set PHALANX_KUBECONFIG to a kubeconfig with a current context"
            ) from error

    def _new_ssl_context(self) -> ssl.SSLContext:
        configuration = self._configuration
        with self._explained():
            context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
            if not configuration.verify_ssl:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if configuration.cert_file:
                context.load_cert_chain(configuration.cert_file, configuration.key_file)
        return context


def _source(kubeconfig: Path | None, *, environ: Mapping[str, str]) -> str | None:
    """Path of the kubeconfig to read (a list of paths in $KUBECONFIG stays one), or None for the service account."""
    if kubeconfig is not None:
        return str(kubeconfig)
    if environ.get("KUBERNETES_SERVICE_HOST") and _TOKEN_FILE.exists():
        return None
    return environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())


def _library() -> types.SimpleNamespace:
    """The three names of kubernetes_asyncio that are used here, without its models."""
    if _LIBRARY in sys.modules:
        return _library_names()
    spec = importlib.util.find_spec(_LIBRARY)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    root = Path(spec.submodule_search_locations[0])
    package, client = types.ModuleType(_LIBRARY), types.ModuleType(f"{_LIBRARY}.client")
    package.__path__ = [str(root)]
    client.__path__ = [str(root / "client")]
    sys.modules |= {_LIBRARY: package, f"{_LIBRARY}.client": client}
    try:
        configuration = importlib.import_module(f"{_LIBRARY}.client.configuration")
        vars(client).update(Configuration=configuration.Configuration, ApiClient=None)
        return _library_names()
    finally:
        # Whoever imports the library after us gets the real packages.
        for name in [name for name in sys.modules if name.split(".")[0] == _LIBRARY]:
            del sys.modules[name]


def _library_names() -> types.SimpleNamespace:
    return types.SimpleNamespace(
        Configuration=importlib.import_module(f"{_LIBRARY}.client.configuration").Configuration,
        load_kube_config=importlib.import_module(f"{_LIBRARY}.config.kube_config").load_kube_config,
        load_incluster_config=importlib.import_module(f"{_LIBRARY}.config.incluster_config").load_incluster_config,
    )
