"""The steps of `events.yaml` as values. Every verb, key and expectation has to be known: nothing is passed over.

The times in a case are only an order: a step is taken as soon as what the one before it expects has come true.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import yaml

from tests.cases.check import Case, UnknownWord

Manifest = dict[str, Any]


class Verb(StrEnum):
    """What a step does."""

    ADD = "add"
    BIND_REPLY = "bindReply"
    CRASH = "crash"
    DELETE = "delete"
    DELIVER = "deliver"
    MESSAGE = "message"
    RELIST = "relist"
    REPLACE = "replace"
    SCHEDULING_FAILURE_RETURNS = "schedulingFailureReturns"
    STORE = "store"
    UPDATE = "update"
    WATCH_BREAKS = "watchBreaks"
    WATCH_REPLY = "watchReply"


_COMMON = frozenset({"t", "do", "expect", "hold", "note"})
_KEYS: Mapping[Verb, frozenset[str]] = {
    Verb.ADD: frozenset({"obj", "like"}),
    Verb.BIND_REPLY: frozenset({"obj", "code", "stored"}),
    Verb.CRASH: frozenset({"before"}),
    Verb.DELETE: frozenset({"obj", "before"}),
    Verb.DELIVER: frozenset({"obj", "resourceVersion", "event", "times"}),
    Verb.MESSAGE: frozenset({"message"}),
    Verb.RELIST: frozenset(),
    Verb.REPLACE: frozenset({"obj", "set"}),
    Verb.SCHEDULING_FAILURE_RETURNS: frozenset({"obj"}),
    Verb.STORE: frozenset({"obj", "delete"}),
    Verb.UPDATE: frozenset({"obj", "set"}),
    Verb.WATCH_BREAKS: frozenset({"kinds"}),
    Verb.WATCH_REPLY: frozenset({"code"}),
}
EXPECTATIONS = frozenset(
    {
        "bound",
        "distinctNodes",
        "evictions",
        "exists",
        "freeGPU",
        "groups",
        "members",
        "noBindTo",
        "onNodes",
        "planned",
        "podGroups",
        "replicas",
        "report",
        "reserved",
        "scaleWrites",
        "scheduled",
        "stray",
        "unbound",
    }
)
"""Words under `expect`, of a step and of a case."""

PROSE = frozenset({"failing", "never", "rule", "then"})
"""Words whose value is a sentence: `tests.cases.play_never` knows what each case means by them."""

_HELD = frozenset({"bindings"})
_STAGE = re.compile(r"final|step\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step. `holds_bindings` keeps what it expects from being carried out until the next step has been taken."""

    number: int
    verb: Verb | None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    expectations: Mapping[str, Any] = field(default_factory=dict)
    holds_bindings: bool = False

    @property
    def objects(self) -> tuple[str, ...]:
        """The objects that the step names, as `Pod/d-2`."""
        return listed(self.arguments.get("obj"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A case with events: its objects, its steps, and what its header expects when.

    `at_once` holds once everything is loaded, `after_change[n]` in the first expecting step after the n-th change.
    """

    case: Case
    objects: tuple[Manifest, ...]
    steps: tuple[Step, ...]
    at_once: Mapping[str, Any]
    after_change: Mapping[int, Mapping[str, Any]]
    final: Mapping[str, Any]

    @property
    def namespace(self) -> str:
        """Where its objects live."""
        return f"cases-{self.case.id.lower()}"


def listed(value: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return a value that may be one or several."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


def read_script(case: Case) -> Script:
    """Read a case with events. Raises UnknownWord for everything that the interpreter does not know."""
    objects = [item for item in yaml.safe_load_all(case.path.read_text()) if item]
    events = [item for item in objects if (item["kind"], item["metadata"]["name"]) == ("ConfigMap", "events")]
    if len(events) != 1:
        raise UnknownWord(f"{case.id}: expected one ConfigMap/events, found {len(events)}")
    steps = yaml.safe_load(events[0]["data"]["events.yaml"])
    expectation = case.expectation
    staged = {word: wanted for word, wanted in expectation.items() if _STAGE.fullmatch(word)}
    at_once = {
        word: wanted
        for word, wanted in expectation.items()
        if word not in staged and word not in PROSE and not (word == "report" and isinstance(wanted, str))
    }
    for place, words in (("expect", at_once), *staged.items()):
        _check_expectations(words, place=f"{case.id} {place}")
    return Script(
        case=case,
        objects=tuple(item for item in objects if item not in events),
        steps=tuple(_step(number, raw, case_id=case.id) for number, raw in enumerate(steps, start=1)),
        at_once=at_once,
        after_change={int(word.removeprefix("step")): words for word, words in staged.items() if word != "final"},
        final=staged.get("final", {}),
    )


def _step(number: int, raw: Mapping[str, Any], *, case_id: str) -> Step:
    place = f"{case_id} step {number}"
    if "want" in raw:
        raise UnknownWord(f"{place}: rows with `want` are not known to tests/cases/play.py")
    verb = _verb(raw, place=place)
    allowed = _COMMON | (_KEYS[verb] if verb else frozenset())
    _check(set(raw) - allowed, known=allowed, place=place, what="keys")
    expectations = raw.get("expect", {})
    _check_expectations(expectations, place=place)
    held = raw.get("hold")
    if held is not None:
        _check({held} - _HELD, known=_HELD, place=place, what="values of hold")
    return Step(
        number=number,
        verb=verb,
        arguments={key: value for key, value in raw.items() if key not in _COMMON},
        expectations=expectations,
        holds_bindings=held is not None,
    )


def _verb(raw: Mapping[str, Any], *, place: str) -> Verb | None:
    if "message" in raw:
        return Verb.MESSAGE
    text = raw.get("do")
    if text is None:
        return None
    _check({text} - set(Verb), known=Verb, place=place, what="verbs")
    return Verb(text)


def _check_expectations(words: Mapping[str, Any], *, place: str) -> None:
    if not isinstance(words, dict):
        raise UnknownWord(f"{place}: expected words with values, got {words!r}")
    _check(set(words) - EXPECTATIONS, known=EXPECTATIONS, place=place, what="expectations")


def _check(strange: set[str], *, known: Iterable[str], place: str, what: str) -> None:
    if strange:
        raise UnknownWord(
            f"{place}: {what} {', '.join(sorted(strange))} are not known to tests/cases/play.py; "
            f"it knows {', '.join(sorted(known))}"
        )
