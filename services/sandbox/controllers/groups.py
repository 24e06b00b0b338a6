"""Lets deleted PodGroups go once no active pod names them: the second half of PodGroup protection."""

from collections import defaultdict
from collections.abc import Iterable

from services.sandbox import table
from services.sandbox.cluster import Cluster
from services.sandbox.controllers.owned import split
from services.sandbox.objects import is_deleting, is_terminal, metadata, spec, with_metadata
from services.sandbox.watching import Change

FINALIZER = "scheduling.k8s.io/podgroup-protection"


class PodGroupProtection:
    """Its keys are `namespace/name` of PodGroups."""

    name = "podgroup-protection"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        #: Pods that have not finished, by the group that they name.
        self._members: defaultdict[str, set[str]] = defaultdict(set)

    def observe(self, change: Change) -> Iterable[str]:
        """Groups that are being deleted, and groups that lose a pod."""
        obj, key = change.stored.obj, change.stored.key
        if change.stored.kind is table.POD_GROUP:
            if is_deleting(obj) and change.type != "DELETED":
                yield key
            return
        if change.stored.kind is not table.POD:
            return
        name = (spec(obj).get("schedulingGroup") or {}).get("podGroupName")
        if not name:
            return
        group = f"{metadata(obj)['namespace']}/{name}"
        if change.type == "DELETED" or is_terminal(obj):
            self._members[group].discard(key)
            if not self._members[group]:
                del self._members[group]
                yield group
        else:
            self._members[group].add(key)

    def reconcile(self, key: str) -> float | None:
        """Remove the finalizer of a deleted group without active pods."""
        namespace, name = split(key)
        group = self._cluster.store.get(table.POD_GROUP, namespace=namespace, name=name)
        if group is None or not is_deleting(group.obj) or self._members.get(key):
            return None
        kept = [one for one in metadata(group.obj).get("finalizers") or () if one != FINALIZER]
        self._cluster.writer.commit(group, with_metadata(group.obj, finalizers=kept or None))
        return None
