"""The channel to a group's offset manager, the broker that coordinates the group: commits and fetches of offsets.

Any broker names it. It is looked for again when it has moved, and asked again while it loads its offsets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from sordini.client.addresses import Address
from sordini.client.retries import RETRIABLE
from sordini.client.routing import coordinator_in, coordinator_request
from sordini.heritage.broker_link import BrokerLink
from sordini.heritage.errors import BrokerUnavailable, RequestRefused
from sordini.protocol.messages import offset_commit as committing
from sordini.protocol.messages import offset_fetch as fetching
from sordini.protocol.types import TopicPartition

_NEWEST_OF_ONE_GROUP: Final = 7
_NEWEST_WITH_NAMES: Final = 9
_FIRST_IN_KAFKA: Final = 1
"""OffsetFetch and OffsetCommit version 0 are about offsets in ZooKeeper."""


class OffsetManager:
    """The coordinator of one group. One thread uses it at a time."""

    def __init__(
        self,
        group: str,
        brokers: Callable[[], Iterable[Address]],
        *,
        client_id: str,
        timeout_ms: int,
        backoff_ms: int = 1_000,
        retries: int = 5,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        """`brokers` are asked for the coordinator; `pause` waits for seconds before another attempt."""
        self._group = group
        self._brokers = brokers
        self._link_settings = client_id, timeout_ms
        self._backoff_s = backoff_ms / 1000
        self._retries = retries
        self._pause = pause
        self._link: BrokerLink | None = None

    def commit(self, offsets: Mapping[TopicPartition, int], *, retries: int | None = None) -> None:
        """Commit the next offset of each partition. Raises RequestRefused, BrokerUnavailable after the last attempt."""
        if not offsets:
            return
        topics: dict[str, list[Any]] = {}
        for (topic, number), offset in offsets.items():
            row = committing.OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
            topics.setdefault(topic, []).append(row)
        rows = [committing.OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()]
        request = committing.OffsetCommitRequest(group_id=self._group, topics=rows)
        self._ask(request, "a commit", _NEWEST_WITH_NAMES, self._retries if retries is None else retries)

    def fetch(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The committed offsets; partitions without one are left out. Raises as `commit`."""
        topics: dict[str, list[int]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append(number)
        if not topics:
            return {}
        rows = [fetching.OffsetFetchRequestTopic(name=name, partition_indexes=all_) for name, all_ in topics.items()]
        request = fetching.OffsetFetchRequest(group_id=self._group, topics=rows)
        answer = self._ask(request, "a fetch of offsets", _NEWEST_OF_ONE_GROUP, self._retries)
        found = (
            (TopicPartition(one.name, row.partition_index), row) for one in answer.topics for row in one.partitions
        )
        return {partition: row.committed_offset for partition, row in found if row.committed_offset >= 0}

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _ask(self, request: Any, what: str, at_most: int, retries: int) -> Any:
        """The response without an error, of the last attempt at the latest."""
        while True:
            try:
                answer = self._found().ask(request, at_least=_FIRST_IN_KAFKA, at_most=at_most)
                self._check(answer, what)
            except (BrokerUnavailable, RequestRefused) as error:
                self.close()
                if retries <= 0 or (isinstance(error, RequestRefused) and error.code not in RETRIABLE):
                    raise
                retries -= 1
                self._pause(self._backoff_s)
            else:
                return answer

    def _check(self, answer: Any, what: str) -> None:
        codes = [getattr(answer, "error_code", 0)]
        codes += [row.error_code for topic in answer.topics for row in topic.partitions]
        code = next(filter(None, codes), 0)
        if code:
            raise RequestRefused(f"{what} of group {self._group}", code)

    def _found(self) -> BrokerLink:
        """The connection to the coordinator, which the first broker that answers names."""
        if self._link is not None:
            return self._link
        reason = BrokerUnavailable(f"no broker is known that names the coordinator of group {self._group}")
        for address in self._brokers():
            asked = BrokerLink(address, *self._link_settings)
            try:
                coordinator = coordinator_in(asked.ask(coordinator_request(self._group)))
            except BrokerUnavailable as error:
                reason = error
                continue
            finally:
                asked.close()
            if coordinator.error_code:
                raise RequestRefused(f"the coordinator of group {self._group}", coordinator.error_code)
            self._link = BrokerLink(coordinator.address, *self._link_settings)
            return self._link
        raise reason
