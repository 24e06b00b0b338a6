"""A YAML file as typed values: a frozen dataclass tree says what may stand in it, and every mistake has its line.

Field names in camelCase are the keys. A field's metadata may say more than its type can: `pattern` and `text` for
strings (also inside tuples and maps), `key_pattern` and `key_text` for keys of maps, `minimum` and `maximum` for
numbers, `maximum_count` for lists. `services.runtime.structured_schema` writes the same rules as a JSON schema.

No library of the lock does this: those that validate know no lines, and those that know lines do not validate.
"""

import dataclasses
import difflib
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import yaml
from yaml.constructor import SafeConstructor

MAX_BYTES = 2**20
"""Largest file that is read: as much as a ConfigMap may hold."""

Path = tuple[str | int, ...]
T = TypeVar("T")

_TAG = "tag:yaml.org,2002:"
_WORDS: Mapping[str, str] = {
    "str": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "null": "nothing",
    "map": "a map", "seq": "a list", "timestamp": "a date", "binary": "binary data", "merge": "a merge key",
}  # fmt: skip
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProblem:
    """One mistake. `line` counts from 1; `path` is empty where the file as a whole is meant."""

    line: int
    path: Path
    what: str

    def text(self, name: str) -> str:
        """Return it as `file:line: path: what`."""
        path = f"{path_text(self.path)}: " if self.path else ""
        return f"{name}:{self.line}: {path}{self.what}"


class UnusableFile(ValueError):
    """The file cannot be used; `problems` has every mistake, in the order of lines."""

    def __init__(self, problems: Iterable[FileProblem], *, name: str) -> None:
        self.problems = tuple(sorted(problems, key=lambda one: one.line))
        super().__init__("\n".join(problem.text(name) for problem in self.problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a value must be: its type, and the limits in the metadata of its field."""

    wanted: object
    limits: Mapping[str, Any] = field(default_factory=dict)


def camel(name: str) -> str:
    """Return a field's name as a key of the file."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def path_text(path: Path) -> str:
    """Return a path as people write it: `topology.levels[1].nodeLabel`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text


def fields_of(cls: type[object]) -> dict[str, tuple[dataclasses.Field[Any], Rules]]:
    """Return the keys that a dataclass allows, with their fields and rules."""
    hints = typing.get_type_hints(cls)
    return {
        camel(item.name): (item, Rules(wanted=hints[item.name], limits=item.metadata))
        for item in dataclasses.fields(cast("Any", cls))
    }


def is_required(item: dataclasses.Field[Any]) -> bool:
    """Tell whether a field has no default."""
    return item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING


def read(
    data: bytes, cls: type[T], *, name: str, contradictions: Callable[[T], Iterable[tuple[Path, str]]] | None = None
) -> T:
    """Return the file's content. An empty file is all defaults. Raises UnusableFile with everything that is wrong.

    `name` is the file's name in messages. `contradictions` looks at the whole where each value is right by itself.
    """
    root = _composed(data, name=name)
    if root is None or (isinstance(root, yaml.ScalarNode) and root.tag == f"{_TAG}null"):
        return cls()
    reader = _Reader()
    value = reader.value(root, Rules(wanted=cls), path=())
    if reader.problems:
        raise UnusableFile(reader.problems, name=name)
    result = cast("T", value)
    found = [] if contradictions is None else list(contradictions(result))
    if found:
        raise UnusableFile(
            (FileProblem(line=_line(_node_at(root, path)), path=path, what=what) for path, what in found), name=name
        )
    return result


def _composed(data: bytes, *, name: str) -> yaml.Node | None:
    if len(data) > MAX_BYTES:
        what = f"has {len(data)} bytes, expected at most {MAX_BYTES}"
        raise UnusableFile([FileProblem(line=1, path=(), what=what)], name=name)
    try:
        return yaml.compose(data.decode(), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UnusableFile([FileProblem(line=line, path=(), what="expected text in UTF-8")], name=name) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = f"not YAML: {error.problem or error.context}"
        raise UnusableFile([FileProblem(line=mark.line + 1 if mark else 1, path=(), what=what)], name=name) from error
    except (yaml.YAMLError, RecursionError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        what = f"not YAML: {said}"
        raise UnusableFile([FileProblem(line=1, path=(), what=what)], name=name) from error


class _Reader:
    """Reads nodes along types, and collects what is wrong."""

    def __init__(self) -> None:
        self.problems: list[FileProblem] = []

    def value(self, node: yaml.Node, rules: Rules, *, path: Path) -> object:
        """Return the node as the type asks for; None where that is impossible, and then there is a problem."""
        inner = optional_of(rules.wanted)
        if inner is not None:
            is_null = node.tag == f"{_TAG}null"
            return None if is_null else self.value(node, Rules(wanted=inner, limits=rules.limits), path=path)
        if dataclasses.is_dataclass(rules.wanted):
            return self._record(node, cast("type[object]", rules.wanted), path=path)
        origin, arguments = typing.get_origin(rules.wanted), typing.get_args(rules.wanted)
        if origin is tuple:
            return self._list(node, Rules(wanted=arguments[0], limits=rules.limits), path=path)
        if origin is Mapping:
            return self._map(node, Rules(wanted=arguments[1], limits=rules.limits), path=path)
        return self._scalar(node, rules, path=path)

    def _record(self, node: yaml.Node, cls: type[object], *, path: Path) -> object:
        given = self._entries(node, expected=f"a map with {_listed(fields_of(cls))}", path=path)
        if given is None:
            return None
        known, values, before = fields_of(cls), {}, len(self.problems)
        for key, (key_node, child) in given.items():
            if key not in known:
                self._unknown(key_node, key, known=known, path=path)
                continue
            item, rules = known[key]
            values[item.name] = self.value(child, rules, path=(*path, key))
        for key, (item, _) in known.items():
            if is_required(item) and key not in given:
                self._say(node, f"lacks {key}, which has no default", path=path)
        return cls(**values) if len(self.problems) == before else None

    def _unknown(self, node: yaml.Node, key: str, *, known: Iterable[str], path: Path) -> None:
        near = difflib.get_close_matches(key, list(known), n=1)
        advice = f"did you mean {near[0]}?" if near else f"expected {_listed(known)}"
        self._say(node, f"no such key in this version; {advice}", path=(*path, key))

    def _list(self, node: yaml.Node, rules: Rules, *, path: Path) -> object:
        if not isinstance(node, yaml.SequenceNode) or node.tag != f"{_TAG}seq":
            self._wrong(node, "a list", path=path)
            return None
        most = rules.limits.get("maximum_count")
        if most is not None and len(node.value) > most:
            self._say(node, f"has {len(node.value)} entries, expected at most {most}", path=path)
        return tuple(self.value(child, rules, path=(*path, place)) for place, child in enumerate(node.value))

    def _map(self, node: yaml.Node, rules: Rules, *, path: Path) -> object:
        given = self._entries(node, expected="a map", path=path)
        pattern = rules.limits.get("key_pattern")
        for key, (key_node, _) in (given or {}).items():
            if pattern is not None and re.fullmatch(pattern, key) is None:
                self._say(key_node, f"given the key {key!r}, expected {rules.limits['key_text']}", path=path)
        return {key: self.value(child, rules, path=(*path, key)) for key, (_, child) in (given or {}).items()}

    def _entries(self, node: yaml.Node, *, expected: str, path: Path) -> dict[str, tuple[yaml.Node, yaml.Node]] | None:
        """Return the entries of a map by key; one that stands twice is a problem, for one of them would be lost."""
        if not isinstance(node, yaml.MappingNode) or node.tag != f"{_TAG}map":
            self._wrong(node, expected, path=path)
            return None
        found: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key_node, child in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._say(key_node, "expected text as a key", path=path)
            elif key_node.value in found:
                first = _line(found[key_node.value][0])
                self._say(key_node, f"stands in line {first} already; remove one", path=(*path, key_node.value))
            else:
                found[key_node.value] = (key_node, child)
        return found

    def _scalar(self, node: yaml.Node, rules: Rules, *, path: Path) -> object:
        convert, tags = _SCALARS[rules.wanted]
        expected = scalar_text(rules)
        if not isinstance(node, yaml.ScalarNode) or node.tag.removeprefix(_TAG) not in tags:
            self._wrong(node, expected, path=path, is_text_wanted=rules.wanted is str)
            return None
        value = convert(node)
        if not _within(value, rules.limits):
            self._say(node, f"given {_shortened(repr(value))}, expected {expected}", path=path)
        return value

    def _wrong(self, node: yaml.Node, expected: str, *, path: Path, is_text_wanted: bool = False) -> None:
        word = _WORDS.get(node.tag.removeprefix(_TAG), f"a value with the tag {node.tag}")
        is_plain = isinstance(node, yaml.ScalarNode) and node.tag != f"{_TAG}null"
        given = f"{_shortened(node.value)} ({word})" if is_plain else word
        quotes = "; put it in quotes" if is_plain and is_text_wanted else ""
        self._say(node, f"given {given}, expected {expected}{quotes}", path=path)

    def _say(self, node: yaml.Node, what: str, *, path: Path) -> None:
        self.problems.append(FileProblem(line=_line(node), path=path, what=what))


_CONSTRUCTOR = SafeConstructor()


def _number(node: yaml.ScalarNode) -> float:
    is_whole = node.tag == f"{_TAG}int"
    return float(_CONSTRUCTOR.construct_yaml_int(node) if is_whole else _CONSTRUCTOR.construct_yaml_float(node))


_SCALARS: Mapping[object, tuple[Callable[[yaml.ScalarNode], object], frozenset[str]]] = {
    str: (lambda node: str(node.value), frozenset({"str"})),
    int: (_CONSTRUCTOR.construct_yaml_int, frozenset({"int"})),
    float: (_number, frozenset({"int", "float"})),
    bool: (_CONSTRUCTOR.construct_yaml_bool, frozenset({"bool"})),
}


def optional_of(wanted: object) -> object | None:
    """Return the T of `T | None`, or None where the type is not optional."""
    if typing.get_origin(wanted) not in {typing.Union, types.UnionType}:
        return None
    inner = [part for part in typing.get_args(wanted) if part is not type(None)]
    return inner[0] if len(inner) == 1 else None


def scalar_text(rules: Rules) -> str:
    """Return what a scalar must be, in words."""
    if text := rules.limits.get("text"):
        return str(text)
    words = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}[cast("type", rules.wanted)]
    low, high = rules.limits.get("minimum"), rules.limits.get("maximum")
    parts = ([f"at least {low:g}"] if low is not None else []) + ([f"at most {high:g}"] if high is not None else [])
    return f"{words} of {' and '.join(parts)}" if parts else words


def _within(value: object, limits: Mapping[str, Any]) -> bool:
    if isinstance(value, str):
        return "pattern" not in limits or re.fullmatch(limits["pattern"], value) is not None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    low, high = limits.get("minimum"), limits.get("maximum")
    return (low is None or value >= low) and (high is None or value <= high)


def _listed(keys: Iterable[str]) -> str:
    *first, last = sorted(keys)
    return f"{', '.join(first)} and {last}" if first else last


def _shortened(text: str, *, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _node_at(root: yaml.Node, path: Path) -> yaml.Node:
    """Return the node of a path, or the nearest around it."""
    node = root
    for part in path:
        children = dict(_children(node))
        if part not in children:
            return node
        node = children[part]
    return node


def _children(node: yaml.Node) -> Iterator[tuple[str | int, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        yield from ((key.value, child) for key, child in node.value)
    elif isinstance(node, yaml.SequenceNode):
        yield from enumerate(cast("Sequence[yaml.Node]", node.value))
