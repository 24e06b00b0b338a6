"""Maintenance windows end: on the sandbox and a real NATS server, the binder removes the rules whose time is over."""

from datetime import UTC, datetime, timedelta
from typing import Any

from services.core.maintenance import written_end
from services.sandbox.faults import Action, Answer, Match
from tests.integration.binder.harness import Scene
from tests.integration.binder.test_faults import ready

SWEEP_S = 0.1
OVER = "2026-01-01T00:00:00Z"
RULES = "^/apis/resource.k8s.io/v1/devicetaintrules"


def taint(scene: Scene, name: str, *, end: str | None) -> None:
    """Create a rule, as `phalanx taint add` writes it."""
    annotations = {} if end is None else {"phalanx.dev/expires-at": end}
    scene.create(
        "DeviceTaintRule",
        {
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "deviceSelector": {"driver": "gpu.example.com"},
                "taint": {"key": "example.com/maintenance", "effect": "NoSchedule"},
            },
        },
    )


def rules(scene: Scene) -> set[str]:
    """Return the names of the rules that are there."""
    found: list[dict[str, Any]] = scene.sandbox.store.objects("devicetaintrules", group="resource.k8s.io")
    return {str(one["metadata"]["name"]) for one in found}


async def test_a_rule_goes_when_its_end_is_over_and_no_other_does(scene: Scene) -> None:
    """Rules without an end, with a later one, or with one that cannot be read stay."""
    later = written_end(datetime.now(UTC) + timedelta(hours=2))
    for name, end in (("over", OVER), ("later", later), ("for-ever", None), ("unreadable", "soon")):
        taint(scene, name, end=end)
    binder = await ready(scene, await scene.start_binder(sweep_interval_s=SWEEP_S))
    await scene.until(lambda: binder.count("phalanx_taint_rules_ended_total", result="removed") >= 1)
    assert rules(scene) == {"later", "for-ever", "unreadable"}
    taint(scene, "over-too", end=OVER)
    await scene.until(lambda: binder.count("phalanx_taint_rules_ended_total", result="removed") >= 2)
    assert rules(scene) == {"later", "for-ever", "unreadable"}


async def test_a_window_ends_at_its_time_and_not_with_the_next_sweep(scene: Scene) -> None:
    """The binder knows when the next one ends: an hour between two sweeps does not keep the rule for an hour."""
    taint(scene, "soon", end=written_end(datetime.now(UTC) + timedelta(seconds=2)))
    await ready(scene, await scene.start_binder(sweep_interval_s=3600))
    await scene.until(lambda: rules(scene) == set())


async def test_a_rule_that_the_server_will_not_give_up_is_tried_again(scene: Scene) -> None:
    """A refusal is counted, and the rule goes as soon as it may."""
    taint(scene, "over", end=OVER)
    fault = scene.sandbox.faults.add(
        Match(method="DELETE", path=RULES),
        Action(answer=Answer(code=403, reason="Forbidden", message="no")),
        times=None,
    )
    binder = await ready(scene, await scene.start_binder(sweep_interval_s=SWEEP_S))
    await scene.until(lambda: binder.count("phalanx_taint_rules_ended_total", result="refused") >= 1)
    assert rules(scene) == {"over"}
    scene.sandbox.faults.remove(fault.id)
    await scene.until(lambda: rules(scene) == set())


async def test_without_an_answer_the_look_is_repeated(scene: Scene) -> None:
    """A list that fails for a while costs nothing but time, and the binder stays ready to bind."""
    taint(scene, "over", end=OVER)
    fault = scene.sandbox.faults.add(
        Match(method="GET", path=RULES), Action(answer=Answer(code=403, reason="Forbidden", message="no")), times=None
    )
    await ready(scene, await scene.start_binder(sweep_interval_s=SWEEP_S))
    await fault.wait_used()
    assert rules(scene) == {"over"}
    scene.sandbox.faults.remove(fault.id)
    await scene.until(lambda: rules(scene) == set())
