"""DeviceTaintRules on the Kubernetes API, as the end of maintenance windows needs them."""

from collections.abc import Sequence

from services.binder.adapters.kube_calls import KubeCalls
from services.binder.ports import Manifest, NoAnswer
from services.core.maintenance import Window
from services.core.transaction_answers import ApiAnswer

PATH = "/apis/resource.k8s.io/v1/devicetaintrules"
"""Served by default from 1.37 on."""
PAGE_OBJECTS = 500
_NOT_FOUND = 404
_ERROR = 400


class KubeTaintRules:
    """Satisfies `services.binder.maintenance.TaintRules`."""

    def __init__(self, calls: KubeCalls) -> None:
        """Use an open client through its measured calls."""
        self._calls = calls

    async def rules(self) -> Sequence[Manifest]:
        """Return all rules; none where the API server has no such kind."""
        found: list[Manifest] = []
        query = {"limit": str(PAGE_OBJECTS)}
        while True:
            changed = await self._calls.write("list", "GET", PATH, query=query)
            if changed.answer.status == _NOT_FOUND:
                return ()
            if changed.answer.status >= _ERROR or changed.manifest is None:
                raise NoAnswer(f"list devicetaintrules: {changed.answer.status} {changed.answer.message}")
            found.extend(changed.manifest.get("items") or ())
            token = (changed.manifest.get("metadata") or {}).get("continue")
            if not token:
                return found
            query["continue"] = str(token)

    async def remove(self, window: Window) -> ApiAnswer:
        """Delete a rule in the version that was read."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": window.uid, "resourceVersion": window.version},
        }
        return (await self._calls.write("delete", "DELETE", f"{PATH}/{window.name}", body=body)).answer
