"""The structured allocator of kube-scheduler as a program that answers line by line."""

import json
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.differential.devices.drawing import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the allocator said. `error` is fatal for the pod; `devices` are driver/pool/device by claim."""

    fits: bool
    error: str
    devices: tuple[tuple[str, ...], ...] = ()


class Oracle:
    """A running allocator."""

    def __init__(self, *, questions: IO[bytes], answers: IO[bytes]) -> None:
        """Take the ends of its pipes."""
        self._questions = questions
        self._answers = answers

    def ask(self, question: Question) -> Answer:
        """Return the answer to a question."""
        given = self._asked(
            {
                "node": question.node,
                "slices": question.slices,
                "classes": question.classes,
                "allocated": question.allocated,
                "claims": question.claims,
            }
        )
        results: Iterable[Iterable[dict[str, Any]]] = given.get("results") or ()
        return Answer(
            fits=given["fits"],
            error=given["error"],
            devices=tuple(tuple(one["device"] for one in claim) for claim in results),
        )

    def judge(self, expression: str, *, driver: str, device: dict[str, Any]) -> bool | str:
        """Return what a selector says about a device, or the message of its failure."""
        given = self._asked({"expression": expression, "driver": driver, "device": device})
        return str(given["error"]) or bool(given["matches"])

    def _asked(self, question: dict[str, Any]) -> dict[str, Any]:
        self._questions.write(json.dumps(question).encode() + b"\n")
        self._questions.flush()
        answer: dict[str, Any] = json.loads(self._answers.readline())
        return answer


@contextmanager
def running_oracle(program: Path) -> Iterator[Oracle]:
    """Run the program as long as it is asked."""
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Oracle(questions=process.stdin, answers=process.stdout)
        process.stdin.close()
