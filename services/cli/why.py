"""`phalanx why`: why a gang waits, or where it runs."""

import json

import click
from google.protobuf.json_format import MessageToDict
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from services.cli.placer_channel import TIMEOUT_S, NothingKnown, ask_placer, placer_option
from services.contracts.decision_codec import decode_reasons
from services.contracts.pb.placement.v1 import placement_service_pb2 as pb
from services.contracts.timestamps import from_timestamp


@click.command()
@click.argument("gang")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace, for a gang given by name.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@placer_option
def why(gang: str, namespace: str, output: str, target: str) -> None:
    """Say why GANG waits, or where it runs.

    GANG is the name of a PodGroup, JobSet, Job or another gang, or a gang id such as podgroup/team-a/train or
    pod/team-a/notebook. For a pod that is a member of a group the answer is about its group, and so for the Job or
    another owner of such pods.
    """
    gang_id = gang if "/" in gang else f"*/{namespace}/{gang}"
    try:
        answer = ask_placer(target, lambda placer: placer.Explain(pb.ExplainRequest(gang=gang_id), timeout=TIMEOUT_S))
    except NothingKnown as error:
        doubt = "are kind, namespace and name" if "/" in gang else "is the namespace (-n)"
        raise NothingKnown(f"{error.message}; {doubt} right?") from error
    if output == "json":
        click.echo(json.dumps(MessageToDict(answer, preserving_proto_field_name=True), indent=2, sort_keys=True))
        return
    _print(answer, asked=gang_id)


def _print(answer: pb.ExplainResponse, *, asked: str) -> None:
    console = Console(soft_wrap=True)
    if answer.gang != asked and not asked.startswith("*/"):
        console.print(f"{escape(asked)} is a member of {escape(answer.gang)}", highlight=False)
    since = f" since {from_timestamp(answer.since):%H:%M:%S} UTC" if answer.HasField("since") else ""
    order = f", number {answer.position} in the queue" if answer.position else ""
    console.print(f"{escape(answer.gang)}: [bold]{answer.state}[/bold]{since}{order}", highlight=False)
    finished = f", {answer.finished} have finished" if answer.finished else ""
    numbers = f"needs {answer.min_count}, {answer.existing} exist, {answer.placed} are placed{finished}"
    console.print(f"  {numbers}", highlight=False)
    for reason in decode_reasons(answer.reasons):
        console.print(f"  • {escape(reason.message)}  [dim]{reason.code.value}[/dim]", highlight=False)
    for warning in decode_reasons(answer.warnings):
        console.print(
            f"  [yellow]![/yellow] {escape(warning.message)}  [dim]{warning.code.value}[/dim]", highlight=False
        )
    if answer.nodes:
        by_node: dict[str, list[str]] = {}
        for pod, node in answer.nodes.items():
            by_node.setdefault(node, []).append(pod)
        table = Table(box=None, padding=(0, 2))
        for name in ("node", "pods", ""):
            table.add_column(name)
        for node, pods in sorted(by_node.items()):
            shown = ", ".join(sorted(pods)[:3]) + (" …" if len(pods) > 3 else "")  # noqa: PLR2004 - a line's worth
            table.add_row(node, str(len(pods)), shown)
        console.print(table)
