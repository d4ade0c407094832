"""A follower's log stores batches as the leader sent them, is truncated at a divergence, and can restart elsewhere."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records import legacy_writing
from sordini.protocol.records.control import ABORT, Marker, build_marker
from sordini.protocol.records.fetch_validation import check_fetched
from sordini.storage import batch_scan
from sordini.storage.follower_append import append_as_follower
from sordini.storage.log import Log
from sordini.testing.brokers.loop_processes import Died
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import BASE_TIMESTAMP, a_batch, an_idempotent_batch, some_records, writable
from tests.support.log_model import PARTITION, SMALL, TOPIC_ID, a_disk, a_manager
from tests.support.parts import examples


def a_log(disk: ForgetfulDisk | None = None, **changes: object) -> Log:
    config = SMALL._replace(**changes)
    return a_manager(a_disk() if disk is None else disk, config).create(PARTITION, TOPIC_ID, config)


def take(log: Log, records: bytes) -> None:
    append_as_follower(log, check_fetched(writable(records)), 0)


def stored(log: Log) -> bytes:
    """Every byte of the log's segments, oldest first."""
    return b"".join(segment.file().read_at(0, segment.size) for segment in log.segments.all())


def test_bytes_offsets_epochs_and_gaps_are_the_leaders() -> None:
    log = a_log()
    sent = a_batch(3, base_offset=4, leader_epoch=2) + a_batch(2, base_offset=9, leader_epoch=5)
    take(log, sent)
    assert stored(log) == sent
    assert log.log_end_offset == 11
    assert log.epochs.entries == [(2, 4), (5, 9)]
    piece = log.read(7, 1_000, 100, whole_first=True)
    assert piece is not None
    assert piece.base == 9, "a read within a gap returns the next batch"
    piece.release()


def test_what_begins_below_the_end_is_refused_and_nothing_is_written() -> None:
    log = a_log()
    take(log, a_batch(3, leader_epoch=0))
    with pytest.raises(BrokerError) as refusal:
        take(log, a_batch(3, base_offset=2, leader_epoch=0))
    assert refusal.value.code == ErrorCode.CORRUPT_MESSAGE
    assert stored(log) == a_batch(3, leader_epoch=0)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.integers(0, 1), st.integers(0, 400)), max_size=12))
@settings(deadline=None, max_examples=examples(60))
def test_however_the_records_are_split_into_answers_the_log_is_the_same(
    pieces: list[tuple[int, int, int, int]],
) -> None:
    whole, apart = a_log(segment_bytes=700), a_log(segment_bytes=700)
    sent, offset, epoch = b"", 0, 0
    for count, gap, newer, size in pieces:
        offset, epoch = offset + gap, epoch + newer
        batch = a_batch(count, base_offset=offset, leader_epoch=epoch, value=b"v" * size)
        take(apart, batch)
        sent += batch
        offset += count
    take(whole, sent)
    assert stored(whole) == stored(apart) == sent
    assert whole.log_end_offset == apart.log_end_offset
    assert whole.epochs.entries == apart.epochs.entries
    for segment in whole.segments.all():
        sizes = [header.size for _, header in batch_scan.headers(segment.handle, 0, segment.size)]
        assert segment.size <= 700 or len(sizes) == 1, "only a batch larger than a segment makes a larger one"


def test_producers_and_transactions_are_known_as_the_leader_knows_them() -> None:
    log = a_log()
    take(log, an_idempotent_batch(3, base_offset=0, sequence=0, transactional=True, leader_epoch=0))
    assert log.last_stable_offset(3) == 0
    marker = build_marker(Marker(ABORT, 0), producer_id=7, producer_epoch=0, timestamp_ms=BASE_TIMESTAMP, base_offset=3)
    take(log, marker)
    assert log.last_stable_offset(4) == 4
    assert [(aborted.producer_id, aborted.first_offset) for aborted in log.aborted_transactions(0, 4)] == [(7, 0)]


def test_messages_of_old_formats_leave_no_epochs() -> None:
    log = a_log()
    take(log, a_batch(1, leader_epoch=3))
    assert log.epochs.latest == 3
    take(log, legacy_writing.write_messages(some_records(2, base_offset=1), magic=1))
    assert (log.epochs.entries, log.log_end_offset) == ([], 3)


def test_an_epoch_without_records_is_removed_by_a_truncation_to_the_log_end() -> None:
    log = a_log()
    take(log, a_batch(3, leader_epoch=0))
    log.assign_epoch(1)
    assert log.epochs.latest == 1
    assert not log.truncate_to(3)
    assert log.epochs.entries == [(0, 0)], "or the follower would send epoch requests about it forever"


def test_a_fully_truncated_log_is_empty_and_continues_at_its_new_start() -> None:
    disk = a_disk()
    log = a_log(disk, segment_bytes=300)
    for base in range(0, 30, 3):
        take(log, a_batch(3, base_offset=base, leader_epoch=1))
    log.high_watermark = 20
    log.truncate_fully_and_start_at(1_000, 0)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (1_000, 1_000, 1_000)
    assert (log.epochs.entries, stored(log)) == ([], b"")
    take(log, a_batch(2, base_offset=1_000, leader_epoch=4))
    assert log.epochs.entries == [(4, 1_000)]


@pytest.mark.parametrize("call", range(60))
def test_wherever_a_new_beginning_is_cut_short_the_log_is_the_old_one_or_the_new_one(call: int) -> None:
    disk = a_disk()
    log = a_log(disk, segment_bytes=300)
    for base in range(0, 30, 3):
        take(log, a_batch(3, base_offset=base, leader_epoch=1))
    disk.die_at(call)
    with contextlib.suppress(Died):
        log.truncate_fully_and_start_at(1_000, 0)
        take(log, a_batch(2, base_offset=1_000, leader_epoch=4))
    disk.kill()
    for after in (disk.killed(), *(disk.power_lost(seed) for seed in range(5))):
        again = a_manager(after)
        again.open(0)
        reopened = again.get(PARTITION)
        if reopened is None:
            continue  # Nothing was ever synced.
        assert reopened.log_start_offset in (0, 1_000)
        assert reopened.log_end_offset in (*range(0, 31, 3), 1_000, 1_002)
        offsets = [
            header.base_offset
            for segment in reopened.segments.all()
            for _, header in batch_scan.headers(segment.handle, 0, segment.size)
        ]
        expected = [base for base in (*range(0, 30, 3), 1_000) if base < reopened.log_end_offset]
        assert offsets == [base for base in expected if base >= reopened.log_start_offset]
