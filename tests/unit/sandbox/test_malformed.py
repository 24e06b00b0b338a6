"""Malformed objects: whatever a client sends is stored or refused with a Status, and controllers survive it."""

import contextlib
import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from services.sandbox import table
from services.sandbox.failures import ApiError
from services.sandbox.kinds import Kind
from services.sandbox.objects import Obj, metadata
from tests.builders import NAMESPACE, job_manifest, node_manifest, pod_group_manifest, pod_manifest, pod_spec
from tests.unit.sandbox.world import World, world

_JUNK: tuple[Any, ...] = (None, "", 0, -1, 1.5, True, [], {}, "abc", ["x"], [{}], [None], {"a": 1}, "9" * 30, 2**40)
_ROUNDS = 150

_DEPLOYMENT: Obj = {
    "metadata": {"name": "d"},
    "spec": {
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": pod_spec()},
    },
}
_REQUESTS = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}
_SAMPLES: dict[str, tuple[Kind, Obj]] = {
    "pod": (
        table.POD,
        pod_manifest(
            group="g",
            nodeName="node-001",
            tolerations=[{"key": "a", "operator": "Exists"}],
            resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}],
        ),
    ),
    "pod-group": (table.POD_GROUP, pod_group_manifest(min_count=2)),
    "job": (table.JOB, job_manifest(podFailurePolicy={"rules": [{"action": "Ignore"}]})),
    "node": (table.NODE, node_manifest()),
    "deployment": (table.DEPLOYMENT, _DEPLOYMENT),
    "claim": (table.RESOURCE_CLAIM, {"metadata": {"name": "c"}, "spec": {"devices": _REQUESTS}}),
    "template": (
        table.RESOURCE_CLAIM_TEMPLATE,
        {"metadata": {"name": "t"}, "spec": {"spec": {"devices": _REQUESTS}}},
    ),
    "priority-class": (table.PRIORITY_CLASS, {"metadata": {"name": "p"}, "value": 1}),
}


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, below in inner:
        yield from _places(below, (*path, step))


def _spoiled(obj: Obj, chance: random.Random) -> Obj:
    """A copy in which one value is junk."""
    spoiled = copy.deepcopy(obj)
    path = chance.choice(list(_places(spoiled)))
    holder: Any = spoiled
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = copy.deepcopy(chance.choice(_JUNK))
    return spoiled


@contextlib.contextmanager
def _refusable() -> Iterator[None]:
    """A request that may be refused, but only in words that the API has."""
    try:
        yield
    except ApiError as error:
        if error.code not in {400, 403, 404, 409, 422}:
            raise


def _try(here: World, kind: Kind, sample: Obj, chance: random.Random) -> None:
    """Create a spoiled object, then spoil an update of it."""
    with _refusable():
        made = here.cluster.writer.create(kind, _spoiled(sample, chance), namespace=NAMESPACE)
        with _refusable():
            made = here.cluster.writer.update(made, _spoiled(made.full(kind.versions[0]), chance))
        here.cluster.remover.force(made)


@pytest.mark.parametrize("name", _SAMPLES)
async def test_junk_is_refused_or_harmless(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One wrong value anywhere in an object never raises anything but a refusal, and never fails a controller."""
    kind, sample = _SAMPLES[name]
    chance = random.Random(name)
    async with world() as here:
        for _ in range(_ROUNDS):
            _try(here, kind, sample, chance)
            await here.settle()
        await here.run_for(60)
        assert metadata(here.cluster.store.objects("namespaces")[0])["name"] == "default"
    assert "controller.failed" not in capsys.readouterr().out
