"""Structured files: typed from YAML, every mistake at its line, and the same rules as a JSON schema."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from services.runtime.structured_file import MAX_BYTES, UnusableFile, camel, read
from services.runtime.structured_schema import schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """One of several."""

    host_name: str = field(metadata={"pattern": "[a-z]+", "text": "a word of small letters"})
    """Where."""

    weight: float = field(default=1.0, metadata={"minimum": 0, "maximum": 10})
    """How much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    """Everything that a file may hold."""

    inner: tuple[Inner, ...] = field(default=(), metadata={"maximum_count": 2})
    by_name: Mapping[str, Inner] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    count: int | None = None
    is_on: bool = False


def mistakes(text: str) -> list[str]:
    """What is said about a file."""
    with pytest.raises(UnusableFile) as caught:
        read(text.encode(), Outer, name="f.yaml")
    return str(caught.value).splitlines()


def test_every_type_is_read() -> None:
    """Keys are the fields in camelCase; what is absent has its default."""
    text = "inner: [{hostName: a, weight: 2}]\nbyName: {x.y: {hostName: b}}\nwords: ['1', b]\ncount: 0x10\nisOn: true\n"
    assert read(text.encode(), Outer, name="f") == Outer(
        inner=(Inner(host_name="a", weight=2.0),),
        by_name={"x.y": Inner(host_name="b")},
        words=("1", "b"),
        count=16,
        is_on=True,
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "null\n", "{}\n"])
def test_an_empty_file_is_all_defaults(text: str) -> None:
    """A file whose content was commented out is not a mistake."""
    assert read(text.encode(), Outer, name="f") == Outer()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("wrods: []", "f.yaml:1: wrods: no such key in this version; did you mean words?"),
        ("zzz: []", "f.yaml:1: zzz: no such key in this version; expected byName, count, inner, isOn and words"),
        ("words:\n- 1", "f.yaml:2: words[0]: given 1 (a whole number), expected text; put it in quotes"),
        ("words:\n-", "f.yaml:2: words[0]: given nothing, expected text"),
        ("words: a", "f.yaml:1: words: given a (text), expected a list"),
        ("words: {}", "f.yaml:1: words: given a map, expected a list"),
        ("count: 1.5", "f.yaml:1: count: given 1.5 (a number), expected a whole number"),
        ("isOn: 'yes'", "f.yaml:1: isOn: given yes (text), expected true or false"),
        ("\ninner:\n- {}", "f.yaml:3: inner[0]: lacks hostName, which has no default"),
        ("inner: [{hostName: A}]", "f.yaml:1: inner[0].hostName: given 'A', expected a word of small letters"),
        (
            "byName:\n  x.y: {hostName: a, weight: .nan}",
            'f.yaml:2: byName["x.y"].weight: given nan, expected a number of at least 0 and at most 10',
        ),
        ("count: 1\ncount: 2", "f.yaml:2: count: stands in line 1 already; remove one"),
        ("inner: [{hostName: a}, {hostName: a}, {hostName: a}]", "f.yaml:1: inner: has 3 entries, expected at most 2"),
        ("- 1", "f.yaml:1: given a list, expected a map with byName, count, inner, isOn and words"),
        ("[a]: 1", "f.yaml:1: expected text as a key"),
        ("words: !!set {}", "f.yaml:1: words: given a value with the tag tag:yaml.org,2002:set, expected a list"),
        ("inner: [", "f.yaml:1: not YAML: expected the node content, but found '<stream end>'"),
        ("count: 1\n---\ncount: 2", "f.yaml:2: not YAML: but found another document"),
        ("count: *x", "f.yaml:1: not YAML: found undefined alias 'x'"),
        ("a: \x00", "f.yaml:1: not YAML: unacceptable character #x0000: special characters are not allowed"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, said: str) -> None:
    """File, line, path, what was given, and what is expected."""
    assert mistakes(text)[0].startswith(said)


def test_all_mistakes_are_told_at_once() -> None:
    """In the order of lines."""
    found = mistakes("count: a\nwords: b\nisOn: c\nwrong: d\n")
    assert [one.split(":")[1] for one in found] == ["1", "2", "3", "4"]


def test_what_is_too_large_or_no_text_is_refused() -> None:
    """Before anything is read of it."""
    with pytest.raises(UnusableFile, match=f"at most {MAX_BYTES}"):
        read(b"#" * (MAX_BYTES + 1), Outer, name="f")
    with pytest.raises(UnusableFile, match="f:2: expected text in UTF-8"):
        read(b"a: 1\nb: \xff\n", Outer, name="f")
    with pytest.raises(UnusableFile, match="nested too deeply"):
        read(b"[" * 20_000, Outer, name="f")


def test_contradictions_are_told_at_the_line_of_their_path() -> None:
    """Or at the nearest line around it."""
    text = b"words:\n- a\n- b\n"
    with pytest.raises(UnusableFile) as caught:
        read(text, Outer, name="f", contradictions=lambda _: [(("words", 1), "no"), (("words", 7), "neither")])
    assert str(caught.value).splitlines() == ["f:2: words[7]: neither", "f:3: words[1]: no"]


def test_the_schema_says_the_same() -> None:
    """Types, limits, required keys, and no others."""
    found: dict[str, Any] = schema(Outer, title="t")
    inner = found["properties"]["inner"]
    assert found["additionalProperties"] is False
    assert inner["maxItems"] == 2
    assert inner["items"]["required"] == ["hostName"]
    assert inner["items"]["properties"]["hostName"] == {"type": "string", "pattern": "[a-z]+", "description": "Where."}
    assert inner["items"]["properties"]["weight"] == {
        "type": "number", "minimum": 0, "maximum": 10, "description": "How much.",
    }  # fmt: skip
    assert found["properties"]["count"]["anyOf"] == [{"type": "integer"}, {"type": "null"}]
    assert found["properties"]["byName"]["additionalProperties"]["type"] == "object"


def test_keys_are_camel_case() -> None:
    """As everywhere in Kubernetes."""
    assert camel("metric_sources") == "metricSources"
