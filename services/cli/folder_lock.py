"""One instance for each folder of logs and state: a lock that ends with its process, however that ends."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

LOCK_FILE = "lock"


class FolderInUse(RuntimeError):
    """Another process works in this folder: `owner`, as far as it is known."""

    def __init__(self, folder: Path, *, owner: str) -> None:
        """Say which."""
        super().__init__(f"{folder} is in use by another phalanx (process {owner})")
        self.owner = owner


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep others out of a folder. Raises FolderInUse.

    The file stays when the lock is given up: to remove it would let two processes hold two files of one name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK_FILE
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise FolderInUse(folder, owner=owner) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
