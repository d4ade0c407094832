"""Dead letters copied back to the partitions that they came from: exactly once, bounded, and continued where it ended.

What is copied in one transaction is a *chunk*: some dead letters of one partition. The transaction has the position
behind them, too, so that a redrive that is killed leaves nothing half done, and the next one continues. It ends at the
dead letters that were there when it began: a record that fails again is not copied in the same run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from sordini.admin.cluster_client import ClusterClient, check_topic
from sordini.admin.groups.group_requests import committed_offsets, list_groups
from sordini.admin.partition_offsets import offset_ranges
from sordini.admin.shares.dead_letters import DeadLetter, LetterFilter, read_dead_letter
from sordini.admin.shares.redrive_positions import (
    Position,
    is_done,
    may_be_positions,
    position_group,
    position_metadata,
    read_filter,
    start_offset,
    transactional_id,
)
from sordini.admin.shares.redrive_transactions import RedriveTransactions
from sordini.admin.topics.slice_fetches import SliceFetches
from sordini.client.errors import ClientError, Refused
from sordini.client.record_requests import READ_COMMITTED, READ_UNCOMMITTED
from sordini.client.transaction_requests import GroupOffset
from sordini.protocol.errors import ErrorCode
from sordini.protocol.records.batch import Record
from sordini.protocol.types import TopicPartition
from sordini.system.clock import SystemClock
from sordini.system.named_tuple import NamedTuple

CHUNK_LETTERS_MAX: Final = 500
CHUNK_BYTES_MAX: Final = 1 << 20
"""A chunk takes no further dead letter once its records have so many bytes."""
POSITION_TYPES: Final = ("classic", "consumer")
"""Of the groups whose offsets are positions."""

Within = Callable[[Awaitable[Any]], Awaitable[Any]]
"""Bounds the time of one step. Raises Failure."""


class RedriveRequest(NamedTuple):
    """A dead-letter topic, which of its dead letters, and how many of them at most."""

    topic: str
    letters: LetterFilter
    limit: int


class Chunk(NamedTuple):
    """Dead letters of one partition, and the position behind what was read for them."""

    partition: TopicPartition
    letters: list[DeadLetter]
    next_offset: int


class Copied(NamedTuple):
    """What became of a chunk that was committed: how many records were copied to which topic, and what was not."""

    chunk: Chunk
    topics: Mapping[str, int]
    lost: list[DeadLetter]
    """Their records are no longer where they were, and not in the dead letters."""
    without_topic: list[DeadLetter]
    """Their topic, or their partition of it, does not exist any more."""


class Redrive:
    """One redrive. Nothing is read before the first of its calls."""

    def __init__(self, cluster: ClusterClient, request: RedriveRequest, within: Within) -> None:
        self._cluster = cluster
        self._request = request
        self._within = within
        self._positions: dict[TopicPartition, tuple[Position, ...]] = {}
        self.passed_over = 0
        """Records of the topic that are no dead letters."""

    async def preview(self) -> AsyncIterator[Chunk]:
        """The chunks that `run` would copy. Raises ClientError."""
        await self._read_positions()
        async for chunk in self._chunks():
            yield chunk

    async def run(self) -> AsyncIterator[Copied]:
        """Copy chunk by chunk; each is committed when it is yielded. Raises ClientError."""
        transactions = RedriveTransactions(self._cluster, transactional_id(self._request.topic))
        await self._within(self._cluster.retry(lambda: self._cluster.topics([self._request.topic])))
        await self._within(transactions.open())
        # What an earlier redrive has decided to commit is committed now.
        await self._read_positions()
        async for chunk in self._chunks():
            try:
                copied = await self._write(transactions, chunk)
            except ClientError:
                await self._abort(transactions)
                raise
            metadata = position_metadata(self._request.letters)
            group = position_group(self._request.topic, self._request.letters)
            offsets = {chunk.partition: GroupOffset(chunk.next_offset, metadata)}
            await self._within(transactions.commit(group, offsets))
            yield copied

    async def _read_positions(self) -> None:
        topic = self._request.topic
        rows = await self._within(list_groups(self._cluster, (), ()))
        groups = {*may_be_positions(topic, (row["group"] for row in rows if row["type"] in POSITION_TYPES))}
        found: dict[TopicPartition, list[Position]] = {}
        for group in sorted(groups | {position_group(topic, self._request.letters)}):
            offsets = await self._within(committed_offsets(self._cluster, group, is_stable=True))
            for partition, row in offsets.items():
                letters = read_filter(row.metadata)
                if letters is None and group == position_group(topic, self._request.letters):
                    letters = self._request.letters  # Its offsets were reset by hand.
                if partition.topic == topic and letters is not None:
                    found.setdefault(partition, []).append(Position(letters, row.offset))
        self._positions = {partition: tuple(positions) for partition, positions in found.items()}

    async def _chunks(self) -> AsyncIterator[Chunk]:
        topic, left = self._request.topic, self._request.limit
        (described,) = await self._within(self._cluster.retry(lambda: self._cluster.topics([topic])))
        partitions = [TopicPartition(topic, row.partition_index) for row in described.partitions]
        ends = await self._within(offset_ranges(self._cluster, sorted(partitions), isolation_level=READ_COMMITTED))
        for partition, (earliest, end) in ends.items():
            async for chunk in self._chunks_of(partition, earliest, end, left):
                left -= len(chunk.letters)
                yield chunk
            if left <= 0:
                return

    async def _chunks_of(self, partition: TopicPartition, earliest: int, end: int, left: int) -> AsyncIterator[Chunk]:
        """At most `left` dead letters; the last chunk may have none, and then moves the position only."""
        positions = self._positions.get(partition, ())
        start = max(earliest, start_offset(positions, self._request.letters))
        chunk, size = Chunk(partition, [], start), 0
        fetches = SliceFetches(self._cluster, partition, READ_COMMITTED, self._within)
        if left <= 0:
            return
        async for batch in fetches.batches(start, end):
            for record in batch.records:
                if record.offset >= end:
                    break
                letter = self._wanted(record, positions)
                chunk = chunk._replace(next_offset=record.offset + 1)
                if letter is None:
                    continue
                chunk.letters.append(letter)
                size += len(letter.key or b"") + len(letter.value or b"")
                left -= 1
                if left <= 0 or len(chunk.letters) >= CHUNK_LETTERS_MAX or size >= CHUNK_BYTES_MAX:
                    yield chunk
                    chunk, size = Chunk(partition, [], chunk.next_offset), 0
                if left <= 0:
                    return
            chunk = chunk._replace(next_offset=max(chunk.next_offset, min(batch.next_offset, end)))
        if chunk.letters or chunk.next_offset > start:
            yield chunk

    def _wanted(self, record: Record, positions: Iterable[Position]) -> DeadLetter | None:
        letter = read_dead_letter(record)
        if letter is None:
            self.passed_over += 1
            return None
        return letter if self._request.letters.passes(letter) and not is_done(letter, positions) else None

    async def _write(self, transactions: RedriveTransactions, chunk: Chunk) -> Copied:
        lost: list[DeadLetter] = []
        without_topic: list[DeadLetter] = []
        records: dict[TopicPartition, list[Record]] = {}
        counts = await self._within(self._partition_counts({letter.partition.topic for letter in chunk.letters}))
        now_ms = SystemClock().now_ms()
        for letter in chunk.letters:
            if letter.partition.partition >= counts.get(letter.partition.topic, 0):
                without_topic.append(letter)
                continue
            content = letter if letter.has_record else await self._record_of(letter)
            if content is None:
                lost.append(letter)
                continue
            rows = records.setdefault(letter.partition, [])
            rows.append(Record(len(rows), now_ms, content.key, content.value, content.headers))
        copied: Counter[str] = Counter()
        for partition, rows in sorted(records.items()):
            await self._within(transactions.write(partition, rows))
            copied[partition.topic] += len(rows)
        return Copied(chunk, copied, lost, without_topic)

    async def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """The number of partitions of each topic that exists."""
        names = sorted(topics)
        if not names:
            return {}
        found = await self._cluster.retry(lambda: self._cluster.metadata(names))
        counts = {}
        for topic in found.topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            check_topic(topic.name or "", topic.error_code)
            counts[topic.name or ""] = len(topic.partitions)
        return counts

    async def _record_of(self, letter: DeadLetter) -> Record | None:
        """The record of a dead letter without one, where it still is."""
        fetches = SliceFetches(self._cluster, letter.partition, READ_UNCOMMITTED, self._within)
        try:
            async for batch in fetches.batches(letter.record_offset, letter.record_offset + 1):
                for record in batch.records:
                    return record if record.offset == letter.record_offset else None
        except Refused as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
        return None

    async def _abort(self, transactions: RedriveTransactions) -> None:
        """What was written is not to be seen; where this fails, the coordinator aborts it in time."""
        try:
            await self._within(transactions.abort())
        except ClientError:
            return
