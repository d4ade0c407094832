"""What becomes of damaged directories: the table of what Apache Kafka does, and where we are safer."""

from __future__ import annotations

import pytest

from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.types import NO_TOPIC_ID
from sordini.storage.errors import StorageError
from sordini.storage.log import Log
from sordini.storage.log_manager import LogManager
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import an_idempotent_batch
from tests.support.log_model import PARTITION, SMALL, TOPIC_ID, a_disk, a_manager, contents
from tests.unit.storage.test_log import put

MARKER = "/data/.kafka_cleanshutdown"
DIRECTORY = "/data/orders-3"
BATCHES = 20


async def stopped(*, clean: bool, flushed: bool = False) -> tuple[ForgetfulDisk, list[tuple[int, bytes]]]:
    """A directory with several segments of one producer's batches, and what it holds."""
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, SMALL)
    log.assign_epoch(3)
    for number in range(BATCHES):
        put(log, an_idempotent_batch(2, sequence=2 * number), epoch=3)
    log.high_watermark = log.log_end_offset
    held = contents(log)
    if flushed:
        await manager.tick(0)
        await manager.tick(60_000)
    if clean:
        await manager.close()
    return disk.killed(), held


def opened(disk: ForgetfulDisk) -> tuple[LogManager, Log, list[str]]:
    manager = a_manager(disk)
    findings = manager.open(0)
    log = manager.get(PARTITION)
    assert log is not None
    return manager, log, findings


def path_of(log_offset: int, suffix: str) -> str:
    return f"{DIRECTORY}/{log_offset:020d}{suffix}"


def bases(disk: ForgetfulDisk) -> list[int]:
    return [int(name[:20]) for name in disk.list_directory(DIRECTORY) if name.endswith(".log")]


async def test_a_clean_stop_leaves_what_apache_kafka_trusts() -> None:
    disk, held = await stopped(clean=True)
    for base in bases(disk):
        assert disk.file_size(path_of(base, ".index")) < SMALL.segment_index_bytes
        assert disk.file_size(path_of(base, ".timeindex")) % 12 == 0
    last = disk.contents(path_of(bases(disk)[-1], ".timeindex"))
    assert last
    assert disk.exists(path_of(len(held), ".snapshot"))
    assert disk.contents("/data/recovery-point-offset-checkpoint") == b"0\n1\norders 3 40\n"
    assert disk.contents("/data/replication-offset-checkpoint") == b"0\n1\norders 3 40\n"
    assert disk.contents("/data/log-start-offset-checkpoint") == b"0\n0\n"
    assert disk.contents(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n1\n3 0\n"
    assert disk.contents(f"{DIRECTORY}/partition.metadata") == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert disk.exists(MARKER)


async def test_the_marker_is_last_at_the_stop_and_first_at_the_start() -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    put(manager.create(PARTITION, TOPIC_ID, SMALL))
    await manager.close()
    assert [path for kind, path in disk.log if kind != "sync directory"][-2:] == [MARKER, MARKER]
    before = len(disk.log)
    opened(disk)
    assert disk.log[before : before + 2] == [("remove", MARKER), ("sync directory", "/data")]


async def test_a_clean_start_gives_everything_back_and_reads_only_the_end() -> None:
    disk, held = await stopped(clean=True)
    _, log, findings = opened(disk)
    assert findings == []
    assert contents(log) == held
    assert (log.topic_id, log.high_watermark, log.recovery_point, log.epochs.entries) == (TOPIC_ID, 40, 40, [(3, 0)])
    assert put(log, an_idempotent_batch(2, sequence=38)).duplicate
    assert put(log, an_idempotent_batch(2, sequence=40)).base_offset == 40


async def test_a_torn_tail_is_truncated_at_restart() -> None:
    disk, held = await stopped(clean=False)
    path = path_of(bases(disk)[-1], ".log")
    disk.replace(path, disk.contents(path)[:-5])
    _, log, findings = opened(disk)
    assert contents(log) == held[:-2]
    assert len(findings) == 1
    assert put(log, an_idempotent_batch(2, sequence=38)).base_offset == 38


async def test_a_torn_tail_behind_a_clean_marker_is_truncated_and_nothing_else_is_lost() -> None:
    disk, held = await stopped(clean=True)
    path = path_of(bases(disk)[-1], ".log")
    disk.replace(path, disk.contents(path)[:-5])
    _, log, findings = opened(disk)
    assert contents(log) == held[:-2]
    assert any("torn" in finding for finding in findings)
    assert put(log, an_idempotent_batch(2, sequence=38)).base_offset == 38


@pytest.mark.parametrize("tail", [bytes(12), bytes(61), bytes(5_000), b"\xff" * 70, bytes(16) + b"\2" + bytes(80)])
async def test_garbage_after_the_last_batch_is_truncated(tail: bytes) -> None:
    disk, held = await stopped(clean=False)
    path = path_of(bases(disk)[-1], ".log")
    disk.replace(path, disk.contents(path) + tail)
    assert contents(opened(disk)[1]) == held


async def test_the_log_is_truncated_at_sectors_of_zeros_between_batches() -> None:
    """The checksum of 12 zeros, a batch of nothing, is right: the length must give it away."""
    disk, held = await stopped(clean=False)
    path = path_of(bases(disk)[-1], ".log")
    data = disk.contents(path)
    disk.replace(path, bytes(len(data) // 2) + data[len(data) // 2 :])
    assert contents(opened(disk)[1]) == [record for record in held if record[0] < bases(disk)[-1]]


async def test_a_flipped_bit_past_the_recovery_point_cuts_the_log_there() -> None:
    disk, held = await stopped(clean=False)
    middle = bases(disk)[1]
    disk.flip(path_of(middle, ".log"), 100)
    _, log, _ = opened(disk)
    assert contents(log) == held[: log.log_end_offset]
    assert middle <= log.log_end_offset < bases(disk)[1] + 4
    assert len(bases(disk)) == 2


async def test_only_segments_past_the_recovery_point_are_read_at_an_unclean_start() -> None:
    disk, held = await stopped(clean=False, flushed=True)
    disk.flip(path_of(0, ".log"), 100)
    _, log, findings = opened(disk)
    assert findings == []
    assert log.log_end_offset == len(held)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "padded", "zeros", "odd", "other"])
async def test_damaged_indexes_are_rebuilt_and_retention_deletes_nothing(
    damage: str, suffix: str, *, clean: bool
) -> None:
    disk, held = await stopped(clean=clean, flushed=not clean)
    for base in bases(disk):
        path = path_of(base, suffix)
        data = disk.contents(path)
        if damage == "missing":
            disk.remove(path)
        else:
            damaged = {"padded": data + bytes(240), "zeros": bytes(240), "odd": data[:-1] + b"", "other": b"\x7f" * 24}
            disk.replace(path, damaged[damage])
    _, log, _ = opened(disk)
    log.config = SMALL._replace(retention_ms=1_000_000)
    assert log.apply_retention(1_700_000_000_000, 40) == []
    assert contents(log) == held
    assert log.find_timestamp(1_700_000_000_000, 40) is not None
    for start in range(40):
        piece = log.read(start, 10, 40, whole_first=True)
        assert piece is not None
        assert piece.base == start - start % 2


@pytest.mark.parametrize("clean", [True, False])
async def test_without_snapshots_producers_are_read_from_the_log(*, clean: bool) -> None:
    disk, _ = await stopped(clean=clean)
    for name in disk.list_directory(DIRECTORY):
        if name.endswith(".snapshot"):
            disk.remove(f"{DIRECTORY}/{name}")
    _, log, _ = opened(disk)
    assert put(log, an_idempotent_batch(2, sequence=38)).duplicate


@pytest.mark.parametrize("clean", [True, False])
async def test_a_damaged_snapshot_is_removed_and_an_older_one_used(*, clean: bool) -> None:
    disk, _ = await stopped(clean=clean)
    damaged = [name for name in disk.list_directory(DIRECTORY) if name.endswith(".snapshot")]
    for name in damaged[1:]:
        disk.flip(f"{DIRECTORY}/{name}", 12)
    _, log, _ = opened(disk)
    assert put(log, an_idempotent_batch(2, sequence=38)).duplicate


@pytest.mark.parametrize("name", ["recovery-point", "replication", "log-start"])
@pytest.mark.parametrize("text", [b"0\n1\n", b"junk", b"1\n0\n", b"0\n1\norders 3\n", b"\xff"])
async def test_an_unreadable_checkpoint_takes_its_directory_offline(name: str, text: bytes) -> None:
    disk, _ = await stopped(clean=True)
    disk.replace(f"/data/{name}-offset-checkpoint", text)
    with pytest.raises(StorageError, match=name):
        a_manager(disk).open(0)


@pytest.mark.parametrize("name", ["recovery-point", "replication", "log-start"])
@pytest.mark.parametrize("clean", [True, False])
async def test_a_missing_or_empty_checkpoint_is_as_one_without_entries(name: str, *, clean: bool) -> None:
    disk, held = await stopped(clean=clean)
    path = f"/data/{name}-offset-checkpoint"
    disk.replace(path, b"")
    if clean:
        disk.remove(path)
    assert contents(opened(disk)[1]) == held


async def test_a_high_watermark_past_the_log_end_is_lowered_to_it() -> None:
    disk, _ = await stopped(clean=True)
    disk.replace("/data/replication-offset-checkpoint", b"0\n1\norders 3 99\n")
    assert opened(disk)[1].high_watermark == 40


async def test_a_log_start_inside_the_log_moves_its_start() -> None:
    disk, held = await stopped(clean=True)
    disk.replace("/data/log-start-offset-checkpoint", b"0\n1\norders 3 7\n")
    _, log, _ = opened(disk)
    assert log.log_start_offset == 7
    assert contents(log) == held[7:]


@pytest.mark.parametrize("clean", [True, False])
async def test_a_log_start_past_the_end_begins_an_empty_log_there(*, clean: bool) -> None:
    disk, _ = await stopped(clean=clean)
    disk.replace("/data/log-start-offset-checkpoint", b"0\n1\norders 3 90\n")
    _, log, findings = opened(disk)
    assert (log.log_start_offset, log.log_end_offset, bases(disk)) == (90, 90, [90])
    assert findings
    assert put(log).base_offset == 90


async def test_leader_epochs_are_found_in_the_batches_when_their_file_is_missing() -> None:
    disk, _ = await stopped(clean=False)
    assert not disk.exists(f"{DIRECTORY}/leader-epoch-checkpoint")
    assert opened(disk)[1].epochs.entries == [(3, 0)]


async def test_a_leader_epoch_past_the_end_is_forgotten() -> None:
    disk, _ = await stopped(clean=True)
    disk.replace(f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n2\n3 0\n4 99\n")
    assert opened(disk)[1].epochs.entries == [(3, 0)]


async def test_a_torn_topic_id_is_ignored_after_a_crash_and_fatal_to_the_directory_after_a_clean_stop() -> None:
    disk, held = await stopped(clean=False)
    disk.replace(f"{DIRECTORY}/partition.metadata", b"version: 0\ntopic_")
    _, log, findings = opened(disk)
    assert (log.topic_id, contents(log)) == (NO_TOPIC_ID, held)
    assert len(findings) == 1
    disk, _ = await stopped(clean=True)
    disk.replace(f"{DIRECTORY}/partition.metadata", b"version: 0\ntopic_")
    with pytest.raises(StorageError, match=r"partition\.metadata"):
        a_manager(disk).open(0)


async def test_leftovers_of_deletion_and_compaction_are_cleared_away() -> None:
    disk, held = await stopped(clean=True)
    for name in ("00000000000000000500.log.deleted", "00000000000000000000.log.cleaned", "00000000000000000777.index"):
        disk.replace(f"{DIRECTORY}/{name}", b"junk")
    disk.replace(f"{DIRECTORY}/notes.txt", b"kept")
    _, log, _ = opened(disk)
    assert contents(log) == held
    left = disk.list_directory(DIRECTORY)
    assert not [name for name in left if name.endswith((".deleted", ".cleaned")) or name.startswith("0" * 17 + "777")]
    assert "notes.txt" in left


async def test_a_finished_compaction_replaces_the_segments_it_covers() -> None:
    disk, held = await stopped(clean=True)
    first, second = bases(disk)[:2]
    both = disk.contents(path_of(first, ".log")) + disk.contents(path_of(second, ".log"))
    disk.replace(path_of(first, ".log.swap"), both)
    _, log, _ = opened(disk)
    assert contents(log) == held
    assert second not in bases(disk)


async def test_an_empty_partition_directory_is_an_empty_log() -> None:
    disk = a_disk()
    disk.make_directory(DIRECTORY)
    _, log, _ = opened(disk)
    assert (log.log_start_offset, log.log_end_offset, log.topic_id) == (0, 0, NO_TOPIC_ID)
    assert put(log).base_offset == 0


async def test_aborted_transactions_are_indexed_again_after_a_crash() -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, SMALL)
    put(log, an_idempotent_batch(2, transactional=True))
    marker = [Record(0, 1, b"\0\0\0\0", b"\0\0\0\0\0\3")]
    put(log, build_batch(marker, producer_id=7, producer_epoch=0, transactional=True, control=True))
    log.roll(0)
    put(log)
    held = log.aborted_transactions(0, 9)
    assert len(held) == 1
    for _ in range(2):
        disk = disk.killed()
        assert opened(disk)[1].aborted_transactions(0, 9) == held


async def test_a_snapshot_of_records_that_were_truncated_and_replaced_is_not_used() -> None:
    disk, _ = await stopped(clean=False)
    other, _ = await stopped(clean=True)
    stale = other.contents(path_of(40, ".snapshot"))
    disk.replace(path_of(36, ".snapshot"), stale)
    _, log, _ = opened(disk)
    assert not disk.exists(path_of(36, ".snapshot"))
    assert put(log, an_idempotent_batch(2, sequence=40)).base_offset == 40


async def test_recovery_truncates_on_the_disk_before_anything_is_appended() -> None:
    disk, _ = await stopped(clean=False)
    path = path_of(bases(disk)[-1], ".log")
    disk.replace(path, disk.contents(path)[:-5])
    opened(disk)
    cut = disk.log.index(("truncate", path))
    assert ("sync", path) in disk.log[cut:]


async def test_a_recovery_point_is_lowered_on_disk_before_a_truncation_below_it() -> None:
    disk, _ = await stopped(clean=True)
    _, log, _ = opened(disk)
    before = len(disk.log)
    log.truncate_to(10)
    assert disk.contents("/data/recovery-point-offset-checkpoint") == b"0\n1\norders 3 10\n"
    calls = [call for call in disk.log[before:] if call[0] in ("truncate", "rename") and ".tmp" not in call[1]]
    assert calls[0] == ("rename", "/data/recovery-point-offset-checkpoint")
