"""Settings of a service: one frozen dataclass, read once from `PHALANX_*` variables.

Everything wrong is reported in one go, because a person who fixes one variable per restart loses patience.
"""

import dataclasses
import difflib
import os
import re
import socket
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from services.runtime.addresses import parse_address
from services.runtime.field_docs import field_docs

PREFIX = "PHALANX_"
SANDBOX_PREFIX = "PHALANX_SANDBOX_"
_SERVICE_HOST = "_SERVICE_HOST"
TLS_SERVER_NAME_VARIABLE = "PHALANX_TLS_SERVER_NAME"
"""Read by the commands alone."""
SHARED_VARIABLES = ("PHALANX_KUBECONFIG", "PHALANX_LEADER_ELECTION", "PHALANX_PLACER", TLS_SERVER_NAME_VARIABLE)
"""Variables that are no mistake where nobody reads them: one environment may serve several services and commands."""

_SECRET_NAME = re.compile(r"TOKEN|PASSWORD|SECRET|CREDENTIAL", re.IGNORECASE)
_BOOLEANS = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}

SettingsT = TypeVar("SettingsT")
ValueT = TypeVar("ValueT")


class SettingsError(ValueError):
    """The environment cannot be used; `problems` has one sentence for each variable at fault."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("settings are not usable:\n" + "\n".join(f"  {problem}" for problem in self.problems))


class SettingDoc(NamedTuple):
    """One row of the settings reference."""

    variable: str
    type: str
    default: str
    doc: str


def bounded(default: ValueT, *, minimum: float | None = None, maximum: float | None = None) -> ValueT:
    """A numeric setting with limits; written as the default of a field."""
    limits = {"minimum": minimum, "maximum": maximum}
    return field(default=default, metadata=limits)


def choice(default: str, *, options: tuple[str, ...]) -> str:
    """A setting that takes one of a few words; written as the default of a field."""
    return field(default=default, metadata={"options": options})


def address(default: str) -> str:
    """A listen address; written as the default of a field."""
    return field(default=default, metadata={"check": parse_address, "text": "HOST:PORT"})


def _default_instance() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonSettings:
    """What every service is told. Services inherit from it and add their own fields."""

    nats_url: str = "nats://127.0.0.1:4222"
    """URL of the NATS server; several are separated by commas."""

    http_address: str = address("0.0.0.0:8080")
    """Where `/livez`, `/readyz` and `/metrics` are served; port 0 takes a free one."""

    config: Path | None = None
    """The configuration file, the same for all services (docs/config.md). Unset: its defaults."""

    tls_dir: Path | None = None
    """Folder with `tls.crt`, `tls.key` and `ca.crt`, re-read when it changes (docs/tls.md). Unset: no certificates."""

    log_level: str = choice("info", options=("debug", "info", "warning", "error"))
    """Lowest level that is logged."""

    instance: str = field(default_factory=_default_instance)
    """Name of this process in logs and traces; the default is host name and process id."""

    drain_timeout_s: float = bounded(10.0, minimum=0, maximum=300)
    """Seconds that work in flight may take after SIGTERM before it is cancelled."""

    port_file: Path | None = None
    """File to which the bound ports are written as JSON, for a parent process that lets us take free ones."""

    trace_file: Path | None = None
    """File to which finished spans are appended as JSON lines, for reading a trace without a collector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectedSettings(CommonSettings):
    """Settings of a service of which one process does the work, while the others stand by."""

    leader_election: bool = True
    """Whether several processes may run, of which one leads. Switched off, exactly one may run; it leads at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings(ElectedSettings):
    """Settings of an elected service that also answers gRPC, as a standby too."""

    grpc_address: str = address("0.0.0.0:50051")
    """Where gRPC is served; port 0 takes a free one."""


def variable_of(field_name: str) -> str:
    """The environment variable of a settings field."""
    return PREFIX + field_name.upper()


def load(cls: type[SettingsT], environ: Mapping[str, str], *, known_elsewhere: Sequence[str] = ()) -> SettingsT:
    """Build `cls` from the environment; SettingsError lists all problems at once.

    `known_elsewhere` names prefixed variables that somebody else reads from the same environment.
    """
    declared = {variable_of(item.name): item for item in _fields(cls)}
    hints = typing.get_type_hints(cls)
    problems: list[str] = []
    values: dict[str, object] = {}
    for variable, item in declared.items():
        if variable in environ:
            try:
                values[item.name] = _parse(environ[variable], wanted=hints[item.name], limits=item.metadata)
            except (ValueError, KeyError):
                expected = _type_text(hints[item.name], limits=item.metadata)
                problems.append(f"{variable}: given {_shown(variable, environ[variable])}, expected {expected}")
        elif not _has_default(item):
            problems.append(
                f"{variable}: not set, expected {_type_text(hints[item.name])}; this setting has no default"
            )
    problems += _unknown(environ, known={*declared, *known_elsewhere, *SHARED_VARIABLES})
    if problems:
        raise SettingsError(problems)
    return cls(**values)


def describe(cls: type[object]) -> tuple[SettingDoc, ...]:
    """The settings reference of `cls`, in order of declaration; a field's doc is the string below it."""
    docs = field_docs(cls)
    hints = typing.get_type_hints(cls)
    return tuple(
        SettingDoc(
            variable=variable_of(item.name),
            type=_type_text(hints[item.name], limits=item.metadata),
            default=_default_text(item),
            doc=docs.get(item.name, ""),
        )
        for item in _fields(cls)
    )


def _fields(cls: type[object]) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cast("Any", cls))


def _has_default(item: dataclasses.Field[Any]) -> bool:
    return item.default is not dataclasses.MISSING or item.default_factory is not dataclasses.MISSING


def _default_text(item: dataclasses.Field[Any]) -> str:
    if item.default is not dataclasses.MISSING:
        return "" if item.default is None else _plain(item.default)
    return "(computed)" if item.default_factory is not dataclasses.MISSING else "(required)"


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shown(variable: str, value: str) -> str:
    """The value for an error message; a secret is never repeated."""
    return "a value that is not shown" if _SECRET_NAME.search(variable) else repr(value)


def _unknown(environ: Mapping[str, str], *, known: set[str]) -> list[str]:
    """Sentences about prefixed variables that no setting reads: mostly misspelt ones."""
    problems = []
    links = _service_links(environ)
    for variable in sorted(environ):
        if variable in known or not variable.startswith(PREFIX) or variable.startswith(SANDBOX_PREFIX):
            continue
        if variable.startswith(links):
            continue
        near = difflib.get_close_matches(variable, sorted(known), n=1)
        advice = f"did you mean {near[0]}?" if near else "remove it"
        problems.append(f"{variable}: given {_shown(variable, environ[variable])}, no such setting; {advice}")
    return problems


def _service_links(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Prefixes of what the kubelet tells each pod about Services, as of one named phalanx-placer.

    A Service shows by its `…_SERVICE_HOST`; then its `…_SERVICE_…` and `…_PORT…` are no settings.
    """
    services = [name.removesuffix(_SERVICE_HOST) for name in environ if name.endswith(_SERVICE_HOST)]
    return tuple(f"{service}_{part}" for service in services for part in ("SERVICE_", "PORT"))


def _optional_of(wanted: object) -> object | None:
    """The T of `T | None`, or None when the type is not optional."""
    if typing.get_origin(wanted) not in {typing.Union, types.UnionType}:
        return None
    inner = [part for part in typing.get_args(wanted) if part is not type(None)]
    return inner[0] if len(inner) == 1 else None


def _type_text(wanted: object, *, limits: Mapping[str, Any] = types.MappingProxyType({})) -> str:
    """How a person would write down what this setting takes."""
    if inner := _optional_of(wanted):
        return f"{_type_text(inner, limits=limits)} or empty"
    if options := limits.get("options"):
        return "one of " + ", ".join(options)
    if text := limits.get("text"):
        return str(text)
    words = {str: "text", int: "whole number", float: "number", bool: "true or false", Path: "path"}
    text = words.get(cast("type", wanted), "comma-separated list")
    low, high = limits.get("minimum"), limits.get("maximum")
    parts = ([f"at least {low:g}"] if low is not None else []) + ([f"at most {high:g}"] if high is not None else [])
    return f"{text} of {' and '.join(parts)}" if parts else text


def _parse(text: str, *, wanted: object, limits: Mapping[str, Any]) -> object:
    """The typed value of a variable; ValueError or KeyError when the text is not one."""
    if inner := _optional_of(wanted):
        return None if not text else _parse(text, wanted=inner, limits=limits)
    parser = _PARSERS.get(wanted)
    if parser is None:
        raise TypeError(f"settings cannot hold {wanted}: use str, int, float, bool, Path or tuple[str, ...]")
    value = parser(text.strip())
    if check := limits.get("check"):
        check(value)
    if not _within(value, limits=limits):
        raise ValueError(text)
    return value


def _within(value: object, *, limits: Mapping[str, Any]) -> bool:
    if (options := limits.get("options")) and value not in options:
        return False
    if not isinstance(value, int | float):
        return True
    low, high = limits.get("minimum"), limits.get("maximum")
    # Written so that NaN is outside: every comparison with it is false.
    return (low is None or value >= low) and (high is None or value <= high)


def _finite(text: str) -> float:
    value = float(text)
    if value != value or value in {float("inf"), float("-inf")}:  # noqa: PLR0124 - true only for NaN
        raise ValueError(text)
    return value


def _path(text: str) -> Path:
    if not text:
        raise ValueError(text)
    return Path(text)


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


_PARSERS: Mapping[object, Callable[[str], object]] = {
    str: str,
    int: int,
    float: _finite,
    bool: lambda text: _BOOLEANS[text.lower()],
    Path: _path,
    tuple[str, ...]: _parts,
}
