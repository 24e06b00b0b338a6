"""Creating, updating and patching objects with the rules that hold for every kind.

Controllers call these functions directly, HTTP requests through `handler`; so both obey the same rules. Nothing
awaits, so what a function has checked still holds when it stores.
"""

import secrets
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

from services.runtime.clock import Clock
from services.sandbox import patching, table
from services.sandbox.admission import Admission
from services.sandbox.failures import (
    ApiError,
    Cause,
    already_exists,
    bad_request,
    conflict,
    forbidden_field,
    immutable,
    invalid,
    invalid_value,
    modified,
    not_found,
    required,
)
from services.sandbox.kinds import Kind
from services.sandbox.objects import Obj, is_deleting, metadata, name_of, spec, timestamp
from services.sandbox.store import Store
from services.sandbox.validation import fields, shape, workloads
from services.sandbox.watching import Stored

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_GENERATED_BASE_LIMIT = 63 - _SUFFIX_LENGTH
_GENERATE_ATTEMPTS = 8

_SYSTEM_METADATA = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "generateName",
)
"""Fields of the stored metadata that no update changes, whatever the client sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Query parameters that every write understands."""

    is_dry_run: bool = False
    #: Whether unknown fields of kinds with a schema are refused instead of dropped.
    is_strict: bool = False


DEFAULT_OPTIONS = WriteOptions()


def random_suffix() -> str:
    """Five characters, as Kubernetes appends them to generated names."""
    return "".join(secrets.choice(_SUFFIX_ALPHABET) for _ in range(_SUFFIX_LENGTH))


def precondition_failed(old: Stored, *, what: str, given: str, found: str) -> ApiError:
    """409 in the words of the storage layer, for a uid or resourceVersion that is not the stored one."""
    key = f"/registry/{old.kind.plural}/{old.key}"
    why = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition "
        f"failed: {what} in precondition: {given}, {what} in object meta: {found}"
    )
    return conflict(old.kind.plural, group=old.kind.group, name=name_of(old.obj), why=why)


def _metadata_causes(kind: Kind, meta: Obj) -> Iterator[Cause]:
    name = meta.get("name") or ""
    if not name:
        yield required("metadata.name", detail="name or generateName is required")
    elif kind.names_are_labels:
        yield from fields.dns_label("metadata.name", value=name)
    else:
        yield from fields.dns_subdomain("metadata.name", value=name)
    for index, owner in enumerate(meta.get("ownerReferences") or ()):
        names = ("apiVersion", "kind", "name", "uid")
        yield from fields.present(f"metadata.ownerReferences[{index}]", holder=owner, names=names)
    if meta.get("labels"):
        yield from fields.labels("metadata.labels", found=meta["labels"])
    if meta.get("annotations"):
        yield from fields.annotations("metadata.annotations", found=meta["annotations"])


@dataclass(slots=True)
class Writer:
    """Create, update and patch over one store."""

    store: Store
    admission: Admission
    clock: Clock
    _stamp: tuple[int, str] = field(default=(0, ""))

    def now(self) -> str:
        """The current time as Kubernetes writes it; formatted once per second, since every creation asks."""
        moment = self.clock.now()
        second = int(moment.timestamp())
        if second != self._stamp[0]:
            self._stamp = (second, timestamp(moment))
        return self._stamp[1]

    def require(self, kind: Kind, *, namespace: str, name: str) -> Stored:
        """The stored object; raises 404 where there is none."""
        stored = self.store.get(kind, namespace=namespace, name=name)
        if stored is None:
            raise not_found(kind.plural, group=kind.group, name=name)
        return stored

    def decoded(self, kind: Kind, version: str, obj: Obj, *, options: WriteOptions) -> Obj:
        """The object as the API server would decode it; raises 400 where it is another kind or of wrong types."""
        expected = kind.api_version(version)
        given_version, given_kind = obj.get("apiVersion") or expected, obj.get("kind") or kind.kind
        if given_version != expected:
            raise bad_request(
                f"the API version in the data ({given_version}) does not match the expected API version ({expected})"
            )
        prefix = f'{given_kind} in version "{version}" cannot be handled as a {kind.kind}'
        if given_kind != kind.kind:
            raise bad_request(f"{prefix}: expected kind {kind.kind}, got {given_kind}")
        try:
            decoded = shape.decode(obj, kind.schema, is_complete=kind.has_whole_schema, is_strict=options.is_strict)
        except ApiError as error:
            raise bad_request(f"{prefix}: {error.message}") from error
        for part in ("metadata", "spec", "status"):
            if part in decoded:
                # Empty lists are the same as nothing.
                decoded[part] = {name: value for name, value in decoded[part].items() if value != []}
        return decoded

    def create(
        self, kind: Kind, obj: Obj, *, namespace: str = "", version: str = "", options: WriteOptions = DEFAULT_OPTIONS
    ) -> Stored:
        """Store a new object (the caller gives `obj` away); raises ApiError where it is refused."""
        obj = self.decoded(kind, version or kind.versions[0], obj, options=options)
        meta = obj["metadata"] = dict(metadata(obj))
        self._place(kind, meta, namespace=namespace)
        self._name(kind, meta)
        meta.pop("deletionTimestamp", None)
        meta.pop("deletionGracePeriodSeconds", None)
        if meta.pop("resourceVersion", None):
            raise ApiError(500, reason="", message="resourceVersion should not be set on objects to be created")
        meta["uid"] = str(uuid.uuid4())
        meta["creationTimestamp"] = self.now()
        if kind.has_generation:
            meta["generation"] = 1
        if kind.has_status and not kind.accepts_initial_status:
            obj["status"] = {}
        kind.default(obj, None)
        if kind.stamp is not None:
            kind.stamp(obj, None, self.now())
        self.admission.mutate(kind, obj)
        causes = [*_metadata_causes(kind, meta), *kind.validate(obj, None)]
        if causes:
            raise invalid(kind.kind, group=kind.group, name=meta.get("name") or "", causes=causes)
        if kind is table.JOB:
            workloads.label_job(obj)
        self.admission.validate(kind, obj)
        if self.store.get(kind, namespace=meta.get("namespace", ""), name=meta["name"]):
            raise already_exists(kind.plural, group=kind.group, name=meta["name"])
        return self.unstored(kind, obj) if options.is_dry_run else self.store.insert(kind, obj)

    @staticmethod
    def _place(kind: Kind, meta: Obj, *, namespace: str) -> None:
        given = meta.get("namespace")
        if not kind.is_namespaced:
            meta.pop("namespace", None)
        elif given and given != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        else:
            meta["namespace"] = namespace

    def _name(self, kind: Kind, meta: Obj) -> None:
        base = meta.get("generateName")
        if meta.get("name") or not base:
            return
        for _ in range(_GENERATE_ATTEMPTS):
            meta["name"] = base[:_GENERATED_BASE_LIMIT] + random_suffix()
            if not self.store.get(kind, namespace=meta.get("namespace", ""), name=meta["name"]):
                return

    @staticmethod
    def unstored(kind: Kind, obj: Obj) -> Stored:
        """The answer to a dry run: encoded like a stored object, but with no revision of its own."""
        bare = {name: value for name, value in obj.items() if name not in {"kind", "apiVersion"}}
        return Stored(kind, "", bare, orjson.dumps(bare), 0)

    def update(
        self,
        old: Stored,
        obj: Obj,
        *,
        version: str = "",
        subresource: str = "",
        is_patch: bool = False,
        options: WriteOptions = DEFAULT_OPTIONS,
    ) -> Stored:
        """Store the next version of an object; raises ApiError where preconditions or rules refuse it."""
        kind = old.kind
        obj = self.decoded(kind, version or kind.versions[0], obj, options=options)
        self._check_identity(old, metadata(obj), is_patch=is_patch)
        new = self._next(old, obj, subresource=subresource)
        if subresource == "status":
            kind.default_status(new, old.obj)
            causes = list(kind.validate_status(new, old.obj))
        else:
            kind.default(new, old.obj)
            if kind.stamp is not None:
                kind.stamp(new, old.obj, self.now())
            causes = [*_metadata_causes(kind, new["metadata"]), *self._finalizer_causes(new, old.obj)]
            causes.extend(kind.validate(new, old.obj))
        if causes:
            raise invalid(kind.kind, group=kind.group, name=name_of(old.obj), causes=causes)
        return self.commit(old, new, options=options)

    def patch(
        self,
        old: Stored,
        body: bytes,
        *,
        content_type: str,
        version: str = "",
        subresource: str = "",
        options: WriteOptions = DEFAULT_OPTIONS,
    ) -> Stored:
        """Apply a patch document to the stored object and store the result."""
        version = version or old.kind.versions[0]
        patched = patching.apply(old.full(version), body, content_type=content_type)
        return self.update(old, patched, version=version, subresource=subresource, is_patch=True, options=options)

    def _check_identity(self, old: Stored, meta: Obj, *, is_patch: bool) -> None:
        kind, known = old.kind, metadata(old.obj)
        name, namespace = meta.get("name"), meta.get("namespace")
        if name != known["name"] and (name or not is_patch):
            raise bad_request(
                f"the name of the object ({name or ''}) does not match the name on the URL ({known['name']})"
            )
        if kind.is_namespaced and namespace and namespace != known["namespace"]:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        uid = meta.get("uid")
        if uid and uid != known["uid"] and not is_patch:
            raise precondition_failed(old, what="UID", given=uid, found=known["uid"])
        given = meta.get("resourceVersion")
        if given in {None, "", "0"}:
            if not (kind.allows_blind_update or is_patch):
                cause = invalid_value("metadata.resourceVersion", value=0, detail="must be specified for an update")
                # The API server names the resource, not the kind, in this one.
                raise invalid(kind.plural, group=kind.group, name=known["name"], causes=(cause,))
        elif given != known["resourceVersion"]:
            raise modified(kind.plural, group=kind.group, name=known["name"])
        if uid and uid != known["uid"]:
            # A patch finds it out last, when the whole object is validated.
            cause = immutable("metadata.uid", value=uid)
            raise invalid(kind.kind, group=kind.group, name=known["name"], causes=(cause,))

    @staticmethod
    def _next(old: Stored, obj: Obj, *, subresource: str) -> Obj:
        kind, known = old.kind, metadata(old.obj)
        sent = metadata(obj)
        if subresource == "status":
            kept = ("labels", "annotations") if kind.status_keeps_metadata else ()
            meta = {name: value for name, value in known.items() if name not in kept}
            meta.update({name: sent[name] for name in kept if sent.get(name)})
            return {**old.obj, "metadata": meta, "status": dict(obj.get("status") or {})}
        system = _SYSTEM_METADATA
        meta = {name: value for name, value in sent.items() if name not in system and value not in (None, {}, [])}
        meta.update({name: known[name] for name in system if name in known})
        new = {name: value for name, value in obj.items() if name not in {"kind", "apiVersion"}}
        new["metadata"] = meta
        if kind.has_status:
            new["status"] = old.obj.get("status", {})
        return new

    @staticmethod
    def _finalizer_causes(new: Obj, old: Obj) -> Iterator[Cause]:
        before = metadata(old).get("finalizers") or ()
        added = [name for name in metadata(new).get("finalizers") or () if name not in before]
        if is_deleting(old) and added:
            listed = ", ".join(f'"{name}"' for name in added)
            detail = (
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{listed}}}"
            )
            yield forbidden_field("metadata.finalizers", detail=detail)

    def commit(
        self,
        old: Stored,
        new: Obj,
        *,
        options: WriteOptions = DEFAULT_OPTIONS,
        counts_generation: bool = True,
    ) -> Stored:
        """Store a version that has passed all rules; a version equal to the stored one changes nothing.

        An object that was only kept by finalizers or its grace period is removed once neither holds it.
        """
        if new == old.obj:
            return old
        if old.kind.has_generation and counts_generation and spec(new) != spec(old.obj):
            new["metadata"] = {**new["metadata"], "generation": metadata(old.obj).get("generation", 0) + 1}
        if options.is_dry_run:
            return self.unstored(old.kind, new)
        if self.is_released(old.kind, new):
            return self.store.remove(old, last=new)
        return self.store.replace(old, new)

    @staticmethod
    def is_released(kind: Kind, obj: Obj) -> bool:
        """Whether a deletion was requested and nothing holds the object any more."""
        meta = metadata(obj)
        held = meta.get("finalizers") or meta.get("deletionGracePeriodSeconds")
        if kind is table.NAMESPACE and spec(obj).get("finalizers"):
            return False
        return bool(meta.get("deletionTimestamp")) and not held
