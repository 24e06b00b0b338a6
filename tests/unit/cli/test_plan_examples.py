"""The example files: each is recognised as the gangs that it says it is, by the command that the docs show."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from services.cli.main import main

EXAMPLES = Path(__file__).parents[3] / "examples"
NODES = EXAMPLES / "nodes.yaml"

EXPECTED: dict[str, dict[str, int]] = {
    "podgroup.yaml": {"default/train": 16},
    "job.yaml": {"default/train": 8},
    "indexed-job.yaml": {"default/train": 8},
    "jobset.yaml": {"default/train": 9},
    "leaderworkerset.yaml": {"default/serve-0": 4, "default/serve-1": 4},
    "raycluster.yaml": {"default/notebook": 3},
    "rayjob.yaml": {"default/tune": 5},
    "pytorchjob.yaml": {"default/finetune": 8},
    "mpijob.yaml": {"default/allreduce": 4},
    "kueue-pods.yaml": {"default/eval": 3},
    "coscheduling.yaml": {"default/mesh": 6},
    "rack.yaml": {"default/tensor": 4, "default/pipeline": 4},
    "deployment.yaml": {"default/web-0": 1, "default/web-1": 1},
}
"""Pods of each gang by file."""


def planned(*arguments: str | Path) -> tuple[int, dict[str, Any]]:
    """Exit code and answer of the command."""
    runner = CliRunner(env={"PHALANX_PLACER": None, "PHALANX_CONFIG": None})
    result = runner.invoke(main, ["plan", "-o", "json", *map(str, arguments)])
    return result.exit_code, json.loads(result.stdout)["groups"]


def test_every_example_is_tried() -> None:
    """A new one has its row above."""
    assert {path.name for path in EXAMPLES.glob("*.yaml")} == {*EXPECTED, NODES.name}


@pytest.mark.parametrize(("name", "sizes"), EXPECTED.items())
def test_example(name: str, sizes: dict[str, int]) -> None:
    """All of its pods are placed on the example nodes."""
    code, groups = planned("-f", NODES, "-f", EXAMPLES / name)
    assert {group: len(one["bound"]) for group, one in groups.items()} == sizes
    assert {one["outcome"] for one in groups.values()} == {"placed"}
    assert code == 0


@pytest.mark.parametrize(
    "name", sorted(name for name in EXPECTED if name not in {"deployment.yaml", "leaderworkerset.yaml", "rack.yaml"})
)
def test_example_is_placed_whole_or_not_at_all(name: str, tmp_path: Path) -> None:
    """On one node with a single free GPU nothing of a gang is placed: none of its pods is taken for a gang of one."""
    node = tmp_path / "node.yaml"
    whole = NODES.read_text().replace('nvidia.com/gpu: "8"', 'nvidia.com/gpu: "1"')
    node.write_text(
        whole[: whole.index("name: gpu-2") - len("  - apiVersion: v1\n    kind: Node\n    metadata:\n      ")]
    )
    code, groups = planned("-f", node, "-f", EXAMPLES / name)
    assert {group: (one["outcome"], one["bound"]) for group, one in groups.items()} == {
        group: ("waiting", {}) for group in EXPECTED[name]
    }
    assert code == 1


def test_rack_gangs_are_in_one_rack_each() -> None:
    """By the PodGroup's topology, and by Kueue's annotation."""
    _, groups = planned("-f", NODES, "-f", EXAMPLES / "rack.yaml")
    racks = {"gpu-1": "r1", "gpu-2": "r1", "gpu-3": "r2", "gpu-4": "r2"}
    assert {name: len({racks[node] for node in one["bound"].values()}) for name, one in groups.items()} == {
        "default/tensor": 1,
        "default/pipeline": 1,
    }


def test_levels_of_the_configuration_file(tmp_path: Path) -> None:
    """A label that is no level is told with those that are; a file with a mistake is bad input."""
    config = tmp_path / "config.yaml"
    config.write_text("topology: {levels: [{nodeLabel: example.com/row}]}")
    code, groups = planned("-f", NODES, "-f", EXAMPLES / "rack.yaml", "--config", config)
    assert code == 1
    assert {one["reasons"][0]["code"] for one in groups.values()} == {"REASON_CODE_MISCONFIGURED"}
    config.write_text("topology: 3")
    runner = CliRunner(env={"PHALANX_PLACER": None, "PHALANX_CONFIG": None})
    result = runner.invoke(main, ["plan", "-f", str(NODES), "-f", str(EXAMPLES / "rack.yaml"), "--config", str(config)])
    assert (result.exit_code, result.stderr.startswith(f"{config}:1: topology")) == (2, True)
