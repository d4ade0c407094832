"""Reads a registry's topic from its leader, as far as its committed end of now, when that is needed.

The leader may be this broker: then, too, it is read by a connection, so that there is one way. A connection is kept
while it works. The right to read is that of the brokers' own principal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.client.errors import ClientError
from sordini.client.record_requests import (
    EARLIEST,
    READ_COMMITTED,
    fetch_request,
    fetched_partitions,
    listed_partitions,
    offsets_request,
    only_partition,
)
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.fetch import PartitionData
from sordini.protocol.records.replay import Replay
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.ports import BrokerLink, BrokerLinks, Unreachable
from sordini.system.named_tuple import NamedTuple

FETCH_BYTES: Final = 1024 * 1024
READ_MS: Final = 5_000
"""For one reading; the first one has the whole topic to read."""
_FETCH_VERSION: Final = 11
_OFFSETS_VERSION: Final = 5
"""Of releases 2.4 and newer: a cluster may have brokers of Apache Kafka."""


class SchemaTopicUnread(Exception):
    """The topic could not be read; the text says why."""


class _Leader(NamedTuple):
    broker_id: BrokerId
    link: BrokerLink


class SchemaTopic:
    """How far the topic was read."""

    def __init__(
        self,
        topic: str,
        metadata: MetadataCache,
        links: BrokerLinks,
        client_id: str,
        restarted: Callable[[], Replay],
    ) -> None:
        """`restarted` makes the reader of a topic that is read from its beginning: at first, and when it was lost."""
        self._partition = TopicPartition(topic, 0)
        self._metadata = metadata
        self._links = links
        self._client_id = client_id
        self._restarted = restarted
        self._replay: Replay | None = None
        self._topic_id: bytes | None = None
        self._leader: _Leader | None = None
        self._lock = asyncio.Lock()
        self._begun = 0
        self._complete = 0
        """The number of the last reading that was complete."""

    async def read(self) -> None:
        """Read to the end of now. Raises SchemaTopicUnread."""
        seen = self._begun
        async with self._lock:
            if self._complete > seen:
                return  # Another reading began after this call, and is complete.
            self._begun += 1
            try:
                async with asyncio.timeout(READ_MS / 1000):
                    await self._read()
            except TimeoutError:
                raise SchemaTopicUnread(f"topic '{self._partition.topic}' was not read within {READ_MS} ms") from None
            except (Unreachable, ClientError, BrokerError) as error:
                self.close()
                raise SchemaTopicUnread(f"topic '{self._partition.topic}': {error}") from None
            self._complete = self._begun

    def restart(self) -> None:
        """Have the next reading begin at the beginning of the topic; one in progress goes on."""
        self._topic_id = None

    def close(self) -> None:
        """Close the connection; the next reading opens one."""
        if self._leader is not None:
            self._leader.link.close()
            self._leader = None

    async def _read(self) -> None:
        known = self._metadata.topics.get(self._partition.topic)
        found = None if known is None else known.partitions.get(self._partition.partition)
        if known is None or found is None:
            self._replay, self._topic_id = None, None
            raise SchemaTopicUnread(f"there is no topic '{self._partition.topic}': does a schema registry run?")
        if found.leader < 0:
            raise SchemaTopicUnread(f"topic '{self._partition.topic}' has no leader at present")
        if known.topic_id != self._topic_id:
            self._replay, self._topic_id = None, known.topic_id
        link = self._link_to(found.leader)
        if self._replay is None:
            replay = self._restarted()
            replay.position = await self._log_start(link)
            self._replay = replay
        while not await self._fetch(link, self._replay):
            pass

    def _link_to(self, broker_id: BrokerId) -> BrokerLink:
        if self._leader is not None and self._leader.broker_id != broker_id:
            self.close()
        if self._leader is None:
            self._leader = _Leader(broker_id, self._links.link(broker_id, self._client_id))
        return self._leader.link

    async def _log_start(self, link: BrokerLink) -> int:
        request = offsets_request({self._partition: EARLIEST}, isolation_level=READ_COMMITTED)
        answer = await link.ask(request, _OFFSETS_VERSION, READ_MS)
        row = only_partition(listed_partitions(answer), str(self._partition))
        _check(row.error_code)
        offset: int = row.offset
        return offset

    async def _fetch(self, link: BrokerLink, replay: Replay) -> bool:
        """Fetch once; whether the end is reached."""
        request = fetch_request(
            {self._partition: replay.position}, FETCH_BYTES, bytes_max=FETCH_BYTES, isolation_level=READ_COMMITTED
        )
        answer = await link.ask(request, _FETCH_VERSION, READ_MS)
        _check(answer.error_code)
        row: PartitionData = only_partition(fetched_partitions(answer), str(self._partition))
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._replay = None  # Records that were read are lost: the next reading begins again.
        _check(row.error_code)
        records = memoryview(row.records or b"")  # type: ignore[arg-type]  # Slices of files are what brokers send.
        before = replay.position
        for _ in replay.take(records, row.aborted_transactions or ()):
            await asyncio.sleep(0)
        if replay.position >= row.last_stable_offset:
            return True
        if replay.position == before:
            raise SchemaTopicUnread(f"topic '{self._partition.topic}' cannot be read at offset {before}")
        return False


def _check(code: int) -> None:
    if code:
        raise BrokerError(ErrorCode(code), ErrorCode(code).name)
