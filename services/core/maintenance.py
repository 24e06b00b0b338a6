"""Maintenance windows: DeviceTaintRules that say themselves when they end.

Kubernetes knows no end of a DeviceTaintRule. `phalanx taint add --for` writes it as an annotation, and whoever leads
the binders removes the rule when it is reached. A rule without the annotation is never touched.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from services.core.manifests import shortened
from services.core.names import EXPIRES_AT_ANNOTATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A rule that ends by itself, in the version that says so: one that is prolonged meanwhile has another version."""

    name: str
    uid: str
    version: str
    ends_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableEnd:
    """A rule whose end cannot be read; it stays for ever."""

    name: str
    uid: str
    problem: str


class EndError(ValueError):
    """Text that is no moment in time."""


def parse_end(text: str) -> datetime:
    """Return the moment at which a rule ends, from RFC 3339 as `2026-12-01T18:00:00Z`. Raises EndError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise EndError(f"expected an RFC 3339 time with its zone, as 2026-12-01T18:00:00Z, got {shortened(text)}")
    return moment.astimezone(UTC)


def written_end(moment: datetime) -> str:
    """Return a moment as the annotation has it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def end_of(rule: Mapping[str, Any]) -> datetime | None:
    """Return the end of a rule, or None where it has none. Raises EndError."""
    text = ((rule.get("metadata") or {}).get("annotations") or {}).get(EXPIRES_AT_ANNOTATION)
    return None if text is None else parse_end(str(text))


def windows_of(rules: Iterable[Mapping[str, Any]]) -> tuple[tuple[Window, ...], tuple[UnreadableEnd, ...]]:
    """Return the rules that end by themselves, the next first, and those whose end cannot be read."""
    windows: list[Window] = []
    unreadable: list[UnreadableEnd] = []
    for rule in rules:
        metadata = rule.get("metadata") or {}
        name, uid = str(metadata.get("name", "")), str(metadata.get("uid", ""))
        try:
            ends_at = end_of(rule)
        except EndError as error:
            problem = f"DeviceTaintRule {name}: metadata.annotations[{EXPIRES_AT_ANNOTATION}]: {error}; it never ends"
            unreadable.append(UnreadableEnd(name=name, uid=uid, problem=problem))
            continue
        if ends_at is not None and "deletionTimestamp" not in metadata:
            version = str(metadata.get("resourceVersion", ""))
            windows.append(Window(name=name, uid=uid, version=version, ends_at=ends_at))
    return tuple(sorted(windows, key=lambda one: (one.ends_at, one.name))), tuple(unreadable)
