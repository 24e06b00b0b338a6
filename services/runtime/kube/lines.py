"""Splitting a byte stream into lines of any length.

aiohttp's own line reader stops at a limit that one large object exceeds; this one costs one copy per line.
"""

from collections.abc import AsyncIterable, AsyncIterator

MAX_LINE_BYTES = 32 * 1024 * 1024


class LineTooLongError(ValueError):
    """A line is longer than any object that an API server stores."""


async def split_lines(chunks: AsyncIterable[bytes], *, limit: int = MAX_LINE_BYTES) -> AsyncIterator[bytes]:
    """Whole, non-empty lines; an unfinished one at the end of the stream is dropped, since it cannot be decoded."""
    pending: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            pending.append(line)
            whole = b"".join(pending)
            pending, size = [], 0
            if whole.strip():
                yield whole
        if rest:
            pending.append(rest)
            size += len(rest)
        if size > limit:
            raise LineTooLongError(f"a line of more than {limit} bytes")
