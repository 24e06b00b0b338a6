"""What the API says becomes subjects, versions and fingerprints that can be trusted."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.cluster_codec import decode_change
from services.core.objects import Applied, Deleted, Kind
from services.core.reduce import MalformedObject
from services.watcher.kinds import WATCHED_KINDS
from services.watcher.observation import applied, deleted, missed, revision_of, subject_of, version_of_message
from services.watcher.publication import UNKNOWN_REVISION
from tests.builders import pod_manifest

LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
NAME = st.lists(LABEL, min_size=1, max_size=3).map(".".join)


def pod(name: str = "w-0", *, namespace: str = "team-a", version: str = "7", **fields: Any) -> dict[str, Any]:
    """A pod as the API server states it."""
    manifest = pod_manifest(name, namespace=namespace, **fields)
    return manifest | {"metadata": manifest["metadata"] | {"uid": "u1", "resourceVersion": version}}


@given(st.tuples(LABEL, NAME), st.tuples(LABEL, NAME))
def test_different_objects_have_different_subjects(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Dots become underscores, which no name contains."""
    subjects = [subject_of(Kind.POD, pod(name, namespace=namespace)) for namespace, name in (one, other)]
    assert (subjects[0] == subjects[1]) == (one == other)


@given(LABEL, NAME)
def test_a_missed_deletion_restores_the_name_from_the_subject(namespace: str, name: str) -> None:
    """The object itself is not at hand any more."""
    for kind, scope in ((Kind.POD, namespace), (Kind.NODE, "")):
        tombstone = missed(kind, subject=subject_of(kind, pod(name, namespace=scope)), uid="u1", revision=9)
        change = decode_change(kind, tombstone.data)
        assert isinstance(change, Deleted)
        assert (change.metadata.namespace, change.metadata.name, change.metadata.uid) == (scope, name, "u1")
        assert tombstone.event_id == "u1/deleted"
        assert version_of_message(tombstone.data) == tombstone.version


@pytest.mark.parametrize("name", ["", "a_b", "a b", "a.>", "*", "A"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    """It could stand for another object's subject, or for many."""
    with pytest.raises(MalformedObject, match=r"metadata\.name"):
        subject_of(Kind.POD, pod(name))


@pytest.mark.parametrize("version", ["", "-1", "x7", "1.5", "9" * 30])
def test_a_version_that_cannot_be_ordered_is_refused(version: str) -> None:
    """Versions are compared as whole numbers."""
    with pytest.raises(MalformedObject, match=r"metadata\.resourceVersion"):
        applied(Kind.POD, pod(version=version))
    assert revision_of(pod(version=version)) == UNKNOWN_REVISION


def test_only_news_changes_the_fingerprint() -> None:
    """A new resourceVersion alone is no news; a label is."""
    first = applied(Kind.POD, pod())
    assert applied(Kind.POD, pod(version="8")).version.says_the_same(first.version)
    assert not applied(Kind.POD, pod(labels={"x": "y"})).version.says_the_same(first.version)


def test_a_stored_message_tells_its_version() -> None:
    """So that a new watcher compares without the object."""
    outgoing = applied(Kind.POD, pod())
    assert version_of_message(outgoing.data) == outgoing.version
    change = decode_change(Kind.POD, outgoing.data)
    assert isinstance(change, Applied)
    assert change.metadata.resource_version == "7"
    assert outgoing.event_type == "phalanx.cluster.v1.pod.applied"


def test_a_message_that_cannot_be_read_is_older_than_everything() -> None:
    """It will be replaced."""
    assert version_of_message(b"\xff\xff").revision == UNKNOWN_REVISION


def test_a_deletion_needs_the_identity_only() -> None:
    """Also an object that could not be understood can be buried."""
    broken = {"metadata": {"name": "w-0", "namespace": "a", "uid": "u1", "resourceVersion": "9"}, "spec": "?"}
    with pytest.raises(MalformedObject):
        applied(Kind.POD, broken)
    tombstone = deleted(Kind.POD, broken)
    assert tombstone.version.is_deleted
    assert tombstone.version.revision == 9


def test_an_object_that_is_too_large_for_a_message_is_refused() -> None:
    """The refusal names the object; nothing is cut."""
    manifest = {"metadata": {"name": "s", "uid": "u", "resourceVersion": "1"}, "spec": {"devices": ["x" * 2**20] * 5}}
    with pytest.raises(MalformedObject, match="at most 4194304 bytes"):
        applied(Kind.RESOURCE_SLICE, manifest)


def test_the_table_of_kinds_has_each_kind_once() -> None:
    """Every kind of the stream but the watch states themselves."""
    assert sorted(watched.kind for watched in WATCHED_KINDS) == sorted(set(Kind) - {Kind.WATCH})
    paths = {watched.kind: watched.path(watched.versions[0]) for watched in WATCHED_KINDS}
    assert paths[Kind.POD] == "/api/v1/pods"
    assert paths[Kind.POD_GROUP] == "/apis/scheduling.k8s.io/v1beta1/podgroups"
