"""Events: they live in the namespace of what they are about."""

from collections.abc import Sequence

from services.sandbox.failures import Cause, invalid_value
from services.sandbox.objects import Obj, namespace_of


def validate_event(new: Obj, _old: Obj | None) -> Sequence[Cause]:
    """Events about cluster-scoped objects live in `default`, all others beside their object."""
    about = (new.get("involvedObject") or {}).get("namespace") or ""
    if (about or "default") == namespace_of(new):
        return ()
    return (invalid_value("involvedObject.namespace", value=about, detail="does not match event.namespace"),)
