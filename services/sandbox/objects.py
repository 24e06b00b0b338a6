"""Reading and copying Kubernetes objects as decoded JSON, shared by every part of the sandbox.

Stored objects are never changed in place: watches, lists and page snapshots hold references to them. Whoever
wants a change copies the levels that it touches (`with_metadata`, `{**obj, ...}`).
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

Obj: TypeAlias = dict[str, Any]
"""One Kubernetes object as decoded JSON; never changed once it is stored."""

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
"""Pod phases that are never left again."""


def metadata(obj: Obj) -> Obj:
    """`metadata`, or an empty mapping where a client left it out."""
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def spec(obj: Obj) -> Obj:
    """`spec`, or an empty mapping."""
    found = obj.get("spec")
    return found if isinstance(found, dict) else {}


def status(obj: Obj) -> Obj:
    """`status`, or an empty mapping."""
    found = obj.get("status")
    return found if isinstance(found, dict) else {}


def name_of(obj: Obj) -> str:
    """`metadata.name`, empty where it is missing."""
    return str(metadata(obj).get("name") or "")


def namespace_of(obj: Obj) -> str:
    """`metadata.namespace`, empty for cluster-scoped objects."""
    return str(metadata(obj).get("namespace") or "")


def uid_of(obj: Obj) -> str:
    """`metadata.uid`, empty where it is missing."""
    return str(metadata(obj).get("uid") or "")


def is_deleting(obj: Obj) -> bool:
    """Whether a deletion was accepted and waits for finalizers or the grace period."""
    return bool(metadata(obj).get("deletionTimestamp"))


def is_terminal(pod: Obj) -> bool:
    """Whether the pod has finished for good."""
    return status(pod).get("phase") in TERMINAL_PHASES


def with_metadata(obj: Obj, **changes: Any) -> Obj:
    """A copy whose metadata has these fields set; None removes a field."""
    merged = {**metadata(obj), **changes}
    return {**obj, "metadata": {field: value for field, value in merged.items() if value is not None}}


def with_status(obj: Obj, **changes: Any) -> Obj:
    """A copy whose status has these fields set; None removes a field."""
    merged = {**status(obj), **changes}
    return {**obj, "status": {field: value for field, value in merged.items() if value is not None}}


def with_condition(obj: Obj, *, now: str, **condition: Any) -> Obj:
    """A copy whose status holds this condition, keyed by type; the transition time moves only with `status`."""
    kept = list(status(obj).get("conditions") or ())
    for position, old in enumerate(kept):
        if old.get("type") == condition["type"]:
            same = old.get("status") == condition["status"]
            kept[position] = {**condition, "lastTransitionTime": old.get("lastTransitionTime") if same else now}
            return with_status(obj, conditions=kept)
    return with_status(obj, conditions=[*kept, {**condition, "lastTransitionTime": now}])


def condition_status(obj: Obj, type_: str) -> str | None:
    """The status of one condition, None where the object has none of that type."""
    for condition in status(obj).get("conditions") or ():
        if condition.get("type") == type_:
            return str(condition.get("status"))
    return None


def controller_of(obj: Obj) -> Obj | None:
    """The owner reference with `controller: true`, or None."""
    for owner in metadata(obj).get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return None


def timestamp(moment: datetime) -> str:
    """A moment as Kubernetes writes it: UTC, whole seconds, Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> datetime:
    """The moment that a Kubernetes timestamp names."""
    return datetime.fromisoformat(text)


def set_default(target: Obj, defaults: Mapping[str, Any]) -> None:
    """Fill the fields that a client left out, in place: only for objects that are not stored yet."""
    for field, value in defaults.items():
        if target.get(field) is None:
            target[field] = value
