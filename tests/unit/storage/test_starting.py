"""What a start reads: little of a log that was closed, and of one that was not only what may not be on the disk."""

from __future__ import annotations

from collections import Counter

from sordini.protocol.types import TopicPartition
from sordini.storage.disk import File
from sordini.storage.log_manager import LogManager
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import a_batch, an_idempotent_batch
from tests.support.log_model import OFTEN, PARTITION, SMALL, TOPIC_ID, a_disk, a_manager
from tests.unit.storage.test_log import put

LARGE = SMALL._replace(segment_bytes=400_000, segment_index_bytes=4_096, index_interval_bytes=4_096)


class Watched(ForgetfulDisk):
    """Notes what is opened, listed and read."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.listed: Counter[str] = Counter()

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        self.opened.append(path)
        return super().open(path, create=create, writable=writable)

    def list_directory(self, path: str) -> list[str]:
        self.listed[path] += 1
        return super().list_directory(path)


def started_on(disk: ForgetfulDisk) -> tuple[Watched, LogManager]:
    watched = Watched()
    watched.root = disk.killed().root
    manager = a_manager(watched, LARGE)
    manager.open(0)
    return watched, manager


async def test_a_clean_start_opens_no_index_and_lists_each_directory_once() -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    partitions = [TopicPartition("t", number) for number in range(20)]
    for partition in partitions:
        log = manager.create(partition, TOPIC_ID, SMALL)
        for sequence in range(0, 20, 2):
            put(log, an_idempotent_batch(2, sequence=sequence))
    await manager.close()
    watched, manager = started_on(disk)
    assert [log.log_end_offset for log in manager.logs()] == [20] * 20
    assert [path for path in watched.opened if path.endswith("index")] == []
    assert {watched.listed[f"/data/{partition}"] for partition in partitions} == {1}
    assert manager.files.open_count <= OFTEN.open_files_max


async def test_what_a_clean_start_left_unread_is_read_at_the_first_use() -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, SMALL)
    for number in range(20):
        put(log, a_batch(2, timestamp=number))
    await manager.close()
    _, manager = started_on(disk)
    found = manager.get(PARTITION)
    assert found is not None
    assert put(found, a_batch(2, timestamp=20)).base_offset == 40
    late = found.find_timestamp(20, 42)
    assert late is not None
    assert late.offset == 39


async def test_an_unclean_start_reads_only_the_segments_past_the_recovery_point() -> None:
    disk = a_disk()
    manager = a_manager(disk, LARGE)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, LARGE)
    for _ in range(18):
        put(log, a_batch(value=bytes(30_000)))
    await manager.tick(0)
    await manager.tick(1_000)
    bases = [segment.base for segment in log.segments.all()]
    assert len(bases) > 3
    assert log.recovery_point == bases[-1]
    watched, manager = started_on(disk)
    found = manager.get(PARTITION)
    assert found is not None
    assert found.log_end_offset == 54
    read = {path.rpartition("/")[2] for path in watched.opened if path.endswith(".log")}
    assert read == {f"{bases[-1]:020d}.log"}
