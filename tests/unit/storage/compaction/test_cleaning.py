"""What one round of cleaning does to a log, rule by rule."""

from __future__ import annotations

from hashlib import blake2b

import pytest

from sordini.protocol.records.batch import Record
from sordini.protocol.records.batch_filter import delete_horizon_ms
from sordini.protocol.records.control import COMMIT, read_marker
from sordini.storage import names
from tests.support.compaction_history import DIRECTORY, RETENTION_MS, Found, History


def a_history(*keys: bytes) -> History:
    """One batch of one record for each key, in one closed segment."""
    history = History()
    for key in keys:
        history.data([(key, b"value of " + key)])
    history.roll()
    return history


def records(history: History) -> list[Record]:
    return [record for found in data(history) for record in found.records]


def data(history: History) -> list[Found]:
    return [found for found in history.found() if not found.header.is_control]


def markers(history: History) -> list[Found]:
    return [found for found in history.found() if found.header.is_control]


# -- keys and values


def test_the_newest_record_of_a_key_stays_and_older_ones_go() -> None:
    history = a_history(b"a", b"b", b"a", b"c", b"b")
    result = history.clean()
    assert [record.offset for record in records(history)] == [2, 3, 4]
    assert (result.cleaned_to, result.figures.records_read, result.figures.records_kept) == (5, 5, 3)


def test_of_several_records_of_a_key_in_one_batch_the_last_stays() -> None:
    history = History()
    history.data([(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"a", b"4"), (b"c", b"5")])
    history.roll()
    history.clean()
    assert [(record.offset, record.value) for record in records(history)] == [(1, b"2"), (3, b"4"), (4, b"5")]


def test_records_without_a_key_are_dropped_and_counted() -> None:
    history = History()
    history.data([(None, b"1"), (b"", b"empty is a key"), (None, b"2")])
    history.roll()
    result = history.clean()
    assert [record.offset for record in records(history)] == [1]
    assert result.figures.keyless_dropped == 2


def test_records_that_were_cleaned_before_give_way_to_newer_ones() -> None:
    history = a_history(b"a", b"b", b"c")
    history.clean()
    history.data([(b"b", b"new")])
    history.roll()
    assert history.clean().cleaned_to == 4
    assert [record.offset for record in records(history)] == [0, 2, 3]


def test_a_long_key_that_was_cleaned_before_gives_way_too() -> None:
    history = a_history(b"k" * 200, b"k" * 199)
    history.clean()
    history.data([(b"k" * 200, b"new")])
    history.roll()
    history.clean()
    assert [record.offset for record in records(history)] == [1, 2]


def test_a_key_that_looks_like_the_digest_of_a_long_one_is_a_key_of_its_own() -> None:
    long = b"k" * 100
    digest = blake2b(long, digest_size=64).digest()
    history = a_history(long, digest, digest[:63])
    history.clean()
    assert [record.offset for record in records(history)] == [0, 1, 2]


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_with_gaps_keeps_all_of_its_header_but_count_time_and_checksum(codec: int) -> None:
    history = History()
    history.data(
        [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", b"4")],
        producer_id=7,
        codec=codec,
        times=[0, 90, 50, 20],
    )
    before = history.found()[0].header
    history.roll()
    history.clean()
    (found,) = history.found()
    assert [record.offset for record in found.records] == [2, 3]
    assert found.header._replace(size=0, crc=0) == before._replace(
        size=0, crc=0, record_count=2, max_timestamp=history.now_ms + 50
    )


def test_a_batch_of_which_everything_stays_keeps_its_bytes() -> None:
    history = History()
    for number in range(6):
        history.data([(b"%d" % number, b"x"), (b"%d" % (number % 3), b"y")], codec=number % 5)
    history.roll()
    before = {found.header.base_offset: found.data for found in history.found()}
    history.clean()
    whole = [found for found in history.found() if len(found.records) == 2]
    assert len(whole) == 3
    assert all(found.data == before[found.header.base_offset] for found in whole)


def test_a_segment_of_which_everything_stays_is_not_replaced() -> None:
    history = a_history(b"a", b"b", b"c")
    result = history.clean()
    assert (result.replacements, result.cleaned_to) == ((), 3)
    assert not [name for name in history.disk.list_directory(DIRECTORY) if name.endswith(names.CLEANED)]


def test_a_segment_of_which_nothing_stays_is_replaced_by_an_empty_one() -> None:
    history = History()
    history.data([(b"a", b"x" * 900)])
    history.roll()
    history.data([(b"a", b"y" * 900)])
    history.roll()
    result = history.clean()
    assert [(made.base, made.size) for made in result.replacements] == [(0, 0)]
    assert [record.offset for record in records(history)] == [1]


# -- deletions


def test_a_tombstone_stays_until_the_horizon_that_its_first_cleaning_sets() -> None:
    history = History()
    history.data([(b"a", b"1"), (b"b", b"2"), (b"a", None)], times=[0, 5, 9])
    history.data([(b"c", b"3")])
    history.roll()
    times = {record.offset: record.timestamp for record in records(history)}
    history.now_ms += 5 * RETENTION_MS
    history.clean()
    horizon_ms = history.now_ms + RETENTION_MS
    assert [delete_horizon_ms(found.header) for found in history.found()] == [horizon_ms, None]
    assert {record.offset: record.timestamp for record in records(history)} == {1: times[1], 2: times[2], 3: times[3]}

    history.now_ms = horizon_ms - 1
    assert history.clean().replacements == ()
    history.now_ms = horizon_ms
    assert history.clean().figures.tombstones_dropped == 1
    assert [record.offset for record in records(history)] == [1, 3]
    assert delete_horizon_ms(history.found()[0].header) == horizon_ms


def test_a_tombstone_that_is_outdated_itself_sets_no_horizon_and_is_not_counted() -> None:
    history = History()
    history.data([(b"a", None), (b"b", b"1"), (b"a", b"2"), (b"c", b"3"), (b"d", None)])
    history.data([(b"d", b"4")])
    history.roll()
    before = history.found()[0].header
    history.clean()
    assert delete_horizon_ms(history.found()[0].header) is None
    assert history.found()[0].header.base_timestamp == before.base_timestamp
    history.data([(b"e", None), (b"f", None), (b"g", b"7")])
    history.roll()
    history.clean()
    history.data([(b"e", b"8")])
    history.roll()
    history.now_ms += RETENTION_MS
    assert history.clean().figures.tombstones_dropped == 1


def test_a_tombstone_of_an_old_format_goes_when_its_segment_is_older_than_the_cleaned_ones_by_the_retention() -> None:
    history = History()
    history.old([(b"a", None), (b"b", b"2"), (b"c", None)], magic=1, codec=1)
    history.roll()
    history.clean()
    assert [record.offset for record in records(history)] == [0, 1, 2]
    history.now_ms += RETENTION_MS
    history.old([(b"d", b"x" * 990)], magic=0)
    history.roll()
    history.clean()
    history.data([(b"e", b"5")])
    history.roll()
    history.clean()
    assert [record.offset for record in records(history)] == [1, 3, 4]


# -- old formats


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_messages_of_old_formats_keep_offset_time_and_format(magic: int, codec: int) -> None:
    history = History()
    history.old([(b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"d", b"4")], magic=magic, codec=codec)
    history.data([(b"a", b"new"), (b"c", b"new"), (b"d", b"new")])
    history.roll()
    before = records(history)
    history.clean()
    found = history.found()
    assert found[0].header.magic == magic
    assert found[0].header.codec == codec
    assert found[0].header.last_offset == 1
    assert records(history) == [before[1], *before[4:]]


# -- transactions


def test_records_of_aborted_transactions_go_and_do_not_outdate_committed_ones() -> None:
    history = History()
    history.data([(b"a", b"good")], producer_id=1, transactional=True)
    history.end(1, commit=True)
    history.data([(b"a", b"bad"), (b"b", b"bad")], producer_id=1, transactional=True)
    history.end(1, commit=False)
    history.roll()
    history.clean(producers=())
    assert [(record.offset, record.value) for record in records(history)] == [(0, b"good")]


def test_a_transaction_that_was_aborted_in_a_later_segment_is_dropped_from_an_earlier_one() -> None:
    history = History()
    history.data([(b"a", b"good")])
    history.data([(b"a", b"bad")], producer_id=1, transactional=True)
    history.data([(b"b", b"1")], producer_id=2, transactional=True)
    history.roll()
    history.end(1, commit=False)
    # Producer 2's transaction is open: the marker of the first is in the uncleanable part of the log.
    task = history.task()
    assert (task.uncleanable_offset, len(task.segments)) == (2, 1)
    history.clean(producers=())
    assert [record.offset for record in records(history)] == [0, 2]


def test_a_commit_marker_goes_when_no_batch_of_its_transaction_is_left_and_its_horizon_has_passed() -> None:
    history = History()
    history.data([(b"a", b"1")], producer_id=1, transactional=True)
    history.end(1, commit=True)
    history.data([(b"a", b"2")])
    history.roll()
    history.clean(producers=())
    assert [delete_horizon_ms(found.header) for found in markers(history)] == [None]
    history.clean(producers=())
    assert [delete_horizon_ms(found.header) for found in markers(history)] == [history.now_ms + RETENTION_MS]
    assert read_marker(markers(history)[0].records[0]).kind == COMMIT
    history.now_ms += RETENTION_MS - 1
    assert history.clean(producers=()).replacements == ()
    history.now_ms += 1
    assert history.clean(producers=()).figures.markers_dropped == 1
    assert [found.header.base_offset for found in history.found()] == [2]


def test_a_marker_whose_transaction_still_has_a_record_stays() -> None:
    history = History()
    history.data([(b"a", b"1")], producer_id=1, transactional=True)
    history.end(1, commit=True)
    history.data([(b"b", b"2")])
    history.roll()
    for _ in range(3):
        history.clean(producers=())
        history.now_ms += 2 * RETENTION_MS
    assert [delete_horizon_ms(found.header) for found in markers(history)] == [None]


@pytest.mark.parametrize("commit", [True, False])
def test_each_marker_answers_for_its_own_transaction_only(commit: bool) -> None:
    history = History()
    history.data([(b"a", b"stays")], producer_id=1, transactional=True)
    history.end(1, commit=True)
    history.data([(b"b", b"goes")], producer_id=1, transactional=True)
    history.end(1, commit=commit)
    history.data([(b"b", b"newer")], producer_id=1, transactional=True)
    history.end(1, commit=True)
    history.roll()
    for _ in range(3):
        history.clean(producers=())
        history.now_ms += RETENTION_MS
    assert [found.header.base_offset for found in markers(history)] == [1, 5]


def test_an_abort_is_reported_as_long_as_a_reader_could_have_met_its_records() -> None:
    history = History()
    history.data([(b"a", b"bad")], producer_id=1, transactional=True)
    history.end(1, commit=False)
    history.data([(b"b", b"2")])
    history.roll()
    history.clean(producers=())
    assert [aborted.last_offset for segment in history.segments for aborted in segment.aborted] == [1]
    assert [delete_horizon_ms(found.header) for found in markers(history)] == [None]
    history.clean(producers=())
    assert [aborted for segment in history.segments for aborted in segment.aborted] == []
    assert len(markers(history)) == 1


@pytest.mark.parametrize("uncleanable", [3, 4])
def test_an_abort_beyond_what_is_cleaned_is_reported_as_before(uncleanable: int) -> None:
    history = History()
    history.data([(b"a", b"1")])
    history.data([(b"a", b"2")])
    history.data([(b"b", b"bad")], producer_id=1, transactional=True)
    history.end(1, commit=False)
    history.data([(b"c", b"3")])
    history.roll()
    before = history.segments[0].aborted
    assert history.clean(uncleanable_offset=uncleanable).cleaned_to == uncleanable
    assert history.segments[0].aborted == before
    assert [record.offset for record in records(history)] == [1, 4]


# -- what an emptied batch is still good for


@pytest.mark.parametrize("codec", [0, 1])
def test_an_emptied_batch_stays_when_it_has_the_last_sequence_of_an_active_producer(codec: int) -> None:
    history = History()
    history.data([(b"a", b"1"), (b"b", b"2")], producer_id=7, codec=codec)
    history.data([(b"a", b"3"), (b"b", b"4")], producer_id=7, codec=codec)
    history.data([(b"a", b"5"), (b"b", b"6")])
    history.roll()
    before = history.found()[1].header
    history.clean()
    kept, newest = history.found()
    assert (newest.header.base_offset, kept.records) == (4, [])
    assert kept.header.last_sequence == 3
    assert kept.header._replace(size=0, crc=0) == before._replace(
        size=0, crc=0, attributes=0, base_timestamp=-1, record_count=0
    )
    assert history.clean().replacements == ()
    history.clean(producers=())
    assert [found.header.base_offset for found in history.found()] == [4]


def test_the_marker_of_a_live_producer_that_has_no_data_stays_for_its_epoch() -> None:
    history = History()
    history.end(9, commit=False)
    history.data([(b"a", b"1")])
    history.roll()
    for _ in range(3):
        history.clean(producers=((9, 0, -1),))
        history.now_ms += RETENTION_MS
    assert [(found.header.producer_id, found.records) for found in markers(history)] == [(9, [])]
    history.clean(producers=((9, 1, -1),))
    assert markers(history) == []


def test_the_last_batch_that_is_cleaned_stays_for_its_offset() -> None:
    history = History()
    history.data([(b"a", b"1")])
    history.data([(None, b"2")])
    history.roll()
    history.clean()
    assert [(found.header.last_offset, len(found.records)) for found in history.found()] == [(0, 1), (1, 0)]
