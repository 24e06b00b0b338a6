"""What has been asked of the sandbox: counts by verb, resource and code, and a bounded log of writes."""

import itertools
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from services.sandbox.objects import Obj

_LOGGED_BODY_LIMIT = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One request that wanted to change something, in the order of arrival of answers."""

    number: int
    verb: str
    resource: str
    namespace: str
    name: str
    query: str
    code: int
    body: bytes

    def shown(self) -> Obj:
        """The write as JSON."""
        return {
            "number": self.number,
            "verb": self.verb,
            "resource": self.resource,
            "namespace": self.namespace,
            "name": self.name,
            "query": self.query,
            "code": self.code,
            "body": self.body.decode(errors="replace"),
        }


@dataclass(slots=True)
class Traffic:
    """Counts since start (or since the last reset) and the latest writes."""

    counts: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    writes: deque[Write] = field(default_factory=lambda: deque(maxlen=5000))
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def count(self, verb: str, resource: str, code: int) -> None:
        """Count one answered request; code 0 stands for a cut connection."""
        self.counts[verb, resource, code] += 1

    def log(self, *, verb: str, resource: str, namespace: str, name: str, query: str, code: int, body: bytes) -> None:
        """Remember a write; long bodies are cut."""
        write = Write(
            number=next(self._numbers),
            verb=verb,
            resource=resource,
            namespace=namespace,
            name=name,
            query=query,
            code=code,
            body=body[:_LOGGED_BODY_LIMIT],
        )
        self.writes.append(write)

    def total(self, *, verb: str = "", resource: str = "") -> int:
        """Answered requests with this verb and resource; empty matches all."""
        return sum(
            count
            for (one_verb, one_resource, _), count in self.counts.items()
            if verb in {"", one_verb} and resource in {"", one_resource}
        )

    def shown(self) -> Sequence[Obj]:
        """The counts as JSON rows."""
        return [
            {"verb": verb, "resource": resource, "code": code, "count": count}
            for (verb, resource, code), count in sorted(self.counts.items())
        ]

    def reset(self) -> None:
        """Start counting and logging anew."""
        self.counts.clear()
        self.writes.clear()
