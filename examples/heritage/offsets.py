"""A group's committed offsets, each the next to read: in Kafka, where the group's offset manager keeps them, in
ZooKeeper, or in both while the group moves from the one to the other.

Any broker names the manager, the group's coordinator. It is looked for again when it has moved, and asked again while
it loads its offsets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import Any, Final

from examples.heritage.broker_link import BrokerLink
from examples.heritage.config import ConsumerConfig
from examples.heritage.errors import BrokerUnavailable, HeritageError, RequestRefused, ZooKeeperError
from examples.heritage.registry import GroupNodes
from sordini.client import group_offsets as wire
from sordini.client.addresses import Address
from sordini.client.retries import RETRIABLE
from sordini.client.routing import coordinator_in, coordinator_request
from sordini.protocol.types import TopicPartition

NO_OFFSET: Final = -1


class OffsetManager:
    """The coordinator of one group, which is looked for at each use."""

    def __init__(
        self,
        config: ConsumerConfig,
        brokers: Callable[[], Iterable[Address]],
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        """`brokers` name the coordinator; `pause` waits for seconds before another attempt."""
        self._config = config
        self._brokers = brokers
        self._pause = pause

    def commit(self, offsets: Mapping[TopicPartition, int], retries: int | None = None) -> None:
        """Commit the next offset of each partition. Raises RequestRefused, BrokerUnavailable after the last attempt."""
        if offsets:
            self._ask(wire.commit_request(self._config.group_id, offsets), wire.COMMITS, retries)

    def fetch(self) -> dict[TopicPartition, int]:
        """All committed offsets. Raises as `commit`."""
        found = wire.partitions_in(self._ask(wire.fetch_request(self._config.group_id), wire.FETCHES, None))
        return {partition: row.committed_offset for partition, row in found}

    def _ask(self, request: Any, versions: Mapping[str, int], retries: int | None) -> Any:
        """The response without an error, of the last attempt at the latest."""
        left = self._config.commit_retries if retries is None else retries
        while True:
            try:
                with closing(self._coordinator()) as link:
                    found = wire.group_in(link.ask(request, **versions))
                rows = (row.error_code for _, row in wire.partitions_in(found))
                _check(request, self._config, getattr(found, "error_code", 0) or next(filter(None, rows), 0))
            except (BrokerUnavailable, RequestRefused) as error:
                if left <= 0 or (isinstance(error, RequestRefused) and error.code not in RETRIABLE):
                    raise
                left -= 1
                self._pause(self._config.offsets_backoff_ms / 1000)
            else:
                return found

    def _coordinator(self) -> BrokerLink:
        """A connection to the coordinator, which the first broker that answers names."""
        config = self._config
        settings = config.client_id, config.socket_timeout_ms / 1000
        request = coordinator_request(config.group_id)
        reason = BrokerUnavailable(f"no broker is known that names the coordinator of group {config.group_id}")
        for address in self._brokers():
            try:
                with closing(BrokerLink(address, *settings)) as link:
                    found = coordinator_in(link.ask(request))
            except BrokerUnavailable as error:
                reason = error
            else:
                _check(request, config, found.error_code)
                return BrokerLink(found.address, *settings)
        raise reason


def _check(request: object, config: ConsumerConfig, code: int) -> None:
    if code:
        raise RequestRefused(f"{type(request).__name__} of group {config.group_id}", code)


class OffsetStorage:
    """What `offsets.storage` and `dual.commit.enabled` say, in one session."""

    def __init__(self, config: ConsumerConfig, nodes: GroupNodes, pause: Callable[[float], object]) -> None:
        in_kafka = config.offsets_storage == "kafka"
        self._nodes = nodes
        self._manager = OffsetManager(config, lambda: nodes.brokers().values(), pause) if in_kafka else None
        self._in_zookeeper = not in_kafka or config.dual_commit

    def commit(self, offsets: Mapping[TopicPartition, int], retries: int | None = None) -> None:
        """Commit; to ZooKeeper after Kafka. Raises HeritageError."""
        known = {partition: offset for partition, offset in offsets.items() if offset != NO_OFFSET}
        try:
            if self._manager is not None:
                self._manager.commit(known, retries)
            for partition, offset in known.items() if self._in_zookeeper else ():
                self._nodes.commit(partition, offset)
        except ZooKeeperError as error:
            raise HeritageError(f"offsets were not committed to ZooKeeper: {error}") from None

    def fetch(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The committed offset of each partition, of two the larger; NO_OFFSET without one. Raises HeritageError."""
        found = {} if self._manager is None else self._manager.fetch()
        if self._in_zookeeper:
            found = {one: max(found.get(one, NO_OFFSET), self._nodes.offset(one)) for one in partitions}
        return {one: found.get(one, NO_OFFSET) for one in partitions}
