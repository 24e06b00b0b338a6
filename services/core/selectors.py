"""CEL selectors of DeviceClasses and requests: compiled once, asked once for each shape of device.

The engine is cel-expr-python, known to this module alone. What the API server accepts and the engine does not is a
`SelectorProblem`, never a selector that does not match. The environment is that of k8s.io/dynamic-resource-allocation
0.37 `cel/compile.go`: one variable `device`, whose fields are declared here as variables with dots in their names, so
that `device.name` is refused as it is there.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext.ext_bindings import ExtBindings
from cel_expr_python.ext.ext_optional import ExtOptional
from cel_expr_python.ext.ext_strings import ExtStrings
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from services.core import selector_functions, selector_values
from services.core.selector_reads import (
    ATTRIBUTES,
    CAPACITY,
    CAPACITY_DOMAINS,
    DOMAINS,
    DRIVER,
    MAX_ROUNDS,
    OWN_DOMAIN,
    WITHOUT_DEFAULT,
    Reads,
    ReadsFinder,
    UnknownUse,
    rounds_of,
)
from services.core.selector_tree import checked_expr_file

MAX_EXPRESSION_BYTES = 10240
"""What the API server accepts (CELSelectorExpressionMaxLength)."""

_PACKAGE = "phalanx.selectors"
_SHAREABLE = "device.allowMultipleAllocations"
_Pairs = frozenset[tuple[str, str | None]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorProblem:
    """An expression that cannot be used, and why."""

    expression: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What an expression may read of one device.

    Attributes are kind and value by domain and id, capacities are billionths.
    """

    driver: str
    is_shareable: bool
    attributes: Mapping[tuple[str, str], tuple[str, str | int | bool]]
    capacity: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selector:
    """A compiled expression, and what it reads."""

    expression: str
    reads: Reads
    program: Any

    def judge(self, facts: Facts) -> bool | str:
        """Return whether the device matches, or the message of a failure at run time."""
        attributes = _nested((name, _native(value)) for name, value in facts.attributes.items())
        capacity = _nested((name, _scalar((selector_values.QUANTITY, str(v)))) for name, v in facts.capacity.items())
        data = {
            DRIVER: facts.driver,
            _SHAREABLE: facts.is_shareable,
            DOMAINS: attributes,
            CAPACITY_DOMAINS: capacity,
            ATTRIBUTES: _with_defaults(attributes, self.reads.domains, driver=facts.driver),
            CAPACITY: _with_defaults(capacity, self.reads.capacity_domains, driver=facts.driver),
        }
        try:
            answer = self.program.eval(data=data)
        except RuntimeError as error:
            return _first_line(error)
        if answer.type() == cel.Type.ERROR:
            return _first_line(answer.plain_value())
        value = answer.plain_value()
        return value if isinstance(value, bool) else f"the result is {answer.type().name()}, expected true or false"


@lru_cache(maxsize=4096)
def compile_selector(expression: str) -> Selector | SelectorProblem:
    """Return the compiled expression, or why it cannot be used."""
    if len(expression.encode()) > MAX_EXPRESSION_BYTES:
        return _problem(expression, f"it is longer than {MAX_EXPRESSION_BYTES} bytes")
    environment = _environment()
    try:
        compiled = environment.compile(expression)
    except Exception as error:  # noqa: BLE001 - the engine raises plain exceptions; whatever it says is the reason
        return _problem(expression, _first_line(error))
    if compiled.return_type() not in [cel.Type.BOOL, cel.Type.DYN]:
        return _problem(expression, f"it is {compiled.return_type().name()}, expected true or false")
    tree = _CheckedTree()
    # The engine serializes a google.protobuf.Any around the tree.
    wrapped = _Any()
    wrapped.ParseFromString(compiled.serialize())
    tree.ParseFromString(wrapped.value)
    if rounds_of(tree.expr) > MAX_ROUNDS:
        return _problem(expression, f"its loops may take more than {MAX_ROUNDS} rounds")
    finder = ReadsFinder()
    try:
        reads = finder.reads(tree.expr)
    except UnknownUse as error:
        return _problem(expression, str(error))
    if finder.renamed:
        compiled = _renamed(environment, tree, finder=finder, wrapped=wrapped)
    return Selector(expression=expression, reads=reads, program=compiled)


def _renamed(environment: Any, tree: Any, *, finder: ReadsFinder, wrapped: Any) -> Any:
    """Return the expression with maps that have no default where their own domains are meant."""
    for node in finder.renamed:
        name = WITHOUT_DEFAULT[node.ident_expr.name.removeprefix(".")]
        node.ident_expr.name = name
        if node.id in tree.reference_map:
            tree.reference_map[node.id].name = name
    wrapped.value = tree.SerializeToString()
    return environment.deserialize(wrapped.SerializeToString())


def _problem(expression: str, message: str) -> SelectorProblem:
    return SelectorProblem(expression=expression, message=message)


def _first_line(error: object) -> str:
    lines = str(error).splitlines()
    text = lines[0] if lines else type(error).__name__
    return text.removeprefix("INVALID_ARGUMENT: ").removeprefix("ERROR: ").strip()[:300]


def _nested(items: Iterable[tuple[tuple[str, str], Any]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for (domain, name), value in items:
        found.setdefault(domain, {})[name] = value
    return found


def _with_defaults(
    found: dict[str, dict[str, Any]], domains: frozenset[str], *, driver: str
) -> dict[str, dict[str, Any]]:
    """Return the map with an empty one for each domain that is looked up and unknown."""
    missing = {driver if domain == OWN_DOMAIN else domain for domain in domains} - found.keys()
    return found | {domain: {} for domain in missing} if missing else found


def _native(value: tuple[str, str | int | bool]) -> Any:
    kind, content = value
    if kind != "version":
        return content
    try:
        return _scalar(selector_values.version(str(content)))
    except selector_values.SelectorValueError:
        return None


@lru_cache(maxsize=16384)
def _scalar(value: selector_values.Scalar) -> Any:
    return _Scalar(**{value[0]: value[1]})


def _plain(argument: Any) -> Any:
    """Return an argument of a function with values of ours as pairs."""
    if isinstance(argument, _Scalar):
        kind = next(kind for kind in selector_values.KINDS if getattr(argument, kind))
        return kind, getattr(argument, kind)
    return [_plain(one) for one in argument] if isinstance(argument, list) else argument


def _carried(result: Any) -> Any:
    return _scalar(result) if isinstance(result, tuple) else result


def _implementation(function: Callable[..., Any]) -> Callable[..., Any]:
    def implementation(*arguments: Any) -> Any:
        return _carried(function(*(_plain(one) for one in arguments)))

    return implementation


def _messages() -> tuple[descriptor_pool.DescriptorPool, dict[str, Any]]:
    """Return a pool with the messages of this module, which no other part of the process sees."""
    scalars = descriptor_pb2.FileDescriptorProto(name="scalar.proto", package=_PACKAGE, syntax="proto3")
    message = scalars.message_type.add(name="Scalar")
    for number, kind in enumerate(selector_values.KINDS, start=1):
        message.field.add(
            name=kind,
            number=number,
            type=descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
            label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
        )
    pool = descriptor_pool.DescriptorPool()
    for file in (scalars, checked_expr_file(_PACKAGE)):
        pool.AddSerializedFile(file.SerializeToString())
    names = ("Scalar", "CheckedExpr", "Any")
    return pool, {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in names
    }


_POOL, _CLASSES = _messages()
_Scalar, _CheckedTree, _Any = _CLASSES["Scalar"], _CLASSES["CheckedExpr"], _CLASSES["Any"]


@lru_cache(maxsize=1)
def _environment() -> Any:
    scalar = cel.Type(f"{_PACKAGE}.Scalar")
    attributes = cel.Type.Map(cel.Type.STRING, cel.Type.Map(cel.Type.STRING, cel.Type.DYN))
    capacity = cel.Type.Map(cel.Type.STRING, cel.Type.Map(cel.Type.STRING, scalar))
    types = {
        "scalar": scalar,
        "bool": cel.Type.BOOL,
        "int": cel.Type.INT,
        "double": cel.Type.DOUBLE,
        "string": cel.Type.STRING,
        "dyn": cel.Type.DYN,
        "list": cel.Type.List(cel.Type.DYN),
        "strings": cel.Type.List(cel.Type.STRING),
        "ints": cel.Type.List(cel.Type.INT),
        "query": cel.Type.Map(cel.Type.STRING, cel.Type.List(cel.Type.STRING)),
    }
    declared: dict[str, list[Any]] = {}
    for one in selector_functions.FUNCTIONS:
        declared.setdefault(one.name, []).append(
            cel.Overload(
                f"{one.name}({','.join(one.takes)})",
                types[one.gives],
                [types[taken] for taken in one.takes],
                is_member=one.is_member,
                impl=_implementation(one.does),
            )
        )
    return cel.NewEnv(
        _POOL,
        variables={
            DRIVER: cel.Type.STRING,
            _SHAREABLE: cel.Type.BOOL,
            ATTRIBUTES: attributes,
            DOMAINS: attributes,
            CAPACITY: capacity,
            CAPACITY_DOMAINS: capacity,
        },
        extensions=[ExtStrings(version=2), ExtBindings(), ExtOptional()],
        functions=[cel.FunctionDecl(name, overloads) for name, overloads in declared.items()],
    )
