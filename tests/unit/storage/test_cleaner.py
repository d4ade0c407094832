"""The cleaner: what it picks, what it does with a result, and what becomes of a log that changed meanwhile."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

import pytest

from sordini.protocol.types import TopicPartition
from sordini.storage.cleaner import FAILURES_MAX, FailureKind, LogCleaner, WorkerFailed
from sordini.storage.compaction.log_selection import CleanerConfig
from sordini.storage.compaction.task import CleaningResult, CleaningTask
from sordini.storage.log import Log
from tests.support.compacted_logs import COMPACTED, Compacting, fill, held_by, put_pairs, text_of
from tests.support.log_model import PARTITION, TOPIC_ID

THREE = ("a1 b1|c1", "a2 d1|b2", "a3 e1", "f1")


async def test_a_log_shrinks_to_the_newest_record_of_each_key_and_what_is_active_stays() -> None:
    store = Compacting()
    log = await store.filled(*THREE)
    assert await store.cleaner.clean_once()
    assert text_of(held_by(log)) == "2c1 4d1 5b2 6a3 7e1 8f1"
    assert log.compaction.first_dirty_offset == 8
    assert store.bases() == [0, 8]
    assert store.files(".cleaned", ".swap") == []
    assert not log.compaction.is_running
    assert store.cleaner.figures.runs == 1
    assert not await store.cleaner.clean_once()


async def test_the_first_dirty_offset_is_written_down_as_apache_kafka_does_it_and_read_again() -> None:
    store = Compacting()
    await store.filled(*THREE)
    await store.cleaner.clean_once()
    assert store.disk.contents("/data/cleaner-offset-checkpoint") == b"0\n1\norders 3 8\n"
    again = Compacting(store.disk.killed())
    assert again.log.compaction.first_dirty_offset == 8
    assert not await again.cleaner.clean_once()


async def test_a_clean_stop_writes_the_checkpoint_of_a_log_that_was_truncated() -> None:
    store = Compacting()
    log = await store.filled(*THREE)
    await store.cleaner.clean_once()
    log.truncate_to(7)
    await store.manager.close()
    assert store.disk.contents("/data/cleaner-offset-checkpoint") == b"0\n1\norders 3 6\n"


async def test_where_nothing_is_compacted_there_is_no_checkpoint() -> None:
    store = Compacting()
    await store.filled("a1")
    await store.manager.close()
    assert not store.disk.exists("/data/cleaner-offset-checkpoint")


async def test_a_damaged_checkpoint_is_reported_and_mended() -> None:
    store = Compacting()
    await store.filled(*THREE)
    store.disk.replace("/data/cleaner-offset-checkpoint", b"junk")
    survivor = store.disk.killed()
    again = Compacting(survivor)
    assert again.log.compaction.first_dirty_offset is None
    assert survivor.contents("/data/cleaner-offset-checkpoint") == b"0\n0\n"
    assert again.manager.offline_directories == []


async def test_a_second_cleaning_continues_where_the_first_ended() -> None:
    store = Compacting()
    log = await store.filled(*THREE)
    await store.cleaner.clean_once()
    put_pairs(log, "a4 b-")
    log.roll(0)
    put_pairs(log, "g1")
    await log.flush()
    assert await store.cleaner.clean_once()
    assert text_of(held_by(log)) == "2c1 4d1 7e1 8f1 9a4 10b- 11g1"
    assert store.worker.tasks[-1].first_dirty_offset == 8


async def test_a_log_that_is_not_compacted_is_left_alone() -> None:
    store = Compacting(cleanup_compact=False, cleanup_delete=True)
    await store.filled(*THREE)
    assert not await store.cleaner.clean_once()


async def test_the_filthiest_of_several_logs_goes_first_and_all_have_their_turn() -> None:
    store = Compacting()
    clean = await store.filled(*THREE)
    await store.cleaner.clean_once()
    put_pairs(clean, "a9")
    clean.roll(0)
    await clean.flush()
    other = store.manager.create(TopicPartition("bills", 0), TOPIC_ID, store.log_config)
    fill(other, THREE)
    await other.flush()
    while await store.cleaner.clean_once():
        pass
    assert [run.log.topic_partition.topic for run in store.reported.runs] == ["orders", "bills", "orders"]
    assert store.cleaner.figures.dirty_ratio_max == 0.0


async def test_records_above_the_high_watermark_stay() -> None:
    store = Compacting()
    log = await store.filled(*THREE)
    log.high_watermark = 4
    await store.cleaner.clean_once()
    assert text_of(held_by(log)) == "0a1 1b1 2c1 3a2 4d1 5b2 6a3 7e1 8f1"
    log.high_watermark = 6
    await store.cleaner.clean_once()
    assert text_of(held_by(log)) == "2c1 3a2 4d1 5b2 6a3 7e1 8f1"


async def test_what_is_not_on_the_disk_yet_waits() -> None:
    store = Compacting()
    fill(store.log, THREE)
    assert not await store.cleaner.clean_once()
    await store.manager.tick(0)
    assert await store.cleaner.clean_once()


def cut(log: Log, store: Compacting) -> None:
    del store
    log.truncate_to(5)


def delete(log: Log, store: Compacting) -> None:
    del log
    store.manager.delete(PARTITION, 0)


def stop_compacting(log: Log, store: Compacting) -> None:
    del store
    log.config = COMPACTED._replace(cleanup_compact=False)


@pytest.mark.parametrize("change", [cut, delete, stop_compacting])
async def test_a_log_that_changed_while_the_worker_worked_keeps_what_it_has(
    change: Callable[[Log, Compacting], None],
) -> None:
    store = Compacting()
    log = await store.filled(*THREE)
    before = held_by(log)

    async def change_it(task: CleaningTask) -> None:
        del task
        change(log, store)

    store.worker.after = change_it
    assert await store.cleaner.clean_once()
    assert store.reported.lines[0].startswith("thrown away")
    assert log.compaction.first_dirty_offset is None
    assert log.compaction.uncleanable is None
    assert not any(path.endswith(".swap") for _, path in store.disk.log), "it was in force for a moment"
    if not log.is_closed:
        assert held_by(log) == [row for row in before if row[0] < log.log_end_offset]
    left = [path for path in store.disk.tree("/data") if path.endswith((".cleaned", ".swap"))]
    assert [path for path in left if "-delete/" not in path] == []


@pytest.mark.parametrize("change", [cut, delete])
async def test_a_log_that_changes_in_the_middle_of_the_swap_keeps_what_it_has(
    change: Callable[[Log, Compacting], None],
) -> None:
    store = Compacting()
    log = await store.filled(*THREE)
    before = held_by(log)
    survivors = []

    async def strike() -> None:
        if log.compaction.staged is not None:
            store.disk.before_offload = None
            change(log, store)
            survivors.append(store.disk.killed())

    store.disk.before_offload = strike
    assert await store.cleaner.clean_once()
    assert store.reported.lines[0].startswith("thrown away")
    if not log.is_closed:
        assert held_by(log) == [row for row in before if row[0] < log.log_end_offset]
        assert store.files(".cleaned", ".swap") == []
        for survivor in (*survivors, store.disk.power_lost(1)):
            assert held_by(Compacting(survivor).log) == held_by(log)


async def test_a_new_log_under_an_old_name_inherits_nothing_and_waits_for_the_old_ones_worker() -> None:
    store = Compacting()
    await store.filled(*THREE)
    await store.cleaner.clean_once()
    put_pairs(store.log, "z1")
    store.log.roll(0)
    await store.log.flush()
    picked: list[bool] = []

    async def again(task: CleaningTask) -> None:
        del task
        store.worker.before = None
        store.manager.delete(PARTITION, 0)
        fill(store.log, THREE)
        await store.log.flush()
        picked.append(await store.cleaner.clean_once())

    store.worker.before = again
    await store.cleaner.clean_once()
    assert picked == [False]
    assert store.log.compaction.first_dirty_offset is None
    assert store.disk.contents("/data/cleaner-offset-checkpoint") == b"0\n0\n"
    assert await store.cleaner.clean_once()
    assert text_of(held_by(store.log)) == "2c1 4d1 5b2 6a3 7e1 8f1"


async def test_retention_leaves_segments_in_place_while_they_are_read_and_goes_first() -> None:
    store = Compacting(cleanup_delete=True, retention_ms=100)
    log = await store.filled(*THREE)
    store.now_ms = 1_103  # The first segment is due, and no other.
    seen: list[list[int]] = []

    async def retain(task: CleaningTask) -> None:
        seen.append([span.base for span in task.segments])
        store.now_ms = 5_000
        seen.append(log.apply_retention(5_000, log.high_watermark))

    store.worker.after = retain
    await store.cleaner.clean_once()
    assert seen == [[3, 6], []]
    assert text_of(held_by(log)) == "4d1 5b2 6a3 7e1 8f1"
    assert log.apply_retention(5_000, log.high_watermark) == [3, 8]


async def test_a_damaged_log_is_reported_once_and_the_others_continue() -> None:
    store = Compacting()
    log = await store.filled(*THREE)
    store.disk.flip(f"{log.directory}/{0:020d}.log", 70)
    other = store.manager.create(TopicPartition("bills", 0), TOPIC_ID, store.log_config)
    fill(other, THREE)
    await other.flush()
    while await store.cleaner.clean_once():
        pass
    assert sorted(reported.partition(":")[0] for reported in store.reported.lines) == ["cleaned", "uncleanable"]
    assert store.cleaner.uncleanable_count == 1
    assert store.bases() == [0, 3, 6, 8]
    assert store.manager.offline_directories == []


async def test_a_full_disk_makes_a_log_wait_longer_each_time_and_never_gives_it_up() -> None:
    store = Compacting()
    log = await store.filled(*THREE)
    store.disk.fail_while(lambda kind, path: kind == "write" and path.endswith(".cleaned"), errno.ENOSPC)
    waits = []
    for _ in range(FAILURES_MAX + 2):
        assert await store.cleaner.clean_once()
        assert not await store.cleaner.clean_once()
        waits.append(log.compaction.not_before_ms - store.now_ms)
        store.now_ms = log.compaction.not_before_ms
    assert waits == [15_000, 30_000, 60_000, 120_000, 240_000]
    assert store.files(".cleaned") == []
    assert store.manager.offline_directories == []
    store.disk.heal()
    assert await store.cleaner.clean_once()
    assert (log.compaction.failures, store.bases()) == (0, [0, 8])


class Dying:
    """A worker whose process ends each time."""

    died = 0

    async def run(self, task: CleaningTask) -> CleaningResult:
        del task
        self.died += 1
        raise WorkerFailed(FailureKind.PASSING, "it died")

    async def close(self) -> None:
        """It has."""


async def test_a_log_whose_cleaning_worker_crashes_repeatedly_becomes_uncleanable() -> None:
    store = Compacting()
    log = await store.filled(*THREE)
    dying = Dying()
    cleaner = LogCleaner(store.manager, dying, store.reported, lambda: store.now_ms, CleanerConfig())
    for _ in range(10):
        await cleaner.clean_once()
        store.now_ms += 10_000_000
    assert dying.died == FAILURES_MAX
    assert log.compaction.uncleanable == "it died"


async def test_a_cleaning_without_progress_is_not_retried_forever() -> None:
    store = Compacting()
    log = await store.filled(*THREE)

    class Idle(Dying):
        async def run(self, task: CleaningTask) -> CleaningResult:
            self.died += 1
            done = await store.worker.run(task)
            return CleaningResult((), task.first_dirty_offset, done.figures)

    idle = Idle()
    cleaner = LogCleaner(store.manager, idle, store.reported, lambda: store.now_ms, CleanerConfig())
    for _ in range(10):
        await cleaner.clean_once()
    assert idle.died == 1
    assert held_by(log)[0] == (0, b"a", b"1")


async def test_an_offline_directory_is_left_alone() -> None:
    store = Compacting()
    log = await store.filled(*THREE)
    store.disk.fail_while(lambda kind, path: kind == "sync directory" and "orders" in path, errno.EIO)
    before = len(store.worker.tasks)
    store.disk.heal()

    async def fail(task: CleaningTask) -> None:
        del task
        store.disk.fail_while(lambda kind, _: kind == "sync directory", errno.EIO)

    store.worker.after = fail
    assert await store.cleaner.clean_once()
    assert log.log_dir.failure is not None
    assert not await store.cleaner.clean_once()
    assert len(store.worker.tasks) == before + 1


async def test_a_reader_in_a_segment_that_is_replaced_finishes() -> None:
    store = Compacting()
    log = await store.filled(*THREE)
    old = log.read(0, 1_000, 9, whole_first=True)
    assert old is not None
    before = old.read()
    await store.cleaner.clean_once()
    assert old.read() == before
    store.now_ms += COMPACTED.file_delete_delay_ms
    await store.manager.tick(store.now_ms)
    assert store.files(".deleted") == []
    assert old.read() == before
    old.release()


async def test_look_ups_by_time_and_offset_are_right_after_the_swap() -> None:
    store = Compacting()
    log = await store.filled(*THREE)
    await store.cleaner.clean_once()
    found = log.find_timestamp(1_000, 9)
    assert found is not None
    assert (found.offset, found.timestamp) == (2, 1_002)
    found = log.find_timestamp(1_005, 9)
    assert found is not None
    assert found.offset == 5
    newest = log.max_timestamp()
    assert newest is not None
    assert newest.offset == 8
    for at in range(9):
        piece = log.read(at, 10_000, 9, whole_first=True)
        assert piece is not None
        assert piece.base >= at or piece.base + 2 >= at
        piece.release()


async def test_snapshots_of_segments_that_are_gone_go_with_them() -> None:
    store = Compacting()
    await store.filled(*THREE)
    assert store.files(".snapshot") == [f"{base:020d}.snapshot" for base in (3, 6, 8)]
    await store.cleaner.clean_once()
    assert store.files(".snapshot") == [f"{8:020d}.snapshot"]


async def test_the_running_cleaner_cleans_until_it_is_cancelled_and_ends_its_worker() -> None:
    store = Compacting()
    log = await store.filled(*THREE)
    store.cleaner.config = CleanerConfig(backoff_ms=1)
    done = asyncio.Event()

    async def finish(task: CleaningTask) -> None:
        del task
        done.set()

    store.worker.after = finish
    running = asyncio.create_task(store.cleaner.run())
    await done.wait()
    while log.compaction.is_running:  # noqa: ASYNC110 - a test's turn is as good as any other.
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert store.worker.is_closed
    assert store.bases() == [0, 8]


async def test_a_cleaner_that_is_switched_off_cleans_nothing() -> None:
    store = Compacting()
    await store.filled(*THREE)
    store.cleaner.config = CleanerConfig(is_enabled=False, backoff_ms=0)
    running = asyncio.create_task(store.cleaner.run())
    for _ in range(50):
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert store.worker.tasks == []


async def test_a_cleaning_that_is_cancelled_leaves_the_log_as_it_was() -> None:
    store = Compacting()
    log = await store.filled(*THREE)
    before, files = held_by(log), store.files("")
    begun = asyncio.Event()

    async def hang(task: CleaningTask) -> None:
        del task
        begun.set()
        await asyncio.Event().wait()

    store.worker.after = hang
    running = asyncio.create_task(store.cleaner.run())
    await begun.wait()
    assert log.compaction.is_running
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (held_by(log), store.files("")) == (before, files)
    assert not log.compaction.is_running


async def test_as_many_logs_are_cleaned_at_once_as_there_are_threads() -> None:
    store = Compacting()
    await store.filled(*THREE)
    for number in range(4):
        log = store.manager.create(TopicPartition("bills", number), TOPIC_ID, store.log_config)
        fill(log, THREE)
        await log.flush()
    store.cleaner.config = CleanerConfig(threads=2, backoff_ms=1)
    at_work, most = 0, 0
    gate = asyncio.Event()

    async def enter(task: CleaningTask) -> None:
        nonlocal at_work, most
        del task
        at_work += 1
        most = max(most, at_work)
        await gate.wait()

    async def leave(task: CleaningTask) -> None:
        nonlocal at_work
        del task
        at_work -= 1

    store.worker.before, store.worker.after = enter, leave
    running = asyncio.create_task(store.cleaner.run())
    for _ in range(100):
        await asyncio.sleep(0)
    assert at_work == 2
    gate.set()
    while store.cleaner.figures.runs < 5:  # noqa: ASYNC110 - as above.
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert most == 2
    assert len(store.worker.tasks) == 5


async def test_a_topic_that_was_compacted_once_is_not_taken_for_damaged_when_it_is_no_more() -> None:
    store = Compacting(segment_bytes=430)
    # The first of the new segments ends long before the second one begins.
    log = await store.filled("a1 b1|c1", "a2 x1", "a3 x2", "x3 a4", "a5 b3", "f1|x4", "y2 x5", "h1")
    await store.cleaner.clean_once()
    assert store.bases() == [0, 9, 15]
    left = held_by(log)
    survivor = store.disk.killed()
    again = Compacting(survivor, cleanup_compact=False, cleanup_delete=True)
    assert held_by(again.log) == left


async def test_an_empty_segment_does_not_go_by_size_before_its_time() -> None:
    store = Compacting(segment_bytes=150)
    log = await store.filled("a1", "b1", "a2|b2", "c1")
    await store.cleaner.clean_once()
    assert log.segments.all()[0].size == 0
    log.config = store.log_config._replace(cleanup_delete=True, retention_bytes=log.size)
    assert log.apply_retention(5_000, log.high_watermark) == []
    assert log.log_start_offset == 0
