"""`phalanx taint`: the rules that it writes, and what it says a rule would break."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner

from services.cli.main import main
from services.cli.taint.rules import Selection, Taint, default_name, ending, rule_manifest, selected_by, taint_in
from services.cli.taint.what_if import Verdict, WhatIf, as_json, what_if
from services.cli.taint.world import World
from services.contracts.manifest_kinds import kind_of_manifest
from services.core.objects import Kind
from services.core.reduce import reduce
from tests.builders import node_manifest, pod_group_manifest, pod_manifest

Manifest = dict[str, Any]
DRIVER = "gpu.example.com"
ONE = Selection(driver=DRIVER, pool="n1", device="gpu-0")
_WHOLE = {Kind.POD, Kind.RESOURCE_CLAIM, Kind.RESOURCE_CLAIM_TEMPLATE, Kind.RESOURCE_SLICE}


def rule(selection: Selection = ONE, *, effect: str = "NoExecute") -> Manifest:
    """Return a rule as the command writes it."""
    return rule_manifest("r", selection=selection, taint=Taint(key="k", value="", effect=effect), ends_at=None)


def world(*manifests: Mapping[str, Any], problems: tuple[str, ...] = ()) -> World:
    """Return a cluster with these objects."""
    objects, whole = [], dict[Kind, list[Mapping[str, Any]]]()
    for given in manifests:
        metadata = {**given["metadata"]}
        metadata.setdefault("uid", f"uid-{metadata['name']}")
        item = {**given, "metadata": metadata}
        kind = kind_of_manifest(item)
        assert kind is not None
        objects.append(reduce(kind, item))
        if kind in _WHOLE:
            whole.setdefault(kind, []).append(item)
    return World(objects=tuple(objects), whole={kind: tuple(items) for kind, items in whole.items()}, problems=problems)


def member(name: str, *, node: str, group: str = "g", is_owned: bool = True, **spec: Any) -> Manifest:
    """Return a pod that runs on a node."""
    found = pod_manifest(name, group=group, nodeName=node, **spec)
    if is_owned:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": True}
        found["metadata"]["ownerReferences"] = [owner]
    return found | {"status": {"phase": "Running"}}


def claim(name: str, device: str, *users: str, pool: str = "n1", owner: str = "") -> Manifest:
    """Return a claim that holds a device for pods."""
    result = {"driver": DRIVER, "pool": pool, "device": device, "request": "gpu"}
    metadata: Manifest = {"name": name, "namespace": "team-a"}
    if owner:
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-{owner}"}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": REQUEST,
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": one, "uid": f"uid-{one}"} for one in users],
        },
    }


REQUEST = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}}]}}


def slice_(node: str, *devices: str) -> Manifest:
    """Return the devices of a node."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"slice-{node}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": one} for one in devices],
        },
    }


def the_answer(found: WhatIf) -> tuple[Verdict, str]:
    """Return verdict and reason where there is one answer."""
    (answer,) = found.elsewhere
    return answer.verdict, answer.why


def two_on_one_node(*, others: int) -> World:
    """A gang of two on a node of two GPUs, and a second node with so many."""
    return world(
        node_manifest("n1", gpus=2),
        node_manifest("n2", gpus=others),
        pod_group_manifest("g", min_count=2),
        member("a", node="n1"),
        member("b", node="n1"),
        claim("c", "gpu-0", "a"),
        slice_("n1", "gpu-0", "gpu-1"),
    )


def test_a_gang_that_breaks_and_fits_elsewhere() -> None:
    """The lost member's place is free for its successor too: the taint is on its device, and not on the node."""
    found = what_if(two_on_one_node(others=0), rule())
    assert [(one.name, one.lost, one.left, one.is_broken) for one in found.blast.losses] == [
        ("podgroup/team-a/g", 1, 1, True)
    ]
    assert the_answer(found) == (Verdict.FITS, "")
    assert found.elsewhere[0].nodes == (("n1", 1),)
    assert found.is_harmless


def test_a_gang_that_fits_nowhere_else() -> None:
    """Another pod waits for nothing but the room; the reason is the solver's."""
    full = world(
        node_manifest("n1", gpus=2),
        pod_group_manifest("g", min_count=2),
        member("a", node="n1", gpus=2),
        member("b", node="n1", gpus=1),
        claim("c", "gpu-0", "a"),
        slice_("n1", "gpu-0"),
    )
    verdict, why = the_answer(what_if(full, rule()))
    assert verdict is Verdict.LACKS
    assert "0 of the 1 needed pods can be placed" in why
    assert not what_if(full, rule()).is_harmless


def test_other_effects_break_nothing() -> None:
    """NoSchedule leaves what runs; whom NoExecute would delete is known all the same."""
    found = what_if(two_on_one_node(others=2), rule(effect="NoSchedule"))
    assert found.elsewhere == ()
    assert [one.name for one in found.blast.victims] == ["a"]
    assert found.is_harmless


def test_nobody_recreates_a_pod_without_a_controller() -> None:
    """It is lost for good, and so nothing is asked of the solver."""
    alone = world(
        node_manifest("n1"),
        member("a", node="n1", group="", is_owned=False),
        claim("c", "gpu-0", "a"),
        slice_("n1", "gpu-0"),
    )
    found = what_if(alone, rule())
    assert ([one.name for one in found.for_good], found.elsewhere) == (["a"], ())
    assert not found.is_harmless


def test_what_could_not_be_read_leaves_all_unknown() -> None:
    """Without the nodes nobody knows what fits."""
    given = two_on_one_node(others=2)
    found = what_if(World(objects=given.objects, whole=given.whole, problems=("nodes could not be listed",)), rule())
    assert the_answer(found)[0] is Verdict.UNKNOWN
    assert not found.is_harmless


TEMPLATE: Manifest = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one", "namespace": "team-a"},
    "spec": {"spec": REQUEST},
}
DEVICE_CLASS: Manifest = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
}


def user(name: str, *, claim_name: str, node: str = "n1", template: str = "one") -> Manifest:
    """Return a pod that runs with a claim of its own, or with one that exists under its name."""
    source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim_name}
    fields: Manifest = {"resourceClaims": [{"name": "gpu", **source}], "gpus": 0}
    pod = member(name, node=node, **fields)
    if template:
        pod["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": claim_name}]
    return pod


def with_claims(*devices: str, min_count: int = 1, extra: tuple[Manifest, ...] = ()) -> World:
    """A gang of one pod that holds gpu-0 of a node with these devices."""
    return world(
        node_manifest("n1", gpus=0),
        pod_group_manifest("g", min_count=min_count),
        user("a", claim_name="c"),
        claim("c", "gpu-0", "a", owner="a"),
        TEMPLATE,
        DEVICE_CLASS,
        slice_("n1", *devices),
        *extra,
    )


def test_a_successor_gets_another_device_of_its_node() -> None:
    """Its claim is made anew from the template, and the second device is free."""
    found = what_if(with_claims("gpu-0", "gpu-1"), rule())
    assert the_answer(found) == (Verdict.FITS, "")
    assert found.elsewhere[0].nodes == (("n1", 1),)


def test_the_tainted_device_is_no_place_for_its_successor() -> None:
    """The device that was freed is not taken again: the rule is imagined too."""
    verdict, why = the_answer(what_if(with_claims("gpu-0"), rule()))
    assert verdict is Verdict.LACKS
    assert "tainted" in why


def test_a_whole_driver_leaves_nothing() -> None:
    """Also devices that nobody holds are tainted."""
    assert the_answer(what_if(with_claims("gpu-0", "gpu-1"), rule(Selection(driver=DRIVER))))[0] is Verdict.LACKS


def test_devices_that_others_hold_are_not_free() -> None:
    """The second device belongs to somebody who stays."""
    others = (user("b", claim_name="d"), claim("d", "gpu-1", "b", owner="b"))
    assert the_answer(what_if(with_claims("gpu-0", "gpu-1", extra=others), rule()))[0] is Verdict.LACKS


def test_another_node_is_elsewhere_too() -> None:
    """The successor moves to a node with a free device."""
    others = (node_manifest("n2", gpus=0), slice_("n2", "gpu-0"))
    found = what_if(with_claims("gpu-0", extra=others), rule())
    assert the_answer(found)[0] is Verdict.FITS
    assert found.elsewhere[0].nodes == (("n2", 1),)


def test_a_claim_of_its_own_name_is_given_back_with_its_last_user() -> None:
    """It is allocated anew, to a device that is not tainted."""
    given = world(
        node_manifest("n1", gpus=0),
        pod_group_manifest("g", min_count=1),
        user("a", claim_name="named", template=""),
        claim("named", "gpu-0", "a"),
        DEVICE_CLASS,
        slice_("n1", "gpu-0", "gpu-1"),
    )
    assert the_answer(what_if(given, rule()))[0] is Verdict.FITS


def test_json_has_stable_fields() -> None:
    """What scripts rely on."""
    document = json.loads(as_json(what_if(two_on_one_node(others=0), rule())))
    assert document["devices"] == {"selected": 1, "published": 2}
    assert document["claims"] == ["team-a/c"]
    assert document["podsDeleted"] == [{"namespace": "team-a", "name": "a", "afterSeconds": 0}]
    assert document["gangs"] == [{"gang": "podgroup/team-a/g", "minCount": 2, "loses": 1, "left": 1, "breaks": True}]
    assert document["elsewhere"] == [{"gang": "podgroup/team-a/g", "verdict": "fits", "why": "", "nodes": {"n1": 1}}]
    assert document["notRecreated"] == document["problems"] == []


@pytest.mark.parametrize(
    ("selection", "selector", "shown"),
    [
        (Selection(driver="d"), {"driver": "d"}, "d"),
        (Selection(driver="d", pool="p"), {"driver": "d", "pool": "p"}, "d/p"),
        (
            Selection(driver="d", pool="p", device="x"),
            {"driver": "d", "pool": "p", "device": "x"},
            "d/p/x",
        ),
    ],
)
def test_a_rule_selects_what_was_said(selection: Selection, selector: dict[str, str], shown: str) -> None:
    """A device, a pool, or everything of a driver; never an empty selector, which would be every device."""
    end = datetime(2026, 12, 1, 18, tzinfo=UTC)
    given = rule_manifest("r", selection=selection, taint=Taint(key="k", value="v", effect="NoSchedule"), ends_at=end)
    assert given["spec"]["deviceSelector"] == selector
    assert selected_by(given) == shown
    assert str(taint_in(given)) == "k=v:NoSchedule"
    assert ending(given) == "2026-12-01T18:00:00Z"
    assert given["apiVersion"] == "resource.k8s.io/v1"


@pytest.mark.parametrize(
    ("selector", "shown"),
    [
        (None, "no device"),
        ({}, "every device"),
        ({"pool": "p"}, "pool p"),
        ({"driver": "d", "device": "x"}, "d/*/x"),
    ],
)
def test_rules_of_others_are_shown_too(selector: dict[str, str] | None, shown: str) -> None:
    """Whatever the API allows."""
    assert selected_by({"spec": {} if selector is None else {"deviceSelector": selector}}) == shown


def test_names_tell_devices_apart() -> None:
    """The same devices, the same name; names are valid, and as long as Kubernetes takes."""
    assert default_name(ONE) == "maintenance-gpu-example-com-n1-gpu-0"
    pools = [Selection(driver="d", pool=pool) for pool in ("A", "a", "p" * 300, "p" * 300 + "q", "x/y")]
    names = [default_name(one) for one in pools]
    assert len(set(names)) == len(names)
    assert all(len(one) <= 253 and one == one.lower() and one[-1].isalnum() for one in names)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--device", "gpu-0"], "--device needs --pool"),
        (["--for", "tomorrow"], "expected a duration such as 30s, 2m or 0s, got 'tomorrow'"),
        (["--for", "0s"], "expected a duration above zero"),
        (["--for", "9000h"], "expected a duration of at most 720h"),
        (["--effect", "Evict"], "'Evict' is not one of"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str) -> None:
    """What is wrong is said before anything is read; exit code 2."""
    result = CliRunner().invoke(main, ["taint", "add", "gpu.example.com", *arguments])
    assert result.exit_code == 2
    assert said in result.output
