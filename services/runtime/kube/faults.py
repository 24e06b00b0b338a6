"""What can go wrong with an API request, told apart by what the caller does about it.

`KubeError` is an answer: the server was asked and said no. `KubeUnavailable` is no answer: the request may or may not
have had its effect. `Gone` is an answer that means "list again".
"""

from collections.abc import Mapping
from typing import Any

import orjson

from services.runtime.kube.targets import Target

_CUT = 600
GONE_STATUS = 410
FORBIDDEN_STATUS = 403


class KubeFault(Exception):
    """Any failure of talking to the Kubernetes API."""


class KubeConfigError(KubeFault):
    """No usable credentials: the message says which were tried and how to give some."""


class KubeUnavailable(KubeFault):
    """No definite answer: connection refused, cut or timed out. A write may have happened all the same."""


class KubeError(KubeFault):
    """The server refused. `reason` is its machine-readable word (`NotFound`, `Conflict`, `AlreadyExists`, …)."""

    def __init__(
        self,
        *,
        status: int,
        reason: str,
        message: str,
        target: Target,
        retry_after_s: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s
        self.details = details or {}
        self.path = target.path
        self.verb = target.verb
        self.resource = target.resource
        advice = ""
        if status == FORBIDDEN_STATUS:
            advice = f"; grant verb {target.verb!r} on resource {target.qualified_resource!r} to this identity"
        super().__init__(f"{target.verb} {target.path}: {status} {reason}: {message[:_CUT]}{advice}")


class Gone(KubeError):
    """The resource version or continue token is too old: start again with a list."""


def error_from_status(document: object, *, status: int, target: Target, retry_after: str | None = None) -> KubeError:
    """The error for a `Status` object, or for whatever a proxy put in its place."""
    fields: Mapping[str, Any] = document if isinstance(document, dict) else {}
    details = fields.get("details")
    details = details if isinstance(details, dict) else {}
    code = fields.get("code")
    status = code if isinstance(code, int) and code else status
    wait = retry_after if retry_after and retry_after.isdigit() else details.get("retryAfterSeconds")
    kind = Gone if status == GONE_STATUS else KubeError
    return kind(
        status=status,
        reason=str(fields.get("reason") or "Unknown"),
        message=str(fields.get("message") or document or "no message"),
        target=target,
        retry_after_s=None if wait is None else float(wait),
        details=details,
    )


def error_from_body(body: bytes, *, status: int, target: Target, retry_after: str | None = None) -> KubeError:
    """The error for an unsuccessful reply; a body that is not JSON is quoted as text."""
    try:
        document: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = body[:_CUT].decode(errors="replace")
    return error_from_status(document, status=status, target=target, retry_after=retry_after)
