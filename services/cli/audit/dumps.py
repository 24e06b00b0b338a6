"""Dumps: what an audit read, as a folder of files, and objects as `kubectl get … -o yaml` prints them.

A folder that `phalanx audit --save` wrote is complete. In files of other origin a source is known only where they say
so: there are objects of its kind, or a list of its kind, even an empty one. Everything else is unknown, not absent.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import yaml

from services.cli.audit.evidence import Evidence, Manifest, Reading, State
from services.cli.audit.optional_sources import OPTIONAL
from services.cli.audit.sources import BY_KEY, SOURCES, Form, Source, kept_metrics, trimmed

INDEX = "audit.json"
FORMAT = "phalanx-audit-dump/1"
MAX_BYTES = 2 * 1024**3
_SUFFIXES = {".yaml", ".yml", ".json"}


class UnusableDump(ValueError):
    """A dump that cannot be read; the message names file and place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """What the files of a dump hold, by source. `mixed` says of which source not all objects are of one version."""

    found: dict[str, list[Manifest]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    mixed: dict[str, str] = field(default_factory=dict)


def save(evidence: Evidence, folder: Path) -> None:
    """Write evidence to a new or empty folder: one file for each source that was read, and an index last."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UnusableDump(f"{folder} is not empty: name a new folder")
    index: dict[str, Any] = {
        "format": FORMAT,
        "origin": evidence.origin,
        "readAt": evidence.read_at.isoformat(),
        "sources": {},
    }
    for key, reading in sorted(evidence.readings.items()):
        entry = {
            "state": reading.state.value,
            "version": reading.version,
            "problem": reading.problem,
            "reason": reading.reason,
            "fix": reading.fix,
        }
        index["sources"][key] = entry
        if reading.text:
            (folder / f"{key}.txt").write_text(reading.text)
        if reading.items:
            (folder / f"{key}.json").write_bytes(orjson.dumps({"kind": "List", "items": reading.items}))
    (folder / INDEX).write_bytes(orjson.dumps(index, option=orjson.OPT_INDENT_2))


def load(path: Path) -> Evidence:
    """Return the evidence of a dump, a file or a folder. Raises UnusableDump."""
    if (path / INDEX).is_file():
        return _saved(path)
    files = sorted(one for one in path.rglob("*") if one.suffix in _SUFFIXES) if path.is_dir() else [path]
    if not files:
        raise UnusableDump(f"{path} holds no .yaml, .yml or .json file")
    if sum(one.stat().st_size for one in files) > MAX_BYTES:
        raise UnusableDump(
            f"{path} holds more than {MAX_BYTES // 1024**3} GiB: give only what `phalanx audit --save` writes"
        )
    content, damages = _contents(files)
    readings = {key: _loaded(BY_KEY[key], items, content.versions.get(key, "")) for key, items in content.found.items()}
    for key in BY_KEY.keys() - readings.keys():
        readings[key] = Reading(
            state=State.FAILED,
            problem=f"the dump {path} says nothing of it",
            fix="make the dump with `phalanx audit --save FOLDER`, or add this to it",
        )
    for key, problem in content.mixed.items():
        readings[key] = Reading(state=State.FAILED, problem=problem, fix="dump each kind in one version")
    readings |= {one.key: Reading(state=State.UNASKED) for one in OPTIONAL}
    page = path / "metrics.txt"
    if path.is_dir() and page.is_file():
        readings["metrics"] = Reading(state=State.READ, text=kept_metrics(page.read_text()))
    newest = max(one.stat().st_mtime for one in files)
    return Evidence(
        origin=str(path),
        read_at=datetime.fromtimestamp(newest, tz=UTC),
        readings=readings,
        damages=tuple(damages),
    )


def _contents(files: Sequence[Path]) -> tuple[_Content, list[str]]:
    """Return what files hold, and which of them could not be read. Raises UnusableDump where none could."""
    content = _Content()
    damages = []
    for file in files:
        try:
            for manifest in _manifests(file):
                _sort(manifest, into=content, file=file)
        except UnusableDump as error:
            damages.append(str(error))
    if len(damages) == len(files):
        raise UnusableDump("; ".join(damages))
    return content, damages


def _saved(folder: Path) -> Evidence:
    try:
        index = orjson.loads((folder / INDEX).read_bytes())
        if index.get("format") != FORMAT:
            raise UnusableDump(f"{folder / INDEX}: format: expected {FORMAT}, got {index.get('format')!r}")
        readings = {one.key: Reading(state=State.UNASKED) for one in OPTIONAL}
        for key, entry in index["sources"].items():
            readings[key] = _kept(folder, key, entry)
        return Evidence(origin=index["origin"], read_at=datetime.fromisoformat(index["readAt"]), readings=readings)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, UnusableDump):
            raise
        raise UnusableDump(f"{folder}: the dump is damaged ({type(error).__name__}: {error}); make it again") from error


def _kept(folder: Path, key: str, entry: Mapping[str, Any]) -> Reading:
    """Return one source of a saved dump. One whose file is damaged is unknown, and the others are not."""
    reading = Reading(
        state=State(entry["state"]),
        version=entry["version"],
        problem=entry["problem"],
        reason=entry["reason"],
        fix=entry["fix"],
    )
    items, text = folder / f"{key}.json", folder / f"{key}.txt"
    try:
        if items.is_file():
            reading = replace(reading, items=tuple(orjson.loads(items.read_bytes())["items"]))
        if text.is_file():
            reading = replace(reading, text=text.read_text())
    except (orjson.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
        problem = f"{items.name if items.is_file() else text.name} of the dump {folder} is damaged: {error}"
        return Reading(state=State.FAILED, problem=problem, fix="make the dump again")
    return reading


def _manifests(file: Path) -> Iterator[Manifest]:
    """Yield the objects of one file, and each list as itself, so that an empty one counts."""
    try:
        if file.suffix == ".json":
            documents: Iterable[Any] = [orjson.loads(file.read_bytes())]
        else:
            loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            with file.open("rb") as stream:
                documents = list(yaml.load_all(stream, Loader=loader))
    except (orjson.JSONDecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise UnusableDump(f"{file}: truncated or not YAML or JSON: {error}") from error
    except OSError as error:
        raise UnusableDump(f"{file}: {error.strerror or error}") from error
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, dict):
            raise UnusableDump(f"{file}: expected Kubernetes objects, got {type(document).__name__}")
        yield document


def _sort(manifest: Manifest, *, into: _Content, file: Path) -> None:
    """Put an object, or the items of a list, where they belong; other kinds are passed over."""
    kind = str(manifest.get("kind", ""))
    api_version = str(manifest.get("apiVersion", ""))
    if "gitVersion" in manifest:
        into.found["version"] = [manifest]
    elif kind == "APIGroupList":
        into.found["groups"] = [manifest]
    elif kind.endswith("List"):
        kind = kind.removesuffix("List")
        for source in _sources_of(kind, api_version=api_version):
            into.found.setdefault(source.key, [])
            into.versions.setdefault(source.key, api_version.rpartition("/")[2])
        for item in _items_of(manifest, file=file):
            named = item if "kind" in item else {"kind": kind, "apiVersion": api_version, **item}
            _sort(named, into=into, file=file)
    else:
        _add(manifest, kind=kind, into=into, file=file)


def _items_of(manifest: Manifest, *, file: Path) -> list[Manifest]:
    items = manifest.get("items")
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise UnusableDump(f"{file}: {manifest.get('kind')}: items: expected a list of objects")
    return items


def _add(manifest: Manifest, *, kind: str, into: _Content, file: Path) -> None:
    """Put one object where it belongs."""
    version = str(manifest.get("apiVersion", "")).rpartition("/")[2]
    for source in _sources_of(kind, api_version=str(manifest.get("apiVersion", ""))):
        if not isinstance(manifest.get("metadata"), Mapping) or not manifest["metadata"].get("name"):
            raise UnusableDump(f"{file}: {kind}: metadata.name: expected a name")
        known = into.versions.setdefault(source.key, version)
        if known != version:
            name = manifest["metadata"]["name"]
            into.mixed[source.key] = f"{file}: {kind} {name}: apiVersion {version}, but others are {known}"
        if _is_within(manifest, source):
            into.found.setdefault(source.key, []).append(manifest)


def _sources_of(kind: str, *, api_version: str) -> Iterator[Source]:
    group, _, version = api_version.rpartition("/")
    for source in SOURCES:
        if source.form is Form.LIST and source.kind == kind and source.group == group and version in source.versions:
            yield source


def _is_within(manifest: Manifest, source: Source) -> bool:
    metadata = manifest["metadata"]
    if source.namespace and metadata.get("namespace") != source.namespace:
        return False
    wanted = (source.query or {}).get("fieldSelector", "")
    return not wanted.startswith("metadata.name=") or metadata.get("name") == wanted.partition("=")[2]


def _loaded(source: Source, items: list[Manifest], version: str) -> Reading:
    if source.kind:
        return Reading(state=State.READ, items=tuple(trimmed(item, source) for item in items), version=version)
    return Reading(state=State.READ, items=tuple(items))
