"""The suggested move of kube-proxies to nftables: order, commands, and the way back."""

import re

import pytest
import yaml

from services.cli.audit.evidence import Reading, State
from services.cli.audit.proxy_migration import MODE_LINE, Migration, migration_of
from tests.unit.cli.audit.worlds import Manifest, daemon_set, node, pod, proxy_config, service, world

POOL = "eks.amazonaws.com/nodegroup"


def worker(name: str, *, pool: str, kernel: str = "6.1.0", **labels: str) -> Manifest:
    """Return a node of a pool."""
    found = node(name, kernelVersion=kernel)
    found["metadata"]["labels"] = {POOL: pool, **labels}
    return found


def moved(**sources: object) -> Migration:
    """Return the suggestion for a cluster with kube-proxies in mode ipvs."""
    given = {"proxy__config": proxy_config(mode="ipvs", ipvs={"scheduler": "lc"})} | sources
    found = migration_of(world(**given))
    assert found is not None
    return found


def step(migration: Migration, title: str) -> tuple[str, tuple[str, ...]]:
    """Return detail and commands of a step."""
    (found,) = [one for one in (*migration.steps, *migration.rollback) if one.title == title]
    return found.detail, found.commands


def test_pools_go_from_small_to_large_and_what_is_blocked_last() -> None:
    """Control planes go after the workers, old kernels after all."""
    control_plane = worker("cp", pool="cp")
    control_plane["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = ""
    nodes = [
        control_plane,
        *(worker(f"l-{index}", pool="large") for index in range(3)),
        worker("s-0", pool="small"),
        worker("o-0", pool="old", kernel="5.10.0"),
    ]
    found = moved(nodes=nodes)
    assert [(one.name, one.nodes, one.blocked) for one in found.pools] == [
        ("small", 1, ()),
        ("large", 3, ()),
        ("cp (control plane)", 1, ()),
        ("old", 1, ("o-0",)),
    ]
    assert "1 of 6 nodes have a kernel older than 5.13 and cannot run nftables: o-0" in step(found, "Kernels")[0]


def test_the_first_node_is_the_one_with_least_to_lose() -> None:
    """A worker that can run nftables, with the fewest pods."""
    nodes = [worker("a", pool="p"), worker("b", pool="p"), worker("c", pool="p", kernel="5.4.0")]
    found = moved(nodes=nodes, pods=[pod("x", node="a")])
    detail, commands = step(found, "One node first")
    assert detail.startswith("b, ")
    assert commands[0].endswith("--field-selector spec.nodeName=b")


def test_what_is_lost_is_named() -> None:
    """Settings of ipvs, other writers of rules, and node ports."""
    found = moved(daemonsets=[daemon_set("calico-node")], services=[service("s", type_="NodePort", node_port=30000)])
    assert step(found, "Settings without a counterpart")[0] == "decide what replaces scheduler (lc)"
    assert "calico-node" in step(found, "Who else writes rules")[0]
    assert step(found, "Node ports")[0].startswith("1 services have node ports and nodePortAddresses is not set")


def as_kubectl_prints(config: Manifest) -> str:
    """Return a ConfigMap as YAML with its text as a block."""
    lines = config["data"]["config.conf"].splitlines()
    return "data:\n  config.conf: |\n" + "\n".join(f"    {line}" for line in lines) + "\n"


@pytest.mark.parametrize("mode", ["ipvs", "iptables", ""])
def test_the_command_changes_the_mode_and_its_reverse_restores_it(mode: str) -> None:
    """What sed makes of the ConfigMap is a configuration in mode nftables with all else as it was."""
    (config,) = proxy_config(mode=mode, detectLocalMode="ClusterCIDR", ipvs={"scheduler": "lc"})
    found = moved(proxy__config=[config])
    command = step(found, "Change the mode")[1][0]
    assert f"s/{MODE_LINE}/" in command
    text = as_kubectl_prints(config)
    for wanted in ("nftables", mode or "iptables"):
        text = re.sub(MODE_LINE, rf'\1 "{wanted}"', text, flags=re.MULTILINE)
        document = yaml.safe_load(yaml.safe_load(text)["data"]["config.conf"])
        assert document["mode"] == wanted
        assert document["detectLocalMode"] == "ClusterCIDR"
    assert f'"{mode or "iptables"}"' in step(found, "The old mode")[1][0]


def test_a_mode_that_stands_elsewhere_is_changed_there() -> None:
    """A flag of the DaemonSet wins; a configuration without the line gets one."""
    flagged = moved(daemonsets=[daemon_set("kube-proxy", args=("--proxy-mode=ipvs",))])
    assert "edit daemonset" in step(flagged, "Change the mode")[1][0]
    unset = moved(proxy__config=proxy_config())
    assert "add the line mode: nftables" in step(unset, "Change the mode")[1][0]


def test_there_is_nothing_to_move_with_nftables_or_without_kube_proxy() -> None:
    """Nor where nobody could look."""
    unread = Reading(state=State.FAILED, problem="403", fix="")
    assert migration_of(world(proxy__config=proxy_config(mode="nftables"))) is None
    assert migration_of(world()) is None
    assert migration_of(world(proxy__config=unread)) is None
