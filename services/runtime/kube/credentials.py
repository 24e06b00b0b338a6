"""Where the API server is and how we prove who we are, from a kubeconfig or from the pod's service account.

Reading kubeconfigs (contexts, exec plugins, OIDC, files beside data) is left to kubernetes_asyncio. Its packages load
all API models when imported (0.7 s, 70 MiB in every service), so only the modules that are used are loaded, with empty
stand-ins for the packages around them.
"""

import asyncio
import contextlib
import functools
import importlib
import importlib.util
import os
import ssl
import sys
import time
import types
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

from services.runtime import log
from services.runtime.kube.faults import KubeConfigError

_log = log.get("kube")

_LIBRARY = "kubernetes_asyncio"
_RECHECK_S = 60.0
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Credentials:
    """Address, TLS context and the current `Authorization` value; tokens are read again as they rotate."""

    def __init__(
        self, *, kubeconfig: str | None, context: str = "", environ: Mapping[str, str], service_account: Path
    ) -> None:
        self._environ = environ
        self._context = context
        self._service_account = service_account
        self._kubeconfig = kubeconfig
        self._library = _library()
        self._configuration: Any = self._library.Configuration()
        self._loader: Any = None
        self._read_at = 0.0
        self._reading = asyncio.Lock()
        self._ssl_context: ssl.SSLContext | None = None

    @classmethod
    async def find(
        cls,
        kubeconfig: Path | None,
        *,
        context: str = "",
        environ: Mapping[str, str] = os.environ,
        service_account: Path = _SERVICE_ACCOUNT,
    ) -> "Credentials":
        """The given kubeconfig, else the pod's service account, else the user's default kubeconfig.

        `context` names one of a kubeconfig's contexts; its current one where it is empty.
        """
        in_pod = bool(environ.get("KUBERNETES_SERVICE_HOST")) and (service_account / "token").exists()
        if kubeconfig is None and (context or not in_pod):
            kubeconfig_text: str | None = environ.get("KUBECONFIG") or _default_kubeconfig()
        else:
            kubeconfig_text = None if kubeconfig is None else str(kubeconfig)
        credentials = cls(kubeconfig=kubeconfig_text, context=context, environ=environ, service_account=service_account)
        await credentials._read()
        if credentials.host.startswith("https:"):
            credentials._ssl_context = credentials._new_ssl_context()
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
        async with self._reading, _kept_on_failure():
            await self._read()
        if self._ssl_context is not None and self._configuration.cert_file:
            self._ssl_context.load_cert_chain(self._configuration.cert_file, self._configuration.key_file)
        return bool(before != self._configuration.api_key.get("BearerToken"))

    async def _refresh(self) -> None:
        async with self._reading:
            if time.monotonic() - self._read_at < _RECHECK_S:
                return
            self._read_at = time.monotonic()
            async with _kept_on_failure():
                if not self._has_exec_plugin():
                    await self._read()
                # A plugin may be slow or interactive: it runs again only when its token says so.
                elif hasattr(self._loader, "exec_plugin_expiry"):
                    with self._explained():
                        await self._loader.load_from_exec_plugin()
                    self._configuration.api_key["BearerToken"] = self._loader.token

    def _has_exec_plugin(self) -> bool:
        user = getattr(self._loader, "_user", None)
        return user is not None and "exec" in user

    async def _read(self) -> None:
        with self._explained():
            if self._kubeconfig is None:
                await asyncio.to_thread(self._read_service_account)
            else:
                self._loader = await self._library.load_kube_config(
                    config_file=self._kubeconfig,
                    context=self._context or None,
                    client_configuration=self._configuration,
                    persist_config=False,
                )
        self._read_at = time.monotonic()

    def _read_service_account(self) -> None:
        self._library.load_incluster_config(
            self._configuration,
            # The library's own refresh compares naive wall-clock times; `authorization` re-reads instead.
            try_refresh_token=False,
            environ=self._environ,
            token_filename=str(self._service_account / "token"),
            cert_filename=str(self._service_account / "ca.crt"),
        )

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn whatever the reader raises (it is not choosy) into one error that names the source."""
        try:
            yield
        except Exception as error:
            source = self._kubeconfig or "service account of this pod"
            if self._context and self._context in str(error):
                raise KubeConfigError(
                    f"the kubeconfig {source} has no context {self._context!r}; "
                    "`kubectl config get-contexts -o name` lists those that it has"
                ) from error
            raise KubeConfigError(
                f"no usable Kubernetes credentials in {source}: {type(error).__name__}: {error}; "
                "give a kubeconfig with a current context: --kubeconfig or KUBECONFIG for commands, "
                "PHALANX_KUBECONFIG for services"
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


@contextlib.asynccontextmanager
async def _kept_on_failure() -> AsyncIterator[None]:
    """Go on with the credentials that worked so far: files are replaced, plugins fail for a moment."""
    try:
        yield
    except KubeConfigError as error:
        _log.warning("kube.credentials_not_renewed", detail=str(error))


def _default_kubeconfig() -> str:
    return str(Path("~/.kube/config").expanduser())


@functools.cache
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
