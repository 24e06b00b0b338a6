"""Stores the messages of examples that have none yet: `python -m tests.contract.messages.record`.

A stored message is a promise to whoever reads the stream, so it is written once and never again. When a message gains
a field, add an example under a new name; the old one stays and must still decode.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from services.contracts.cloudevents import EventAttributes, headers
from services.contracts.cluster_codec import change_id, change_subject, change_type, encode_change
from services.contracts.decision_codec import decision_id, decision_subject, decision_type, encode_decision
from services.contracts.scaling_codec import (
    encode_scaling,
    scaling_decision_id,
    scaling_decision_subject,
    scaling_decision_type,
)
from tests.contract.messages.examples import CHANGES, DECISIONS, MOMENT
from tests.contract.messages.scaling_examples import SCALINGS

STORED = Path(__file__).parent / "stored"
HOW = "python -m tests.contract.messages.record"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """One message on the bus: where it goes, what its headers say, and its body."""

    name: str
    subject: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> Path:
        """Where it is stored."""
        return STORED / f"{self.name}.json"


def examples() -> Iterator[StoredMessage]:
    """Every example as it is encoded now."""
    for name, change in CHANGES.items():
        subject = change_subject(change)
        attributes = EventAttributes(
            id=change_id(change),
            source="/phalanx/watcher/example",
            type=change_type(change),
            subject=subject,
            time=MOMENT,
        )
        yield StoredMessage(name=name, subject=subject, headers=headers(attributes), body=encode_change(change))
    for name, decision in DECISIONS.items():
        attributes = EventAttributes(
            id=decision_id(decision),
            source="/phalanx/placer/example",
            type=decision_type(decision),
            subject=decision.gang,
            time=decision.decided_at,
        )
        yield StoredMessage(
            name=name,
            subject=decision_subject(decision),
            headers=headers(attributes),
            body=encode_decision(decision),
        )
    for name, scaling in SCALINGS.items():
        attributes = EventAttributes(
            id=scaling_decision_id(scaling),
            source="/phalanx/autoscaler/example",
            type=scaling_decision_type(scaling),
            subject=f"{scaling.namespace}/{scaling.hpa}",
            time=scaling.decided_at,
        )
        yield StoredMessage(
            name=name,
            subject=scaling_decision_subject(scaling),
            headers=headers(attributes),
            body=encode_scaling(scaling),
        )


def stored() -> tuple[StoredMessage, ...]:
    """Every stored message, also those of examples that are gone."""
    return tuple(_read(path) for path in sorted(STORED.glob("*.json")))


def _read(path: Path) -> StoredMessage:
    document = json.loads(path.read_text())
    return StoredMessage(
        name=path.stem,
        subject=document["subject"],
        headers=document["headers"],
        body=base64.b64decode("".join(document["body_base64"])),
    )


def _write(message: StoredMessage) -> None:
    encoded = base64.b64encode(message.body).decode()
    document = {
        "subject": message.subject,
        "headers": message.headers,
        "body_base64": [encoded[start : start + 100] for start in range(0, len(encoded), 100)],
    }
    with message.path.open("x") as file:
        file.write(json.dumps(document, indent=2) + "\n")


@click.command()
def main() -> None:
    """Store what is not stored yet."""
    for message in examples():
        if not message.path.exists():
            _write(message)
            click.echo(f"stored {message.name}")


if __name__ == "__main__":
    main()
