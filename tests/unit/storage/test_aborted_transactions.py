"""Aborted transactions are reported to readers of committed records, whatever became of the `.txnindex` files."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sordini.protocol.records.batch import Record, build_batch
from sordini.storage.errors import DiskFull
from sordini.storage.log import Log
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import an_idempotent_batch
from tests.support.log_model import PARTITION, SMALL, TOPIC_ID, a_disk, a_manager
from tests.unit.storage.test_log import put

DIRECTORY = "/data/orders-3"
CONFIG = SMALL._replace(segment_bytes=100_000)


def begin(log: Log, producer_id: int, sequence: int) -> int:
    batch = an_idempotent_batch(2, producer_id=producer_id, sequence=sequence, transactional=True)
    return put(log, batch).base_offset


def end(log: Log, producer_id: int, *, commit: bool) -> None:
    marker = [Record(0, 1, b"\0\0\0\1" if commit else b"\0\0\0\0", b"\0\0\0\0\0\3")]
    put(log, build_batch(marker, producer_id=producer_id, producer_epoch=0, transactional=True, control=True))


def a_log_with_aborts(disk: ForgetfulDisk) -> tuple[Log, Callable[[], object]]:
    """Three segments: a transaction aborted in the first, one that spans two, and one committed in the last."""
    manager = a_manager(disk, CONFIG)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, CONFIG)
    begin(log, 5, 0)
    end(log, 5, commit=False)
    begin(log, 6, 0)
    log.roll(0)
    put(log)
    end(log, 6, commit=False)
    log.roll(0)
    begin(log, 5, 2)
    end(log, 5, commit=True)
    return log, manager.close


def reopened(disk: ForgetfulDisk) -> Log:
    manager = a_manager(disk, CONFIG)
    manager.open(0)
    log = manager.get(PARTITION)
    assert log is not None
    return log


def txn_indexes(disk: ForgetfulDisk) -> dict[str, bytes]:
    return {
        name: disk.contents(f"{DIRECTORY}/{name}")
        for name in disk.list_directory(DIRECTORY)
        if name.endswith(".txnindex")
    }


def remove(disk: ForgetfulDisk, path: str) -> None:
    disk.remove(path)


def tear(disk: ForgetfulDisk, path: str) -> None:
    disk.replace(path, disk.contents(path)[:-5] or b"torn")


def fill_with_zeros(disk: ForgetfulDisk, path: str) -> None:
    disk.replace(path, bytes(68))


def put_anothers_there(disk: ForgetfulDisk, path: str) -> None:
    """The entries of some other segment: their markers lie outside of this one."""
    shifted = bytearray(disk.contents(path) or bytes(34))
    shifted[24] = 9
    disk.replace(path, bytes(shifted))


@pytest.mark.parametrize("damage", [remove, tear, fill_with_zeros, put_anothers_there])
async def test_a_damaged_or_missing_transaction_index_is_rebuilt_after_a_clean_stop(
    damage: Callable[[ForgetfulDisk, str], None],
) -> None:
    disk = a_disk()
    log, close = a_log_with_aborts(disk)
    end_offset = log.log_end_offset
    expected = log.aborted_transactions(0, end_offset)
    assert len(expected) == 2
    await close()  # type: ignore[misc]
    right = txn_indexes(disk)
    for name in right:
        damage(disk, f"{DIRECTORY}/{name}")
    assert disk.exists("/data/.kafka_cleanshutdown")
    assert reopened(disk).aborted_transactions(0, end_offset) == expected
    assert txn_indexes(disk) == right


@pytest.mark.parametrize("call", range(1, 9))
def test_an_abort_is_in_the_index_whole_whichever_write_of_its_append_was_short(call: int) -> None:
    disk = a_disk()
    manager = a_manager(disk, CONFIG)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, CONFIG)
    begin(log, 5, 0)
    disk.shorten(call)
    try:
        end(log, 5, commit=False)
    except DiskFull:  # The marker's own write: it is not in the log, either.
        assert (log.log_end_offset, txn_indexes(disk)) == (2, {})
        return
    assert [len(data) for data in txn_indexes(disk).values()] == [34]
    assert [aborted.producer_id for aborted in log.aborted_transactions(0, 3)] == [5]


async def test_segments_without_aborts_in_a_log_with_transactions_are_closed_with_an_empty_index() -> None:
    disk = a_disk()
    log, close = a_log_with_aborts(disk)
    await close()  # type: ignore[misc]
    assert [len(data) for data in txn_indexes(disk).values()] == [34, 34, 0]
    del log


async def test_a_log_without_transactions_has_no_transaction_index() -> None:
    disk = a_disk()
    manager = a_manager(disk, CONFIG)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, CONFIG)
    put(log, an_idempotent_batch(2, sequence=0))
    log.roll(0)
    put(log, an_idempotent_batch(2, sequence=2))
    await manager.close()
    log = reopened(disk)
    assert log.aborted_transactions(0, 4) == []
    assert txn_indexes(disk) == {}


async def test_an_abort_after_a_restart_does_not_hide_that_the_index_was_missing() -> None:
    disk = a_disk()
    manager = a_manager(disk, CONFIG)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, CONFIG)
    begin(log, 5, 0)
    end(log, 5, commit=False)
    await manager.close()
    for name in txn_indexes(disk):
        disk.remove(f"{DIRECTORY}/{name}")
    log = reopened(disk)
    begin(log, 5, 2)
    end(log, 5, commit=False)
    found = log.aborted_transactions(0, log.log_end_offset)
    assert [(aborted.first_offset, aborted.last_offset) for aborted in found] == [(0, 2), (3, 5)]


async def test_without_the_older_snapshots_a_transaction_index_is_made_from_the_whole_log() -> None:
    disk = a_disk()
    log, close = a_log_with_aborts(disk)
    expected = log.aborted_transactions(0, log.log_end_offset)
    await close()  # type: ignore[misc]
    snapshots = [name for name in disk.list_directory(DIRECTORY) if name.endswith(".snapshot")]
    for name in [*txn_indexes(disk), *snapshots[:-1]]:
        disk.remove(f"{DIRECTORY}/{name}")
    log = reopened(disk)
    assert log.aborted_transactions(0, log.log_end_offset) == expected
