"""How much room is reserved ahead of records."""

from __future__ import annotations

import random

import pytest

from sordini.protocol.types import TopicPartition
from sordini.storage.log_manager import Identity, LogManager
from sordini.storage.preallocation import SHARE
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.log_model import PARTITION, SMALL, TOPIC_ID
from tests.unit.storage.test_log import put

MIB = 1 << 20
SEGMENT = SMALL._replace(preallocate=True, segment_bytes=MIB)


class SmallDisk(ForgetfulDisk):
    """A disk of 64 MiB on which what is reserved is taken."""

    def space(self, path: str) -> tuple[int, int]:
        total, free = super().space(path)
        return 64 * MIB, 64 * MIB - (total - free) - sum(self.reserved.values())


@pytest.fixture
def disk() -> SmallDisk:
    return SmallDisk()


def opened(disk: ForgetfulDisk) -> LogManager:
    manager = LogManager(disk, ["/data"], Identity(1, "c" * 22), lambda _: SEGMENT, random.Random(1))
    manager.open(0)
    return manager


def held(manager: LogManager) -> int:
    return manager.logs()[0].log_dir.reservations.held_bytes


def test_all_reservations_together_take_a_share_of_what_is_free(disk: SmallDisk) -> None:
    manager = opened(disk)
    for index in range(200):
        manager.create(TopicPartition("orders", index), TOPIC_ID, SEGMENT)
    assert held(manager) == sum(disk.reserved.values()) == (64 // SHARE - 1) * MIB, "small files take some room, too"
    for log in manager.logs():
        put(log)


def test_a_segment_larger_than_the_share_is_not_reserved_and_works(disk: SmallDisk) -> None:
    manager = opened(disk)
    log = manager.create(PARTITION, TOPIC_ID, SEGMENT._replace(segment_bytes=2**31 - 1))
    assert not disk.reserved
    put(log)


def test_what_a_rolled_segment_or_a_deleted_log_had_is_free_for_others(disk: SmallDisk) -> None:
    manager = opened(disk)
    log = manager.create(PARTITION, TOPIC_ID, SEGMENT)
    for _ in range(100):
        put(log)
        log.roll(0)
    assert held(manager) == MIB
    manager.create(TopicPartition("other", 0), TOPIC_ID, SEGMENT)
    for number in range(100):
        name = TopicPartition("deleted", number)
        manager.create(name, TOPIC_ID, SEGMENT)
        manager.delete(name, 0)
    assert held(manager) == sum(disk.reserved.values()) == 2 * MIB


def test_a_fully_truncated_log_frees_its_preallocated_space_at_the_next_roll(disk: SmallDisk) -> None:
    manager = opened(disk)
    log = manager.create(PARTITION, TOPIC_ID, SEGMENT)
    put(log)
    log.truncate_fully_and_start_at(1000, 0)
    put(log)
    log.roll(0)
    assert held(manager) == MIB


def test_a_crash_leaves_no_zeros_behind_the_records_and_no_room_reserved(disk: SmallDisk) -> None:
    log = opened(disk).create(PARTITION, TOPIC_ID, SEGMENT)
    put(log)
    end, path = log.log_end_offset, log.segments.active.handle.path
    found = disk.killed()
    found.reserved = dict(disk.reserved)
    assert found.reserved
    (again,) = opened(found).logs()
    assert again.log_end_offset == end
    assert found.file_size(path) == again.segments.active.size
    assert not found.reserved


async def test_a_file_that_another_broker_preallocated_ends_at_its_last_record_after_a_crash(disk: SmallDisk) -> None:
    log = opened(disk).create(PARTITION, TOPIC_ID, SEGMENT)
    put(log)
    await log.flush()
    end, path = log.log_end_offset, log.segments.active.handle.path
    found = disk.killed()
    file = found.open(path)
    size = file.size()
    file.truncate(MIB)
    file.close()
    (again,) = opened(found).logs()
    assert again.log_end_offset == end
    assert found.file_size(path) == size
