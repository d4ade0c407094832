"""Records as they arrive: all of them, or never more than a person can read along, with what was skipped.

A round is one Fetch to each leader at the same time, which waits for records. `Pace` says how much of it is shown; what
is left out is counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, cast

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.partition_offsets import offset_ranges
from sordini.admin.records.search import COMMITTED, UNCOMMITTED, LedPartition, in_time
from sordini.admin.records.seen_records import RECORD, RecordFilters, SeenRecord, records_of
from sordini.client.errors import ClientError
from sordini.client.record_requests import (
    FETCH_BY_NAME,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    fetch_request,
    fetched_partitions,
)
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.fetch import FetchResponse, PartitionData
from sordini.protocol.records.returned_records import seen_batches
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

WAIT_MS: Final = 1_000
"""For the first record of a round."""
LEADERLESS_S: Final = 5.0
"""How often a partition without a leader is looked for."""
PROBLEM_PAUSE_S: Final = 0.5
PARTITION_BYTES: Final = 256 * 1024
ROUND_BYTES: Final = 4 * 1024 * 1024


class Pace(NamedTuple):
    """How much is shown."""

    shown_max: int | None
    """Of a round, the newest; None is all."""
    behind_max: int | None
    """A partition that is further behind continues at its end; None: all is read."""
    pause_s: float
    """Between two rounds."""


ALONG: Final = Pace(shown_max=25, behind_max=2_000, pause_s=0.5)
"""A person reads no faster."""
ALL: Final = Pace(None, None, 0)


class TailStep(NamedTuple):
    """What one round brought, oldest first."""

    records: list[SeenRecord]
    skipped: int
    """Records that were not shown, and those that were not read."""
    problem: str | None = None


class Tail:
    """Follows partitions."""

    def __init__(
        self,
        cluster: ClusterClient,
        rows: Sequence[LedPartition],
        records: RecordFilters,
        shows: str,
        pace: Pace = ALONG,
    ) -> None:
        self._pace = pace
        self._cluster = cluster
        self._records = records
        self._shows = shows
        self._isolation_level = READ_UNCOMMITTED if shows == UNCOMMITTED else READ_COMMITTED
        self._names = [row.name for row in rows]
        self._leaders = {row.name: row.leader for row in rows if row.leader is not None}
        self._looked_s = asyncio.get_running_loop().time()
        self._offsets: dict[TopicPartition, int] = {}
        self._skipped = 0

    async def steps(self, starts: Mapping[TopicPartition, int] | None = None) -> AsyncIterator[TailStep]:
        """A step for each round, also one without records; from the ends on, or from `starts`.

        Raises ClientError where it cannot begin.
        """
        if starts is None:
            ranges = await in_time(offset_ranges(self._cluster, self._leaders, isolation_level=self._isolation_level))
            starts = {name: one.latest for name, one in ranges.items()}
        self._offsets = dict(starts)
        while True:
            problem, found = None, []
            try:
                found = await self._round()
            except ClientError as error:
                problem = str(error)
                await self._find_leaders()
            found.sort(key=lambda record: (record.timestamp_ms, record.offset))
            shown_max = len(found) if self._pace.shown_max is None else self._pace.shown_max
            self._skipped += max(len(found) - shown_max, 0)
            yield TailStep(found[-shown_max:] if shown_max else [], self._skipped, problem)
            self._skipped = 0
            await asyncio.sleep(self._pace.pause_s if problem is None else PROBLEM_PAUSE_S)

    async def _round(self) -> list[SeenRecord]:
        wanted: dict[int, dict[TopicPartition, int]] = {}
        for name, leader in self._leaders.items():
            wanted.setdefault(leader, {})[name] = self._offsets[name]
        if not wanted:
            await asyncio.sleep(WAIT_MS / 1000)
            await self._find_leaders()
        answers = await asyncio.gather(*(self._fetched(leader, offsets) for leader, offsets in wanted.items()))
        now_s = asyncio.get_running_loop().time()
        found, has_moved = [], len(self._leaders) < len(self._names) and now_s - self._looked_s > LEADERLESS_S
        for name, row in (pair for answer in answers for pair in answer):
            if row.error_code != ErrorCode.NONE:
                has_moved = True
                if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._offsets[name] = max(row.log_start_offset, 0)
                continue
            found += self._seen(name, row)
        if has_moved:
            await self._find_leaders()
        return found

    async def _fetched(self, leader: int, offsets: dict[TopicPartition, int]) -> list[tuple[TopicPartition, Any]]:
        request = fetch_request(
            offsets, PARTITION_BYTES, bytes_max=ROUND_BYTES, wait_ms=WAIT_MS, isolation_level=self._isolation_level
        )

        async def asked() -> FetchResponse:
            link = await self._cluster.broker(leader)
            response: FetchResponse = await link.ask(request, at_most=FETCH_BY_NAME["at_most"])
            return response

        return list(fetched_partitions(await in_time(asked())))

    def _seen(self, name: TopicPartition, row: PartitionData) -> list[SeenRecord]:
        offset, found = self._offsets[name], []
        content = cast("memoryview", row.records or b"")
        try:
            for batch in seen_batches(content, offset, row.aborted_transactions or ()):
                offset = max(offset, batch.next_offset)
                for record, seen in records_of(name, batch):
                    if self._shows == COMMITTED and seen.kind != RECORD:
                        continue
                    if record is None and self._records:
                        continue
                    if record is None or all(one.finds(record) for one in self._records):
                        found.append(seen)
        except BrokerError:
            self._skipped += 1
            offset = max(offset + 1, row.last_stable_offset)
        behind_max = self._pace.behind_max
        if behind_max is not None and row.last_stable_offset - offset > behind_max:
            self._skipped += row.last_stable_offset - offset
            offset = row.last_stable_offset
        self._offsets[name] = offset
        return found

    async def _find_leaders(self) -> None:
        """Leaders move; a partition without one is left out until it has one again, from its end then."""
        self._looked_s = asyncio.get_running_loop().time()
        try:
            topics = await in_time(self._cluster.metadata({name.topic for name in self._names}))
            led = {
                TopicPartition(topic.name or "", row.partition_index): row.leader_id
                for topic in topics.topics
                for row in topic.partitions
                if row.leader_id >= 0
            }
            new = [name for name in self._names if name in led and name not in self._offsets]
            ranges = (
                await in_time(offset_ranges(self._cluster, new, isolation_level=self._isolation_level)) if new else {}
            )
        except ClientError:
            return
        self._offsets |= {name: one.latest for name, one in ranges.items()}
        self._leaders = {name: led[name] for name in self._names if name in led}
