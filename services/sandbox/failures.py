"""Refusals as the API server words them: HTTP code, reason, message and details of a Status object.

Clients branch on `reason` and read `details.causes`, so both are part of the contract, not decoration.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.sandbox.objects import Obj


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One field that a validation refused."""

    reason: str
    message: str
    field: str


class ApiError(Exception):
    """A request that ends in a Status with `status: Failure`."""

    def __init__(self, code: int, *, reason: str, message: str, details: Obj | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def status(self) -> Obj:
        """The Status object that the client receives."""
        body: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def qualified(resource: str, *, group: str) -> str:
    """`podgroups.scheduling.k8s.io`, or the bare resource in the core group."""
    return f"{resource}.{group}" if group else resource


def _details(resource: str, *, group: str, name: str) -> Obj:
    found = {"name": name, "group": group, "kind": resource}
    return {field: value for field, value in found.items() if value}


def not_found(resource: str, *, group: str = "", name: str) -> ApiError:
    """404: no such object."""
    message = f'{qualified(resource, group=group)} "{name}" not found'
    return ApiError(404, reason="NotFound", message=message, details=_details(resource, group=group, name=name))


def already_exists(resource: str, *, group: str = "", name: str) -> ApiError:
    """409: the name is taken."""
    message = f'{qualified(resource, group=group)} "{name}" already exists'
    details = _details(resource, group=group, name=name)
    return ApiError(409, reason="AlreadyExists", message=message, details=details)


def conflict(resource: str, *, group: str = "", name: str, why: str) -> ApiError:
    """409: the object is not in the state that the request rests on."""
    message = f'Operation cannot be fulfilled on {qualified(resource, group=group)} "{name}": {why}'
    return ApiError(409, reason="Conflict", message=message, details=_details(resource, group=group, name=name))


def modified(resource: str, *, group: str = "", name: str) -> ApiError:
    """409: the resourceVersion sent is not the current one."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, group=group, name=name, why=why)


def forbidden(resource: str, *, group: str = "", name: str, why: str, causes: Sequence[Cause] = ()) -> ApiError:
    """403: admission refused the request."""
    message = f'{qualified(resource, group=group)} "{name}" is forbidden: {why}'
    details = _details(resource, group=group, name=name)
    if causes:
        details["causes"] = [_cause(cause) for cause in causes]
    return ApiError(403, reason="Forbidden", message=message, details=details)


def bad_request(message: str) -> ApiError:
    """400: the request cannot be understood."""
    return ApiError(400, reason="BadRequest", message=message)


def unhandled(message: str) -> ApiError:
    """500 without a reason: what the API server answers where it forgot to classify an error."""
    return ApiError(500, reason="", message=message)


def expired(message: str) -> ApiError:
    """410: the resourceVersion or continue token is older than the kept history."""
    return ApiError(410, reason="Expired", message=message)


def method_not_allowed() -> ApiError:
    """405: the resource does not serve this verb."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, reason="MethodNotAllowed", message=message, details={})


def unsupported_media_type() -> ApiError:
    """415: the body is in a format that is not read here."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml"
    )
    return ApiError(415, reason="UnsupportedMediaType", message=message, details={})


def _cause(cause: Cause) -> Obj:
    return {"reason": cause.reason, "message": cause.message, "field": cause.field}


def invalid(kind: str, *, group: str = "", name: str, causes: Sequence[Cause]) -> ApiError:
    """422: fields are wrong; every cause is listed."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = _details(kind, group=group, name=name)
    details["causes"] = [_cause(cause) for cause in causes]
    message = f'{qualified(kind, group=group)} "{name}" is invalid: {listed}'
    return ApiError(422, reason="Invalid", message=message, details=details)


def _joined(head: str, *, detail: str) -> str:
    return f"{head}: {detail}" if detail else head


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def required(field: str, *, detail: str = "") -> Cause:
    """The field must be given."""
    return Cause(reason="FieldValueRequired", message=_joined("Required value", detail=detail), field=field)


def invalid_value(field: str, *, value: Any, detail: str) -> Cause:
    """The value breaks a rule."""
    message = f"Invalid value: {_shown(value)}: {detail}"
    return Cause(reason="FieldValueInvalid", message=message, field=field)


def immutable(field: str, *, value: Any) -> Cause:
    """The value may not change once set."""
    return invalid_value(field, value=value, detail="field is immutable")


def forbidden_field(field: str, *, detail: str) -> Cause:
    """The field may not be set in this state."""
    return Cause(reason="FieldValueForbidden", message=_joined("Forbidden", detail=detail), field=field)


def duplicate(field: str, *, value: Any) -> Cause:
    """The value must be unique among its siblings."""
    return Cause(reason="FieldValueDuplicate", message=f"Duplicate value: {_shown(value)}", field=field)


def unsupported(field: str, *, value: Any, supported: Sequence[str]) -> Cause:
    """The value is not one of a closed set."""
    listed = ", ".join(_shown(option) for option in supported)
    message = f"Unsupported value: {_shown(value)}: supported values: {listed}"
    return Cause(reason="FieldValueNotSupported", message=message, field=field)


def too_many(field: str, *, count: int, limit: int) -> Cause:
    """The list is longer than allowed."""
    message = f"Too many: {count}: must have at most {limit} items"
    return Cause(reason="FieldValueTooMany", message=message, field=field)


def too_long(field: str, *, limit: int) -> Cause:
    """The text is longer than allowed."""
    message = f"Too long: may not be more than {limit} bytes"
    return Cause(reason="FieldValueTooLong", message=message, field=field)
