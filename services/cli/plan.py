"""`phalanx plan`: where pods would go, without submitting them: on files alone, or on a live cluster."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
from google.protobuf.json_format import MessageToDict
from rich.console import Console
from rich.table import Table

from services.cli.placer_channel import TIMEOUT_S, ask_placer
from services.contracts.decision_codec import encode_reasons
from services.contracts.manifest_files import UnreadableManifest, read_manifests
from services.contracts.pb.placement.v1 import placement_service_pb2 as pb
from services.core.cluster import Cluster
from services.core.names import SCHEDULER_NAME
from services.core.objects import Applied, Pod
from services.core.plan import plan as solve_plan

EXIT_WAITING = 1
EXIT_BAD_INPUT = 2


@click.command()
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Kubernetes objects as YAML or JSON, as from `kubectl get … -o yaml`; may be given several times.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--all-schedulers", is_flag=True, help="Place pods of every scheduler, not only ours.")
@click.option("--placer", "target", envvar="PHALANX_PLACER", help="Ask this placer for its live cluster instead.")
def plan(files: tuple[Path, ...], output: str, target: str | None, *, all_schedulers: bool) -> None:
    """Say where the pods of FILE would go. Nothing is written.

    Without --placer the files are the whole cluster: nodes, running pods, and the pods to place. Exit code 0 where all
    are placed, 1 where something waits, 2 for bad input.
    """
    if target is None:
        answer = _plan_files(files, takes_all_schedulers=all_schedulers)
    else:
        text = b"\n---\n".join(path.read_bytes() for path in files)
        request = pb.PlanRequest(manifests=text, all_schedulers=all_schedulers)
        answer = ask_placer(target, lambda placer: placer.Plan(request, timeout=TIMEOUT_S))
    if output == "json":
        click.echo(json.dumps(MessageToDict(answer, preserving_proto_field_name=True), indent=2, sort_keys=True))
    else:
        _print(answer)
    sys.exit(0 if all(one.outcome == "placed" for one in answer.groups.values()) else EXIT_WAITING)


def _plan_files(files: Sequence[Path], *, takes_all_schedulers: bool) -> pb.PlanResponse:
    cluster = Cluster()
    skipped = 0
    for path in files:
        try:
            manifests = read_manifests(path.read_bytes())
        except UnreadableManifest as error:
            click.echo(f"{path}: {error}", err=True)
            sys.exit(EXIT_BAD_INPUT)
        skipped += manifests.skipped
        for item in manifests.objects:
            is_taken = takes_all_schedulers and isinstance(item, Pod) and not item.node
            given = replace(item, scheduler_name=SCHEDULER_NAME) if is_taken and isinstance(item, Pod) else item
            cluster.apply(Applied(object=given), revision=0)
    gangs = [gang for gang_id in cluster.gang_ids() if (gang := cluster.gang(gang_id)) is not None]
    response = pb.PlanResponse(skipped_objects=skipped)
    for gang_id, one in solve_plan(gangs, inventory=cluster.inventory).items():
        response.groups[gang_id.partition("/")[2]].CopyFrom(
            pb.GroupPlan(outcome=one.outcome.value, bound=dict(one.bound), reasons=encode_reasons(one.reasons))
        )
    return response


def _print(answer: pb.PlanResponse) -> None:
    table = Table(box=None, padding=(0, 2))
    for name in ("group", "outcome", "pods on nodes, or why not"):
        table.add_column(name)
    for name, one in sorted(answer.groups.items()):
        counts: dict[str, int] = {}
        for node in one.bound.values():
            counts[node] = counts.get(node, 0) + 1
        where = ", ".join(f"{count} on {node}" for node, count in sorted(counts.items()))
        table.add_row(name, one.outcome, where or "; ".join(reason.message for reason in one.reasons))
    console = Console()
    console.print(table)
    if answer.skipped_objects:
        console.print(f"{answer.skipped_objects} objects of other kinds were skipped", style="dim")
