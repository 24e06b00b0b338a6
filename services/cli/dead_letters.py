"""`phalanx dead-letters`: what services could not read or handle; to look at, to deliver again, or to drop."""

import asyncio
import base64
import contextlib
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from services.cli.certificates import nats_access
from services.cli.follow_decisions import CONNECT_TIMEOUT_S, FORWARDING
from services.cli.letter_bodies import body_text
from services.contracts.dead_letters import (
    DeadLetter,
    UnreadableLetter,
    decode_letter,
    letter_subject,
    retry_headers,
)
from services.contracts.streams import DEAD_LETTERS_STREAM, STREAMS
from services.runtime.bus import Bus, BusUnavailable, StaleWrite
from services.runtime.health import Readiness

T = TypeVar("T")

nats_option = click.option(
    "--nats-url", default="nats://127.0.0.1:4222", envvar="PHALANX_NATS_URL", show_default=True, show_envvar=True
)
output_option = click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
letters_argument = click.argument("letters", nargs=-1, metavar="LETTER...")
all_option = click.option("--all", "is_all", is_flag=True, help="All letters.")


class LetterBook:
    """The letters that are kept, and what can be done with them."""

    def __init__(self, bus: Bus, *, letters: Mapping[str, DeadLetter]) -> None:
        """Use an open bus; `letters` by their id, oldest first."""
        self._bus = bus
        self.letters = letters

    def find(self, letter: str) -> DeadLetter:
        """Return a letter by its id."""
        found = self.letters.get(letter)
        if found is None:
            raise click.ClickException(
                f"there is no dead letter {letter}; expected <service>/<stream>/<sequence> as `phalanx dead-letters "
                "list` prints it"
            )
        return found

    def chosen(self, letters: Sequence[str], *, is_all: bool) -> list[DeadLetter]:
        """Return the letters that a command names."""
        if bool(letters) == is_all:
            raise click.UsageError("name letters, or say --all")
        if is_all and not self.letters:
            click.echo("there are no dead letters")
        return list(self.letters.values()) if is_all else [self.find(letter) for letter in dict.fromkeys(letters)]

    async def retry(self, letter: DeadLetter) -> int:
        """Deliver the message again, and drop every service's letter about it. Returns its new sequence.

        Raises click.ClickException where it cannot be delivered: a newer message of its subject is never replaced.
        """
        if letter.is_body_omitted:
            raise click.ClickException(f"{letter.id}: the message was too large to be kept; it can only be dropped")
        is_ours = any(letter.stream == stream.name for stream in STREAMS)
        try:
            sequence = await self._bus.publish(
                letter.subject,
                data=letter.body,
                headers=retry_headers(letter),
                expected_sequence=letter.sequence if is_ours else None,
            )
        except StaleWrite as error:
            raise click.ClickException(
                f"{letter.id}: {letter.subject} has a newer message, or this one was delivered again already, so it is "
                f"out of date; `phalanx dead-letters drop {letter.id}` forgets it"
            ) from error
        except BusUnavailable as error:
            raise click.ClickException(f"{letter.id}: not delivered, and kept: {error}") from error
        for sibling in self.letters.values():
            if (sibling.stream, sibling.sequence) == (letter.stream, letter.sequence):
                await self.drop(sibling)
        return sequence

    async def drop(self, letter: DeadLetter) -> None:
        """Forget a letter. The message that it is about stays in its stream."""
        try:
            await self._bus.purge(DEAD_LETTERS_STREAM.name, subject=letter_subject(letter))
        except BusUnavailable as error:
            raise click.ClickException(f"{letter.id}: not dropped: {error}") from error


@click.group("dead-letters", short_help="Messages that services could not read or handle.")
def dead_letters() -> None:
    """Look at messages that services could not read or handle, deliver them again, or drop them."""


@dead_letters.command("list")
@nats_option
@output_option
def list_letters(nats_url: str, output: str) -> None:
    """List the letters, oldest first."""
    letters = _with_letters(nats_url, _all)
    if output == "json":
        click.echo(json.dumps([_fields(letter) for letter in letters], indent=2))
        return
    if not letters:
        click.echo("there are no dead letters", err=True)
        return
    table = Table(box=None, padding=(0, 2))
    for name in ("letter", "subject", "times", "first (UTC)", "last (UTC)", "problem"):
        table.add_column(name, overflow="fold", no_wrap=name != "problem")
    for letter in letters:
        first, last = (f"{moment:%Y-%m-%d %H:%M:%S}" for moment in (letter.first_at, letter.last_at))
        table.add_row(letter.id, letter.subject, str(letter.count), first, last, escape(letter.problem))
    Console(soft_wrap=not sys.stdout.isatty(), highlight=False).print(table)


@dead_letters.command(short_help="Show LETTER whole.")
@click.argument("letter")
@nats_option
@output_option
def show(letter: str, nats_url: str, output: str) -> None:
    """Show LETTER whole: what is wrong, the headers, and the body as far as it can be read."""

    async def found(book: LetterBook) -> DeadLetter:
        return book.find(letter)

    one = _with_letters(nats_url, found)
    if output == "json":
        click.echo(json.dumps({**_fields(one), "body": base64.b64encode(one.body).decode()}, indent=2))
        return
    click.echo(f"{one.id}: {one.problem}")
    click.echo(f"  met {one.count} times by {one.service}, last by {one.instance}")
    click.echo(f"  first {one.first_at:%Y-%m-%d %H:%M:%S}, last {one.last_at:%Y-%m-%d %H:%M:%S} UTC")
    click.echo(f"  subject {one.subject}, message {one.sequence} of {one.stream}")
    for name, value in one.headers.items():
        click.echo(f"  {name}: {value}")
    click.echo(f"  body, {len(one.body)} bytes:" if not one.is_body_omitted else "  body too large to be kept")
    for line in body_text(one).splitlines():
        click.echo(f"    {line}")


@dead_letters.command(short_help="Deliver messages again.")
@letters_argument
@all_option
@nats_option
def retry(letters: tuple[str, ...], nats_url: str, *, is_all: bool) -> None:
    """Deliver messages again, with their bytes and headers, on their subjects; then drop their letters.

    Repair the cause first: what still cannot be read comes back as a new letter. A message whose subject has a newer
    one is not delivered, because it would replace that one.
    """

    async def all_of(book: LetterBook) -> int:
        failed, done = 0, set()
        for letter in book.chosen(letters, is_all=is_all):
            if (letter.stream, letter.sequence) in done:
                continue
            try:
                sequence = await book.retry(letter)
            except click.ClickException as error:
                error.show()
                failed += 1
            else:
                done.add((letter.stream, letter.sequence))
                click.echo(f"{letter.id}: delivered again as message {sequence} of {letter.stream}")
        return failed

    if _with_letters(nats_url, all_of):
        raise click.exceptions.Exit(1)


@dead_letters.command()
@letters_argument
@all_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@nats_option
def drop(letters: tuple[str, ...], nats_url: str, *, is_all: bool, yes: bool) -> None:
    """Forget letters. It asks first, because nothing brings them back."""

    async def all_of(book: LetterBook) -> None:
        chosen = book.chosen(letters, is_all=is_all)
        if chosen and not yes:
            shown = chosen[0].id if len(chosen) == 1 else f"{len(chosen)} letters"
            await asyncio.to_thread(click.confirm, f"Drop {shown} for good?", abort=True)
        for letter in chosen:
            await book.drop(letter)
            click.echo(f"{letter.id}: dropped")

    _with_letters(nats_url, all_of)


async def _all(book: LetterBook) -> list[DeadLetter]:
    return list(book.letters.values())


def _with_letters(nats_url: str, work: Callable[[LetterBook], Awaitable[T]]) -> T:
    """Do something with the letters that are kept now."""
    return asyncio.run(_run(nats_url, work))


async def _run(nats_url: str, work: Callable[[LetterBook], Awaitable[T]]) -> T:
    bus = Bus(url=nats_url, name="phalanx-dead-letters", readiness=Readiness(), access=nats_access())
    async with contextlib.AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await stack.enter_async_context(bus)
        except TimeoutError as error:
            raise click.ClickException(f"no NATS server answers at {nats_url}; {FORWARDING}") from error
        return await work(LetterBook(bus, letters=await _read(bus)))


async def _read(bus: Bus) -> dict[str, DeadLetter]:
    """Return the letters that are stored now, oldest first."""
    found: dict[str, DeadLetter] = {}
    subject = DEAD_LETTERS_STREAM.subjects[0]
    try:
        # A stream that does not exist has no end; to follow it would be to wait for it.
        await bus.last(DEAD_LETTERS_STREAM.name, subject=subject)
    except BusUnavailable as error:
        raise click.ClickException(f"{error}: no service of Phalanx has used this NATS server yet") from error
    async for batch in bus.follow(DEAD_LETTERS_STREAM.name, subjects=subject):
        for message in batch.messages:
            try:
                letter = decode_letter(message.data)
            except UnreadableLetter as error:
                click.echo(f"message {message.sequence} on {message.subject} is no letter: {error}", err=True)
                continue
            found[letter.id] = letter
        if batch.pending == 0:
            break
    return found


def _fields(letter: DeadLetter) -> dict[str, Any]:
    return {
        "letter": letter.id,
        "service": letter.service,
        "instance": letter.instance,
        "stream": letter.stream,
        "sequence": letter.sequence,
        "subject": letter.subject,
        "problem": letter.problem,
        "count": letter.count,
        "firstAt": letter.first_at.isoformat(),
        "lastAt": letter.last_at.isoformat(),
        "headers": dict(letter.headers),
        "bodyBytes": len(letter.body),
        "isBodyOmitted": letter.is_body_omitted,
    }
