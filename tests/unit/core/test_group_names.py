"""Names of groups are what a tenant wrote: none becomes a gang id or a subject of the bus unless it can be a name."""

import re
from typing import Any

import pytest

from services.contracts.subjects import placement_subject
from services.core.gangs import gang_id_of
from services.core.manifests import FieldError
from services.core.membership import (
    COSCHEDULING_LABEL,
    JOB_SET_LABEL,
    KUEUE_GROUP_LABEL,
    LWS_GROUP_LABEL,
    LWS_NAME_LABEL,
    RAY_CLUSTER_LABEL,
    Lookup,
    membership_of,
)
from services.core.names import VOLCANO_GROUP_ANNOTATION
from services.core.objects import Kind, Owner, Pod, Uid
from services.core.quorum import quorum_reasons
from services.core.reasons import ReasonCode
from services.core.reduce import MalformedObject, reduce
from tests.builders import lone_gang, pod, pod_manifest

NO_NAMES = ("a b", "a\nb", "a\r\nPUB x 1\r\n", "a/b", "../x", "*", ">", "ü", "A", "a_b", "-a", "a.", "x" * 254)
FIELDS: dict[str, dict[str, Any]] = {
    "metadata.labels": {COSCHEDULING_LABEL: "labels", KUEUE_GROUP_LABEL: "labels"},
    "metadata.annotations": {VOLCANO_GROUP_ANNOTATION: "annotations"},
}
PLACES = [(where, key) for where, keys in FIELDS.items() for key in keys]


def named(where: str, key: str, name: str) -> dict[str, Any]:
    """The manifest of a pod that names its group."""
    manifest = pod_manifest("w-0")
    manifest["metadata"].setdefault(where.partition(".")[2], {})[key] = name
    return manifest


@pytest.mark.parametrize("name", NO_NAMES)
@pytest.mark.parametrize(("where", "key"), PLACES)
def test_a_pod_whose_group_can_have_no_such_name_waits_and_says_which_field(where: str, key: str, name: str) -> None:
    """It is no member of anything, and is not placed alone either."""
    item = reduce(Kind.POD, named(where, key, name))
    assert isinstance(item, Pod)
    assert gang_id_of(item) == "pod/team-a/w-0"
    (reason,) = quorum_reasons(lone_gang(item))
    assert (reason.code, reason.subject) == (ReasonCode.UNREADABLE_FIELD, f"{where}[{key}]")
    subject = placement_subject(gang_id_of(item), event="waiting")
    assert re.fullmatch(r"[-a-z0-9_]+(\.[-a-z0-9_]+){6}", subject)


@pytest.mark.parametrize("name", ["a", "team-a.train-1", "0", "x" * 253])
@pytest.mark.parametrize(("where", "key"), PLACES)
def test_every_name_that_an_object_can_have_is_taken(where: str, key: str, name: str) -> None:
    """With the dots that names may have."""
    item = reduce(Kind.POD, named(where, key, name))
    assert isinstance(item, Pod)
    assert not item.unreadable
    assert gang_id_of(item).endswith(f"/team-a/{name}")


@pytest.mark.parametrize("label", [JOB_SET_LABEL, RAY_CLUSTER_LABEL, LWS_NAME_LABEL])
@pytest.mark.parametrize("name", NO_NAMES)
def test_a_claim_to_what_cannot_exist_is_none(label: str, name: str) -> None:
    """Also where owners are taken at their word."""
    owner = Owner(kind="Pod", name=f"{name}-0", uid=Uid("u"), is_controller=True, api_version="v1")
    item = pod("w-0", labels={label: name, LWS_GROUP_LABEL: "0"}, owners=(owner,))
    trusting = Lookup(find=lambda _key: None, is_absent=lambda _kind: True)
    assert membership_of(item, lookup=trusting).gang == "pod/team-a/w-0"


@pytest.mark.parametrize("field", ["name", "namespace"])
@pytest.mark.parametrize("text", ["a b", "a\nb", "a/b", "*", ">", "a%2f"])
def test_an_object_without_a_possible_name_is_refused(field: str, text: str) -> None:
    """An API server would not have it; a file may."""
    manifest = pod_manifest("w-0")
    manifest["metadata"][field] = text
    with pytest.raises(MalformedObject, match=f"metadata.{field}: expected a name without spaces") as caught:
        reduce(Kind.POD, manifest)
    assert isinstance(caught.value.__cause__, FieldError)
