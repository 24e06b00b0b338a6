"""`podFailurePolicy` of Jobs: what a failed pod means for its Job."""

from typing import Literal, TypeAlias

from services.sandbox.objects import Obj, spec, status

Verdict: TypeAlias = Literal["Count", "Ignore", "FailJob"]


def verdict(job: Obj, pod: Obj) -> Verdict:
    """The action of the first rule that the pod matches; without one the failure counts."""
    for rule in (spec(job).get("podFailurePolicy") or {}).get("rules") or ():
        if _on_conditions(rule, pod) or _on_exit_codes(rule, pod):
            action = rule.get("action")
            return action if action in {"Ignore", "FailJob"} else "Count"
    return "Count"


def _on_conditions(rule: Obj, pod: Obj) -> bool:
    found = {(one.get("type"), one.get("status")) for one in status(pod).get("conditions") or ()}
    return any(
        (pattern.get("type"), pattern.get("status") or "True") in found for pattern in rule.get("onPodConditions") or ()
    )


def _on_exit_codes(rule: Obj, pod: Obj) -> bool:
    wanted = rule.get("onExitCodes")
    if not wanted:
        return False
    for container in status(pod).get("containerStatuses") or ():
        if wanted.get("containerName") not in {None, container.get("name")}:
            continue
        code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode")
        if not code:
            continue
        listed = code in (wanted.get("values") or ())
        if listed == (wanted.get("operator") == "In"):
            return True
    return False
