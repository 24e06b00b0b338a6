"""The store: history and its end, pages of one moment, slow watches, and selectors that objects leave."""

import itertools
from typing import Any

import orjson
import pytest

from services.sandbox import table
from services.sandbox.cluster import Cluster, ClusterSettings
from services.sandbox.failures import ApiError
from services.sandbox.objects import Obj, metadata
from services.sandbox.paging import list_page
from services.sandbox.selectors import field_predicate, label_predicate
from services.sandbox.store import Limits
from services.sandbox.watching import Scope, Watch


def _cluster(**limits: int) -> Cluster:
    return Cluster(ClusterSettings(limits=Limits(**limits)))


def _node(name: str, **labels: str) -> Obj:
    return {"metadata": {"name": name, "labels": labels}}


def _scope(**fields: Any) -> Scope:
    return Scope(kind=table.NODE, version="v1", namespace="", **fields)


def _events(watch: Watch) -> list[tuple[str, str]]:
    lines = [orjson.loads(line) for line in watch.take().splitlines()]
    return [(line["type"], line["object"]["metadata"]["name"]) for line in lines]


def _relabel(cluster: Cluster, name: str, **labels: str) -> None:
    stored = cluster.writer.require(table.NODE, namespace="", name=name)
    changed = stored.full("v1")
    changed["metadata"]["labels"] = labels
    cluster.writer.update(stored, changed)


def test_watch_resumes_exactly_after_a_revision() -> None:
    """A resumed watch shows everything after its revision, once and in order."""
    cluster = _cluster()
    cluster.writer.create(table.NODE, _node("a"))
    since = cluster.store.revision
    cluster.writer.create(table.NODE, _node("b"))
    _relabel(cluster, "a", x="y")
    watch = cluster.store.watch(_scope(), after=since)
    cluster.writer.create(table.NODE, _node("c"))
    assert _events(watch) == [("ADDED", "b"), ("MODIFIED", "a"), ("ADDED", "c")]


def test_watch_older_than_the_history_is_expired() -> None:
    """A revision that the bounded history has forgotten is answered with 410; the oldest kept one works."""
    cluster = _cluster(history_events=3)
    revisions = []
    for number in range(6):
        cluster.writer.create(table.NODE, _node(f"n{number}"))
        revisions.append(cluster.store.revision)
    with pytest.raises(ApiError) as refused:
        cluster.store.watch(_scope(), after=revisions[0])
    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    watch = cluster.store.watch(_scope(), after=revisions[2])
    assert _events(watch) == [("ADDED", "n3"), ("ADDED", "n4"), ("ADDED", "n5")]


def test_compaction_expires_even_the_newest_revision() -> None:
    """After a compaction every client must list again, and can then watch from there."""
    cluster = _cluster()
    cluster.writer.create(table.NODE, _node("a"))
    before = cluster.store.revision
    cluster.watches.compact(("nodes",))
    with pytest.raises(ApiError, match="too old resource version"):
        cluster.store.watch(_scope(), after=before)
    page = list_page(cluster.store, _scope(), limit=0, token="")
    assert cluster.store.watch(_scope(), after=page.revision).is_open


def test_slow_watch_is_closed() -> None:
    """A watch whose queue is full ends; others go on."""
    cluster = _cluster(watch_queue_events=2)
    slow, quick = (cluster.store.watch(_scope(), after=cluster.store.revision) for _ in range(2))
    for number in range(3):
        cluster.writer.create(table.NODE, _node(f"n{number}"))
        quick.take()
    assert slow.is_overflowed
    assert slow.take() == b""
    assert quick.is_open


def test_leaving_and_entering_a_selector() -> None:
    """An object that stops matching is deleted for the watch, as it was last seen; one that starts is added."""
    cluster = _cluster()
    watch = cluster.store.watch(_scope(predicate=label_predicate("pool=a")), after=cluster.store.revision)
    cluster.writer.create(table.NODE, _node("n", pool="b"))
    _relabel(cluster, "n", pool="a")
    _relabel(cluster, "n", pool="a", more="x")
    _relabel(cluster, "n", pool="b")
    events = [orjson.loads(line) for line in watch.take().splitlines()]
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[2]["object"]["metadata"]["labels"] == {"pool": "a", "more": "x"}
    assert events[2]["object"]["metadata"]["resourceVersion"] == str(cluster.store.revision)


def test_pages_show_the_moment_of_the_first() -> None:
    """Objects that come and go between pages neither appear nor vanish."""
    cluster = _cluster()
    for number in range(5):
        cluster.writer.create(table.NODE, _node(f"n{number}"))
    first = list_page(cluster.store, _scope(), limit=2, token="")
    cluster.remover.force(cluster.writer.require(table.NODE, namespace="", name="n4"))
    cluster.writer.create(table.NODE, _node("n9"))
    second = list_page(cluster.store, _scope(), limit=2, token=first.next_token)
    third = list_page(cluster.store, _scope(), limit=2, token=second.next_token)
    pages = (first, second, third)
    names = [metadata(item.obj)["name"] for page in pages for item in page.items]
    assert names == ["n0", "n1", "n2", "n3", "n4"]
    assert {page.revision for page in pages} == {first.revision}
    assert [page.remaining for page in pages] == [3, 1, None]
    assert third.next_token == ""


def test_forgotten_page_view_is_expired() -> None:
    """A continue token whose view was dropped is answered with 410."""
    cluster = _cluster(snapshots=1)
    for number in range(3):
        cluster.writer.create(table.NODE, _node(f"n{number}"))
    old = list_page(cluster.store, _scope(), limit=1, token="")
    list_page(cluster.store, _scope(), limit=1, token="")
    with pytest.raises(ApiError) as refused:
        list_page(cluster.store, _scope(), limit=1, token=old.next_token)
    assert refused.value.code == 410


def test_unchanged_update_makes_no_event() -> None:
    """Writing what is already there changes neither the revision nor any watch."""
    cluster = _cluster()
    cluster.writer.create(table.NODE, _node("n", a="b"))
    watch = cluster.store.watch(_scope(), after=cluster.store.revision)
    before = cluster.store.revision
    _relabel(cluster, "n", a="b")
    assert cluster.store.revision == before
    assert watch.queued == 0


def test_both_versions_share_one_object() -> None:
    """A PodGroup made in one version is seen in the other, with that version's apiVersion."""
    cluster = _cluster()
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    body: Obj = {"metadata": {"name": "g"}, "spec": spec}
    stored = cluster.writer.create(table.POD_GROUP, body, namespace="default", version="v1alpha3")
    shown = [orjson.loads(stored.encoded(version)) for version in ("v1beta1", "v1alpha3")]
    assert [one["apiVersion"] for one in shown] == ["scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3"]
    assert shown[0]["spec"] == shown[1]["spec"]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("", "abc"),
        ("pool=x", "ab"),
        ("pool==x,rack=1", "a"),
        ("pool!=x", "c"),
        ("pool in (x, y)", "abc"),
        ("pool notin (x)", "c"),
        ("rack", "a"),
        ("!rack", "bc"),
        ("pool in (x),!rack", "b"),
    ],
)
def test_label_selectors(selector: str, names: str) -> None:
    """Every form of label selector selects what Kubernetes would."""
    labels = {"a": {"pool": "x", "rack": "1"}, "b": {"pool": "x"}, "c": {"pool": "y"}}
    predicate = label_predicate(selector)
    found = [name for name, own in labels.items() if predicate is None or predicate(_node(name, **own))]
    assert "".join(found) == names


def test_field_selectors_reject_unknown_fields() -> None:
    """Only indexed fields can be selected by, and the refusal names the field."""
    predicate = field_predicate("spec.nodeName=,metadata.name!=b", allowed=table.POD.fields)
    assert predicate is not None
    assert [predicate({"metadata": {"name": name}, "spec": {}}) for name in "ab"] == [True, False]
    with pytest.raises(ApiError, match=r"field label not supported: spec\.foo"):
        field_predicate("spec.foo=a", allowed=table.POD.fields)


def test_generated_names_are_distinct_and_keep_their_base() -> None:
    """Names from generateName start with it and never collide."""
    cluster = _cluster()
    names = {
        metadata(cluster.writer.create(table.NODE, {"metadata": {"generateName": "n-"}}).obj)["name"]
        for _ in itertools.repeat(None, 50)
    }
    assert len(names) == 50
    assert all(name.startswith("n-") and len(name) == len("n-") + 5 for name in names)
