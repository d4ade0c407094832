"""Which records of a source are copies that a mirror wrote there: merged topics are not copied on, so nothing loops.

The batches of a mirror carry its producer id. Each mirror writes its producer ids into its topic of positions in the
cluster into which it copies, before its first batch. So whether a producer is a mirror can be decided once the records
up to the end of these topics are read, and never changes.
"""

from __future__ import annotations

from sordini.client.record_requests import READ_UNCOMMITTED
from sordini.mirror.cluster import Cluster
from sordini.mirror.formats import read_producer
from sordini.mirror.internal_topics import InternalTopic
from sordini.mirror.naming import OFFSETS_PATTERN
from sordini.protocol.records.batch import CURRENT_MAGIC, read_header
from sordini.protocol.records.legacy import entries


def producers_in(records: memoryview) -> set[int]:
    """The producer ids of the batches of a record set."""
    batches = (read_header(records, entry.position) for entry in entries(records) if entry.magic == CURRENT_MAGIC)
    return {header.producer_id for header in batches if header.producer_id >= 0}


class Copies:
    """What is known of the producers of one source."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topics: dict[str, InternalTopic] = {}
        self._mirrors: set[int] = set()
        self._others: set[int] = set()

    def is_copy(self, producer_id: int) -> bool:
        """Whether a mirror wrote it. `learn` was called with the producer id."""
        assert producer_id in self._mirrors or producer_id in self._others, f"producer {producer_id} is unknown"
        return producer_id in self._mirrors

    async def learn(self, producer_ids: set[int]) -> None:
        """Find out about producers of records that were read. Raises ClientError."""
        unknown = producer_ids - self._mirrors - self._others
        if not unknown:
            return
        for topic in (await self._cluster.metadata(None)).topics:
            name = topic.name or ""
            if OFFSETS_PATTERN.fullmatch(name):
                # Producers are written outside of transactions: an open one must not hide them.
                reader = self._topics.setdefault(name, InternalTopic(self._cluster, name, READ_UNCOMMITTED))
                found = await reader.read_new(read_producer)
                self._mirrors.update(producer_id for producer_id in found if producer_id is not None)
        self._others |= unknown - self._mirrors
