"""What a request asks for in the words of RBAC, so that an error names the permission that is missing."""

from collections.abc import Mapping
from dataclasses import dataclass

_WRITES = {"POST": "create", "PUT": "update", "PATCH": "patch"}
# Parts of a namespace object itself; anything else below a namespace is a namespaced resource.
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Verb and resource of one request."""

    verb: str
    path: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def qualified_resource(self) -> str:
        """`resource.group`, as `kubectl auth can-i` takes it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


def target_of(method: str, path: str, *, query: Mapping[str, str]) -> Target:
    """Read verb, group, resource (with subresource), namespace and name off a request path."""
    group, parts = _split_group(path)
    namespace = ""
    match parts:
        case ["namespaces", named, rest, *_] if rest not in _NAMESPACE_SUBRESOURCES:
            namespace, parts = named, parts[2:]
    resource = parts[0] if parts else ""
    name = parts[1] if len(parts) > 1 else ""
    if len(parts) > 2:  # noqa: PLR2004 - resource, name, subresource
        resource = f"{resource}/{'/'.join(parts[2:])}"
    verb = _verb(method, named=bool(name), watching=query.get("watch") == "true", in_resource=bool(resource))
    return Target(verb=verb, path=path, group=group, resource=resource, namespace=namespace, name=name)


def _split_group(path: str) -> tuple[str, list[str]]:
    """API group and the parts after the version; paths outside the resource tree have no parts."""
    match path.strip("/").split("/"):
        case ["api", _, *parts]:
            return "", parts
        case ["apis", group, _, *parts]:
            return group, parts
    return "", []


def _verb(method: str, *, named: bool, watching: bool, in_resource: bool) -> str:
    if not in_resource:
        return method.lower()
    if method in {"GET", "HEAD"}:
        return "watch" if watching else "get" if named else "list"
    if method == "DELETE":
        return "delete" if named else "deletecollection"
    return _WRITES.get(method, method.lower())
