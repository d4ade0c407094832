"""A fault or a crash while a log is cleaned leaves the log as it was."""

from __future__ import annotations

import errno

import pytest

from sordini.storage import names
from sordini.storage.compaction.cleaning import clean
from sordini.storage.compaction.throttler import Throttler
from sordini.testing.brokers.loop_processes import Died
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.compaction_history import DIRECTORY, History, StillClock


def a_history() -> History:
    """Three segments, of which two are merged and one is rewritten; with tombstones and aborted records."""
    history = History()
    for number in range(3):
        history.data([(b"a", b"%d" % number), (b"b", None), (b"%d" % number, b"x" * 90)])
        history.data([(b"a", b"bad")], producer_id=1, transactional=True)
        history.end(1, commit=False)
        history.roll()
    history.write_files()
    return history


def originals(disk: ForgetfulDisk) -> dict[str, bytes]:
    return {path: data for path, data in disk.tree().items() if not path.endswith(names.CLEANED)}


def a_round(history: History) -> None:
    clean(history.disk, history.task(segment_bytes=700), StillClock())


def changes_of_a_round() -> int:
    history = a_history()
    before = history.disk.calls
    a_round(history)
    return history.disk.calls - before


CHANGES = changes_of_a_round()


@pytest.mark.parametrize("call", range(1, CHANGES + 1))
def test_a_crash_at_any_call_leaves_the_log_as_it_was_and_the_next_round_does_all_of_it(call: int) -> None:
    history = a_history()
    before = originals(history.disk)
    history.disk.die_at(call, 0.5)
    with pytest.raises(Died):
        a_round(history)
    for survivor in (history.disk.killed(), history.disk.power_lost(call), history.disk.power_lost(call + 1_000)):
        assert originals(survivor) == before
        untroubled = a_history()
        a_round(untroubled)
        history.disk = survivor
        a_round(history)
        assert survivor.tree() == untroubled.disk.tree()


@pytest.mark.parametrize("call", range(1, CHANGES + 1))
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_call_that_fails_ends_the_round_and_leaves_no_file(call: int, number: int) -> None:
    history = a_history()
    before = history.disk.tree()
    history.disk.fail(call, number)
    with pytest.raises(OSError, match=rf"\[Errno {number}\]"):
        a_round(history)
    assert history.disk.tree() == before
    assert history.disk.open_files == 0


def test_a_write_that_takes_a_part_only_ends_the_round_and_leaves_no_file() -> None:
    troubled = 0
    for call in range(1, CHANGES + 1):
        history = a_history()
        before = history.disk.tree()
        history.disk.shorten(call)
        try:
            a_round(history)
        except OSError:
            troubled += 1
            assert history.disk.tree() == before
    # The log and its two or three indexes, of each of the segments that are made.
    assert troubled >= 6


def test_everything_that_was_made_outlives_a_loss_of_power() -> None:
    history = a_history()
    result = clean(history.disk, history.task(segment_bytes=700), StillClock())
    assert len(result.replacements) > 1
    for seed in range(20):
        assert history.disk.power_lost(seed).tree() == history.disk.tree()


def test_reads_and_writes_keep_below_the_rate() -> None:
    history = a_history()
    clock = StillClock()
    task = history.task(io_bytes_per_second=1_000.0)
    result = clean(history.disk, task, clock)
    moved = sum(span.size for span in task.segments) * 2 + result.figures.bytes_written
    # A batch at the end of a read is read again with the next.
    assert moved / 1_000 - 0.6 <= clock.seconds <= 2 * moved / 1_000
    assert max(clock.slept) <= 1.0
    assert clock.slept


def test_time_that_was_lost_is_not_made_up_for_by_a_burst() -> None:
    clock = StillClock()
    pace = Throttler(clock, 1_000.0)
    clock.seconds = 1_000.0
    pace.note(1_000)
    assert clock.slept == [pytest.approx(0.5)]


def test_an_empty_task_changes_nothing() -> None:
    history = History()
    history.write_files()
    result = clean(history.disk, history.task(), StillClock())
    assert (result.replacements, result.cleaned_to) == ((), 0)
    assert history.disk.list_directory(DIRECTORY) == [names.file_name(0, names.LOG)]
