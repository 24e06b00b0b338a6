"""Subresources with rules of their own: binding, eviction and scale."""

from collections.abc import Iterator
from dataclasses import dataclass

from services.sandbox import table
from services.sandbox.deletion import DeleteOptions, Remover
from services.sandbox.failures import (
    ApiError,
    Cause,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    required,
    unhandled,
    unsupported,
)
from services.sandbox.objects import Obj, is_deleting, metadata, name_of, spec, status, with_condition
from services.sandbox.validation import fields
from services.sandbox.watching import Stored
from services.sandbox.writes import DEFAULT_OPTIONS, WriteOptions, Writer, precondition_failed

SUCCESS_CREATED: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _target_causes(target: Obj) -> Iterator[Cause]:
    kind, name = target.get("kind") or "", target.get("name") or ""
    if kind not in {"", "Node"}:
        yield unsupported("target.kind", value=kind, supported=("Node", "<empty>"))
    if not name:
        yield required("target.name")
    elif kind in {"", "Node"}:
        yield from fields.dns_subdomain("target.name", value=name)


def _aggregate(causes: list[Cause]) -> ApiError:
    # Bindings forget to classify their validation errors, so clients see a plain 500.
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    return unhandled(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _unbindable(pod: Obj) -> str:
    """Why the pod cannot be bound now; empty where it can."""
    name, holder = name_of(pod), spec(pod)
    if is_deleting(pod):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if holder.get("nodeName"):
        return f'pod {name} is already assigned to node "{holder["nodeName"]}"'
    if holder.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresources:
    """The writes that are neither create, update nor delete of a whole object."""

    writer: Writer
    remover: Remover

    def bind(self, binding: Obj, *, namespace: str, name: str, options: WriteOptions = DEFAULT_OPTIONS) -> Stored:
        """Assign a pod to a node. Whether the node exists or has room is not checked, as in the API server."""
        meta = metadata(binding)
        if meta.get("name") != name:
            raise bad_request("name in URL does not match name in Binding object")
        target = binding.get("target") or {}
        if causes := list(_target_causes(target)):
            raise _aggregate(causes)
        old = self.writer.require(table.POD, namespace=namespace, name=name)
        self._check_preconditions(old, meta)
        if why := _unbindable(old.obj):
            raise conflict("pods/binding", name=name, why=why)
        bound = self._bound(old.obj, meta, node_name=target["name"])
        # Binding writes past the strategy that counts generations.
        return self.writer.commit(old, bound, options=options, counts_generation=False)

    @staticmethod
    def _check_preconditions(old: Stored, meta: Obj) -> None:
        known = metadata(old.obj)
        uid, version = meta.get("uid"), meta.get("resourceVersion")
        if uid and uid != known["uid"]:
            raise precondition_failed(old, what="UID", given=uid, found=known["uid"])
        if version and version != known["resourceVersion"]:
            found = known["resourceVersion"]
            raise precondition_failed(old, what="ResourceVersion", given=version, found=found)

    def _bound(self, pod: Obj, meta: Obj, *, node_name: str) -> Obj:
        known = metadata(pod)
        changed = dict(known)
        taken = {**(meta.get("labels") or {}), **self.writer.admission.topology_labels(node_name)}
        for field, added in (("annotations", meta.get("annotations") or {}), ("labels", taken)):
            if added:
                changed[field] = {**(known.get(field) or {}), **added}
        bound = {**pod, "metadata": changed, "spec": {**spec(pod), "nodeName": node_name}}
        scheduled = with_condition(bound, now=self.writer.now(), type="PodScheduled", status="True")
        scheduled["status"].pop("nominatedNodeName", None)
        return scheduled

    def evict(self, eviction: Obj, *, namespace: str, name: str, options: WriteOptions) -> None:
        """Delete a pod as its eviction asks. There are no disruption budgets here, so it is never refused."""
        if metadata(eviction).get("name") not in {None, "", name}:
            raise bad_request("name in URL does not match name in Eviction object")
        old = self.writer.require(table.POD, namespace=namespace, name=name)
        wanted = DeleteOptions.parse(eviction.get("deleteOptions") or {}, {})
        dry_run = options.is_dry_run or wanted.is_dry_run
        self.remover.delete(
            old,
            DeleteOptions(
                uid=wanted.uid,
                resource_version=wanted.resource_version,
                grace_s=wanted.grace_s,
                propagation=wanted.propagation,
                is_dry_run=dry_run,
            ),
        )

    @staticmethod
    def scale_of(stored: Stored) -> Obj:
        """The `autoscaling/v1` Scale of a Deployment or ReplicaSet; zero replicas are left out, as the API does."""
        meta, holder = metadata(stored.obj), spec(stored.obj)
        names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        labels = (holder.get("selector") or {}).get("matchLabels") or {}
        selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        found: Obj = {"replicas": status(stored.obj).get("replicas", 0), "selector": selector}
        wanted = holder.get("replicas", 1)
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {name: meta[name] for name in names if name in meta},
            "spec": {"replicas": wanted} if wanted else {},
            "status": found,
        }

    def rescale(self, old: Stored, scale: Obj, *, options: WriteOptions) -> Stored:
        """Take the replicas of a Scale over into its object."""
        replicas = spec(scale).get("replicas") or 0
        if not isinstance(replicas, int) or replicas < 0:
            detail = "must be greater than or equal to 0"
            cause = invalid_value("spec.replicas", value=replicas, detail=detail)
            raise invalid("Scale", group="autoscaling", name=name_of(old.obj), causes=(cause,))
        meta = {**metadata(old.obj), "resourceVersion": metadata(scale).get("resourceVersion")}
        obj = {**old.obj, "metadata": meta, "spec": {**spec(old.obj), "replicas": replicas}}
        return self.writer.update(old, obj, options=options)
