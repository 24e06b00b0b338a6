"""What admission adds or refuses at creation: namespaces, priorities, protection, taints, quotas."""

from dataclasses import dataclass

from services.sandbox import quota, table
from services.sandbox.failures import Cause, forbidden, not_found
from services.sandbox.kinds import Kind
from services.sandbox.objects import Obj, is_deleting, metadata, name_of, namespace_of, spec
from services.sandbox.store import Store
from services.sandbox.validation import groups, workloads

_TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The admission chain, over the current objects."""

    store: Store
    #: Whether new nodes get the not-ready taint that a real API server adds.
    taints_new_nodes: bool = True

    def mutate(self, kind: Kind, obj: Obj) -> None:
        """Refuse creation where the namespace does not allow it, and fill what admission fills, in place."""
        if kind.is_namespaced:
            self._check_namespace(kind, obj)
        if kind is table.POD:
            self._pod_priority(obj)
            self._topology(obj, node_name=spec(obj).get("nodeName"))
        elif kind is table.POD_GROUP:
            self._group_priority(obj)
            groups.protect(obj)
        elif kind is table.NODE and self.taints_new_nodes:
            self._taint(obj)

    def validate(self, kind: Kind, obj: Obj) -> None:
        """The checks that run last, on the finished object."""
        if kind is table.POD and (error := quota.refusal(self.store, obj)):
            raise error

    def _check_namespace(self, kind: Kind, obj: Obj) -> None:
        namespace = namespace_of(obj)
        found = self.store.get(table.NAMESPACE, namespace="", name=namespace)
        if found is None:
            raise not_found("namespaces", name=namespace)
        if is_deleting(found.obj):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            message = f"namespace {namespace} is being terminated"
            cause = Cause(reason="NamespaceTerminating", message=message, field="metadata.namespace")
            raise forbidden(kind.plural, group=kind.group, name=name_of(obj), why=why, causes=(cause,))

    def _priority(self, kind: Kind, obj: Obj) -> tuple[str, int, str]:
        """The class, value and preemption policy that apply to the object."""
        wanted = spec(obj).get("priorityClassName")
        if wanted:
            found = self.store.find("priorityclasses", group=table.SCHEDULING, name=wanted)
            if found is None:
                why = f"no PriorityClass with name {wanted} was found"
                raise forbidden(kind.plural, group=kind.group, name=name_of(obj), why=why)
            return str(wanted), int(found.get("value") or 0), str(found["preemptionPolicy"])
        for candidate in self.store.objects("priorityclasses", group=table.SCHEDULING):
            if candidate.get("globalDefault"):
                return name_of(candidate), int(candidate.get("value") or 0), str(candidate["preemptionPolicy"])
        return "", 0, "PreemptLowerPriority"

    def _pod_priority(self, obj: Obj) -> None:
        class_name, value, policy = self._priority(table.POD, obj)
        holder = spec(obj)
        given = holder.get("priority")
        if given is not None and given != value:
            why = (
                f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
                f"controller computed {value} from the given PriorityClass name"
            )
            raise forbidden("pods", name=name_of(obj), why=why)
        holder["priority"] = value
        holder["preemptionPolicy"] = holder.get("preemptionPolicy") or policy
        if class_name:
            holder["priorityClassName"] = class_name

    def _group_priority(self, obj: Obj) -> None:
        class_name, value, _ = self._priority(table.POD_GROUP, obj)
        holder = spec(obj)
        given = holder.get("priority")
        if given is not None and given != value:
            why = (
                f"priority set in the pod group ({given}) must match the priority computed ({value}) from the "
                "PriorityClass name"
            )
            raise forbidden("podgroups", group=table.SCHEDULING, name=name_of(obj), why=why)
        holder["priority"] = value
        if class_name:
            holder["priorityClassName"] = class_name

    @staticmethod
    def _taint(obj: Obj) -> None:
        taints = list(spec(obj).get("taints") or ())
        if workloads.NOT_READY_TAINT not in taints:
            obj["spec"]["taints"] = [*taints, dict(workloads.NOT_READY_TAINT)]

    def topology_labels(self, node_name: str) -> dict[str, str]:
        """The labels that a pod takes over from the node it is bound to."""
        node = self.store.get(table.NODE, namespace="", name=node_name)
        found = (metadata(node.obj).get("labels") or {}) if node else {}
        return {key: found[key] for key in _TOPOLOGY_LABELS if key in found}

    def _topology(self, obj: Obj, *, node_name: str | None) -> None:
        taken = self.topology_labels(node_name) if node_name else {}
        if taken:
            obj["metadata"]["labels"] = {**(metadata(obj).get("labels") or {}), **taken}
