"""Subjects: one per object and event, whatever Kubernetes allows in a name."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from services.contracts.streams import STREAMS
from services.contracts.subjects import (
    cluster_subject,
    gang_parts,
    placement_subject,
    scaling_subject,
    token,
)
from services.core.objects import GangId, Kind, Metadata

NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,6}[a-z0-9])?(\.[a-z0-9]{1,4}){0,2}", fullmatch=True)


def test_the_documented_forms() -> None:
    """They are public: other programs subscribe to them."""
    assert cluster_subject(Kind.POD, Metadata(namespace="team-a", name="w-0")) == "phalanx.cluster.v1.pod.team-a.w-0"
    assert cluster_subject(Kind.NODE, Metadata(name="a.b.example")) == "phalanx.cluster.v1.node._.a_b_example"
    gang = GangId("podgroup/team-a/train.1")
    assert placement_subject(gang, event="proposed") == "phalanx.placement.v1.podgroup.team-a.train_1.proposed"
    assert scaling_subject("team-a", hpa="chat", event="woken") == "phalanx.scaling.v1.team-a.chat.woken"


@given(left=NAMES, right=NAMES)
def test_different_names_have_different_tokens(left: str, right: str) -> None:
    """No Kubernetes name contains the character that stands for a dot."""
    assume(left != right)
    assert token(left) != token(right)


@given(namespace=NAMES, name=NAMES)
def test_a_subject_has_as_many_tokens_as_documented(namespace: str, name: str) -> None:
    """Names never add levels: wildcards of readers keep their meaning."""
    metadata = Metadata(namespace=namespace.replace(".", "-"), name=name)
    assert cluster_subject(Kind.POD, metadata).count(".") == 5
    assert placement_subject(GangId(f"job/{metadata.namespace}/{name}"), event="waiting").count(".") == 6


@pytest.mark.parametrize("text", ["", "podgroup", "podgroup/team-a", "podgroup//a", "a/b/c/d"])
def test_what_is_no_gang_id_is_refused(text: str) -> None:
    """The message says how one looks."""
    with pytest.raises(ValueError, match="such as podgroup/team-a/train"):
        gang_parts(GangId(text))


def test_streams_take_disjoint_subjects() -> None:
    """The server refuses overlapping streams."""
    subjects = [subject for stream in STREAMS for subject in stream.subjects]
    areas = ("cluster", "deadletter", "placement", "scaling")
    assert sorted(subjects) == [f"phalanx.{area}.v1.>" for area in areas]
