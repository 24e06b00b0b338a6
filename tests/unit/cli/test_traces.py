"""The trace of a placement as a tree: what belongs where, what is summed up, and what became of orphans."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from services.cli.demo.traces import root_of, trace_of_transaction, tree_of

MS = 1_000_000


def span(
    name: str,
    *,
    id: str,  # noqa: A002 - the field's name in the file
    parent: str | None = None,
    start_ms: int = 0,
    took_ms: int = 10,
    trace: str = "t1",
    links: int = 0,
    **attributes: str,
) -> dict[str, Any]:
    """One line of the file."""
    return {
        "trace_id": trace,
        "span_id": id,
        "parent_id": parent,
        "name": name,
        "service": f"phalanx-{name.split('.', maxsplit=1)[0]}",
        "start_ns": start_ms * MS,
        "end_ns": (start_ms + took_ms) * MS,
        "attributes": {key.replace("_", ".", 1): value for key, value in attributes.items()},
        "links": [{}] * links,
    }


def shown(*records: Mapping[str, Any]) -> list[str]:
    """The tree as lines of text."""
    root = root_of(records)
    assert root is not None
    screen = io.StringIO()
    Console(width=160, file=screen).print(tree_of(root))
    return [line.rstrip() for line in screen.getvalue().splitlines()]


def placement() -> list[dict[str, Any]]:
    """A whole placement, not in order."""
    return [
        span("transaction", id="c", parent="b", start_ms=30, took_ms=50, phalanx_transaction="tx-1"),
        span("gang.decide", id="b", parent="a", start_ms=20, links=3, phalanx_gang="podgroup/a/g"),
        span("watch.event", id="a", start_ms=10, took_ms=5),
    ]


def test_children_stand_below_their_parents() -> None:
    """With the offset from the start, the duration, and what they were about."""
    lines = shown(*placement())
    assert lines[0] == "watch.event watch starts +0.0 ms, takes 5.0 ms"
    decide = "gang.decide gang starts +10.0 ms, takes 10.0 ms podgroup/a/g, 3 links to its members' events"
    assert lines[1].endswith(decide)
    assert lines[2].endswith("transaction transaction starts +20.0 ms, takes 50.0 ms")
    assert [line.index(line.lstrip(" └─")) for line in lines] == [0, 4, 8]


def test_many_siblings_are_summed_up() -> None:
    """Two are shown, the others counted with their median; other names are not touched."""
    bindings = [
        span("binding", id=f"x{index}", parent="c", start_ms=40 + index, took_ms=index, phalanx_pod=f"g-{index}")
        for index in range(9)
    ]
    lines = shown(*placement(), *bindings, span("transaction.check", id="k", parent="c", start_ms=31))
    assert sum("transaction.check" in line for line in lines) == 1
    assert ["g-0" in lines[4] or "g-0" in lines[5], any("g-2" in line for line in lines)] == [True, False]
    assert lines[-1].endswith("… 7 more binding, median 5.0 ms")


def test_siblings_are_in_order_of_time() -> None:
    """Whatever order they were written in."""
    root = root_of(
        [
            span("later", id="l", parent="a", start_ms=30),
            span("root", id="a"),
            span("sooner", id="s", parent="a", start_ms=20),
        ]
    )
    assert root is not None
    assert [child.name for child in root.children] == ["sooner", "later"]


def test_orphan_is_not_lost() -> None:
    """A killed service did not write its span: what it caused stands below the root."""
    without_decide = [record for record in placement() if record["name"] != "gang.decide"]
    root = root_of(without_decide)
    assert root is not None
    assert (root.name, [child.name for child in root.children]) == ("watch.event", ["transaction"])


def test_earliest_span_is_the_root_where_the_root_is_missing() -> None:
    """As without a traced watcher."""
    root = root_of([record for record in placement() if record["name"] != "watch.event"])
    assert root is not None
    assert (root.name, [child.name for child in root.children]) == ("gang.decide", ["transaction"])


def test_no_spans_no_root() -> None:
    """Nothing was recorded."""
    assert root_of([]) is None


def test_trace_of_a_transaction_is_found_in_the_file(tmp_path: Path) -> None:
    """Among other traces, by the transaction that it led to."""
    path = tmp_path / "spans.jsonl"
    other = span("transaction", id="z", trace="t2", phalanx_transaction="tx-2")
    path.write_text("".join(json.dumps(record) + "\n" for record in [other, *placement()]))
    root = trace_of_transaction(path, "tx-1")
    assert root is not None
    assert root.name == "watch.event"
    assert trace_of_transaction(path, "tx-3") is None
    assert trace_of_transaction(tmp_path / "missing.jsonl", "tx-1") is None
