"""Lengths in a real Redis: lists, streams, groups, and what is said where there is none."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from services.autoscaler.adapters.redis_queues import RedisQueues
from services.autoscaler.ports import SourceFailed
from services.core.metric_sources import RedisSource
from services.runtime.clock import SystemClock
from tests.integration.autoscaler.source_servers import PASSWORD


@pytest.fixture
async def owner(redis_port: int) -> AsyncIterator[Redis]:
    """Whoever owns the queues; it begins with an empty server."""
    client = Redis(port=redis_port, password=PASSWORD)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
async def queues() -> AsyncIterator[RedisQueues]:
    """An adapter."""
    async with RedisQueues(clock=SystemClock()) as opened:
        yield opened


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    """A file with the password, as a mounted Secret has it."""
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    return file


def source(port: int, password_file: Path, **given: Any) -> RedisSource:
    """A source on this server."""
    return RedisSource(address=f"127.0.0.1:{port}", password_file=str(password_file), **given)


async def length(queues: RedisQueues, one: RedisSource) -> float:
    """The one number of a source."""
    (sample,) = await queues.read(one)
    return sample.value


async def test_lists_have_lengths(owner: Redis, queues: RedisQueues, redis_port: int, password_file: Path) -> None:
    """Redis removes a list that is empty, so one that is not there is empty."""
    jobs = source(redis_port, password_file, list_key="jobs")
    assert await length(queues, jobs) == 0
    await owner.lpush("jobs", "a", "b", "c")
    assert await length(queues, jobs) == 3
    await owner.delete("jobs")
    assert await length(queues, jobs) == 0


async def test_a_group_has_what_it_has_not_read_and_not_acknowledged(
    owner: Redis, queues: RedisQueues, redis_port: int, password_file: Path
) -> None:
    """And nothing more: what it acknowledged stays in the stream, and is over."""
    work = source(redis_port, password_file, stream_key="work", group="infer")
    await owner.xgroup_create("work", "infer", id="0", mkstream=True)
    assert await length(queues, work) == 0
    for number in range(3):
        await owner.xadd("work", {"n": number})
    assert await length(queues, work) == 3
    read: Any = await owner.xreadgroup("infer", "pod", {"work": ">"}, count=2)
    assert await length(queues, work) == 3
    streams = read.items() if isinstance(read, dict) else read
    ((_, entries),) = streams
    flat = entries[0] if isinstance(entries[0], list) else entries
    await owner.xack("work", "infer", flat[0][0])
    assert await length(queues, work) == 2
    assert await length(queues, source(redis_port, password_file, stream_key="work")) == 3


async def test_a_lag_that_redis_cannot_tell_is_unknown(
    owner: Redis, queues: RedisQueues, redis_port: int, password_file: Path
) -> None:
    """Entries were deleted from the middle of what is to be read."""
    ids = [await owner.xadd("work", {"n": number}) for number in range(4)]
    await owner.xgroup_create("work", "infer", id="0")
    await owner.xdel("work", ids[1])
    with pytest.raises(SourceFailed, match="cannot tell its lag"):
        await length(queues, source(redis_port, password_file, stream_key="work", group="infer"))


async def test_what_is_not_there_is_never_made(
    owner: Redis, queues: RedisQueues, redis_port: int, password_file: Path
) -> None:
    """A group that is missing is an error, and so is a key of another type."""
    await owner.xadd("work", {"n": 1})
    with pytest.raises(SourceFailed, match=r"does not exist \(group none of stream work in Redis at"):
        await length(queues, source(redis_port, password_file, stream_key="work", group="none"))
    with pytest.raises(SourceFailed, match=r"was refused .*no such key"):
        await length(queues, source(redis_port, password_file, stream_key="nothing", group="none"))
    with pytest.raises(SourceFailed, match="WRONGTYPE"):
        await length(queues, source(redis_port, password_file, list_key="work"))
    assert await owner.xinfo_groups("work") == []
    assert not await owner.exists("nothing")


async def test_a_password_that_changes_is_read_again(
    owner: Redis, queues: RedisQueues, redis_port: int, password_file: Path
) -> None:
    """A wrong one is said, and the right one makes a new connection."""
    await owner.lpush("jobs", "a")
    jobs = source(redis_port, password_file, list_key="jobs")
    _write(password_file, "wrong")
    with pytest.raises(SourceFailed, match="password"):
        await length(queues, jobs)
    _write(password_file, PASSWORD)
    assert await length(queues, jobs) == 1
    absent = source(redis_port, password_file.with_name("absent"), list_key="jobs")
    with pytest.raises(SourceFailed, match="No such file"):
        await length(queues, absent)


async def test_a_server_that_is_down_is_said(queues: RedisQueues) -> None:
    """With its address."""
    with pytest.raises(SourceFailed, match=r"gave no answer \(list jobs in Redis at 127.0.0.1:1\)"):
        await length(queues, RedisSource(address="127.0.0.1:1", list_key="jobs"))


def _write(file: Path, text: str) -> None:
    file.write_text(text)
