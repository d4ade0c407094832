"""A full log directory is announced once, and once more when appends succeed there again."""

from __future__ import annotations

import errno
from contextlib import suppress

import pytest

from sordini.protocol.types import TopicPartition
from sordini.storage.disk_space import HEALED_AFTER_MS
from sordini.storage.errors import DiskFull
from sordini.storage.log import Log
from sordini.testing.simulation.forgetful_disk import DISK_BYTES, ForgetfulDisk
from tests.support.log_model import SMALL, TOPIC_ID, a_disk, a_manager
from tests.unit.storage.test_log import put

TICK_MS = 1_000
SPACE = "No space left on device"


class Bench:
    """A directory with two logs, and what is reported of its room."""

    def __init__(self) -> None:
        self.disk: ForgetfulDisk = a_disk()
        self.manager = a_manager(self.disk)
        self.manager.open(0)
        self.logs: list[Log] = [
            self.manager.create(TopicPartition("t", number), TOPIC_ID, SMALL) for number in range(2)
        ]
        self.reported: list[tuple[object, ...]] = []
        self.manager.on_space(
            lambda *full: self.reported.append(("full", *full)), lambda *room: self.reported.append(room)
        )
        self.now_ms = 0
        for log in self.logs:
            put(log)

    def fill(self, number: int = errno.ENOSPC) -> None:
        self.disk.fail_while(lambda kind, path: kind == "write" and path.endswith(".log"), number)

    def refused(self, times: int = 1) -> None:
        for _ in range(times):
            for log in self.logs:
                with pytest.raises(DiskFull):
                    put(log)

    async def ticks(self, count: int) -> None:
        for _ in range(count):
            self.now_ms += TICK_MS
            await self.manager.tick(self.now_ms)


@pytest.mark.parametrize(("number", "reason"), [(errno.ENOSPC, SPACE), (errno.EDQUOT, "Disk quota exceeded")])
async def test_a_directory_that_is_full_is_reported_once_for_all_partitions_with_its_free_bytes(
    number: int, reason: str
) -> None:
    bench = Bench()
    bench.fill(number)
    bench.refused(5)
    await bench.ticks(5)
    bench.refused(5)
    ((what, directory, free_bytes, why),) = bench.reported
    assert (what, directory, why) == ("full", "/data", reason)
    assert isinstance(free_bytes, int)
    assert 0 < free_bytes < DISK_BYTES
    (room,) = bench.manager.disk_spaces
    assert (room.is_full, room.refused_total) == (True, 20)


async def test_it_is_reported_again_when_appends_succeed_with_how_many_calls_were_refused() -> None:
    bench = Bench()
    bench.fill()
    bench.refused(3)
    await bench.ticks(1)
    bench.disk.heal()
    for _ in range(HEALED_AFTER_MS // TICK_MS + 1):
        put(bench.logs[0])
        await bench.ticks(1)
    assert bench.reported[1:] == [("/data", 6)]
    bench.fill()
    bench.refused()
    assert bench.reported[2][0] == "full", "the next time is another one"
    assert bench.manager.disk_spaces[0].refused_total == 8


async def test_room_that_nothing_is_appended_to_is_not_known_to_be_there() -> None:
    bench = Bench()
    bench.fill()
    bench.refused()
    bench.disk.heal()
    await bench.ticks(20)
    assert len(bench.reported) == 1
    put(bench.logs[1])
    await bench.ticks(1)
    assert bench.reported[1:] == [("/data", 2)]


async def test_a_directory_that_takes_small_appends_between_large_ones_is_reported_once() -> None:
    bench = Bench()
    for _ in range(30):
        bench.fill()
        bench.refused()
        bench.disk.heal()
        put(bench.logs[0])
        await bench.ticks(1)
    assert len(bench.reported) == 1


async def test_a_log_that_is_deleted_meanwhile_does_not_hide_the_appends_to_others() -> None:
    bench = Bench()
    bench.fill()
    bench.refused()
    bench.disk.heal()
    for _ in range(20):
        put(bench.logs[0])
    await bench.ticks(1)
    bench.manager.delete(bench.logs[0].topic_partition, 0)
    await bench.ticks(3)
    put(bench.logs[1])
    await bench.ticks(1)
    assert bench.reported[1:] == [("/data", 2)]


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", "checkpoint"])
async def test_a_full_disk_is_noticed_by_what_can_be_done_without_and_no_append_is_counted(suffix: str) -> None:
    bench = Bench()
    bench.disk.fail_while(lambda kind, path: kind == "write" and suffix in path, errno.ENOSPC)
    for _ in range(40):
        with suppress(DiskFull):
            put(bench.logs[0])
    await bench.ticks(400 if suffix == "checkpoint" else 1)
    assert [entry[0] for entry in bench.reported if entry[0] == "full"] == ["full"]


async def test_a_write_that_is_cut_short_is_a_full_disk() -> None:
    bench = Bench()
    log = bench.logs[0]
    bench.disk.shorten(1)
    with pytest.raises(DiskFull, match="bytes were written"):
        put(log)
    assert bench.reported[0][0] == "full"
