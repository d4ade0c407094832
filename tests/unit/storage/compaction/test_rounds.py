"""How far one pass of the cleaner goes, which files it writes, and how it treats damaged ones."""

from __future__ import annotations

import pytest

from sordini.protocol.records.batch import Record, assemble_batch, read_header
from sordini.storage import names
from sordini.storage.compaction.cleaned_transactions import CleanedTransactions
from sordini.storage.compaction.cleaner_stats import CleanerStats
from sordini.storage.compaction.cleaning import clean
from sordini.storage.compaction.errors import DamagedSegment
from sordini.storage.compaction.grouping import group_segments
from sordini.storage.compaction.offset_map import OffsetMap
from sordini.storage.compaction.record_filter import RecordFilter
from sordini.storage.compaction.task import SegmentSpan
from sordini.storage.open_files import OpenFiles
from sordini.storage.segment import Segment
from tests.support.compaction_history import INTERVAL_BYTES, History, StillClock


def a_history(*keys: bytes) -> History:
    """One batch of one record for each key, in one closed segment."""
    history = History()
    for key in keys:
        history.data([(key, b"value of " + key)])
    history.roll()
    return history


def records(history: History) -> list[Record]:
    return [record for found in history.found() for record in found.records]


# -- bounds


def test_what_may_not_be_cleaned_is_copied_as_it_is_and_outdates_nothing() -> None:
    history = a_history(b"a", b"b", b"a", b"b", b"a", b"c", b"c")
    result = history.clean(uncleanable_offset=4)
    assert result.cleaned_to == 4
    assert [record.offset for record in records(history)] == [2, 3, 4, 5, 6]


def test_a_segment_counts_as_cleaned_to_its_end_when_its_last_records_went_before() -> None:
    history = a_history(b"a", b"b")
    history.end_offset += 5
    history.segments[-1].base += 5
    assert history.clean().cleaned_to == 7
    assert history.clean(first_dirty_offset=0, uncleanable_offset=6).cleaned_to == 6


def test_a_full_offset_map_ends_a_pass_between_two_batches_and_the_next_pass_continues() -> None:
    keys = [b"key %d" % (number % 50) for number in range(200)]
    whole = a_history(*keys)
    whole.clean(segment_bytes=1 << 30)
    history = a_history(*keys)
    rounds = 0
    while history.cleaned_to < 200:
        before = history.cleaned_to
        result = history.clean(map_bytes=3_000)
        assert before < history.cleaned_to == result.cleaned_to
        assert result.figures.map_fullness == (1.0 if result.cleaned_to < 200 else pytest.approx(0.5, abs=0.5))
        rounds += 1
    assert 3 < rounds < 100
    assert records(history) == records(whole)


def test_a_batch_that_no_map_could_hold_is_cleaned_all_the_same() -> None:
    history = a_history(b"a", b"b", b"a")
    assert [history.clean(map_bytes=1).cleaned_to for _ in range(3)] == [1, 2, 3]
    assert [record.offset for record in records(history)] == [1, 2]


def test_a_batch_that_would_outgrow_the_file_waits_for_another_round() -> None:
    history = History()
    history.data([(b"a", None)])
    history.roll()
    history.now_ms += 1
    span = history.task().segments[0]._replace(size=2**31 - 1)
    history.write_files()

    offsets = OffsetMap(1_000)
    offsets.add([b"a"], 0)
    offsets.tombstoned.add(0)
    (found,) = history.found()
    record_filter = RecordFilter(history.task(), 1, offsets, CleanedTransactions([]), CleanerStats())
    record_filter.start_group([span])
    batch = memoryview(found.data)
    assert record_filter.filter_batch(found.header, batch).data is batch  # type: ignore[union-attr]
    record_filter.start_group([span._replace(size=1_000)])
    kept = record_filter.filter_batch(found.header, batch)
    assert kept is not None
    assert len(kept.data) > len(batch)


# -- files


def test_small_segments_become_one_of_full_size_named_by_the_first() -> None:
    history = History()
    for number in range(9):
        history.data([(b"%d" % number, b"x" * 160)])
        history.roll()
        history.now_ms += 10
    size = len(history.segments[0].data)
    newest_ms = history.segments[3].modified_ms
    result = history.clean(segment_bytes=4 * size)
    assert [made.replaces for made in result.replacements] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert history.segments[0].modified_ms == newest_ms


def test_segments_are_kept_apart_when_their_indexes_or_offsets_would_not_fit_one() -> None:

    history = a_history(b"a")
    spans = tuple(SegmentSpan(base * 10, 1_010, base * 10 + 10, 0, -1) for base in range(4))
    task = history.task(segments=spans, segment_bytes=1 << 30, index_interval_bytes=100)

    def bases(task: object, cleaned_to: int = 40) -> list[list[int]]:
        return [[span.base for span in group] for group in group_segments(task, cleaned_to)]  # type: ignore[arg-type]

    assert bases(task._replace(segment_index_bytes=1_000)) == [[0, 10, 20, 30]]
    # Ten entries a segment, and one more in the time index: 21 of 12 bytes.
    assert bases(task._replace(segment_index_bytes=252)) == [[0, 10], [20, 30]]
    assert bases(task._replace(segment_index_bytes=251)) == [[0], [10], [20], [30]]
    assert bases(task._replace(segment_bytes=2_019)) == [[0], [10], [20], [30]]
    assert bases(task, cleaned_to=11) == [[0, 10]]
    far = (spans[0], SegmentSpan(2**31 - 20, 1_010, 2**31 - 1, 0, -1), SegmentSpan(2**31 - 1, 9, 2**31, 0, -1))
    assert bases(task._replace(segments=far), 2**40) == [[0, 2**31 - 20], [2**31 - 1]]


@pytest.mark.parametrize("batches_between", [0, 1, 2])
def test_the_indexes_are_those_that_a_rebuild_from_the_log_would_make(batches_between: int) -> None:
    history = History()
    for number in range(10, 70):
        history.now_ms += (5, 5, 0, -7)[number % 4]
        history.data([(b"%d" % number, b"x" * 40), (b"%d" % (number % 7), b"y")])
    history.roll()
    history.clean()
    # An interval that so many of the batches, which are of one size now, fill exactly.
    interval_bytes = batches_between * len(history.found()[0].data) or INTERVAL_BYTES
    history.data([(b"10", b"z")])
    history.roll()
    (made,) = history.clean(index_interval_bytes=interval_bytes, segment_bytes=1 << 20).replacements
    log, index, times = (
        history.disk.contents(history.cleaned_path(made.base, suffix))
        for suffix in (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX)
    )
    assert len(index) > 80
    history.disk.replace("/rebuilt/" + names.file_name(0, names.LOG), log)
    segment = Segment(OpenFiles(history.disk, 9), "/rebuilt", 0, len(log))
    for handle in segment.handles():
        handle.reopen(create=True)
    segment.rebuild(interval_bytes)
    assert history.disk.contents(segment.index.handle.path) == index
    assert history.disk.contents(segment.times.handle.path) == times


def test_leftovers_of_a_cleaning_that_was_killed_do_not_get_in_the_way() -> None:
    history = a_history(b"a", b"a", b"b")
    history.write_files()
    history.disk.replace(history.cleaned_path(0, names.LOG), b"longer than what comes now" * 100)
    history.disk.replace(history.cleaned_path(2, names.TRANSACTION_INDEX), b"of another segment")
    (made,) = clean(history.disk, history.task(), StillClock()).replacements
    assert history.disk.file_size(history.cleaned_path(0, names.LOG)) == made.size
    assert not history.disk.exists(history.cleaned_path(2, names.TRANSACTION_INDEX))


# -- damage


def damaged(history: History, position: int) -> DamagedSegment:
    """The error that a cleaning ends with when a bit of the second segment is wrong."""
    history.write_files()
    history.disk.flip(history.path(3, names.LOG), position)
    before = history.disk.tree()
    with pytest.raises(DamagedSegment) as caught:
        clean(history.disk, history.task(first_dirty_offset=3), StillClock())
    assert history.disk.tree() == before
    return caught.value


@pytest.mark.parametrize("where", [3, 8, 16, 17, 23, 60, 70])
def test_a_damaged_batch_ends_the_round_naming_file_and_position_and_changes_nothing(where: int) -> None:
    history = a_history(b"a", b"a", b"b")
    for key in (b"a", b"b", b"c"):
        history.data([(key, b"new")])
    history.roll()
    size = len(history.segments[1].batches()[0].data)
    error = damaged(history, size + where)
    assert (error.path, error.position) == (history.path(3, names.LOG), size)
    assert str(error).startswith(f"{error.path} is damaged at byte {size}: ")


def test_batches_whose_offsets_do_not_rise_are_damage() -> None:
    history = a_history(b"a", b"b", b"c")
    first, second, third = (found.data for found in history.found())
    for wrong in (second + first + third, first + first + third):
        history.segments[0].data = wrong
        with pytest.raises(DamagedSegment, match=rf"is damaged at byte {len(first)}: offset 0 where"):
            history.clean()
    history.segments[0].data = first + second + third
    history.segments[1].base = 2
    with pytest.raises(DamagedSegment, match=f"is damaged at byte {2 * len(first)}: "):
        history.clean()


def test_a_segment_that_ends_inside_a_batch_is_damaged() -> None:
    history = a_history(b"a", b"b")
    history.segments[0].data = history.segments[0].data[:-1]
    with pytest.raises(DamagedSegment, match="bytes do not fit the segment"):
        history.clean()
    with pytest.raises(DamagedSegment, match="the file ends early"):
        history.clean(segments=(history.task().segments[0]._replace(size=5_000),))


def test_records_that_are_not_what_a_right_checksum_was_taken_of_are_damage_too() -> None:

    history = a_history(b"a", b"a")
    first = history.segments[0].batches()[0].data
    wrong = bytes(assemble_batch(read_header(first), first[61:-1]))
    history.segments[0].data = wrong + history.segments[0].data[len(first) :]
    with pytest.raises(DamagedSegment, match="is damaged at byte 0"):
        history.clean()
