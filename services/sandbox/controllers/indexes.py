"""Completion indexes of Indexed Jobs, as Kubernetes writes them (`0,2-4`)."""

from collections.abc import Collection, Iterable


def parse(text: str) -> set[int]:
    """The indexes that a text such as `0,2-4` names."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def shown(indexes: Iterable[int]) -> str:
    """The shortest text for these indexes."""
    runs: list[tuple[int, int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index - 1:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def missing(completions: int, *, taken: Collection[int], count: int) -> list[int]:
    """The lowest `count` indexes that are neither done nor in work."""
    found: list[int] = []
    for index in range(completions):
        if len(found) >= count:
            break
        if index not in taken:
            found.append(index)
    return found
