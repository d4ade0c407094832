"""Log directories: whose they are, what is in them, and the jobs that keep them."""

from __future__ import annotations

import asyncio
import errno
import random
from pathlib import Path
from types import FrameType

import pytest

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import TopicPartition
from sordini.storage import names
from sordini.storage.disk import SystemDisk
from sordini.storage.errors import NameTaken, StorageError, WrongDirectory
from sordini.storage.log_config import LogConfig
from sordini.storage.log_manager import Identity, LogManager
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import a_batch
from tests.support.case_folding_disk import CaseFoldingDisk
from tests.support.log_model import OFTEN, PARTITION, SMALL, TOPIC_ID, a_disk, a_manager, contents
from tests.support.profiled import is_ours, profiled
from tests.unit.storage.test_log import put

CLUSTER = "c" * 22


def a_manager_of(disk: ForgetfulDisk, *directories: str, broker: int = 1, cluster: str = CLUSTER) -> LogManager:
    return LogManager(disk, directories, Identity(broker, cluster), lambda _: SMALL, random.Random(1), OFTEN)


def test_a_new_directory_is_marked_as_this_brokers() -> None:
    disk = a_disk()
    a_manager(disk).open(0)
    text = disk.contents("/data/meta.properties").decode()
    assert sorted(text.splitlines()) == ["broker.id=1", f"cluster.id={CLUSTER}", "version=0"]


async def test_a_marker_is_gone_for_good_where_the_same_start_also_wrote_meta_properties() -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    await manager.close()
    disk.replace("/data/meta.properties", b"version=0\n")  # As an operator who takes the directory to another cluster.
    marker = f"/data/{names.CLEAN_MARKER}"
    assert disk.exists(marker)
    a_manager(disk).open(0)
    assert not any(disk.power_lost(seed).exists(marker) for seed in range(20))


def test_a_new_directorys_names_are_synced_once() -> None:
    disk = a_disk()
    a_manager(disk).open(0)
    assert disk.log.count(("sync directory", "/data")) == 1


async def test_another_brokers_or_clusters_directory_is_refused() -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    await manager.close()
    with pytest.raises(WrongDirectory, match="holds the logs of broker 1, this is broker 2"):
        a_manager_of(disk, "/data", broker=2).open(0)
    with pytest.raises(WrongDirectory, match=f"belongs to cluster {CLUSTER}"):
        a_manager_of(disk, "/data", cluster="d" * 22).open(0)
    assert disk.exists("/data/.kafka_cleanshutdown")
    a_manager(disk).open(0)


def test_a_meta_properties_of_another_version_is_refused() -> None:
    disk = a_disk()
    disk.replace("/data/meta.properties", b"version=2\nbroker.id=1\n")
    with pytest.raises(WrongDirectory, match="version"):
        a_manager(disk).open(0)


def test_unknown_keys_of_meta_properties_are_kept() -> None:
    disk = a_disk()
    disk.replace("/data/meta.properties", b"#a comment\nversion=0\ndirectory.id=abc\n")
    a_manager(disk).open(0)
    assert b"directory.id=abc" in disk.contents("/data/meta.properties")


def test_a_second_process_is_refused_while_the_first_runs() -> None:
    disk = a_disk()
    a_manager(disk).open(0)
    with pytest.raises(WrongDirectory, match=r"\.lock"):
        a_manager(disk).open(0)


async def test_the_lock_is_let_go_at_the_end_and_after_a_failed_start() -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    await manager.close()
    disk.replace("/data/replication-offset-checkpoint", b"junk")
    with pytest.raises(StorageError):
        a_manager(disk).open(0)
    disk.replace("/data/replication-offset-checkpoint", b"")
    a_manager(disk).open(0)


async def test_logs_are_spread_over_the_directories_and_one_that_fails_goes_offline_alone() -> None:
    disk = a_disk()
    manager = a_manager_of(disk, "/data/a", "/data/b")
    manager.open(0)
    logs = [manager.create(TopicPartition("t", number), TOPIC_ID, SMALL) for number in range(4)]
    assert sorted(log.log_dir.path for log in logs) == ["/data/a", "/data/a", "/data/b", "/data/b"]
    disk.fail_while(lambda kind, path: kind == "write" and path.startswith("/data/a"), errno.EIO)
    for log in logs:
        if log.log_dir.path == "/data/a":
            with pytest.raises(StorageError):
                put(log)
        else:
            put(log)
    assert (manager.online_directories, manager.offline_directories) == (["/data/b"], ["/data/a"])
    assert manager.create(TopicPartition("t", 4), TOPIC_ID, SMALL).log_dir.path == "/data/b"
    await manager.close()
    assert disk.exists("/data/b/.kafka_cleanshutdown")
    assert not disk.exists("/data/a/.kafka_cleanshutdown")


def test_a_directory_that_cannot_be_loaded_is_offline_from_the_start() -> None:
    disk = a_disk()
    disk.replace("/data/a/recovery-point-offset-checkpoint", b"junk")
    manager = a_manager_of(disk, "/data/a", "/data/b")
    manager.open(0)
    assert manager.offline_directories == ["/data/a"]


async def test_one_partition_in_two_directories_stops_the_start() -> None:
    disk = a_disk()
    for directory in ("/data/a", "/data/b"):
        disk.replace(f"{directory}/t-0/{0:020d}.log", a_batch())
    with pytest.raises(StorageError, match="t-0 is also in"):
        a_manager_of(disk, "/data/a", "/data/b").open(0)


@pytest.mark.parametrize("full", ["a", "b"])
async def test_of_one_partition_in_two_directories_the_one_without_a_record_is_deleted(full: str) -> None:
    # A creation that failed half-way left it, and the partition was made elsewhere.
    disk = a_disk()
    for directory in ("/data/a", "/data/b"):
        disk.make_directory(f"{directory}/t-0")
    disk.replace(f"/data/{full}/t-0/{0:020d}.log", a_batch())
    manager = a_manager_of(disk, "/data/a", "/data/b")
    findings = manager.open(0)
    log = manager.get(TopicPartition("t", 0))
    assert log is not None
    assert (log.log_dir.path, log.log_end_offset) == (f"/data/{full}", 3)
    assert any("is empty" in finding for finding in findings)
    assert not disk.exists(f"/data/{'b' if full == 'a' else 'a'}/t-0")


async def test_a_deleted_partition_is_renamed_at_once_and_removed_later() -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, SMALL)
    put(log)
    piece = log.read(0, 100, 2, whole_first=True)
    assert piece is not None
    manager.delete(PARTITION, 5_000)
    assert manager.get(PARTITION) is None
    pending = [name for name in disk.list_directory("/data") if name.endswith("-delete")]
    assert len(pending) == 1
    assert pending[0].startswith("orders-3.")
    assert len(pending[0]) == len("orders-3.") + 32 + len("-delete")
    await manager.tick(5_999)
    assert disk.exists(f"/data/{pending[0]}")
    await manager.tick(6_000)
    assert not disk.exists(f"/data/{pending[0]}")
    assert piece.read()
    again = manager.create(PARTITION, TOPIC_ID, SMALL)
    assert again.log_end_offset == 0


async def test_a_partition_made_again_inherits_no_checkpoint_of_the_former_one() -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, SMALL)
    for _ in range(10):
        put(log)
    await log.flush()
    log.advance_log_start(15)
    await manager.tick(0)
    await manager.tick(60_000)
    assert b"orders 3 15" in disk.contents("/data/log-start-offset-checkpoint")
    manager.delete(PARTITION, 0)
    put(manager.create(PARTITION, TOPIC_ID, SMALL))
    survivor = disk.killed()
    again = a_manager(survivor)
    again.open(0)
    found = again.get(PARTITION)
    assert found is not None
    assert (found.log_start_offset, found.log_end_offset) == (0, 2)


def test_a_directory_left_to_be_removed_is_not_a_partition_and_strange_ones_are_left_alone() -> None:
    disk = a_disk()
    for name in ("t-0.0123456789abcdef0123456789abcdef-delete", "lost+found", "t-1.aa-stray", "t-2.bb-future"):
        disk.make_directory(f"/data/{name}")
    manager = a_manager(disk)
    findings = manager.open(0)
    assert manager.logs() == []
    assert len(findings) == 3


async def test_tick_moves_the_recovery_point_to_the_active_segment_and_writes_it_down() -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, SMALL)
    for _ in range(10):
        put(log)
    await manager.tick(0)
    assert log.recovery_point == log.segments.active.base > 0
    await manager.tick(1_000)
    expected = f"0\n1\norders 3 {log.recovery_point}\n".encode()
    assert disk.contents("/data/recovery-point-offset-checkpoint") == expected


async def test_tick_syncs_whole_logs_whose_flush_time_has_come() -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, SMALL._replace(flush_ms=500))
    put(log)
    await manager.tick(499)
    assert log.recovery_point == 0
    await manager.tick(500)
    assert log.recovery_point == 2


async def test_tick_deletes_by_retention_and_removes_the_files_after_their_delay() -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, SMALL._replace(retention_bytes=500))
    for _ in range(20):
        put(log)
    await manager.tick(0)
    await manager.tick(1_000)
    assert log.log_start_offset == 0
    log.high_watermark = 40
    await manager.tick(2_000)
    assert log.log_start_offset > 0
    assert any(name.endswith(".deleted") for name in disk.list_directory(log.directory))
    await manager.tick(3_000)
    assert not any(name.endswith(".deleted") for name in disk.list_directory(log.directory))


async def test_a_log_that_does_not_close_keeps_the_marker_away() -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    put(manager.create(PARTITION, TOPIC_ID, SMALL))
    disk.fail_while(lambda kind, path: kind == "sync" and path.endswith(".snapshot"), errno.EIO)
    await manager.close()
    assert not disk.exists("/data/.kafka_cleanshutdown")


async def test_many_partitions_share_a_few_open_files() -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    logs = [manager.create(TopicPartition("t", number), TOPIC_ID, SMALL) for number in range(30)]
    for _ in range(8):
        for log in logs:
            put(log)
    # Four files, and the lock.
    assert disk.open_files <= OFTEN.open_files_max + 1
    assert all(len(contents(log)) == 16 for log in logs)
    await manager.close()
    assert disk.open_files == 0


def test_names_of_partitions_and_of_what_is_not_one() -> None:
    assert names.partition_of("a-b.c_d-17") == TopicPartition("a-b.c_d", 17)
    for name in ("orders", "orders-", "-3", "orders-03", "orders-99999999999", "orders-3.ab-delete", "a+b-1"):
        assert names.partition_of(name) is None
    for name in (".-0", "..-0", "x" * 250 + "-0", "orders-2147483648"):
        assert names.partition_of(name) is None
    long = names.pending_delete_name(TopicPartition("x" * 249, 12), 1)
    assert len(long) == 255
    assert long.endswith("-12." + "0" * 31 + "1-delete")


NO_TOPICS = ("../../x", "a/b", "..", ".", "", "a\nb", "a b", "x" * 250, "\0")


@pytest.mark.parametrize("wanted", [*((name, 0) for name in NO_TOPICS), ("orders", -5), ("orders", 2**31)], ids=repr)
def test_no_path_is_made_of_what_no_partition_is_called_a_reader_that_asks(wanted: tuple[str, int]) -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    before = disk.directories("/"), disk.list_directory("/data")
    with pytest.raises(BrokerError) as refused:
        manager.create(TopicPartition(*wanted), TOPIC_ID, SMALL)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert (disk.directories("/"), disk.list_directory("/data")) == before
    assert (manager.logs(), manager.online_directories) == ([], ["/data"])
    with pytest.raises(BrokerError):
        names.pending_delete_name(TopicPartition(*wanted), 1)


def test_settings_default_to_apache_kafkas() -> None:
    assert LogConfig().segment_bytes == 1_073_741_824
    assert LogConfig().segment_index_bytes == 10_485_760


async def test_logs_that_are_due_by_time_are_synced_several_at_once() -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    logs = [manager.create(TopicPartition("t", number), TOPIC_ID, SMALL._replace(flush_ms=500)) for number in range(20)]
    for log in logs:
        put(log)
    running = peak = 0

    async def slowly() -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0)
        running -= 1

    disk.before_offload = slowly
    await manager.tick(500)
    assert [log.recovery_point for log in logs] == [2] * 20
    assert peak > 1


async def test_the_schedulers_interval_says_how_often_times_are_looked_at() -> None:
    disk = a_disk()
    store = OFTEN._replace(flush_check_interval_ms=5_000)
    manager = LogManager(disk, ["/data"], Identity(1, CLUSTER), lambda _: SMALL, random.Random(1), store)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, SMALL._replace(flush_ms=500))
    put(log)
    await manager.tick(0)
    await manager.tick(4_999)
    assert log.recovery_point == 0
    await manager.tick(5_000)
    assert log.recovery_point == 2


@pytest.mark.parametrize("rolled", [0, 3])
async def test_an_idle_tick_costs_the_same_with_ten_logs_and_with_two_hundred(rolled: int) -> None:
    """Only the logs that rolled are read, or that have deleted files."""
    assert await calls_of_a_tick(10, rolled) == await calls_of_a_tick(200, rolled)


async def calls_of_a_tick(count: int, rolled: int) -> int:
    """The package's calls in a tick with `count` logs, of which the first `rolled` have a closed segment to flush."""
    logs = LogManager(ForgetfulDisk(), ["/logs"], Identity(1, CLUSTER), lambda _: LogConfig(), random.Random(1))
    logs.open(0)
    for index in range(count):
        logs.create(TopicPartition("orders", index), TOPIC_ID, LogConfig())
    await logs.tick(0)
    for log in logs.logs()[:rolled]:
        put(log)
        log.roll(0)
    calls = 0

    def count_call(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call" and is_ours(frame.f_code)

    with profiled(count_call):
        await logs.tick(1_000)
    return calls


@pytest.mark.parametrize("distinguishes_case", [True, False])
def test_names_that_differ_in_case_only_are_two_logs_or_the_second_is_refused(
    tmp_path: Path, *, distinguishes_case: bool
) -> None:
    disk = SystemDisk() if distinguishes_case else CaseFoldingDisk()
    manager = LogManager(disk, [str(tmp_path)], Identity(1, CLUSTER), lambda _: SMALL, random.Random(1), OFTEN)
    manager.open(0)
    first = manager.create(TopicPartition("Orders", 0), TOPIC_ID, SMALL)
    put(first)
    held = (tmp_path / "Orders-0" / f"{0:020d}.log").read_bytes()
    if distinguishes_case:
        manager.create(TopicPartition("orders", 0), TOPIC_ID, SMALL)
    else:
        for _ in range(2):
            with pytest.raises(NameTaken, match=r"orders-0 is Orders-0: this file system does not distinguish"):
                manager.create(TopicPartition("orders", 0), TOPIC_ID, SMALL)
    assert held
    assert (tmp_path / "Orders-0" / f"{0:020d}.log").read_bytes() == held
    assert (tmp_path / "orders-0").exists() == distinguishes_case
    disk.close()
