"""What a full or broken disk does to one log: refused and healed, or the directory is offline."""

from __future__ import annotations

import errno
from contextlib import suppress

import pytest

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import TopicPartition
from sordini.storage.appending import LogAppendInfo
from sordini.storage.directory_failure import REFUSED
from sordini.storage.errors import StorageError
from tests.support.builders import an_idempotent_batch
from tests.support.log_model import PARTITION, SMALL, TOPIC_ID, a_disk, a_manager, contents
from tests.unit.storage.test_log import a_log, code_of, log_file, put


async def test_a_failed_sync_takes_the_directory_offline() -> None:
    disk = a_disk()
    log = a_log(disk)
    put(log)
    disk.fail_while(lambda kind, path: kind == "sync" and path.endswith(".log"), errno.EIO)
    with pytest.raises(StorageError):
        await log.flush()
    disk.heal()
    with pytest.raises(StorageError):
        put(log)
    assert log.recovery_point == 0


def test_a_short_write_is_truncated_and_refused() -> None:
    disk = a_disk()
    log = a_log(disk)
    put(log)
    before = disk.contents(log_file(log))
    disk.shorten(1)
    assert code_of(lambda: put(log)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert disk.contents(log_file(log)) == before
    assert put(log).base_offset == 2


def test_a_full_disk_refuses_writes_and_heals() -> None:
    disk = a_disk()
    log = a_log(disk)
    put(log)
    disk.fail_while(lambda kind, _: kind in ("write", "create"), errno.ENOSPC)
    for _ in range(3):
        assert code_of(lambda: put(log, an_idempotent_batch(sequence=0))) is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(contents(log)) == 2
    disk.heal()
    assert put(log, an_idempotent_batch(sequence=0)) == LogAppendInfo(2, 5, -1, 0, False)


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".snapshot"])
def test_a_disk_that_fills_up_anywhere_never_loses_what_was_answered(suffix: str) -> None:
    disk = a_disk()
    log = a_log(disk)

    def is_full(kind: str, path: str) -> bool:
        # Cutting a file needs no room.
        is_cut = kind == "truncate" and suffix == ".log"
        return path.endswith(suffix) and not is_cut and len(disk.log) % 3 != 0

    disk.fail_while(is_full, errno.ENOSPC)
    answered = 0
    for _ in range(60):
        with suppress(BrokerError):
            answered = put(log).end_offset
    assert answered == log.log_end_offset > 0
    assert [offset for offset, _ in contents(log)] == list(range(answered))
    disk.heal()
    for segment in log.segments.all():
        assert disk.file_size(segment.handle.path) == segment.size


def test_a_broken_disk_takes_the_directory_offline_and_is_reported_once() -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, SMALL)
    reported: list[StorageError] = []
    manager.on_offline = reported.append
    put(log)
    disk.fail(1, errno.EIO)
    for _ in range(2):
        with pytest.raises(StorageError) as raised:
            put(log)
        assert raised.value.directory == "/data"
    assert [failure.directory for failure in reported] == ["/data"]
    assert manager.offline_directories == ["/data"]


@pytest.mark.parametrize("code", sorted(REFUSED), ids=errno.errorcode.get)
async def test_what_cannot_be_done_is_refused_and_says_nothing_about_the_disk(code: int) -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, SMALL)
    put(log)
    for kinds in (("write",), ("create", "mkdir"), ("rename",)):
        disk.fail_while(lambda kind, _, kinds=kinds: kind in kinds, code)  # type: ignore[misc]
        asked = {
            "write": lambda: put(log),
            "create": lambda: manager.create(TopicPartition("bills", 0), TOPIC_ID, SMALL),
            "rename": lambda: manager.delete(PARTITION, 0),
        }[kinds[0]]
        assert code_of(asked) is ErrorCode.KAFKA_STORAGE_ERROR
        assert manager.online_directories == ["/data"]
        disk.heal()
    assert put(log).base_offset == 2
    manager.create(TopicPartition("bills", 0), TOPIC_ID, SMALL)
    assert sorted(log.topic_partition.topic for log in manager.logs()) == ["bills", PARTITION.topic]


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS, errno.ENXIO, errno.ENODEV, errno.ESTALE, errno.EUCLEAN, 9999])
def test_any_other_error_takes_the_directory_offline(code: int) -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, SMALL)
    disk.fail_while(lambda kind, _: kind == "write", code)
    with pytest.raises(StorageError):
        put(log)
    assert manager.offline_directories == ["/data"]


async def test_a_sync_that_fails_is_a_failed_sync_whatever_its_error() -> None:
    for code in sorted(REFUSED):
        disk = a_disk()
        log = a_log(disk)
        put(log)
        disk.fail_while(lambda kind, path: kind == "sync" and path.endswith(".log"), code)
        with pytest.raises(StorageError):
            await log.flush()


def test_a_failed_truncation_takes_the_directory_offline() -> None:
    disk = a_disk()
    log = a_log(disk)
    put(log)
    disk.fail_while(lambda kind, _: kind in ("write", "truncate"), errno.ENOSPC)
    with pytest.raises(StorageError):
        put(log)
