"""What the clean-stop marker vouches for: Apache Kafka believes all of it unread, and deletes what it then misreads."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from sordini.protocol.types import TopicPartition
from sordini.storage.producer_snapshots import decode_snapshot
from tests.support.log_model import PARTITION, SMALL, TOPIC_ID, a_disk, a_manager, contents
from tests.unit.storage.test_log import put
from tests.unit.storage.test_recovery import DIRECTORY, MARKER, bases, opened, path_of, stopped

FULL = {".index": 256, ".timeindex": 252}
"""Of the small logs of these tests: their index size, in whole entries."""


@pytest.mark.parametrize("fill", [lambda data: data, lambda _: b""], ids=["entries and zeros", "zeros"])
@pytest.mark.parametrize("which", [slice(None), slice(-1, None), slice(1, 2)], ids=["all", "active", "closed"])
async def test_a_padded_index_that_was_never_read_is_trimmed_before_the_marker_is_written(
    fill: Callable[[bytes], bytes], which: slice
) -> None:
    disk, held = await stopped(clean=True)
    trimmed = {path_of(base, suffix): disk.contents(path_of(base, suffix)) for base in bases(disk) for suffix in FULL}
    for base in bases(disk)[which]:
        for suffix, size in FULL.items():
            path = path_of(base, suffix)
            disk.replace(path, fill(disk.contents(path)).ljust(size, b"\0"))
    manager, log, _ = opened(disk)
    await manager.close()
    assert disk.exists(MARKER)
    assert {path: disk.contents(path) for path in trimmed} == trimmed
    _, log, findings = opened(disk)
    assert (contents(log), findings) == (held, [])


async def test_an_index_larger_than_its_log_can_fill_is_trimmed_whatever_its_size_is_set_to() -> None:
    """It may have been padded under another `segment.index.bytes`."""
    disk, _ = await stopped(clean=True)
    path = path_of(bases(disk)[0], ".timeindex")
    before = disk.contents(path)
    disk.replace(path, before + bytes(12 * 1000))
    manager, *_ = opened(disk)
    await manager.close()
    assert disk.contents(path) == before


async def test_a_padded_index_is_found_by_its_full_size_where_the_log_is_large_enough_for_it() -> None:
    config = SMALL._replace(segment_bytes=4_000)
    disk = a_disk()
    manager = a_manager(disk, config)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, config)
    while len(log.segments.all()) < 3:
        put(log)
    await manager.close()
    path = path_of(bases(disk)[0], ".timeindex")
    before = disk.contents(path)
    disk.replace(path, before.ljust(FULL[".timeindex"], b"\0"))
    manager = a_manager(disk, config)
    manager.open(0)
    await manager.close()
    assert 0 < len(before) < FULL[".timeindex"]
    assert disk.contents(path) == before


async def test_a_file_that_is_not_as_long_as_its_log_keeps_the_marker_away() -> None:
    disk, _ = await stopped(clean=True)
    manager, log, _ = opened(disk)
    put(log)
    log.segments.active.file().append((b"torn",))
    await manager.close()
    assert not disk.exists(MARKER)


async def test_there_is_a_snapshot_at_the_end_of_every_log_even_without_a_producer() -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    manager.create(TopicPartition("empty", 0), TOPIC_ID, SMALL)
    put(manager.create(PARTITION, TOPIC_ID, SMALL))
    end = manager.logs()[1].log_end_offset
    await manager.close()
    for path in ("/data/empty-0/00000000000000000000.snapshot", f"{DIRECTORY}/{end:020d}.snapshot"):
        data = disk.contents(path)
        assert struct.unpack(">i", data[6:10]) == (0,)
        assert len(data) == 10
        state = decode_snapshot(data)
        assert state is not None
        assert len(state) == 0
