"""`phalanx taint`: takes devices out of use for maintenance, says whom that hits, and gives them back."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from services.cli.taint.binder_presence import who_ends
from services.cli.taint.rules import (
    DEFAULT_KEY,
    EFFECTS,
    PATH,
    Manifest,
    Selection,
    Taint,
    default_name,
    ending,
    rule_manifest,
    selected_by,
    taint_in,
)
from services.cli.taint.showing import show_rules, show_what_if
from services.cli.taint.what_if import WhatIf, as_json, what_if
from services.cli.taint.world import FORBIDDEN, NOT_FOUND, read_world
from services.contracts.policy_file import read_policy
from services.core.blast import NO_EXECUTE, allocated, device_of, is_selected
from services.core.durations import DurationError, parse_duration
from services.core.policy import TopologyPolicy
from services.runtime.kube import KubeClient, KubeConfigError, KubeError, KubeFault, KubeUnavailable
from services.runtime.structured_file import UnusableFile

T = TypeVar("T")

EXIT_BREAKS, EXIT_USAGE, EXIT_NO_ANSWER = 1, 2, 3
LONGEST = timedelta(days=30)
CLAIMS_PATH = "/apis/resource.k8s.io/v1/resourceclaims"
_CONFLICT = 409

kubeconfig_option = click.option(
    "--kubeconfig", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Kubeconfig to use."
)
context_option = click.option("--context", default="", help="Context of the kubeconfig; its current one by default.")
output_option = click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)


class NotDone(click.ClickException):
    """The server refused, or nothing was confirmed: nothing was written."""

    exit_code = EXIT_BREAKS


class NoAnswer(click.ClickException):
    """The server gave no answer, or there are no credentials."""

    exit_code = EXIT_NO_ANSWER


class Span(click.ParamType[timedelta]):
    """A duration as `2h` or `1h30m`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Return the duration, or fail with what was expected."""
        if isinstance(value, timedelta):
            return value
        try:
            span = parse_duration(str(value), longest=LONGEST)
        except DurationError as error:
            self.fail(str(error), param, ctx)
        if not span:
            self.fail("expected a duration above zero", param, ctx)
        return span


@click.group(short_help="Take devices out of use for maintenance, and say whom that hits.")
def taint() -> None:
    """Take devices out of use by DeviceTaintRules, see them, and give the devices back."""


@taint.command()
@click.argument("driver")
@click.option("--pool", default="", help="Only this pool of the driver; often it has the name of a node.")
@click.option("--device", default="", help="Only this device of the pool.")
@click.option(
    "--effect",
    type=click.Choice(EFFECTS),
    default=EFFECTS[0],
    show_default=True,
    help="NoSchedule: no new pods. NoExecute: pods that run are deleted too. None: Kubernetes only counts them.",
)
@click.option("--key", default=DEFAULT_KEY, show_default=True, help="Key of the taint, which pods may tolerate.")
@click.option("--value", default="", help="Value of the taint.")
@click.option("--name", default="", help="Name of the rule; by default one that says what it is for.")
@click.option("--for", "span", type=Span(), help="The rule ends after this time, as 2h: a running binder removes it.")
@click.option("--dry-run", is_flag=True, help="Say what would break, and whether it fits elsewhere; write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before NoExecute.")
@click.option(
    "--config",
    envvar="PHALANX_CONFIG",
    show_envvar=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The configuration file, for its levels of topology.",
)
@click.option(
    "--nats-url", default="nats://127.0.0.1:4222", envvar="PHALANX_NATS_URL", show_default=True, show_envvar=True
)
@kubeconfig_option
@context_option
@output_option
def add(
    driver: str,
    pool: str,
    device: str,
    effect: str,
    key: str,
    value: str,
    name: str,
    span: timedelta | None,
    config: Path | None,
    nats_url: str,
    kubeconfig: Path | None,
    context: str,
    output: str,
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    """Taint everything of DRIVER, a pool of it, or one device, by an ordinary DeviceTaintRule.

    With NoExecute what breaks is shown, and asked about, first. With --dry-run the exit code is 0 where nothing breaks
    or all of it fits elsewhere, and 1 otherwise. 2 is wrong usage, 3 no answer from the API server.
    """
    if device and not pool:
        raise click.UsageError("--device needs --pool: names of devices are unique in their pool only")
    selection = Selection(driver=driver, pool=pool, device=device)
    rule_name, wanted = name or default_name(selection), Taint(key=key, value=value, effect=effect)
    if dry_run or (effect == NO_EXECUTE and not yes):
        rule = rule_manifest(rule_name, selection=selection, taint=wanted, ends_at=None)
        found = _imagined(rule, topology=_topology(config), kubeconfig=kubeconfig, context=context)
        _show(found, selection=selection, output=output if dry_run else "table", is_aside=not dry_run)
        if dry_run:
            sys.exit(0 if found.is_harmless else EXIT_BREAKS)
        _confirm()
    # Counted from now, and not from before the question was answered.
    end = None if span is None else datetime.now(UTC) + span
    rule = rule_manifest(rule_name, selection=selection, taint=wanted, ends_at=end)
    written = _with_client(lambda client: _create(client, rule), kubeconfig=kubeconfig, context=context)
    if output == "json":
        click.echo(json.dumps(written, indent=2))
    else:
        click.echo(f"{written['metadata']['name']} written: {taint_in(written)} on {selected_by(written)}")
    if span is not None:
        click.echo(asyncio.run(who_ends(written, nats_url=nats_url)), err=output == "json")


@taint.command("list")
@kubeconfig_option
@context_option
@output_option
def list_rules(kubeconfig: Path | None, context: str, output: str) -> None:
    """List all DeviceTaintRules, with the claims that hold their devices and when they end."""
    rules, claims = _with_client(_rules_and_claims, kubeconfig=kubeconfig, context=context)
    counted = [(rule, "?" if claims is None else str(_count(rule, claims))) for rule in rules]
    if output == "json":
        fields = [
            {
                "name": rule["metadata"]["name"],
                "devices": selected_by(rule),
                "taint": str(taint_in(rule)),
                "claims": None if claims is None else int(count),
                "ends": ending(rule),
            }
            for rule, count in counted
        ]
        click.echo(json.dumps(fields, indent=2))
    elif counted:
        show_rules(counted, console=Console())
    else:
        click.echo("there are no DeviceTaintRules")
    if claims is None:
        click.echo("claims could not be counted: that needs list on resourceclaims.resource.k8s.io", err=True)


@taint.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@kubeconfig_option
@context_option
def remove(names: tuple[str, ...], kubeconfig: Path | None, context: str) -> None:
    """Delete rules by their NAME: their devices are in use again. Exit code 1 where one could not be deleted."""

    async def run(client: KubeClient) -> list[str]:
        problems = []
        for name in dict.fromkeys(names):
            try:
                await client.request_ok("DELETE", f"{PATH}/{name}")
            except KubeError as error:
                is_absent = error.status == NOT_FOUND
                problems.append(f"there is no DeviceTaintRule {name}" if is_absent else str(error))
            else:
                click.echo(f"{name} removed")
        return problems

    problems = _with_client(run, kubeconfig=kubeconfig, context=context)
    if problems:
        raise NotDone("; ".join(problems) + "; `phalanx taint list` shows what there is")


def _with_client(work: Callable[[KubeClient], Awaitable[T]], *, kubeconfig: Path | None, context: str) -> T:
    """Run work with a client, and turn its failures into sentences."""

    async def run() -> T:
        client = await KubeClient.open(kubeconfig, context=context, connections=4, user_agent="phalanx-taint")
        async with client:
            return await work(client)

    try:
        return asyncio.run(run())
    except (KubeConfigError, KubeUnavailable) as error:
        raise NoAnswer(str(error)) from error
    except KubeFault as error:
        raise NotDone(str(error)) from error


def _imagined(rule: Manifest, *, topology: TopologyPolicy, kubeconfig: Path | None, context: str) -> WhatIf:
    """Read the cluster, and return what the rule would do to it."""

    async def run(client: KubeClient) -> WhatIf:
        with Console(stderr=True).status("reading the cluster…") as status:
            world = await read_world(client, rule=rule, tell=lambda kind: status.update(f"reading {kind}…"))
            return what_if(world, rule, topology=topology)

    return _with_client(run, kubeconfig=kubeconfig, context=context)


async def _create(client: KubeClient, rule: Manifest) -> dict[str, Any]:
    name = rule["metadata"]["name"]
    try:
        written: dict[str, Any] = (await client.request_ok("POST", PATH, body=rule)).json()
    except KubeError as error:
        if error.status == _CONFLICT:
            raise NotDone(
                f"there is a DeviceTaintRule {name} already: `phalanx taint remove {name}`, or give another --name"
            ) from error
        if error.status == NOT_FOUND:
            raise NotDone(
                "this API server does not serve devicetaintrules in resource.k8s.io/v1; 1.37 does by default"
            ) from error
        if error.status == FORBIDDEN:
            rule_needed = '{apiGroups: ["resource.k8s.io"], resources: ["devicetaintrules"], verbs: ["create"]}'
            raise NotDone(f"{error}; the rule in a ClusterRole: {rule_needed}") from error
        raise
    return written


async def _rules_and_claims(client: KubeClient) -> tuple[list[Manifest], list[Manifest] | None]:
    """Return the rules, and the claims, or None where those may not be read."""
    rules: list[Manifest] = [item async for page in client.list_pages(PATH) for item in page.items]
    rules.sort(key=lambda one: str(one["metadata"]["name"]))
    claims: list[Manifest] = []
    try:
        if rules:
            claims.extend([item async for page in client.list_pages(CLAIMS_PATH) for item in page.items])
    except KubeError:
        return rules, None
    return rules, claims


def _count(rule: Manifest, claims: list[Manifest]) -> int:
    return sum(any(is_selected(rule, device_of(one)) for one in allocated(claim)) for claim in claims)


def _show(found: WhatIf, *, selection: Selection, output: str, is_aside: bool) -> None:
    if output == "json":
        click.echo(as_json(found))
        return
    if not is_aside:
        click.echo("dry run: nothing is written")
    show_what_if(found, selection=str(selection), console=Console(stderr=is_aside))


def _confirm() -> None:
    try:
        click.confirm("Delete these pods and taint the devices?", abort=True, err=True)
    except click.Abort as error:
        raise NotDone("not confirmed, so nothing was written; --yes does not ask") from error


def _topology(config: Path | None) -> TopologyPolicy:
    if config is None:
        return TopologyPolicy()
    try:
        return read_policy(config.read_bytes(), name=str(config)).topology
    except (UnusableFile, OSError) as error:
        raise click.UsageError(str(error)) from error
