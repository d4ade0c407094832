"""Readers of committed records at the edges: several segments, truncation, compaction's absence, recovery, deletion.

A reader is sent batches up to the last stable offset, with the aborted transactions among them, and leaves out their
records itself (KIP-98). What it keeps must be what was committed, however small its fetches are.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.protocol.records.batch import HEADER_SIZE, read_header, read_records
from sordini.protocol.records.control import ABORT, read_marker
from sordini.replication.partition import Partition
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import a_batch, an_idempotent_batch
from tests.support.partitions import checked
from tests.support.parts import examples
from tests.support.transaction_requests import mark
from tests.support.unit_broker import UnitBroker, a_broker
from tests.unit.broker.records.test_tail_fetch import calls_of

FETCH, LATEST = ApiKey.FETCH, -1
SMALL_SEGMENTS = {"log.segment.bytes": "700", "log.index.interval.bytes": "200"}
PRODUCERS = (7, 8, 9)


class Reader:
    """A consumer of committed records."""

    def __init__(self, broker: UnitBroker, bytes_max: int) -> None:
        self.broker = broker
        self.bytes_max = bytes_max
        self.listed_max = 0
        """The most aborted transactions in one response."""

    def fetch(self, offset: int, wait_ms: int = 0):
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=self.bytes_max)
        request = FetchRequest(
            max_wait_ms=wait_ms,
            max_bytes=self.bytes_max,
            isolation_level=1,
            session_epoch=-1,
            topics=[FetchTopic(topic="orders", partitions=[partition])],
        )
        [topic] = self.broker.ask(FETCH, 12, request).responses
        return topic.partitions[0]

    def read_all(self, offset: int) -> list[int]:
        """The offsets of the records that were committed, from `offset` on."""
        kept: list[int] = []
        while True:
            row = self.fetch(offset)
            assert row.error_code == 0
            data = bytes(row.records)
            if not data:
                assert offset == row.last_stable_offset, "there is more, and nothing was sent"
                return kept
            self.listed_max = max(self.listed_max, len(row.aborted_transactions))
            offset = self._take(data, offset, row, kept)

    def _take(self, data: bytes, offset: int, row, kept: list[int]) -> int:
        starts = sorted((one.first_offset, one.producer_id) for one in row.aborted_transactions)
        aborted: set[int] = set()
        position = 0
        while position + HEADER_SIZE <= len(data):
            header = read_header(data, position)
            if position + header.size > len(data):
                break
            while starts and starts[0][0] <= header.last_offset:
                aborted.add(starts.pop(0)[1])
            batch = data[position : position + header.size]
            position += header.size
            if header.is_control:
                if read_marker(next(read_records(batch, read_header(batch)))).kind == ABORT:
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                kept += [n for n in range(header.base_offset, header.next_offset) if n >= offset]
            reached = header.next_offset
        return reached


class Plain(NamedTuple):
    records: int


class Write(NamedTuple):
    producer_id: int


class End(NamedTuple):
    producer_id: int
    commit: bool


class Truncate(NamedTuple):
    """The last `batches` batches are truncated, as after a change of leadership."""

    batches: int


class DeleteRecords(NamedTuple):
    """The log starts this many records later."""

    records: int


class Restart(NamedTuple):
    """The broker is killed, and started again."""


Step = Plain | Write | End | Truncate | DeleteRecords | Restart
STEPS = st.lists(
    st.builds(Plain, st.integers(1, 3))
    | st.builds(Write, st.sampled_from(PRODUCERS))
    | st.builds(Write, st.sampled_from(PRODUCERS))
    | st.builds(End, st.sampled_from(PRODUCERS), st.booleans())
    | st.builds(Truncate, st.integers(1, 2))
    | st.builds(DeleteRecords, st.integers(1, 3))
    | st.builds(Restart),
    min_size=1,
    max_size=25,
)


class Model:
    """One entry for each offset: the producer of a record (0: none), or (producer, commit) for a marker."""

    def __init__(self) -> None:
        self.entries: list[int | tuple[int, bool]] = []
        self.batches: list[int] = []
        """Where each batch begins."""
        self.start = 0

    def add(self, entry: int | tuple[int, bool], count: int = 1) -> None:
        self.batches.append(len(self.entries))
        self.entries += [entry] * count

    def truncate(self, batches: int) -> int:
        end = self.batches[-min(batches, len(self.batches))] if self.batches else 0
        if end <= self.start and self.start:
            return len(
                self.entries
            )  # To the log's start: not what a change of leadership leaves of a log with records.
        self.entries = self.entries[:end]
        self.batches = [begin for begin in self.batches if begin < end]
        return end

    def open(self) -> dict[int, int]:
        """By producer the first offset of its open transaction."""
        found: dict[int, int] = {}
        for offset, entry in enumerate(self.entries):
            if isinstance(entry, tuple):
                found.pop(entry[0], None)
            elif entry:
                found.setdefault(entry, offset)
        return found

    def stable_end(self) -> int:
        return max(min(self.open().values(), default=len(self.entries)), self.start)

    def committed(self) -> list[int]:
        kept, pending = [], dict[int, list[int]]()
        for offset, entry in enumerate(self.entries):
            match entry:
                case (producer_id, commit):
                    written = pending.pop(producer_id, [])
                    kept += written if commit else []
                case 0:
                    kept.append(offset)
                case int(producer_id):
                    pending.setdefault(producer_id, []).append(offset)
        end = self.stable_end()
        return sorted(offset for offset in kept if self.start <= offset < end)


def orders(broker: UnitBroker) -> Partition:
    return broker.parts.replicas.partition("orders", 0)


def carry_out(broker: UnitBroker, model: Model, step: Step) -> None:
    partition = orders(broker)
    match step:
        case Plain(count):
            partition.append(checked(a_batch(count)), 0, all_replicas=False)
            model.add(0, count)
        case Write(producer_id):
            known = [one for one in partition.log.producers.entries() if one.producer_id == producer_id]
            sequence = known[0].last_sequence + 1 if known else 0
            batch = an_idempotent_batch(2, producer_id=producer_id, sequence=sequence, transactional=True)
            partition.append(checked(batch), 0, all_replicas=False)
            model.add(producer_id, 2)
        case End(producer_id, commit):
            assert mark(broker, producer_id, commit=commit, topic="orders") == 0
            model.add((producer_id, commit))
        case DeleteRecords(count):
            model.start = min(model.start + count, len(model.entries))
            partition.log.advance_log_start(model.start)
            partition.log.apply_retention(0, partition.log.high_watermark)


async def carry_out_all(broker: UnitBroker, model: Model, steps: list[Step], epoch: int, bytes_max: int) -> list[Step]:
    """Until the broker has to be started again; the steps that are left."""
    for number, step in enumerate(steps):
        if isinstance(step, Restart):
            return steps[number + 1 :]
        if isinstance(step, Truncate):
            epoch += 1
            broker.parts.replicas.resign_all()
            orders(broker).log.truncate_to(model.truncate(step.batches))
            await broker.lead("orders", epoch=epoch)
        else:
            carry_out(broker, model, step)
        check(broker, model, bytes_max)
    return []


def check(broker: UnitBroker, model: Model, bytes_max: int) -> None:
    assert Reader(broker, bytes_max).read_all(model.start) == model.committed()
    partition = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=1, topics=[ListOffsetsTopic(name="orders", partitions=[partition])]
    )
    [topic] = broker.ask(ApiKey.LIST_OFFSETS, 9, request).topics
    assert topic.partitions[0].offset == model.stable_end()


@settings(deadline=None, max_examples=examples(150))
@given(STEPS, st.sampled_from([1, 150, 400, 100_000]))
def test_a_reader_keeps_what_was_committed_below_the_last_stable_offset(steps: list[Step], bytes_max: int) -> None:
    async def run() -> None:
        disk, model, left, starts = ForgetfulDisk(), Model(), steps, 0
        while True:
            async with a_broker(SMALL_SEGMENTS, disk) as broker:
                await broker.lead("orders", epoch=100 * starts)
                orders(broker).log.advance_log_start(model.start)
                check(broker, model, bytes_max)
                left = await carry_out_all(broker, model, left, 100 * starts, bytes_max)
            if not left:
                return
            disk, starts = disk.killed(), starts + 1

    asyncio.run(run())


async def abort_many(broker: UnitBroker, count: int) -> None:
    """Short transactions, each of which is aborted."""
    for number in range(count):
        carry_out(broker, Model(), Write(8 + number % 2))
        carry_out(broker, Model(), End(8 + number % 2, commit=False))


async def calls_of_a_fetch(aborts: int, *, at_end: bool, with_open: bool) -> int:
    """Functions called by one read_committed fetch in a log with so many aborted transactions."""
    async with a_broker() as broker:
        await broker.lead("orders")
        carry_out(broker, Model(), Plain(3))
        if with_open:
            carry_out(broker, Model(), Write(7))
        await abort_many(broker, aborts)
        log = orders(broker).log
        offset = 0
        if at_end:
            carry_out(broker, Model(), Plain(1))
            offset = log.last_stable_offset(log.high_watermark) - 1
        reader = Reader(broker, 200)
        reader.fetch(offset)  # What is compiled or checked once.
        return calls_of(lambda: reader.fetch(offset))


@pytest.mark.parametrize(("at_end", "with_open"), [(False, True), (True, True), (False, False), (True, False)])
async def test_a_fetch_costs_no_more_calls_for_more_aborted_transactions(*, at_end: bool, with_open: bool) -> None:
    """Neither a transaction that is open for hours nor the thousands that end meanwhile are looked at one by one."""
    few = await calls_of_a_fetch(10, at_end=at_end, with_open=with_open)
    many = await calls_of_a_fetch(1_280, at_end=at_end, with_open=with_open)
    # Two searches by halves: in the index of aborted transactions, and in that of offsets.
    assert many - few <= 2 * 7 * 8, (few, many)


async def test_the_last_stable_offset_costs_no_more_for_more_open_transactions() -> None:
    async def calls(count: int) -> int:
        async with a_broker() as broker:
            await broker.lead("orders")
            for producer_id in range(count):
                carry_out(broker, Model(), Write(100 + producer_id))
            log = orders(broker).log
            return calls_of(lambda: log.last_stable_offset(log.high_watermark))

    assert await calls(10) == await calls(500)


async def test_a_reader_far_behind_is_sent_the_aborted_transactions_of_its_records_alone() -> None:
    async with a_broker({"log.index.interval.bytes": "300"}) as broker:
        await broker.lead("orders")
        carry_out(broker, Model(), Plain(3))
        await abort_many(broker, 200)
        reader = Reader(broker, 1_000)
        assert reader.read_all(0) == [0, 1, 2]
        assert reader.listed_max <= 10


async def test_a_damaged_offset_index_hides_no_aborted_transaction() -> None:
    disk = ForgetfulDisk()
    async with a_broker(SMALL_SEGMENTS | {"log.segment.bytes": "100000"}, disk) as broker:
        await broker.lead("orders")
        await abort_many(broker, 20)
        end = orders(broker).log.log_end_offset
        await orders(broker).log.flush()
        await broker.logs.close()
    path = "/logs/orders-0/00000000000000000000.index"
    entries = bytearray(disk.contents(path))
    for number in range(1, len(entries) // 8 - 1):
        entries[8 * number + 4 : 8 * number + 8] = (
            int.from_bytes(entries[8 * number + 4 : 8 * number + 8]) - 7
        ).to_bytes(4)
    disk.replace(path, bytes(entries))
    async with a_broker(SMALL_SEGMENTS | {"log.segment.bytes": "100000"}, disk) as broker:
        await broker.lead("orders", epoch=1)
        assert orders(broker).log.log_end_offset == end
        assert Reader(broker, 400).read_all(0) == []
