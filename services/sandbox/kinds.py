"""What one served kind is: its names, versions, subresources and the hooks that make it more than JSON.

The table itself is `services.sandbox.table`; serving another kind is one more row there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from services.sandbox.failures import Cause
from services.sandbox.objects import Obj
from services.sandbox.selectors import METADATA_FIELDS
from services.sandbox.validation.schemas import PLAIN, Fields

Default: TypeAlias = Callable[[Obj, Obj | None], None]
"""Fills defaults into a new version before it is stored, in place; the old version is None at creation."""

Stamp: TypeAlias = Callable[[Obj, Obj | None, str], None]
"""Like `Default`, with the current time."""

Validate: TypeAlias = Callable[[Obj, Obj | None], Sequence[Cause]]
"""The fields that are wrong in a new version; the old version is None at creation."""


def keep(_new: Obj, _old: Obj | None) -> None:
    """No defaults."""


def accept(_new: Obj, _old: Obj | None) -> Sequence[Cause]:
    """No rules."""
    return ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    """One row of the table of kinds; compared by identity, so that it is a cheap dictionary key."""

    kind: str
    plural: str
    group: str = ""
    #: Served versions, preferred first; they share one schema and one storage.
    versions: tuple[str, ...] = ("v1",)
    is_namespaced: bool = True
    has_status: bool = True
    has_scale: bool = False
    #: Further subresources beside status and scale, for discovery.
    subresources: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    #: Field selectors beyond metadata.name and metadata.namespace.
    selectable: frozenset[str] = frozenset()
    #: Whether `metadata.generation` counts changes of the spec.
    has_generation: bool = False
    #: Whether an update without resourceVersion overwrites; else it is refused.
    allows_blind_update: bool = True
    #: Whether a write to /status may change labels and annotations (as for pods and nodes).
    status_keeps_metadata: bool = True
    #: Whether a client may set status at creation.
    accepts_initial_status: bool = False
    #: Whether names may contain dots (DNS subdomain) or not (DNS label).
    names_are_labels: bool = False
    #: Whether DELETE answers with the object even when it is gone at once.
    returns_deleted: bool = False
    #: What a deletion without propagationPolicy does to dependents.
    default_propagation: str = ""
    schema: Fields = field(default_factory=lambda: PLAIN)
    #: Whether the schema names every field, so that unknown ones are dropped as the API server drops them.
    has_whole_schema: bool = False
    default: Default = field(default=keep)
    default_status: Default = field(default=keep)
    #: Fills in times; apart from `default`, which has no clock.
    stamp: Stamp | None = None
    validate: Validate = field(default=accept)
    validate_status: Validate = field(default=accept)

    @property
    def singular(self) -> str:
        """The lower-case kind, as discovery names it."""
        return self.kind.lower()

    @cached_property
    def fields(self) -> frozenset[str]:
        """Every field that a selector may name."""
        return METADATA_FIELDS | self.selectable

    def api_version(self, version: str) -> str:
        """`group/version`, or the bare version in the core group."""
        return f"{self.group}/{version}" if self.group else version

    @cached_property
    def heads(self) -> Mapping[str, bytes]:
        """The opening of an encoded object by version: kind and apiVersion, which stored bytes leave out."""
        return {
            version: f'{{"kind":"{self.kind}","apiVersion":"{self.api_version(version)}",'.encode()
            for version in self.versions
        }
