"""The stage of one case: the whole system, the case's objects loaded into it, and what the harness knows about them.

Objects are loaded as `README.md` says for a live server: identity, times and status are the server's business, so
status goes through `/status`, and terminating objects are made by create and delete.
"""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.core.names import SCHEDULER_NAME
from services.core.objects import GangId, NodeName
from services.sandbox import table
from services.sandbox.objects import Obj, is_terminal, name_of, spec
from services.watcher.kinds import WATCHED_KINDS
from tests.cases.check import UnknownWord
from tests.cases.play_steps import Manifest, Script, Verb
from tests.cases.play_witness import Witness, group_of
from tests.e2e.api import Api
from tests.e2e.system import System

GPU = "nvidia.com/gpu"
HARNESS_FINALIZER = "cases.phalanx.dev/kept"
NOT_READY_TAINT = "node.kubernetes.io/not-ready"
PADDING_NAMESPACE = "padding"
_SERVER_SIDE = ("uid", "creationTimestamp", "deletionTimestamp", "resourceVersion", "generation")


@dataclass(slots=True, kw_only=True)
class Stage:
    """Where a script is played."""

    script: Script
    system: System
    api: Api
    witness: Witness
    #: Manifests of the file by reference, as `Pod/d-0`.
    manifests: dict[str, Manifest]
    #: Notes of verbs for later judgement, by verb.
    notes: dict[str, Any] = field(default_factory=dict)

    def gang(self, group: str) -> GangId:
        """Return the gang of a group of the case."""
        return GangId(f"podgroup/{self.script.namespace}/{group}")

    def gang_of(self, pod: str) -> GangId:
        """Return the gang of a pod of the case."""
        group = group_of(self.manifests[f"Pod/{pod}"])
        return self.gang(group) if group else GangId(f"pod/{self.script.namespace}/{pod}")

    def manifest(self, ref: str) -> Manifest:
        """Return an object of the file. Raises UnknownWord where there is none."""
        found = self.manifests.get(ref)
        if found is None:
            raise UnknownWord(f"{self.script.case.id}: {ref} is not in the file, and the step has no `like`")
        return found

    def pods(self) -> list[Obj]:
        """Return the pods of the case as they stand."""
        return self.system.apiserver.store.objects("pods", namespace=self.script.namespace)

    def pod(self, name: str) -> Obj | None:
        """Return a pod of the case, or None."""
        return self.system.apiserver.store.find("pods", namespace=self.script.namespace, name=name)

    def node_of(self, pod: str) -> NodeName:
        """Return where a pod is bound, empty where it is not."""
        return NodeName(spec(self.pod(pod) or {}).get("nodeName") or "")

    def promised(self) -> Mapping[str, NodeName]:
        """Return the members that are promised to a node and not yet bound."""
        return {
            one.pod: one.node
            for transaction in self.system.recorder.open()
            for one in transaction.held
            if not self.node_of(one.pod)
        }

    def planned(self) -> Mapping[str, NodeName]:
        """Return where open transactions want their members, those that are bound there already among them."""
        return {
            one.pod: one.node
            for transaction in self.system.recorder.open()
            for one in transaction.held
            if self.node_of(one.pod) in {"", one.node}
        }

    def unbound_gpus(self) -> Mapping[str, int]:
        """Return the GPUs that no bound pod holds, by node, from the API's objects alone."""
        free = {
            name_of(node): int(node["status"]["allocatable"].get(GPU, 0))
            for node in self.system.apiserver.store.objects("nodes")
        }
        for pod in self.system.apiserver.store.objects("pods"):
            node = spec(pod).get("nodeName")
            if node in free and not is_terminal(pod):
                free[node] -= gpus_of(pod)
        return free

    async def create(self, ref: str, *, like: str = "") -> Manifest:
        """Create an object of the file, or one like another of its kind."""
        kind, _, name = ref.partition("/")
        manifest = copy.deepcopy(self.manifest(f"{kind}/{like}" if like else ref))
        old_name = manifest["metadata"]["name"]
        manifest["metadata"]["name"] = name
        labels = manifest["metadata"].get("labels") or {}
        manifest["metadata"]["labels"] = {key: name if text == old_name else text for key, text in labels.items()}
        self.manifests.setdefault(ref, manifest)
        return await self._load(manifest)

    async def load(self) -> None:
        """Create what stands in the file and no step adds, oldest first."""
        later = _added_later(self.script)
        await self._load(self.manifest(f"Namespace/{self.script.namespace}"))
        waiting = [
            (ref, item) for ref, item in self.manifests.items() if item["kind"] != "Namespace" and ref not in later
        ]
        for _, manifest in sorted(waiting, key=lambda pair: _loading_order(pair[1])):
            await self._load(manifest)
        if any(step.verb is Verb.RELIST for step in self.script.steps):
            self._pad()

    async def _load(self, manifest: Manifest) -> Manifest:
        given = copy.deepcopy(manifest)
        is_ending = "deletionTimestamp" in given["metadata"]
        for key in _SERVER_SIDE:
            given["metadata"].pop(key, None)
        if given["kind"] == "Pod":
            given["spec"]["schedulerName"] = SCHEDULER_NAME
        created = await self.api.create(given)
        name = created["metadata"]["name"]
        if given["kind"] == "Node":
            created = await self._trust(name, wanted=given.get("spec", {}).get("taints") or [])
        if is_ending:
            await self.api.delete(given["kind"], name)
        return created

    async def _trust(self, node: str, *, wanted: Iterable[Manifest]) -> Manifest:
        """Take the taint away that admission puts on new nodes, unless the case wants it."""
        return await self.api.patch("Node", node, {"spec": {"taints": list(wanted) or None}})

    def _pad(self) -> None:
        """Add strangers' pods until a list of pods has a second page."""
        cluster = self.system.apiserver.cluster
        page_size = next(one.page_size for one in WATCHED_KINDS if one.plural == "pods")
        cluster.writer.create(table.NAMESPACE, {"metadata": {"name": PADDING_NAMESPACE}})
        for number in range(page_size):
            container = {"name": "main", "image": "registry.example.com/none:1"}
            pod = {
                "metadata": {"name": f"stranger-{number}"},
                "spec": {"schedulerName": "another-scheduler", "containers": [container]},
            }
            cluster.writer.create(table.POD, pod, namespace=PADDING_NAMESPACE)


def gpus_of(pod: Obj) -> int:
    """Return the GPUs that a pod asks for."""
    return sum(
        int((container.get("resources") or {}).get("requests", {}).get(GPU, 0)) for container in spec(pod)["containers"]
    )


def refs(script: Script) -> dict[str, Manifest]:
    """Return the objects of a script by reference."""
    return {f"{item['kind']}/{item['metadata']['name']}": item for item in script.objects}


def _added_later(script: Script) -> set[str]:
    verbs = {Verb.ADD, Verb.STORE}
    return {ref for step in script.steps if step.verb in verbs for ref in step.objects}


def _loading_order(manifest: Manifest) -> tuple[bool, str]:
    """Nodes and policies before pods and groups, those in the order of their creation."""
    return manifest["kind"] in {"Pod", "PodGroup"}, str(manifest["metadata"].get("creationTimestamp", ""))
