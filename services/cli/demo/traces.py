"""The trace of one placement as a tree with milliseconds, from the spans that the services wrote to a file."""

import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.tree import Tree

SHOWN_SIBLINGS = 2
"""Spans of one name below one parent that are shown one by one; the others are summed up."""


@dataclass(slots=True, kw_only=True)
class Span:
    """One span. Times in nanoseconds since the epoch."""

    id: str
    parent: str
    name: str
    service: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any]
    link_count: int
    children: list["Span"] = field(default_factory=list)

    @property
    def duration_ms(self) -> float:
        """How long it took."""
        return (self.end_ns - self.start_ns) / 1e6


def trace_of_transaction(path: Path, transaction: str) -> Span | None:
    """Return the root of the trace in which the transaction was committed, or None where it was not recorded."""
    by_trace: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    found = ""
    for line in path.read_text().splitlines() if path.exists() else ():
        record = json.loads(line)
        by_trace[record["trace_id"]].append(record)
        if record["name"] == "transaction" and record["attributes"].get("phalanx.transaction") == transaction:
            found = record["trace_id"]
    return root_of(by_trace[found]) if found else None


def root_of(records: Sequence[Mapping[str, Any]]) -> Span | None:
    """Return the root of one trace with its descendants, each level in order of time.

    A span whose parent was not recorded, as of a service that was killed, stands below the root.
    """
    spans = {
        record["span_id"]: Span(
            id=record["span_id"],
            parent=record["parent_id"] or "",
            name=record["name"],
            service=record["service"],
            start_ns=record["start_ns"],
            end_ns=record["end_ns"],
            attributes=record["attributes"],
            link_count=len(record["links"]),
        )
        for record in records
    }
    root: Span | None = None
    orphans: list[Span] = []
    for span in sorted(spans.values(), key=lambda span: span.start_ns):
        parent = spans.get(span.parent)
        if root is None and parent is None:
            root = span
        elif parent is None:
            orphans.append(span)
        else:
            parent.children.append(span)
    if root is not None:
        root.children = sorted((*root.children, *orphans), key=lambda span: span.start_ns)
    return root


def tree_of(root: Span) -> Tree:
    """Return the trace for the terminal: offset from the start and duration of each span."""
    tree = Tree(_line(root, origin_ns=root.start_ns))
    _grow(tree, root, origin_ns=root.start_ns)
    return tree


def _grow(tree: Tree, span: Span, *, origin_ns: int) -> None:
    by_name: dict[str, list[Span]] = defaultdict(list)
    for child in span.children:
        by_name[child.name].append(child)
    for siblings in by_name.values():
        for child in siblings[:SHOWN_SIBLINGS]:
            _grow(tree.add(_line(child, origin_ns=origin_ns)), child, origin_ns=origin_ns)
        rest = siblings[SHOWN_SIBLINGS:]
        if rest:
            middle = statistics.median(child.duration_ms for child in rest)
            tree.add(f"[dim]… {len(rest)} more {rest[0].name}, median {middle:.1f} ms[/dim]")


def _line(span: Span, *, origin_ns: int) -> str:
    offset_ms = (span.start_ns - origin_ns) / 1e6
    details = [
        str(span.attributes[key])
        for key in ("phalanx.gang", "phalanx.pod", "phalanx.node", "phalanx.event")
        if span.attributes.get(key)
    ]
    links = f", {span.link_count} links to its members' events" if span.link_count else ""
    return (
        f"[bold]{span.name}[/bold] [cyan]{span.service.removeprefix('phalanx-')}[/cyan] "
        f"starts +{offset_ms:.1f} ms, takes {span.duration_ms:.1f} ms [dim]{' '.join(details)}{links}[/dim]"
    )
