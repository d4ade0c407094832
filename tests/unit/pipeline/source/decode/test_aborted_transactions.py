"""Isolation level read_committed: records of aborted transactions are left out, all others are given."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sordini.pipeline.source.decode import Aborted, BrokenRecords, Decoder
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.control import ABORT, COMMIT, Marker, build_marker
from tests.support.decoded_logs import TIME, decode, wanted, with_wrong_crc
from tests.support.parts import examples


class Transaction(NamedTuple):
    producer_id: int
    first_offset: int
    marker_offset: int
    is_aborted: bool


class Log(NamedTuple):
    """A partition that transactions were written to, one batch after another."""

    batches: list[bytes]
    starts: list[int]
    """The base offset of each batch."""
    committed: list[int]
    """The offsets of what is not aborted, up to the last stable offset."""
    transactions: list[Transaction]
    last_stable_offset: int

    def fetched(self, number: int, parts: int) -> tuple[memoryview, list[Aborted]]:
        """Some batches and the aborted transactions that a broker lists with them: those that touch their offsets."""
        start, end = self.starts[number], [*self.starts, self.last_stable_offset][number + parts]
        listed = [
            Aborted(one.producer_id, one.first_offset)
            for one in self.transactions
            if one.is_aborted and one.first_offset < end and one.marker_offset >= start
        ]
        return memoryview(b"".join(self.batches[number : number + parts])), listed


@st.composite
def transactional_logs(draw: st.DrawFn) -> Log:
    batches: list[bytes] = []
    starts: list[int] = []
    open_since: dict[int, int] = {}
    pending: dict[int, list[int]] = {}
    committed: list[int] = []
    transactions: list[Transaction] = []
    offset = 0

    def end(producer: int, kind: int) -> None:
        nonlocal offset
        marker = Marker(kind, 0)
        starts.append(offset)
        batches.append(
            build_marker(marker, producer_id=producer, producer_epoch=0, timestamp_ms=TIME, base_offset=offset)
        )
        transactions.append(Transaction(producer, open_since.pop(producer), offset, kind == ABORT))
        offsets = pending.pop(producer)
        committed.extend(offsets if kind == COMMIT else [])
        offset += 1

    for producer, step, count in draw(
        st.lists(st.tuples(st.integers(1, 3), st.sampled_from("wwwac-"), st.integers(1, 3)), min_size=1, max_size=25)
    ):
        if step in "w-":
            records = [Record(offset + number, TIME, None, b"v") for number in range(count)]
            is_part = step == "w"
            starts.append(offset)
            batches.append(
                build_batch(records, base_offset=offset, producer_id=producer, producer_epoch=0, transactional=is_part)
            )
            if is_part:
                open_since.setdefault(producer, offset)
            (pending.setdefault(producer, []) if is_part else committed).extend(range(offset, offset + count))
            offset += count
        elif producer in open_since:
            end(producer, ABORT if step == "a" else COMMIT)
    for producer in list(open_since):
        end(producer, draw(st.sampled_from([ABORT, COMMIT])))
    assume(batches)
    return Log(batches, starts, sorted(committed), transactions, offset)


@settings(max_examples=examples(80))
@given(transactional_logs(), st.data())
def test_what_was_committed_is_given_and_what_was_aborted_is_not(log: Log, data: st.DataObject) -> None:
    reader, found, number = Decoder(wanted(read_committed=True)), [], 0
    while number < len(log.batches):
        parts = data.draw(st.integers(1, len(log.batches) - number))
        records, aborted = log.fetched(number, parts)
        # A broker lists them in any order, and its answer may be fed in one go or batch by batch.
        aborted = data.draw(st.permutations(aborted))
        if data.draw(st.booleans()):
            fed = [reader.feed(records, aborted)]
        else:
            fed = [reader.feed(memoryview(b""), aborted)]
            fed += [reader.feed(memoryview(batch)) for batch in log.batches[number : number + parts]]
        found += [offset for one in fed if one.batch for offset in one.batch.column("offset").to_pylist()]
        number += parts
    assert found == log.committed
    assert reader.next_offset == log.last_stable_offset


@settings(max_examples=30)
@given(transactional_logs(), st.data())
def test_reading_may_begin_within_a_transaction(log: Log, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(log.batches) - 1))
    records, aborted = log.fetched(number, len(log.batches) - number)
    start = log.starts[number]
    fed = decode(records, wanted(start, read_committed=True), aborted)
    found = fed.batch.column("offset").to_pylist() if fed.batch else []
    assert found == [offset for offset in log.committed if offset >= start]


@settings(max_examples=30)
@given(transactional_logs(), st.integers(0, 40))
def test_what_is_fed_again_ends_the_transactions_that_it_ends(log: Log, start: int) -> None:
    """The response reaches further back than what is wanted of it."""
    records, aborted = log.fetched(0, len(log.batches))
    fed = decode(records, wanted(start, read_committed=True), aborted)
    found = fed.batch.column("offset").to_pylist() if fed.batch else []
    assert found == [offset for offset in log.committed if offset >= start]


def aborted_log() -> bytes:
    records = [Record(number, TIME, None, b"v") for number in range(3)]
    marker = build_marker(Marker(ABORT, 0), producer_id=5, producer_epoch=0, timestamp_ms=TIME, base_offset=3)
    return build_batch(records, producer_id=5, producer_epoch=0, transactional=True) + marker


def test_without_read_committed_aborted_records_are_given_and_markers_are_not() -> None:
    fed = decode(memoryview(aborted_log()), wanted(), [Aborted(5, 0)])
    assert fed.batch.column("offset").to_pylist() == [0, 1, 2]
    assert fed.next_offset == 4


def test_the_next_offset_is_past_what_was_aborted() -> None:
    assert decode(memoryview(aborted_log()), wanted(read_committed=True), [Aborted(5, 0)]) == (None, 4)


def test_an_aborted_batch_that_is_broken_is_reported_all_the_same() -> None:
    log = with_wrong_crc(aborted_log())
    with pytest.raises(BrokenRecords, match="offset 0, uncompressed: the CRC is wrong"):
        decode(memoryview(log), wanted(read_committed=True), [Aborted(5, 0)])


def test_a_marker_that_is_none_is_reported() -> None:
    odd = build_batch([Record(3, TIME, b"", b"")], base_offset=3, producer_id=5, transactional=True, control=True)
    first = aborted_log()[: -len(build_marker(Marker(ABORT, 0), producer_id=5, producer_epoch=0, timestamp_ms=TIME))]
    with pytest.raises(BrokenRecords, match="offset 3, uncompressed: a control record's key is b''"):
        decode(memoryview(first + odd), wanted(read_committed=True), [Aborted(5, 0)])
