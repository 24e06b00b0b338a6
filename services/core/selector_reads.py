"""Which attributes and capacities a compiled selector reads: what makes up the *shape* of a device for it.

Devices that agree in what an expression reads get the same answer, so it is asked once for each shape, however many
devices carry a unique uuid. The tree is the `CheckedExpr` of CEL (cel.expr.checked), as plain values.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ATTRIBUTES = "device.attributes"
DOMAINS = "device.domains"
CAPACITY = "device.capacity"
CAPACITY_DOMAINS = "device.capacityDomains"
"""Maps without the empty default that an unknown domain has when it is looked up: for `in`, size and comprehensions."""
DRIVER = "device.driver"
OWN_DOMAIN = ""
"""Stands for the domain that is the device's driver."""
PRESENCE = ""
"""Stands, as an id, for whether a device has anything in a domain."""

WITHOUT_DEFAULT = {ATTRIBUTES: DOMAINS, CAPACITY: CAPACITY_DOMAINS}
_INDEXING = frozenset({"_[_]", "_[?_]", "_?._"})
_IN = "@in"
_PAIR = 2


class UnknownUse(ValueError):
    """The expression uses a map of devices in a way whose result would differ from the API server's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What an expression reads of a device: pairs of domain and id, None where it may read anything.

    An id of None stands for the whole domain, PRESENCE for whether it is there. `domains` are looked up, and may be
    unknown.
    """

    attributes: frozenset[tuple[str, str | None]] | None = frozenset()
    capacity: frozenset[tuple[str, str | None]] | None = frozenset()
    domains: frozenset[str] = frozenset()
    capacity_domains: frozenset[str] = frozenset()


class ReadsFinder:
    """Walks one tree. `renamed` are the ids of nodes that mean a map without its default. Raises UnknownUse."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._pairs: dict[str, set[tuple[str, str | None]] | None] = {ATTRIBUTES: set(), CAPACITY: set()}
        self._domains: dict[str, set[str]] = {ATTRIBUTES: set(), CAPACITY: set()}
        self.renamed: list[Any] = []

    def reads(self, root: Any) -> Reads:
        """Return what the tree reads."""
        self._walk(root)
        return Reads(
            attributes=_frozen(self._pairs[ATTRIBUTES]),
            capacity=_frozen(self._pairs[CAPACITY]),
            domains=frozenset(self._domains[ATTRIBUTES]),
            capacity_domains=frozenset(self._domains[CAPACITY]),
        )

    def _walk(self, node: Any) -> None:
        """Walk without recursion: a tree may be deeper than the interpreter's stack."""
        waiting = [node]
        while waiting:
            one = waiting.pop()
            if not self._is_read(one):
                waiting.extend(_children(one))

    def _is_read(self, node: Any) -> bool:
        """Note what a node reads of a map; true where nothing below it has to be looked at any more."""
        source = _map_of(node)
        if source is not None:
            raise UnknownUse(f"{source} may only be indexed, asked with `in`, counted, or gone through")
        inner, key = _access(node)
        if inner is not None and key is not None:
            source = _map_of(inner)
            if source is not None:
                return self._note_domain(source, key)
            outer, domain = _access(inner)
            source = None if outer is None else _map_of(outer)
            if source is not None and domain is not None:
                return self._note_pair(source, domain, key)
        return self._is_whole(node)

    def _note_domain(self, source: str, domain: str) -> bool:
        """Note a whole domain, whose ids are not known."""
        return self._note_pair(source, domain, None)

    def _note_pair(self, source: str, domain: str, key: str | None) -> bool:
        pairs = self._pairs[source]
        if pairs is not None:
            pairs.add((domain, key))
        self._domains[source].add(domain)
        return True

    def _is_whole(self, node: Any) -> bool:
        """Note uses of a whole map that are known to mean the same here as on the server."""
        which = node.WhichOneof("expr_kind")
        if which == "comprehension_expr":
            return self._is_gone_through(node.comprehension_expr)
        if which != "call_expr":
            return False
        call = node.call_expr
        if call.function in _INDEXING and len(call.args) == _PAIR and _map_of(call.args[0]) is not None:
            # A missing domain would have to be an empty map, whatever its name.
            raise UnknownUse("the domain of an attribute has to be a text, or device.driver")
        maps = [one for one in (*call.args, *([call.target] if call.HasField("target") else [])) if _map_of(one)]
        if not maps or call.function not in {_IN, "size"}:
            return False
        asked = _constant(call.args[0]) if call.function == _IN else None
        for one in maps:
            pairs = self._pairs[str(_map_of(one))]
            if asked is None or pairs is None:
                self._pairs[str(_map_of(one))] = None
            else:
                pairs.add((asked, PRESENCE))
            self.renamed.append(one)
        for one in call.args:
            if _map_of(one) is None:
                self._walk(one)
        return True

    def _is_gone_through(self, comprehension: Any) -> bool:
        source = _map_of(comprehension.iter_range)
        if source is None:
            return False
        self._pairs[source] = None
        self.renamed.append(comprehension.iter_range)
        for part in ("accu_init", "loop_condition", "loop_step", "result"):
            self._walk(getattr(comprehension, part))
        return True


def _frozen(pairs: set[tuple[str, str | None]] | None) -> frozenset[tuple[str, str | None]] | None:
    return None if pairs is None else frozenset(pairs)


def _map_of(node: Any) -> str | None:
    """Return the name of the map that a node is, None where it is none."""
    if node.WhichOneof("expr_kind") != "ident_expr":
        return None
    name = node.ident_expr.name.removeprefix(".")
    return name if name in WITHOUT_DEFAULT else None


def _access(node: Any) -> tuple[Any, str | None]:
    """Return what is indexed, and the constant key, by a node such as `a.b`, `a["b"]`, `a.?b` or `"b" in a`."""
    which = node.WhichOneof("expr_kind")
    if which == "select_expr":
        return node.select_expr.operand, node.select_expr.field
    if which == "call_expr" and len(node.call_expr.args) == _PAIR:
        left, right = node.call_expr.args
        if node.call_expr.function in _INDEXING:
            is_driver = right.WhichOneof("expr_kind") == "ident_expr" and right.ident_expr.name == DRIVER
            return left, OWN_DOMAIN if is_driver and _map_of(left) is not None else _constant(right)
        if node.call_expr.function == _IN and _map_of(right) is None:
            return right, _constant(left)
    return None, None


def _constant(node: Any) -> str | None:
    if node.WhichOneof("expr_kind") != "const_expr" or node.const_expr.WhichOneof("constant_kind") != "string_value":
        return None
    return str(node.const_expr.string_value)


def _children(node: Any) -> Iterator[Any]:
    match node.WhichOneof("expr_kind"):
        case "select_expr":
            yield node.select_expr.operand
        case "call_expr":
            if node.call_expr.HasField("target"):
                yield node.call_expr.target
            yield from node.call_expr.args
        case "list_expr":
            yield from node.list_expr.elements
        case "struct_expr":
            for entry in node.struct_expr.entries:
                yield entry.value
                if entry.WhichOneof("key_kind") == "map_key":
                    yield entry.map_key
        case "comprehension_expr":
            body = node.comprehension_expr
            yield from (body.iter_range, body.accu_init, body.loop_condition, body.loop_step, body.result)
        case _:
            return


MAX_ROUNDS = 320
"""Rounds of loops in one evaluation: all attributes of a device, ten times. The engine itself allows some ten thousand,
which would be milliseconds for each of tens of thousands of devices."""
_UNKNOWN_LENGTH = 32
"""Of what a loop goes over: a device has at most 32 attributes and capacities."""


def rounds_of(root: Any) -> int:
    """Return how many rounds the loops of a tree may take together, as far as can be told without a device."""
    total = 0
    waiting: list[tuple[Any, int]] = [(root, 1)]
    while waiting:
        node, times = waiting.pop()
        if node.WhichOneof("expr_kind") != "comprehension_expr":
            waiting.extend((one, times) for one in _children(node))
            continue
        body = node.comprehension_expr
        rounds = times * _length_of(body.iter_range)
        total += rounds
        waiting.extend((one, times) for one in (body.iter_range, body.accu_init, body.result))
        waiting.extend((one, rounds) for one in (body.loop_condition, body.loop_step))
        if total > MAX_ROUNDS:
            break
    return total


def _length_of(node: Any) -> int:
    if node.WhichOneof("expr_kind") == "list_expr":
        return len(node.list_expr.elements)
    return len(node.struct_expr.entries) if node.WhichOneof("expr_kind") == "struct_expr" else _UNKNOWN_LENGTH
