"""What the campaign found and was mended, each reported by itself."""

from __future__ import annotations

import errno
from contextlib import suppress

import pytest

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import read_header
from sordini.storage import names
from sordini.storage.errors import StorageError
from sordini.storage.log import Log
from sordini.testing.brokers.loop_processes import Died
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.crash.stop_rules import check_stopped
from tests.support.builders import BASE_TIMESTAMP, a_batch, an_idempotent_batch, writable
from tests.support.log_model import PARTITION, SMALL, TOPIC_ID, Store, a_disk, a_manager, contents

SEEDS = range(40)


async def a_store(appends: int = 12, config_changes: dict[str, int] | None = None) -> Store:
    store = Store(a_disk(), SMALL._replace(**(config_changes or {})))
    await store.open()
    await store.create()
    for _ in range(appends):
        await store.append()
    return store


def opened(disk: ForgetfulDisk) -> Log:
    """The log as the next process finds it."""
    manager = a_manager(disk)
    manager.open(0)
    assert manager.offline_directories == []
    log = manager.get(PARTITION)
    assert log is not None
    return log


async def test_a_clean_stop_after_a_flush_leaves_the_last_time_in_the_index() -> None:
    store = await a_store(2)
    await store.flush()
    await store.close()
    assert check_stopped("/data", store.disk.tree())
    log = opened(store.disk.killed())
    assert log.find_timestamp(1, log.log_end_offset) is not None


async def test_a_clean_shutdown_marker_removed_by_a_crashed_start_does_not_reappear() -> None:
    store = await a_store()
    await store.close()
    disk = store.disk.killed()
    disk.die_at(next(call for call in range(1, 9) if _removes_the_marker(store.disk, call)), 1.0)
    with pytest.raises(Died):
        a_manager(disk).open(0)
    second = disk.killed()
    a_manager(second).open(0)
    assert not any(second.power_lost(seed).exists(f"/data/{names.CLEAN_MARKER}") for seed in SEEDS)


def _removes_the_marker(stopped: ForgetfulDisk, call: int) -> bool:
    disk = stopped.killed()
    a_manager(disk).open(0)
    return disk.log[call - 1] == ("remove", f"/data/{names.CLEAN_MARKER}")


async def test_a_cut_saves_the_recovery_point_although_a_roll_has_moved_it_back_in_memory() -> None:
    store = await a_store(6, {"segment_bytes": 10_000})
    await store.flush()
    for _ in range(2):
        await store.tick()
    await store.roll()
    assert store.log.recovery_point == 0
    store.log.truncate_to(4)
    assert store.disk.contents("/data/recovery-point-offset-checkpoint") == b"0\n1\norders 3 0\n"


async def test_a_cut_saves_the_recovery_point_where_the_batch_begins_that_it_cuts() -> None:
    store = await a_store(6, {"segment_bytes": 10_000})
    await store.flush()
    for _ in range(2):
        await store.tick()
    store.log.truncate_to(5)
    assert store.log.log_end_offset == 4
    assert store.disk.contents("/data/recovery-point-offset-checkpoint") == b"0\n1\norders 3 4\n"


async def test_a_cut_through_the_batch_at_the_logs_start_restarts_the_log_there() -> None:
    store = await a_store(6)
    store.log.advance_log_start(5)
    store.log.truncate_to(5)
    assert (store.log.log_start_offset, store.log.log_end_offset) == (5, 5)
    buffer = writable(a_batch(2))
    assert store.log.append(buffer, [(0, read_header(buffer))], 1, 0).base_offset == 5
    assert [offset for offset, _ in contents(opened(store.disk.killed()))] == [5, 6]


@pytest.mark.parametrize("call", range(1, 12))
async def test_a_roll_that_fails_anywhere_leaves_nothing_that_ends_the_log_at_a_crash(call: int) -> None:
    for errno_ in (errno.ENOSPC, errno.EMFILE):
        store = await a_store(3)
        await store.flush()
        store.disk.fail(call, errno_)
        with suppress(BrokerError, StorageError):
            await store.roll()
        store.disk.heal()
        with suppress(StorageError):
            await store.append()
            await store.flush()
        for survivor in (store.disk.killed(), *(store.disk.power_lost(seed) for seed in SEEDS)):
            assert opened(survivor).log_end_offset >= store.synced


async def test_without_room_for_the_epochs_the_recovery_point_stays() -> None:
    store = await a_store(3)
    store.disk.fail_while(lambda _, path: names.LEADER_EPOCHS in path, errno.ENOSPC)
    await store.log.flush()
    assert store.log.recovery_point == 0
    store.disk.heal()
    await store.log.flush()
    assert store.log.recovery_point == 6
    assert opened(store.disk.power_lost(1)).epochs.entries == [(1, 0)]


async def test_epochs_of_records_that_were_lost_are_not_believed() -> None:
    store = await a_store(2)
    await store.flush()
    store.disk.replace(f"/data/{PARTITION}/{names.LEADER_EPOCHS}", b"0\n3\n0 0\n1 2\n2 9\n")
    assert opened(store.disk.killed()).epochs.entries == [(1, 0)]


async def test_a_torn_partition_metadata_is_gone_before_the_next_clean_stop() -> None:
    store = await a_store(2)
    await store.flush()
    store.disk.replace(f"/data/{PARTITION}/{names.PARTITION_METADATA}", b"version: 0\ntopic_id")
    disk = store.disk.killed()
    manager = a_manager(disk)
    manager.open(0)
    await manager.close()
    assert opened(disk.killed()).log_end_offset == 4


async def test_a_snapshot_from_before_the_logs_first_segment_is_not_used() -> None:
    store = await a_store(48)
    await store.flush()
    directory = f"/data/{PARTITION}"
    first = store.log.segments.all()[1].base
    old = {path: data for path, data in store.disk.tree(directory).items() if path.endswith(names.SNAPSHOT)}
    await store.retain()
    assert store.log.segments.all()[0].base > first
    disk = store.disk.killed()
    for path in [path for path in disk.tree(directory) if path.endswith(names.SNAPSHOT)]:
        disk.remove(path)
    stale = f"{directory}/{names.file_name(first, names.SNAPSHOT)}"
    disk.replace(stale, old[stale])
    # Told of sequences long past, it would refuse the producer's next batch.
    assert [entry.last_sequence for entry in opened(disk).producers.entries()] == [95]


def test_batches_whose_index_entry_finds_no_room_are_found_by_their_time() -> None:
    disk = a_disk()
    manager = a_manager(disk, SMALL._replace(index_interval_bytes=0))
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, SMALL._replace(index_interval_bytes=0))
    parts = [a_batch(1, timestamp=BASE_TIMESTAMP + number) for number in range(3)]
    buffer = writable(b"".join(parts))
    sizes = [len(part) for part in parts]
    batches = [(sum(sizes[:number]), read_header(buffer, sum(sizes[:number]))) for number in range(3)]
    disk.fail_while(lambda kind, path: kind == "write" and path.endswith(".index"), errno.ENOSPC)
    log.append(buffer, batches, 1, 0)
    found = log.find_timestamp(BASE_TIMESTAMP + 2, 3)
    assert found is not None
    assert found[:2] == (BASE_TIMESTAMP + 2, 2)


@pytest.mark.parametrize("call", range(1, 5))
async def test_a_segment_that_retention_could_not_rename_does_not_reappear(call: int) -> None:
    store = await a_store(24)
    await store.flush()
    for _ in range(2):
        await store.tick()
    store.disk.fail(call, errno.ENOSPC)
    with suppress(BrokerError):
        await store.retain()
    start = store.log.log_start_offset
    assert start > 0
    for _ in range(2):
        await store.tick()
    starts = {opened(store.disk.power_lost(seed)).log_start_offset for seed in SEEDS}
    assert starts == {start}


async def test_a_partition_in_deletion_does_not_reappear_in_parts() -> None:
    store = await a_store(12)
    await store.flush()
    await store.delete()
    for _ in range(2):
        await store.tick()
    assert not any(store.disk.power_lost(seed).exists(f"/data/{PARTITION}") for seed in SEEDS)


async def test_a_creation_that_fails_leaves_no_directory() -> None:
    for call in range(1, 11):
        store = Store(a_disk())
        await store.open()
        store.disk.fail(call, errno.ENOSPC)
        with suppress(BrokerError):
            await store.create()
            continue
        store.disk.heal()
        assert not store.disk.exists(f"/data/{PARTITION}"), f"call {call}"


async def test_no_descriptor_at_a_flush_refuses_and_heals() -> None:
    store = await a_store(3)
    store.disk.refuse_while(lambda kind, path: kind == "open" and path.endswith(names.PARTITION_METADATA), errno.EMFILE)
    with pytest.raises(BrokerError):
        await store.log.flush()
    store.disk.heal()
    await store.flush()
    buffer = writable(an_idempotent_batch(1, sequence=0))
    store.log.append(buffer, [(0, read_header(buffer))], 1, 0)
    assert opened(store.disk.power_lost(3)).log_end_offset >= 6
