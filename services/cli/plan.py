"""`phalanx plan`: where pods would go, without submitting them: on files alone, or on a live cluster."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from google.protobuf.json_format import MessageToDict
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from services.cli.placer_channel import EXIT_BAD_INPUT, TIMEOUT_S, ask_placer
from services.contracts.manifest_files import Manifests, UnreadableManifest, read_manifests
from services.contracts.pb.placement.v1 import placement_service_pb2 as pb
from services.contracts.policy_file import read_policy
from services.core.cluster import Cluster
from services.core.kin import kin_in
from services.core.names import SCHEDULER_NAME
from services.core.objects import KubernetesObject, Pod
from services.core.plan import gangs_of, imagine
from services.core.plan import plan as solve_plan
from services.core.policy import TopologyPolicy
from services.placer.adapters.grpc_api import plan_response
from services.placer.questions import PlanAnswer
from services.runtime.structured_file import UnusableFile

EXIT_WAITING = 1

NO_PODS = (
    "{files}: no pods to place: expected pods, or a Job, JobSet, Deployment or another workload that was not submitted "
    "yet; one with metadata.uid or status stands for no pods, so give its pods too, or remove these fields"
)
NOTHING_NEW = "all of its pods had a node before"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFiles:
    """What the files hold, as text and as objects."""

    text: bytes
    objects: tuple[KubernetesObject, ...]
    skipped: int


@click.command()
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="Kubernetes objects as YAML or JSON, as from `kubectl get … -o yaml`; - reads standard input; may be given "
    "several times.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--all-schedulers", is_flag=True, help="Place pods of every scheduler, not only ours.")
@click.option(
    "--config",
    "config",
    envvar="PHALANX_CONFIG",
    show_envvar=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The configuration file, for its levels of topology. Not used with --placer, which has its own.",
)
@click.option(
    "--placer",
    "target",
    envvar="PHALANX_PLACER",
    show_envvar=True,
    help="Ask this placer for its live cluster instead.",
)
def plan(
    files: tuple[Path, ...], output: str, config: Path | None, target: str | None, *, all_schedulers: bool
) -> None:
    """Say where the pods of FILE would go. Nothing is written.

    Workloads that were not submitted yet (Jobs, JobSets, LeaderWorkerSets, RayJobs, PyTorchJobs, Deployments and
    others) stand for the pods that they would have.
    Without --placer the files are the whole cluster: nodes, running pods, and the pods to place. With --placer they
    come beside all that is there, also beside a group of the same name. Exit code 0 where all are placed, 1 where
    something waits, 2 for bad input, 3 where the placer has no answer.
    """
    given = _read(files)
    if not any(isinstance(item, Pod) for item in given.objects):
        click.echo(NO_PODS.format(files=", ".join(map(_shown, files))), err=True)
        sys.exit(EXIT_BAD_INPUT)
    if target is None:
        answer = _plan_files(given, topology=_topology_of(config), takes_all_schedulers=all_schedulers)
    else:
        if config is not None:
            click.echo(f"{config}: not used, because the placer at {target} has a configuration of its own", err=True)
        request = pb.PlanRequest(manifests=given.text, all_schedulers=all_schedulers)
        answer = ask_placer(target, lambda placer: placer.Plan(request, timeout=TIMEOUT_S))
    if output == "json":
        # With the fields that are empty: whoever reads a group's `bound` need not know that it may be missing.
        document = MessageToDict(answer, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
        click.echo(json.dumps(document, indent=2, sort_keys=True))
    else:
        _print(answer, target=target)
    sys.exit(0 if all(one.outcome == "placed" for one in answer.groups.values()) else EXIT_WAITING)


def _read(files: Sequence[Path]) -> GivenFiles:
    """Return what the files hold together, or exit with a sentence that names the file."""
    texts = [_text_of(path) for path in files]
    manifests = [_manifests_of(text, origin=_shown(path)) for text, path in zip(texts, files, strict=True)]
    whole = b"\n---\n".join(texts)
    if len(manifests) > 1:
        # Once more as one: a PriorityClass may be in another file than the pods that name it.
        manifests = [_manifests_of(whole, origin=", ".join(map(_shown, files)))]
    return GivenFiles(text=whole, objects=manifests[0].objects, skipped=manifests[0].skipped)


def _text_of(path: Path) -> bytes:
    if str(path) == "-":
        return sys.stdin.buffer.read()
    try:
        return path.read_bytes()
    except OSError as error:
        click.echo(f"{path}: cannot be read: {error.strerror}", err=True)
        sys.exit(EXIT_BAD_INPUT)


def _shown(path: Path) -> str:
    return "standard input" if str(path) == "-" else str(path)


def _manifests_of(text: bytes, *, origin: str) -> Manifests:
    try:
        return read_manifests(text)
    except UnreadableManifest as error:
        click.echo(f"{origin}: {error}", err=True)
        sys.exit(EXIT_BAD_INPUT)


def _topology_of(config: Path | None) -> TopologyPolicy:
    """Return the levels of the configuration file, or exit with a line for each mistake in it."""
    if config is None:
        return TopologyPolicy()
    try:
        return read_policy(_text_of(config), name=str(config)).topology
    except UnusableFile as error:
        click.echo(str(error), err=True)
        sys.exit(EXIT_BAD_INPUT)


def _plan_files(given: GivenFiles, *, topology: TopologyPolicy, takes_all_schedulers: bool) -> pb.PlanResponse:
    cluster = Cluster(trusts_unseen=True)
    imagine(cluster, given.objects, takes_all_schedulers=takes_all_schedulers)
    plans = solve_plan(gangs_of(cluster), inventory=cluster.inventory, topology=topology, kin_of=kin_in(cluster))
    return plan_response(PlanAnswer(plans=plans, revision=0, skipped=given.skipped))


def _print(answer: pb.PlanResponse, *, target: str | None) -> None:
    table = Table(box=None, padding=(0, 2))
    for name in ("group", "outcome", "pods on nodes, or why not"):
        table.add_column(name)
    for name, one in sorted(answer.groups.items()):
        counts: dict[str, int] = {}
        for node in (one.bound or one.nominate).values():
            counts[node] = counts.get(node, 0) + 1
        where = ", ".join(f"{count} on {node}" for node, count in sorted(counts.items()))
        devices = sum(len(results) for results in one.devices.values())
        where += f", with {devices} device{'s' if devices > 1 else ''}" if devices else ""
        where += f", once evicted: {', '.join(one.evict)}" if one.evict else ""
        why = "; ".join(reason.message for reason in one.reasons)
        table.add_row(name, one.outcome, escape(where or why or NOTHING_NEW))
    console = Console()
    if answer.groups:
        console.print(table)
    else:
        console.print(f"no pods with schedulerName {SCHEDULER_NAME}; --all-schedulers takes those of others too")
    if target is not None:
        console.print(f"beside the live cluster of the placer at {escape(target)}", style="dim", highlight=False)
    if answer.skipped_objects:
        console.print(f"{answer.skipped_objects} objects of other kinds were skipped", style="dim")
