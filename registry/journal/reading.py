"""Reads the topic from its beginning, then what is new: a fetch that waits at the log end is always under way.

Records are read when they are committed, on all replicas in sync. What was applied cannot be undone, so a topic that
lost records which were read (it was deleted, or truncated by an unclean election) ends the reading with JournalFailed:
the process has to start again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from sordini.admin.cluster_client import ClusterClient
from sordini.client.cluster import Link
from sordini.client.errors import ClientError, InvalidResponse, Refused, Unreachable, check
from sordini.client.record_requests import (
    EARLIEST,
    FETCH_BY_NAME,
    LATEST,
    OFFSETS_BY_NAME,
    READ_COMMITTED,
    fetch_request,
    fetched_partitions,
    listed_partitions,
    offsets_request,
    only_partition,
)
from sordini.client.retries import Backoff
from sordini.client.routing import is_recreated
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.fetch import PartitionData
from sordini.protocol.records.replay import Replay
from sordini.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition
from sordini.registry.journal.topic import known_later
from sordini.registry.ports import JournalFailed
from sordini.replication.ports import Logger

FETCH_BYTES: Final = 4 * 1024 * 1024
WAIT_MS: Final = 500
_FIRST_BY_ID: Final = 13
"""The first Fetch that names topics by their ids (KIP-516)."""
_PAUSE_MS: Final = 20
_PAUSE_MS_MAX: Final = 1_000
_LOST: Final = "lost records that were read from it: restart this registry"


async def leader_of(cluster: ClusterClient, partition: TopicPartition) -> Link:
    """A link to the leader, by the newest metadata. Raises ClientError."""
    (broker_id,) = await cluster.leaders([partition])
    return await cluster.broker(broker_id)


class Reading:
    """How far the topic was read, and who waits for it."""

    def __init__(self, cluster: ClusterClient, partition: TopicPartition, replay: Replay, log: Logger) -> None:
        """`cluster` is for the fetches alone: other requests would wait behind those at the log end."""
        self._cluster = cluster
        self._partition = partition
        self._replay = replay
        self._log = log
        self._advanced = asyncio.Event()
        self._topic_id = NO_TOPIC_ID
        self._is_started = False

    @property
    def position(self) -> int:
        """The next offset to read; all before it is applied."""
        return self._replay.position

    async def run(self) -> None:
        """Read until cancelled. Raises JournalFailed."""
        backoff = Backoff(_PAUSE_MS, _PAUSE_MS_MAX)
        link: Link | None = None
        is_failing = False
        while True:
            try:
                if link is None:
                    link = await self._find_leader()
                await self._fetch(link)
            except ClientError as error:
                link = None
                if not is_failing:
                    self._log.warning("schemas cannot be read", reason=str(error))
                is_failing = True
                if isinstance(error, Unreachable):
                    self._cluster.close()
                    self._cluster.cluster_map.forget()
                await asyncio.sleep(backoff.next_ms() / 1000)
                continue
            if is_failing:
                self._log.info("schemas are read again", offset=self.position)
            is_failing = False
            backoff.reset()

    async def wait_for(self, is_reached: Callable[[], bool]) -> None:
        """Wait until a condition holds that depends on what was read; the caller bounds the time."""
        while not is_reached():
            # An event for each advance, so that no wait sees an advance of before.
            await self._advanced.wait()

    async def wait_until_current(self, cluster: ClusterClient) -> None:
        """Read to the log end of now, which is requested on another link than the fetches. Raises ClientError."""

        async def attempt() -> int:
            try:
                link = await leader_of(cluster, self._partition)
                return await self._offset(link, LATEST)
            except Refused as error:
                raise known_later(error) from None

        end = await cluster.retry(attempt)
        await self.wait_for(lambda: self.position >= end)

    async def _offset(self, link: Link, time: int) -> int:
        request = offsets_request({self._partition: time}, isolation_level=READ_COMMITTED)
        subject = f"offsets of {self._partition}"
        row = only_partition(listed_partitions(await link.ask(request, **OFFSETS_BY_NAME)), subject)
        check(subject, row.error_code)
        offset: int = row.offset
        return offset

    async def _find_leader(self) -> Link:
        (topic,) = await self._cluster.topics([self._partition.topic])
        if is_recreated(self._topic_id, topic.topic_id):
            raise JournalFailed(f"topic '{self._partition.topic}' was deleted and created again: restart this registry")
        self._topic_id = TopicId(topic.topic_id)
        link = await leader_of(self._cluster, self._partition)
        if not self._is_started:
            self._replay.position = await self._offset(link, EARLIEST)
            self._is_started = True
        return link

    async def _fetch(self, link: Link) -> None:
        request = fetch_request(
            {self._partition: self._replay.position},
            FETCH_BYTES,
            bytes_max=FETCH_BYTES,
            wait_ms=WAIT_MS,
            isolation_level=READ_COMMITTED,
        )
        request.topics[0].partitions[0].last_fetched_epoch = self._replay.epoch
        bounds = FETCH_BY_NAME
        if self._topic_id != NO_TOPIC_ID and link.serves(ApiKey.FETCH, _FIRST_BY_ID):
            # A topic of the same name that was created since has another id.
            request.topics[0].topic_id = self._topic_id
            bounds = {"at_least": _FIRST_BY_ID}
        response = await link.ask(request, **bounds)
        subject = f"reading {self._partition}"
        check(subject, response.error_code)
        row: PartitionData = only_partition(fetched_partitions(response), subject)
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE or (row.diverging_epoch and row.diverging_epoch.epoch >= 0):
            raise JournalFailed(f"topic '{self._partition.topic}' {_LOST}")
        if row.error_code:
            raise Refused(subject, row.error_code)
        before = self._replay.position
        records = memoryview(row.records or b"")  # type: ignore[arg-type]  # Slices of files are what brokers send.
        try:
            for _ in self._replay.take(records, row.aborted_transactions or ()):
                await asyncio.sleep(0)
        except BrokerError as error:
            raise InvalidResponse(f"{subject}: {error}") from None
        if self._replay.position > before:
            self._advanced.set()
            self._advanced = asyncio.Event()
