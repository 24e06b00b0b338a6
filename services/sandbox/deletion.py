"""Deleting objects: preconditions, grace periods, finalizers, and what happens to dependents."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from services.sandbox import table
from services.sandbox.failures import bad_request, conflict
from services.sandbox.objects import (
    Obj,
    is_deleting,
    is_terminal,
    metadata,
    moment,
    spec,
    timestamp,
    with_metadata,
    with_status,
)
from services.sandbox.watching import Stored
from services.sandbox.writes import Writer

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_FINALIZERS: Mapping[str, str] = {"Foreground": FOREGROUND, "Orphan": ORPHAN}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """The part of `DeleteOptions` that the sandbox honours."""

    uid: str = ""
    resource_version: str = ""
    grace_s: int | None = None
    propagation: str = ""
    is_dry_run: bool = False

    @classmethod
    def parse(cls, body: Obj, query: Mapping[str, str]) -> "DeleteOptions":
        """Read the body, which wins, and the query; raises 400 for a grace period that is no number."""
        preconditions = body.get("preconditions") or {}
        grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
        try:
            grace_s = None if grace is None else int(grace)
        except (TypeError, ValueError) as error:
            raise bad_request(f"gracePeriodSeconds: expected whole seconds, got {grace!r}") from error
        dry_run = body.get("dryRun") or ([query["dryRun"]] if "dryRun" in query else [])
        orphan = {"true": "Orphan", "false": "Background"}.get(str(body.get("orphanDependents")).lower(), "")
        propagation = body.get("propagationPolicy") or query.get("propagationPolicy") or orphan
        if propagation not in {"", "Orphan", "Background", "Foreground"}:
            raise bad_request(f"propagationPolicy: expected Orphan, Background or Foreground, got {propagation!r}")
        return cls(
            uid=preconditions.get("uid") or "",
            resource_version=preconditions.get("resourceVersion") or "",
            grace_s=None if grace_s is None else (1 if grace_s < 0 else grace_s),
            propagation=propagation,
            is_dry_run="All" in dry_run,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What became of the object: its last version, and whether it is gone."""

    stored: Stored
    is_gone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Remover:
    """Deletes over the same store as its writer."""

    writer: Writer

    def delete(self, old: Stored, options: DeleteOptions) -> Deleted:
        """Remove the object, or mark it where its grace period or a finalizer still holds it."""
        self._check(old, options)
        marked = self._marked(old, options)
        if marked is None:
            return Deleted(stored=old, is_gone=False)
        is_gone = self.writer.is_released(old.kind, marked)
        if options.is_dry_run:
            return Deleted(stored=self.writer.unstored(old.kind, marked), is_gone=is_gone)
        if is_gone:
            # Pods are marked before they go, even where nothing has to be waited for: watches see both.
            marks_first = old.kind is table.POD and marked != old.obj
            last = self.writer.store.replace(old, marked) if marks_first else old
            return Deleted(stored=self.writer.store.remove(last), is_gone=True)
        stored = old if marked == old.obj else self.writer.store.replace(old, marked)
        return Deleted(stored=stored, is_gone=False)

    @staticmethod
    def _check(old: Stored, options: DeleteOptions) -> None:
        meta, kind = metadata(old.obj), old.kind
        if options.uid and options.uid != meta["uid"]:
            why = (
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
                "The object might have been deleted and then recreated"
            )
            raise conflict(kind.kind, group=kind.group, name=meta["name"], why=why)
        found = meta["resourceVersion"]
        if options.resource_version and options.resource_version != found:
            why = (
                f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
                f"ResourceVersion in record ({found}). The object might have been modified"
            )
            raise conflict(kind.kind, group=kind.group, name=meta["name"], why=why)
        if kind is table.NAMESPACE and is_deleting(old.obj):
            why = (
                "The system is ensuring all content is removed from this namespace.  Upon completion, this "
                "namespace will automatically be purged by the system."
            )
            raise conflict(kind.plural, name=meta["name"], why=why)

    def _marked(self, old: Stored, options: DeleteOptions) -> Obj | None:
        """The object with its deletion written down; None where an earlier deletion already says as much."""
        finalizers = list(metadata(old.obj).get("finalizers") or ())
        already = {FOREGROUND, ORPHAN} & set(finalizers)
        propagation = options.propagation or ("" if already else old.kind.default_propagation)
        wanted = _FINALIZERS.get(propagation)
        if wanted and wanted not in finalizers:
            finalizers.append(wanted)
        if propagation:
            other = {FOREGROUND, ORPHAN} - {wanted}
            finalizers = [name for name in finalizers if name not in other]
        grace_s = self._grace_s(old, options)
        if grace_s is None:
            return None
        return self._stamped(old, grace_s=grace_s, finalizers=finalizers)

    @staticmethod
    def _grace_s(old: Stored, options: DeleteOptions) -> int | None:
        """Seconds until a pod must be gone: 0 for everything that no kubelet has to stop first."""
        if old.kind is not table.POD:
            return 0
        pending = metadata(old.obj).get("deletionGracePeriodSeconds")
        if is_deleting(old.obj):
            if not pending or options.grace_s is None:
                return None if pending else 0
            return options.grace_s if options.grace_s < pending else None
        if not spec(old.obj).get("nodeName") or is_terminal(old.obj):
            return 0
        own = spec(old.obj).get("terminationGracePeriodSeconds")
        grace_s = options.grace_s if options.grace_s is not None else own
        if grace_s is None:
            return 30
        return 1 if grace_s < 0 else int(grace_s)

    def _stamped(self, old: Stored, *, grace_s: int, finalizers: list[str]) -> Obj:
        meta = metadata(old.obj)
        now = self.writer.clock.now()
        since = now
        if is_deleting(old.obj):
            earlier_s = meta.get("deletionGracePeriodSeconds") or 0
            since = moment(meta["deletionTimestamp"]) - timedelta(seconds=earlier_s)
            if old.kind is not table.POD:
                return with_metadata(old.obj, finalizers=finalizers or None)
        due = max(since + timedelta(seconds=grace_s), now)
        changes: Obj = {"deletionTimestamp": timestamp(due)}
        if old.kind is not table.NAMESPACE:
            changes["deletionGracePeriodSeconds"] = grace_s
        if meta.get("generation") and not is_deleting(old.obj):
            changes["generation"] = meta["generation"] + 1
        marked = with_metadata(old.obj, **changes, finalizers=finalizers or None)
        if old.kind is table.NAMESPACE:
            return with_status(marked, phase="Terminating")
        return marked

    def delete_collection(self, selected: list[Stored], options: DeleteOptions) -> list[Stored]:
        """Delete each object; returns their last versions."""
        return [self.delete(stored, options).stored for stored in selected]

    def force(self, old: Stored) -> None:
        """Remove at once, as a kubelet or controller confirms a deletion."""
        self.delete(old, DeleteOptions(grace_s=0, uid=str(metadata(old.obj)["uid"])))
