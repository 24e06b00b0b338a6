"""A followed file: the last version that could be used is in force, however the file was replaced."""

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from services.runtime.followed_file import CHECK_INTERVAL_S, FollowedFile, FollowedFileMetrics
from tests.fakes.clock import FakeClock


def number(data: bytes) -> int:
    """The content that these tests use: a number, anything else is refused."""
    return int(data)


class Following:
    """A followed file with its metrics."""

    def __init__(self, path: Path) -> None:
        self.registry = CollectorRegistry()
        self.clock = FakeClock()
        self.file = FollowedFile(path, read=number, clock=self.clock, metrics=FollowedFileMetrics(self.registry))

    def counted(self, result: str) -> float | None:
        """How many versions ended so."""
        return self.registry.get_sample_value("phalanx_config_loads_total", {"result": result})

    @property
    def is_refused(self) -> bool:
        """What the gauge says."""
        return self.registry.get_sample_value("phalanx_config_refused") == 1


async def test_a_new_version_is_taken(tmp_path: Path) -> None:
    """Also where it was written in place."""
    path = tmp_path / "f"
    path.write_text("1")
    following = Following(path)
    path.write_text("2")
    await following.file.look()
    assert following.file.value == 2
    assert following.counted("accepted") == 2


async def test_a_bad_version_is_refused_once_and_the_old_one_stays(tmp_path: Path) -> None:
    """Until a good one comes; it may be the old one again."""
    path = tmp_path / "f"
    path.write_text("1")
    following = Following(path)
    path.write_text("x")
    for _ in range(3):
        await following.file.look()
    assert following.file.value == 1
    assert following.counted("refused") == 1
    assert following.is_refused
    path.write_text("1")
    await following.file.look()
    assert not following.is_refused


async def test_a_file_that_goes_is_a_bad_version(tmp_path: Path) -> None:
    """Somebody removed it by mistake, or a volume is being unmounted: nothing is known to have changed."""
    path = tmp_path / "f"
    path.write_text("1")
    following = Following(path)
    path.unlink()
    await following.file.look()
    assert following.file.value == 1
    assert following.is_refused


async def test_a_mounted_config_map_is_followed(tmp_path: Path) -> None:
    """The kubelet swaps the link `..data`; the file that the setting names stays the same link."""
    for version in ("1", "2"):
        (tmp_path / f"..{version}").mkdir()
        (tmp_path / f"..{version}" / "phalanx.yaml").write_text(version)
    (tmp_path / "..data").symlink_to("..1")
    path = tmp_path / "phalanx.yaml"
    path.symlink_to("..data/phalanx.yaml")
    following = Following(path)
    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    await following.file.look()
    assert following.file.value == 2


def test_the_first_version_must_be_good(tmp_path: Path) -> None:
    """Nothing else would be in force."""
    path = tmp_path / "f"
    with pytest.raises(FileNotFoundError):
        Following(path)
    path.write_text("x")
    with pytest.raises(ValueError, match="invalid literal"):
        Following(path)


async def test_it_is_looked_at_every_second_and_who_waits_hears(tmp_path: Path) -> None:
    """The wait ends with the new version."""
    path = tmp_path / "f"
    path.write_text("1")
    following = Following(path)
    task = asyncio.create_task(following.file.follow())
    waiting = asyncio.create_task(following.file.changed(since=1))
    path.write_text("2")
    await following.clock.run_for(CHECK_INTERVAL_S)
    async with asyncio.timeout(10):
        assert await waiting == 2
    task.cancel()
