"""Python's cycle collector held off during large lists: it would visit every object again and again as they pile up."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


class CollectorPause:
    """Holds the collector off while at least one list is being read."""

    def __init__(self) -> None:
        """Start with the collector as it is."""
        self._holder_count = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the collector off; what is left at the end counts as permanent and is not visited again."""
        self._holder_count += 1
        gc.disable()
        try:
            yield
        finally:
            self._holder_count -= 1
            if not self._holder_count:
                gc.unfreeze()
                gc.collect()
                gc.freeze()
                gc.enable()
