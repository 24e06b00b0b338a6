"""What an audit reads, as one value: the same whether it comes from a live cluster or from a dump."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

Manifest = Mapping[str, Any]


class State(StrEnum):
    """What became of reading one source."""

    READ = "read"
    ABSENT = "absent"
    """The server does not serve it, or the dump is of a server that did not."""
    FAILED = "failed"
    """Nothing is known: no right, no answer, an error, or missing in the dump."""
    UNASKED = "unasked"
    """It is read only where that is asked for, and was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One source as it was read. `text` is for sources that are documents, `items` for lists."""

    state: State
    items: tuple[Manifest, ...] = ()
    text: str = ""
    version: str = ""
    """API version that the items were read in."""
    problem: str = ""
    """Why nothing was read; with READ, what is missing beside that which was."""
    reason: str = ""
    """The server's machine-readable word, where it answered."""
    fix: str = ""


UNKNOWN = Reading(state=State.FAILED, problem="it was not read", fix="run the audit again with this source")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that was read. `read_at` is the moment against which ages are judged."""

    origin: str
    read_at: datetime
    readings: Mapping[str, Reading] = field(default_factory=dict)
    damages: tuple[str, ...] = ()
    """What of a dump could not be read at all; nobody knows what was in it."""

    def reading(self, source: str) -> Reading:
        """Return a source as it was read."""
        return self.readings.get(source, UNKNOWN)

    def items(self, source: str) -> tuple[Manifest, ...]:
        """Return the objects of a list; none where it is absent or could not be read."""
        return self.reading(source).items

    def is_served(self, source: str) -> bool:
        """Tell whether the server serves a list."""
        return self.reading(source).state is State.READ

    @cached_property
    def server_version(self) -> str:
        """`gitVersion` of the API server, without the leading v; empty where unknown."""
        (document,) = self.items("version") or ({},)
        return str(document.get("gitVersion", "")).removeprefix("v")

    @cached_property
    def served(self) -> Mapping[str, frozenset[str]]:
        """Versions of each API group that the server serves."""
        return {
            str(group.get("name")): frozenset(str(one.get("version")) for one in group.get("versions") or ())
            for document in self.items("groups")
            for group in document.get("groups") or ()
        }

    @cached_property
    def metrics(self) -> Mapping[str, tuple[tuple[Mapping[str, str], float], ...]]:
        """Samples of the API server's metrics that checks read, by sample name: labels and value."""
        found: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        for family in text_string_to_metric_families(self.reading("metrics").text):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return {name: tuple(samples) for name, samples in found.items()}

    def gate(self, name: str) -> bool | None:
        """Return whether a feature gate of the API server is on; None where it does not say."""
        for labels, value in self.metrics.get("kubernetes_feature_enabled", ()):
            if labels.get("name") == name:
                return bool(value)
        return None

    def component_gate(self, component: str, name: str) -> bool | None:
        """Return what a component's command line says of a gate; None where it says nothing or is not visible."""
        for flags in self.component_flags(component):
            stated = gates_in(flags.get("feature-gates", ""))
            if name in stated:
                return stated[name]
        return None

    def component_flags(self, component: str) -> Iterator[Mapping[str, str]]:
        """Yield the flags of each visible pod of a control-plane component, as kubeadm labels them."""
        for pod in self.items("pods"):
            labels = pod["metadata"].get("labels") or {}
            if pod["metadata"].get("namespace") != "kube-system" or labels.get("component") != component:
                continue
            for container in pod["spec"].get("containers") or ():
                yield flags_of([*(container.get("command") or ()), *(container.get("args") or ())])


def gates_in(text: str) -> Mapping[str, bool]:
    """Return the gates of a flag: `A=true,B=false`, each with its component where that is said, as `kube:A=true`.

    /flagz writes them as `:A=true,:B=false`.
    """
    pairs = (part.strip().partition("=") for part in text.replace(";", ",").split(","))
    return {name.rpartition(":")[2]: value.strip().lower() == "true" for name, is_set, value in pairs if is_set}


def flags_of(arguments: list[str]) -> Mapping[str, str]:
    """Return the long flags of a command line: `--a=b`, `--a b` and `--a`."""
    found: dict[str, str] = {}
    for index, argument in enumerate(arguments):
        if not argument.startswith("--"):
            continue
        name, is_joined, value = argument[2:].partition("=")
        if not is_joined:
            following = arguments[index + 1 : index + 2]
            value = following[0] if following and not following[0].startswith("-") else "true"
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def subject_of(manifest: Manifest, *, kind: str) -> str:
    """Return `<kind>/<namespace>/<name>` of an object, as findings name it."""
    metadata = manifest.get("metadata") or {}
    parts = (kind, metadata.get("namespace"), metadata.get("name"))
    return "/".join(str(part) for part in parts if part)
