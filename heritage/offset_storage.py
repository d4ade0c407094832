"""Where a connector's offsets are: in ZooKeeper, in Kafka, or in both while a group moves from the one to the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from sordini.heritage.config import ConsumerConfig
from sordini.heritage.errors import HeritageError
from sordini.heritage.offset_manager import OffsetManager
from sordini.heritage.registry import GroupNodes
from sordini.protocol.types import TopicPartition
from sordini.replication.ports import CoordinationError

NO_OFFSET: Final = -1


class OffsetStorage:
    """The committed offsets of one group, each the next to read. One thread uses it at a time."""

    def __init__(self, config: ConsumerConfig, pause: Callable[[float], object]) -> None:
        self.nodes: GroupNodes | None = None
        """The group in the present session."""
        self._in_kafka = config.offsets_storage == "kafka"
        self._in_zookeeper = not self._in_kafka or config.commits_twice
        self._manager = OffsetManager(
            config.group_id,
            lambda: self._nodes.brokers().values(),
            client_id=config.client_id,
            timeout_ms=config.offsets_channel_socket_timeout_ms,
            backoff_ms=config.offsets_channel_backoff_ms,
            retries=config.offsets_commit_max_retries,
            pause=pause,
        )

    def commit(self, offsets: Mapping[TopicPartition, int], retries: int | None = None) -> None:
        """Commit; to ZooKeeper after Kafka, so that it never has more. Raises HeritageError."""
        known = {partition: offset for partition, offset in offsets.items() if offset != NO_OFFSET}
        try:
            if self._in_kafka:
                self._manager.commit(known, retries=retries)
            if self._in_zookeeper:
                for partition, offset in known.items():
                    self._nodes.commit(partition, offset)
        except CoordinationError as error:
            raise HeritageError(f"offsets were not committed to ZooKeeper: {error}") from None

    def fetch(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The committed offset of each partition, of two the larger; NO_OFFSET without one. Raises HeritageError."""
        wanted = list(partitions)
        found = self._manager.fetch(wanted) if self._in_kafka else {}
        return {partition: self._larger(partition, found.get(partition, NO_OFFSET)) for partition in wanted}

    def close(self) -> None:
        self._manager.close()

    def _larger(self, partition: TopicPartition, offset: int) -> int:
        other = self._nodes.offset(partition) if self._in_zookeeper else None
        return offset if other is None else max(offset, other)

    @property
    def _nodes(self) -> GroupNodes:
        assert self.nodes is not None, "a member is registered before it reads offsets"
        return self.nodes
