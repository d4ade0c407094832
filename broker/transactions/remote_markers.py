"""The markers for partitions that other brokers lead: WriteTxnMarkers, one request at a time for each broker.

Markers that come while a request is in flight travel together in the next one. A broker's task ends when it has
nothing to send; the connection stays open for the next transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from sordini.broker.coordinators.ports import Ports
from sordini.broker.transactions.transaction_end import TransactionEnd
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.ports import BrokerLink, BrokerLinks, Unreachable

LEADERS_MARGIN: Final = 4 / 3
"""Of a response's timeout: a leader waits for the commit as long as the default of `request.timeout.ms`."""
PARTITIONS_PER_REQUEST: Final = 2_000

Batch = list[tuple[TransactionEnd, list[TopicPartition]]]
OnCodes = Callable[[TransactionEnd, Mapping[TopicPartition, int]], None]


class RemoteMarkers:
    """The markers for all other brokers."""

    def __init__(self, this_broker: BrokerId, links: BrokerLinks, version: int, timeout_ms: int, ports: Ports) -> None:
        """`version` is that of WriteTxnMarkers, `timeout_ms` is request.timeout.ms."""
        self.this_broker = this_broker
        self.on_codes: OnCodes = _ignored
        """Called with each answer; REQUEST_TIMED_OUT stands for none. Set by `MarkerSender`."""
        self._links = links
        self._version = version
        self._timeout_ms = int(timeout_ms * LEADERS_MARGIN)
        self._ports = ports
        self._queues: dict[BrokerId, _BrokerQueue] = {}

    def add(self, broker_id: BrokerId, end: TransactionEnd, partitions: Iterable[TopicPartition]) -> None:
        """Send the marker for these partitions, which that broker leads."""
        queue = self._queues.get(broker_id)
        if queue is None:
            link = self._links.link(broker_id, f"broker-{self.this_broker}-transactions")
            queue = self._queues[broker_id] = _BrokerQueue(broker_id, link, self)
        queue.add(end, partitions)
        if not queue.is_sending:
            queue.is_sending = True
            self._ports.spawn(queue.send(self._version, self._timeout_ms, self._ports))

    def close(self) -> None:
        """Close all connections; what is not sent is sent by the next coordinator."""
        for queue in self._queues.values():
            queue.close()
        self._queues.clear()


class _BrokerQueue:
    """The markers that wait for one broker."""

    def __init__(self, broker_id: BrokerId, link: BrokerLink, owner: RemoteMarkers) -> None:
        self.is_sending = False
        self._broker_id = broker_id
        self._link = link
        self._owner = owner
        self._waiting: dict[TransactionEnd, list[TopicPartition]] = {}
        self._is_failing = False

    def add(self, end: TransactionEnd, partitions: Iterable[TopicPartition]) -> None:
        self._waiting.setdefault(end, []).extend(partitions)

    def close(self) -> None:
        self._waiting.clear()
        self._link.close()

    async def send(self, version: int, timeout_ms: int, ports: Ports) -> None:
        """Send until nothing waits. A failed request is not repeated here: the leader may be another one by then."""
        try:
            while batch := self._take():
                codes = await self._ask(batch, version, timeout_ms, ports)
                for end, partitions in batch:
                    marked = codes.get(end.markers.producer.producer_id, {})
                    missing = ErrorCode.REQUEST_TIMED_OUT
                    self._owner.on_codes(end, {name: marked.get(name, missing) for name in partitions})
        finally:
            self.is_sending = False

    def _take(self) -> Batch:
        """The markers of the next request; those of a coordinator that has resigned are dropped."""
        batch: Batch = []
        room = PARTITIONS_PER_REQUEST
        for end in list(self._waiting):
            partitions = self._waiting.pop(end)
            if end.is_cancelled:
                continue
            batch.append((end, partitions[:room]))
            if len(partitions) > room:
                self._waiting[end] = partitions[room:]
            room -= len(batch[-1][1])
            if not room:
                break
        return batch

    async def _ask(
        self, batch: Batch, version: int, timeout_ms: int, ports: Ports
    ) -> dict[int, dict[TopicPartition, int]]:
        """The code of each partition, by producer id; nothing when the broker did not answer."""
        request = WriteTxnMarkersRequest(markers=[end.marker(partitions) for end, partitions in batch])
        try:
            response: WriteTxnMarkersResponse = await self._link.ask(request, version, timeout_ms)
        except Unreachable as failure:
            if not self._is_failing:
                self._is_failing = True
                ports.log.warning("markers not sent, retrying", broker=self._broker_id, reason=str(failure))
            return {}
        if self._is_failing:
            self._is_failing = False
            ports.log.info("markers sent again", broker=self._broker_id)
        return {
            result.producer_id: {
                TopicPartition(topic.name, row.partition_index): row.error_code
                for topic in result.topics
                for row in topic.partitions
            }
            for result in response.markers
        }


def _ignored(_end: TransactionEnd, _codes: Mapping[TopicPartition, int]) -> None:
    """Nothing listens yet."""
