"""Whom a taint hits: as the eviction controller judges it, claim by claim."""

from typing import Any

import pytest

from services.core.blast import Blast, Team, Victim, blast_of

TAINT = {"key": "example.com/maintenance", "value": "fan", "effect": "NoExecute"}


def rule(effect: str = "NoExecute", **selector: str) -> dict[str, Any]:
    """Return a rule for devices of the driver, narrowed by pool and device."""
    chosen = {"driver": "gpu.example.com", **selector}
    return {"metadata": {"name": "r"}, "spec": {"deviceSelector": chosen, "taint": TAINT | {"effect": effect}}}


def slice_(pool: str, *devices: str, generation: int = 1) -> dict[str, Any]:
    """Return a slice of a pool."""
    described = {"name": pool, "generation": generation, "resourceSliceCount": 1}
    return {"spec": {"driver": "gpu.example.com", "pool": described, "devices": [{"name": one} for one in devices]}}


def claim(name: str, device: str, *users: str, tolerations: Any = ()) -> dict[str, Any]:
    """Return a claim that holds a device of pool `n1` for pods."""
    result = {"driver": "gpu.example.com", "pool": "n1", "device": device, "tolerations": list(tolerations)}
    reserved = [{"resource": "pods", "name": one, "uid": f"uid-{one}"} for one in users]
    return {
        "metadata": {"name": name, "namespace": "team"},
        "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved},
    }


def pod(name: str, *, node: str = "n1", phase: str = "Running") -> dict[str, Any]:
    """Return a pod."""
    return {
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase},
    }


def hit(given: dict[str, Any], *claims: dict[str, Any], pods: Any = (), teams: Any = ()) -> Blast:
    """Return what a rule does in a cluster with one pool of two devices."""
    return blast_of(given, claims=claims, slices=[slice_("n1", "gpu-0", "gpu-1")], pods=pods, teams=teams)


def test_pods_that_use_a_device_are_deleted_and_their_gang_falls() -> None:
    """One of three members is lost, and all three are needed."""
    teams = [
        Team(name="team/g", min_count=3, members=frozenset({"uid-a", "uid-b", "uid-c"})),
        Team(name="team/spare", min_count=1, members=frozenset({"uid-a", "uid-d"})),
        Team(name="team/far", min_count=1, members=frozenset({"uid-e"})),
    ]
    found = hit(
        rule(device="gpu-0"), claim("c", "gpu-0", "a"), claim("d", "gpu-1", "b"), pods=[pod("a"), pod("b")], teams=teams
    )
    assert (found.selected, found.published, found.claims) == (1, 2, ("team/c",))
    assert found.victims == (Victim(namespace="team", name="a", uid="uid-a"),)
    assert found.is_deadly
    assert [(one.name, one.lost, one.left) for one in found.losses] == [("team/g", 1, 2), ("team/spare", 1, 1)]
    assert [one.name for one in found.broken] == ["team/g"]


@pytest.mark.parametrize("bystander", [pod("a", node=""), pod("a", phase="Succeeded"), pod("a", phase="Failed")])
def test_pods_that_do_not_run_are_not_touched(bystander: dict[str, Any]) -> None:
    """What is on no node, or has ended, is not evicted."""
    assert hit(rule(), claim("c", "gpu-0", "a"), pods=[bystander]).victims == ()


def test_a_reservation_is_what_counts() -> None:
    """A claim that is reserved for nobody deletes nobody, whoever names it."""
    found = hit(rule(), claim("c", "gpu-0"), pods=[pod("a")])
    assert (found.claims, found.victims) == (("team/c",), ())


def test_with_no_schedule_nobody_dies() -> None:
    """Those that NoExecute would delete are told all the same."""
    found = hit(rule("NoSchedule"), claim("c", "gpu-0", "a"), pods=[pod("a")])
    assert [one.name for one in found.victims] == ["a"]
    assert not found.is_deadly


@pytest.mark.parametrize(
    ("tolerations", "after_s"),
    [
        ([], 0),
        ([{"operator": "Exists", "effect": "NoExecute"}], None),
        ([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}], 60),
        ([{"key": "example.com/maintenance", "value": "fan", "effect": "NoExecute"}], None),
        ([{"key": "example.com/maintenance", "value": "other", "effect": "NoExecute"}], 0),
        ([{"key": "example.com/other", "operator": "Exists", "effect": "NoExecute"}], 0),
        # Only a toleration that names the effect keeps an eviction off.
        ([{"operator": "Exists"}], 0),
        ([{"operator": "Exists", "effect": "NoSchedule"}], 0),
        ([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": n} for n in (90, 30)], 30),
        ([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -5}], 0),
        (
            [
                {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
                {"operator": "Exists", "effect": "NoExecute"},
            ],
            None,
        ),
    ],
)
def test_tolerations_are_those_of_the_allocation(tolerations: list[dict[str, Any]], after_s: int | None) -> None:
    """For ever, for some seconds, or not at all; the shortest time counts."""
    found = hit(rule(), claim("c", "gpu-0", "a", tolerations=tolerations), pods=[pod("a")])
    assert [one.after_s for one in found.victims] == ([] if after_s is None else [after_s])
    assert found.tolerant == (1 if after_s is None else 0)


def test_a_pod_goes_when_the_first_of_its_devices_does() -> None:
    """It tolerates the taint on one device and not on the other."""
    tolerant = [{"operator": "Exists", "effect": "NoExecute"}]
    found = hit(rule(), claim("c", "gpu-0", "a", tolerations=tolerant), claim("d", "gpu-1", "a"), pods=[pod("a")])
    assert [one.after_s for one in found.victims] == [0]
    assert found.tolerant == 0


def test_a_rule_without_selector_selects_nothing_and_an_empty_one_all() -> None:
    """As from 1.37.1 on."""
    nothing = {"metadata": {"name": "r"}, "spec": {"taint": TAINT}}
    everything = {"metadata": {"name": "r"}, "spec": {"deviceSelector": {}, "taint": TAINT}}
    assert hit(nothing, claim("c", "gpu-0", "a"), pods=[pod("a")]).selected == 0
    assert hit(everything, claim("c", "gpu-0", "a"), pods=[pod("a")]).selected == 2


def test_devices_of_an_older_generation_are_not_published() -> None:
    """A pool that is published anew counts once."""
    found = blast_of(
        rule(), claims=(), slices=[slice_("n1", "old"), slice_("n1", "a", "b", generation=2)], pods=(), teams=()
    )
    assert (found.selected, found.published) == (2, 2)
