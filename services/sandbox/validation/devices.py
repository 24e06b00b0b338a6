"""DeviceTaintRules: when their taint began."""

from services.sandbox.objects import Obj, spec


def stamp_taint(new: Obj, old: Obj | None, now: str) -> None:
    """Note the time at which the taint was added, or changed its effect, unless the client says so itself."""
    taint = spec(new).get("taint")
    if not isinstance(taint, dict):
        return
    before = (spec(old).get("taint") or {}) if old is not None else {}
    changed = taint.get("effect") != before.get("effect") and taint.get("timeAdded") == before.get("timeAdded")
    if changed or not taint.get("timeAdded"):
        new["spec"] = {**spec(new), "taint": {**taint, "timeAdded": now}}
