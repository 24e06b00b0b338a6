"""DeviceTaintRules as the command writes and shows them (resource.k8s.io/v1, KEP-5055)."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from services.core.blast import taint_of
from services.core.maintenance import EndError, end_of, written_end
from services.core.names import EXPIRES_AT_ANNOTATION, PREFIX

Manifest = Mapping[str, Any]

PATH = "/apis/resource.k8s.io/v1/devicetaintrules"
API_VERSION, KIND = "resource.k8s.io/v1", "DeviceTaintRule"
EFFECTS = ("NoSchedule", "NoExecute", "None")
DEFAULT_KEY = PREFIX + "maintenance"
_LONGEST_NAME = 200
_NO_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Devices that a rule is for: everything of a driver, a pool of it, or one device of the pool."""

    driver: str
    pool: str = ""
    device: str = ""

    def __str__(self) -> str:
        """Return it as people write it."""
        return "/".join(part for part in (self.driver, self.pool, self.device) if part)

    @property
    def selector(self) -> Mapping[str, str]:
        """The `deviceSelector` of a rule."""
        given = {"driver": self.driver, "pool": self.pool, "device": self.device}
        return {name: value for name, value in given.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """What a rule puts on its devices."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        """Return it as `kubectl taint` writes taints."""
        return f"{self.key}{'=' if self.value else ''}{self.value}:{self.effect}"


def rule_manifest(name: str, *, selection: Selection, taint: Taint, ends_at: datetime | None) -> dict[str, Any]:
    """Return the rule."""
    metadata: dict[str, Any] = {"name": name}
    if ends_at is not None:
        metadata["annotations"] = {EXPIRES_AT_ANNOTATION: written_end(ends_at)}
    spec = {
        "deviceSelector": dict(selection.selector),
        "taint": {
            "key": taint.key,
            **({"value": taint.value} if taint.value else {}),
            "effect": taint.effect,
        },
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def default_name(selection: Selection) -> str:
    """Return a name that says what the rule is for: the same devices, the same name."""
    text = str(selection)
    name = "maintenance-" + _NO_NAME.sub("-", text.lower()).strip("-")
    is_exact = text.lower() == text and len(name) <= _LONGEST_NAME
    if is_exact:
        return name
    return f"{name[:_LONGEST_NAME].rstrip('-')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def selected_by(rule: Manifest) -> str:
    """Return in words which devices a rule selects."""
    selector = (rule.get("spec") or {}).get("deviceSelector")
    if selector is None:
        return "no device"
    if not any(selector.values()):
        return "every device"
    if selector.get("driver"):
        named = Selection(
            driver=selector["driver"],
            pool=selector.get("pool") or ("*" if selector.get("device") else ""),
            device=selector.get("device") or "",
        )
        return str(named)
    return ", ".join(f"{name} {selector[name]}" for name in ("pool", "device") if selector.get(name))


def taint_in(rule: Manifest) -> Taint:
    """Return the taint of a rule."""
    taint = taint_of(rule)
    return Taint(
        key=str(taint.get("key", "")), value=str(taint.get("value") or ""), effect=str(taint.get("effect", ""))
    )


def ending(rule: Manifest) -> str:
    """Return in words when a rule ends."""
    try:
        end = end_of(rule)
    except EndError as error:
        return f"unreadable: {error}"
    return "" if end is None else written_end(end)
