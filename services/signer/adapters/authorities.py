"""The Secret with the keys, and the ClusterTrustBundle that everybody reads."""

import base64
from collections.abc import Collection
from typing import Any

from services.core.names import FIELD_MANAGER, ROTATE_ANNOTATION
from services.runtime.kube import KubeClient, KubeError
from services.signer.adapters.answers import NOT_FOUND, REQUEST_TIMEOUT_S, told, written
from services.signer.ports import ApiFailed, Bundle, HeldAuthority, StoredAuthorities
from services.signer.secret_form import UnreadableAuthorities, document_of, read_document

BUNDLES = "/apis/certificates.k8s.io/v1/clustertrustbundles"
KEY = "authorities.json"
"""Key of the document in the Secret's data."""


class KubernetesAuthorities:
    """Satisfies `services.signer.ports.AuthorityStore`."""

    def __init__(self, client: KubeClient, *, namespace: str, secret: str, signer_name: str, bundle: str) -> None:
        """Use an open client."""
        self._client = client
        self._namespace = namespace
        self._secret = secret
        self._signer_name = signer_name
        self._bundle = bundle

    async def read(self) -> StoredAuthorities:
        """Return what is in the Secret. Raises ApiFailed, also where it cannot be understood."""
        with told():
            found = await self._found(f"{self._secrets}/{self._secret}")
        if found is None:
            return StoredAuthorities()
        metadata = found["metadata"]
        name = f"Secret {self._namespace}/{self._secret}"
        text = (found.get("data") or {}).get(KEY)
        if text is None:
            # Made by somebody beforehand, so that the signer needs no right to create Secrets.
            return StoredAuthorities(version=metadata["resourceVersion"], metadata=metadata)
        try:
            held = read_document(base64.b64decode(text))
        except UnreadableAuthorities as error:
            advice = "it is left as it is; restore it, or delete it to begin with a new authority"
            raise ApiFailed(f"{name}, key {KEY}: {error}; {advice}") from error
        is_asked = ROTATE_ANNOTATION in (metadata.get("annotations") or {})
        return StoredAuthorities(held=held, is_asked=is_asked, version=metadata["resourceVersion"], metadata=metadata)

    async def write(self, held: Collection[HeldAuthority], *, over: StoredAuthorities) -> None:
        """Write the Secret, and with it take back what a person asked for. Raises ApiFailed and Overtaken."""
        data = {KEY: base64.b64encode(document_of(held)).decode()}
        metadata: dict[str, Any] = {"name": self._secret, "namespace": self._namespace}
        for key in ("labels", "annotations", "ownerReferences"):
            if key in over.metadata:
                metadata[key] = over.metadata[key]
        if "annotations" in metadata:
            metadata["annotations"] = {
                key: value for key, value in metadata["annotations"].items() if key != ROTATE_ANNOTATION
            }
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
        await self._put(self._secrets, name=self._secret, body=body, version=over.version)

    async def bundle(self) -> Bundle:
        """Return what is published. Raises ApiFailed."""
        with told():
            found = await self._found(f"{BUNDLES}/{self._bundle}")
            if found is None:
                return Bundle()
            return Bundle(text=found["spec"]["trustBundle"], version=found["metadata"]["resourceVersion"])

    async def publish(self, text: str, *, over: Bundle) -> None:
        """Write the bundle. Raises ApiFailed and Overtaken."""
        body = {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "ClusterTrustBundle",
            "metadata": {"name": self._bundle},
            "spec": {"signerName": self._signer_name, "trustBundle": text},
        }
        await self._put(BUNDLES, name=self._bundle, body=body, version=over.version)

    @property
    def _secrets(self) -> str:
        return f"/api/v1/namespaces/{self._namespace}/secrets"

    async def _found(self, path: str) -> dict[str, Any] | None:
        try:
            return dict((await self._client.request_ok("GET", path, timeout_s=REQUEST_TIMEOUT_S)).json())
        except KubeError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    async def _put(self, root: str, *, name: str, body: dict[str, Any], version: str | None) -> None:
        """Create what did not exist, or replace the version that was read."""
        method, path = "POST", root
        if version is not None:
            method, path = "PUT", f"{root}/{name}"
            body["metadata"]["resourceVersion"] = version
        with written():
            await self._client.request_ok(
                method, path, body=body, query={"fieldManager": FIELD_MANAGER}, timeout_s=REQUEST_TIMEOUT_S
            )
