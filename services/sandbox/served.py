"""Which API groups and versions are served at the moment, and what discovery says about them.

Optional APIs come and go in real clusters (gates, runtime-config, upgrades), so they can be switched at run time.
Objects of a kind that is not served stay stored, as in etcd.
"""

from collections.abc import Mapping, Sequence

from services.sandbox.kinds import Kind
from services.sandbox.objects import Obj

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_CORE = "v1"


class ServedApis:
    """The switchboard of group versions over the table of kinds."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = tuple(kinds)
        self._known: dict[str, tuple[str, ...]] = {}
        for kind in kinds:
            known = self._known.get(kind.group, ())
            self._known[kind.group] = known + tuple(v for v in kind.versions if v not in known)
        self._served = {group: frozenset(versions) for group, versions in self._known.items()}
        self._routes = {(kind.group, kind.plural): kind for kind in kinds}

    def serve(self, group: str, *, versions: Sequence[str]) -> None:
        """Serve exactly these versions of a group from now on; raises ValueError for unknown ones."""
        known = self._known.get(group)
        if known is None:
            listed = ", ".join(sorted(name for name in self._known if name))
            raise ValueError(f"API group {group!r} is not in the sandbox; expected one of {listed}")
        if strange := sorted(set(versions) - set(known)):
            raise ValueError(f"API group {group}: versions {strange} are not in the sandbox; expected some of {known}")
        self._served[group] = frozenset(versions)

    def serve_all(self) -> None:
        """Serve every version of the table again."""
        self._served = {group: frozenset(versions) for group, versions in self._known.items()}

    def current(self) -> Mapping[str, Sequence[str]]:
        """The served versions by group, preferred first."""
        return {group: self.versions(group) for group in self._known}

    def versions(self, group: str) -> tuple[str, ...]:
        """The served versions of one group, preferred first; empty where it is not served."""
        return tuple(v for v in self._known.get(group, ()) if v in self._served[group])

    def is_served(self, kind: Kind) -> bool:
        """Whether any version of the kind is served."""
        return any(version in self._served[kind.group] for version in kind.versions)

    def resolve(self, *, group: str, version: str, plural: str) -> Kind | None:
        """The kind behind a resource path, None where the path is not served."""
        kind = self._routes.get((group, plural))
        if kind is None or version not in kind.versions or version not in self._served[group]:
            return None
        return kind

    def _group_entry(self, group: str) -> Obj:
        versions = [{"groupVersion": f"{group}/{v}", "version": v} for v in self.versions(group)]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def discovery(self, parts: Sequence[str]) -> Obj | None:
        """The answer to a discovery path (`api`, `apis`, …), None where it is not served."""
        match list(parts):
            case ["api"]:
                address = {"clientCIDR": "0.0.0.0/0", "serverAddress": ""}
                return {"kind": "APIVersions", "versions": [_CORE], "serverAddressByClientCIDRs": [address]}
            case ["api", version]:
                return self._resources("", version)
            case ["apis"]:
                groups = [self._group_entry(group) for group in self._known if group and self.versions(group)]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ["apis", group] if group and self.versions(group):
                return {"kind": "APIGroup", "apiVersion": "v1", **self._group_entry(group)}
            case ["apis", group, version] if group:
                return self._resources(group, version)
        return None

    def _resources(self, group: str, version: str) -> Obj | None:
        if version not in self._served.get(group, ()):
            return None
        resources: list[Obj] = []
        for kind in self._kinds:
            if kind.group == group and version in kind.versions:
                resources.extend(_entries(kind))
        if not group:
            resources.append(_entry("bindings", "Binding", namespaced=True, verbs=["create"]))
        named = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": named, "resources": resources}


def _entry(name: str, kind: str, *, namespaced: bool, verbs: Sequence[str], **extra: object) -> Obj:
    return {"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": list(verbs), **extra}


def _entries(kind: Kind) -> list[Obj]:
    main = _entry(kind.plural, kind.kind, namespaced=kind.is_namespaced, verbs=_VERBS)
    main["singularName"] = kind.singular
    if kind.short_names:
        main["shortNames"] = list(kind.short_names)
    if kind.categories:
        main["categories"] = list(kind.categories)
    found = [main]
    changing = ["get", "patch", "update"]
    if kind.has_status:
        found.append(_entry(f"{kind.plural}/status", kind.kind, namespaced=kind.is_namespaced, verbs=changing))
    if kind.has_scale:
        scale = {"group": "autoscaling", "version": "v1"}
        found.append(_entry(f"{kind.plural}/scale", "Scale", namespaced=kind.is_namespaced, verbs=changing, **scale))
    special = {
        "binding": ("Binding", ["create"], {}),
        "eviction": ("Eviction", ["create"], {"group": "policy", "version": "v1"}),
        "finalize": (kind.kind, ["update"], {}),
    }
    for name in kind.subresources:
        shown, verbs, extra = special[name]
        path = f"{kind.plural}/{name}"
        found.append(_entry(path, shown, namespaced=kind.is_namespaced, verbs=verbs, **extra))
    return found
