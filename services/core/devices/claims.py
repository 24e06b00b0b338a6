"""ResourceClaims, templates, classes and rules as they are known, and which claims pods mean.

What cannot be read is kept with its reason, for the gangs that need it. A claim whose status cannot be read still holds
the devices that it names: unknown is never free.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from services.core.devices.reading import decoded
from services.core.devices.reading_claims import (
    Claim,
    TaintRule,
    read_claim,
    read_class,
    read_rule,
    read_template,
)
from services.core.devices.values import ClaimSpec, DeviceClassSpec, Unreadable, Use
from services.core.manifests import FieldError
from services.core.objects import DeviceObject, Kind, Metadata
from services.core.pod_devices import PodClaim
from services.core.reasons import Reason, ReasonCode

POD_CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
EXTENDED_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"

ClaimName = tuple[str, str]
"""Namespace and name."""
OwnKey = tuple[str, str]
"""Uid of a pod, and the entry of its spec.resourceClaims; no entry for the claim of its extended resources."""


@dataclass(slots=True, kw_only=True)
class ClaimBooks:
    """Everything but slices. `owned` finds the claim that was made for an entry of a pod."""

    claims: dict[ClaimName, Claim | Unreadable] = field(default_factory=dict)
    templates: dict[ClaimName, ClaimSpec | Unreadable] = field(default_factory=dict)
    classes: dict[str, DeviceClassSpec | Unreadable] = field(default_factory=dict)
    rules: dict[str, TaintRule] = field(default_factory=dict)
    owned: dict[OwnKey, ClaimName] = field(default_factory=dict)
    groups: dict[ClaimName, tuple[PodClaim, ...]] = field(default_factory=dict)
    #: Class by the extended resource that it stands for: the newest where several name the same.
    extended: dict[str, str] = field(default_factory=dict)
    #: Another object whenever a class changes: what was made of classes before is made anew.
    edition: object = field(default_factory=object)
    _ages: dict[str, datetime] = field(default_factory=dict)

    def copy(self) -> "ClaimBooks":
        """Return books that can be changed without changing these."""
        return ClaimBooks(
            claims=dict(self.claims),
            templates=dict(self.templates),
            classes=dict(self.classes),
            rules=dict(self.rules),
            owned=dict(self.owned),
            groups=dict(self.groups),
            extended=dict(self.extended),
            edition=self.edition,
            _ages=dict(self._ages),
        )

    def put(self, item: DeviceObject) -> None:
        """Add or replace a claim, template, class or rule."""
        metadata = item.metadata
        name = (metadata.namespace, metadata.name)
        match item.kind:
            case Kind.RESOURCE_CLAIM:
                self._put_claim(item, name=name)
            case Kind.RESOURCE_CLAIM_TEMPLATE:
                try:
                    self.templates[name] = read_template(item)
                except FieldError as error:
                    self.templates[name] = _unreadable("ResourceClaimTemplate", metadata, error)
            case Kind.DEVICE_CLASS:
                try:
                    self.classes[metadata.name] = read_class(item)
                except FieldError as error:
                    self.classes[metadata.name] = _unreadable("DeviceClass", metadata, error)
                self._ages[metadata.name] = metadata.created_at
                self._map_extended()
            case _:
                self._put_rule(item)

    def remove(self, kind: Kind, metadata: Metadata) -> None:
        """Take an object out."""
        name = (metadata.namespace, metadata.name)
        match kind:
            case Kind.RESOURCE_CLAIM:
                self.claims.pop(name, None)
                key = own_key(metadata)
                if key is not None and self.owned.get(key) == name:
                    del self.owned[key]
            case Kind.RESOURCE_CLAIM_TEMPLATE:
                self.templates.pop(name, None)
            case Kind.DEVICE_CLASS:
                self.classes.pop(metadata.name, None)
                self._ages.pop(metadata.name, None)
                self._map_extended()
            case _:
                self.rules.pop(metadata.name, None)

    def expressions_of(self, kind: Kind, metadata: Metadata) -> Iterator[str]:
        """Yield the selectors that one claim, template or class names; none where it is not known.

        Of one, because it is asked at each change: going through all of them would make n claims cost n² looks.
        """
        name = (metadata.namespace, metadata.name)
        known: object = None
        match kind:
            case Kind.RESOURCE_CLAIM:
                known = self.claims.get(name)
            case Kind.RESOURCE_CLAIM_TEMPLATE:
                known = self.templates.get(name)
            case Kind.DEVICE_CLASS:
                known = self.classes.get(metadata.name)
        if isinstance(known, DeviceClassSpec):
            yield from known.selectors
        elif isinstance(known, Claim):
            yield from expressions_of(known.spec)
        elif isinstance(known, ClaimSpec):
            yield from expressions_of(known)

    def class_for(self, resource: str) -> str:
        """Return the DeviceClass that an extended resource stands for, empty where there is none (KEP-5004)."""
        if resource.startswith(IMPLICIT_PREFIX):
            name = resource.removeprefix(IMPLICIT_PREFIX)
            return name if name in self.classes else ""
        return self.extended.get(resource, "")

    def _put_claim(self, item: DeviceObject, *, name: ClaimName) -> None:
        try:
            self.claims[name] = read_claim(item)
        except FieldError as error:
            self.claims[name] = _unreadable("ResourceClaim", item.metadata, error)
        key = own_key(item.metadata)
        if key is not None:
            self.owned[key] = name

    def _put_rule(self, item: DeviceObject) -> None:
        try:
            self.rules[item.metadata.name] = read_rule(item)
        except FieldError:
            # The API server admits no such rule; which devices it means cannot be told.
            self.rules.pop(item.metadata.name, None)

    def _map_extended(self) -> None:
        self.edition = object()
        # The newest class of those that name the same resource; of equally old ones the first by name.
        by_name = sorted(self.classes, reverse=True)
        self.extended = {
            known.extended_resource: name
            for name in sorted(by_name, key=lambda name: self._ages[name])
            if isinstance(known := self.classes[name], DeviceClassSpec) and known.extended_resource
        }


def expressions_of(spec: ClaimSpec) -> Iterator[str]:
    """Yield the selectors of a claim's requests."""
    for request in spec.requests:
        for ask in request.alternatives:
            yield from ask.selectors


def own_key(metadata: Metadata) -> OwnKey | None:
    """Return whose own claim it is, None for one that stands by itself."""
    owner = next((one for one in metadata.owners if one.kind == "Pod" and one.is_controller), None)
    if owner is None:
        return None
    if metadata.annotations.get(EXTENDED_ANNOTATION) == "true":
        return owner.uid, ""
    entry = metadata.annotations.get(POD_CLAIM_ANNOTATION, "")
    return (owner.uid, entry) if entry else None


def salvaged_uses(item: DeviceObject) -> tuple[Use, ...]:
    """Return the devices that a claim names whose status cannot be read: they count as taken whole."""
    try:
        status: Mapping[str, object] = decoded(item.status_json, at="status")
    except FieldError:
        return ()
    allocation = status.get("allocation")
    devices = allocation.get("devices") if isinstance(allocation, dict) else None
    results = devices.get("results") if isinstance(devices, dict) else None
    found = []
    for result in results if isinstance(results, list) else ():
        if isinstance(result, dict) and result.get("adminAccess") is not True:
            driver, pool, device = (str(result.get(key, "")) for key in ("driver", "pool", "device"))
            found.append(Use(device=(driver, pool, device)))
    return tuple(found)


def _unreadable(kind: str, metadata: Metadata, error: FieldError) -> Unreadable:
    name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
    message = f"{kind} {name} cannot be read: {error}"
    return Unreadable(reason=Reason(code=ReasonCode.UNREADABLE_FIELD, message=message, count=1, subject=name))
