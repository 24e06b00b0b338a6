"""One process for each folder."""

import os
from pathlib import Path

import pytest

from services.cli.folder_lock import LOCK_FILE, FolderInUse, locked


def test_second_is_refused_and_told_who_is_first(tmp_path: Path) -> None:
    """With the process id, so that one can end it."""
    folder = tmp_path / "new" / "folder"
    with locked(folder):
        with pytest.raises(FolderInUse, match=rf"folder is in use by another phalanx \(process {os.getpid()}\)"):
            locked(folder).__enter__()
        with locked(tmp_path):
            assert (tmp_path / LOCK_FILE).exists()


def test_folder_is_free_again(tmp_path: Path) -> None:
    """Also after an error, and with what an earlier owner left."""
    (tmp_path / LOCK_FILE).write_text("123456789\n")
    with pytest.raises(ValueError, match="boom"), locked(tmp_path):
        raise ValueError("boom")
    with locked(tmp_path):
        assert (tmp_path / LOCK_FILE).read_text() == f"{os.getpid()}\n"
