"""What one HTTP request asks for: the path taken apart, and the query parameters that the sandbox honours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.sandbox.failures import bad_request, invalid, unhandled, unsupported
from services.sandbox.kinds import Kind
from services.sandbox.selectors import both, field_predicate, label_predicate
from services.sandbox.served import ServedApis
from services.sandbox.watching import Scope
from services.sandbox.writes import WriteOptions

_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_TRUE = frozenset({"1", "true", "True"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The resource that a path names."""

    kind: Kind
    version: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> str:
        """`pods` or `pods/binding`, for counts and logs."""
        return f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural


def target_of(parts: Sequence[str], served: ServedApis) -> Target | None:
    """The resource behind a split path, None where nothing is served there."""
    match list(parts):
        case ["api", version, first, *more]:
            group, rest = "", [first, *more]
        case ["apis", group, version, first, *more]:
            rest = [first, *more]
        case _:
            return None
    namespace = ""
    match rest:
        case ["namespaces", _, subresource] if subresource in _NAMESPACE_SUBRESOURCES:
            pass
        case ["namespaces", in_namespace, first, *more]:
            namespace, rest = in_namespace, [first, *more]
    if not group and rest == ["bindings"] and namespace:
        # The old way to bind: the pod is named in the body.
        rest = ["pods", "", "binding"]
    if len(rest) > len(("plural", "name", "subresource")):
        return None
    kind = served.resolve(group=group, version=version, plural=rest[0])
    name, subresource = [*rest[1:], "", ""][:2]
    if kind is None or not _fits(kind, namespace=namespace, name=name, subresource=subresource):
        return None
    return Target(kind=kind, version=version, namespace=namespace, name=name, subresource=subresource)


def _fits(kind: Kind, *, namespace: str, name: str, subresource: str) -> bool:
    if namespace and not kind.is_namespaced:
        return False
    if name and kind.is_namespaced and not namespace:
        return False
    return (
        not subresource
        or subresource in kind.subresources
        or (subresource == "status" and kind.has_status)
        or (subresource == "scale" and kind.has_scale)
    )


def scope_of(target: Target, query: Mapping[str, str]) -> Scope:
    """The objects that a list, watch or deletecollection covers."""
    fields = query.get("fieldSelector", "")
    if target.name:
        fields = f"metadata.name={target.name}"
    predicate = both(
        label_predicate(query.get("labelSelector", "")),
        field_predicate(fields, allowed=target.kind.fields),
    )
    return Scope(kind=target.kind, version=target.version, namespace=target.namespace, predicate=predicate)


def write_options(query: Mapping[str, str]) -> WriteOptions:
    """Dry run and field validation of a write; raises 400 for values that the API does not know."""
    dry_run = query.get("dryRun", "")
    if dry_run not in {"", "All"}:
        cause = unsupported("dryRun", value=[dry_run], supported=("All",))
        raise invalid("CreateOptions", group="meta.k8s.io", name="", causes=(cause,))
    return WriteOptions(is_dry_run=dry_run == "All", is_strict=query.get("fieldValidation") == "Strict")


def revision_of(query: Mapping[str, str]) -> int:
    """The `resourceVersion` parameter, 0 where it is absent; the API answers 500 where it is no number."""
    text = query.get("resourceVersion", "")
    if text and not text.isdecimal():
        raise unhandled(
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text or 0)


def flag(query: Mapping[str, str], name: str) -> bool:
    """A boolean query parameter."""
    return query.get(name, "") in _TRUE


def number(query: Mapping[str, str], name: str, *, default: int = 0) -> int:
    """A whole, non-negative query parameter; raises 400 where it is something else."""
    text = query.get(name, "")
    if not text:
        return default
    if not text.isdecimal():
        raise bad_request(f"{name}: expected a whole number of at least 0, got {text!r}")
    return int(text)
