"""What a producer does with messages: choose partitions, encode, compress, and send a request to each leader."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from threading import Lock
from typing import Final, NamedTuple

from sordini.client.addresses import Address
from sordini.client.retries import RETRIABLE
from sordini.heritage.broker_link import BrokerLink
from sordini.heritage.broker_partitions import BrokerPartitions, ListedPartitions, WatchedPartitions
from sordini.heritage.config import ProducerConfig
from sordini.heritage.errors import BrokerUnavailable, ConfigError, HeritageError, RequestRefused
from sordini.heritage.partitioner import (
    CallbackHandler,
    DefaultEncoder,
    DefaultPartitioner,
    Encoder,
    NoCallbacks,
    Partitioner,
)
from sordini.heritage.producer_data import ProducerData
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.types import TopicPartition

_NEWEST_WITH_NAMES: Final = 12
_FIRST_WITH_BATCHES: Final = 3


class _Failure(NamedTuple):
    error: HeritageError
    events: list[ProducerData]


class EventHandler:
    """Serialises and sends; with `zk.connect` again after a change of leaders, with `broker.list` once."""

    def __init__(
        self,
        config: ProducerConfig,
        partitioner: Partitioner | None,
        encoder: Encoder | None,
        callback_handler: CallbackHandler | None,
    ) -> None:
        if config.broker_list and partitioner is not None:
            raise ConfigError("with broker.list each request goes to a random partition: leave the partitioner out")
        self._config = config
        self._partitioner = partitioner or DefaultPartitioner()
        self._encoder = encoder or DefaultEncoder()
        self._callbacks = callback_handler or NoCallbacks()
        self._partitions: BrokerPartitions = (
            WatchedPartitions(config) if config.zk_connect else ListedPartitions(config)
        )
        self._links: dict[Address, BrokerLink] = {}
        self._lock = Lock()

    def handle(self, events: Sequence[ProducerData]) -> None:
        """Send all of it. Raises HeritageError, after the hook; other parts may have been sent then."""
        attempts = self._config.message_send_max_retries if self._config.zk_connect else 0
        with self._lock:
            left = list(self._callbacks.before_sending_data(events))
            while (failure := self._send(left)) is not None:
                error, left = failure
                self._partitions.refresh()
                if not attempts or (isinstance(error, RequestRefused) and error.code not in RETRIABLE):
                    self._callbacks.on_failure(left, error)
                    raise error
                attempts -= 1
                time.sleep(self._config.retry_backoff_ms / 1000)

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._partitions.close()

    def _send(self, events: list[ProducerData]) -> _Failure | None:
        """Send once, one request for each leader; an error, with the events of all partitions that had one."""
        by_leader: dict[Address, dict[TopicPartition, list[ProducerData]]] = {}
        error: HeritageError | None = None
        failed: list[ProducerData] = []
        for one in events:
            try:
                partition, leader = self._chosen(one)
            except HeritageError as reason:
                error, failed = reason, [*failed, one]
            else:
                by_leader.setdefault(leader, {}).setdefault(partition, []).append(one)
        for leader, parts in by_leader.items():
            for partition, refusal in self._sent(leader, parts).items():
                error, failed = refusal, [*failed, *parts[partition]]
        return None if error is None else _Failure(error, failed)

    def _chosen(self, event: ProducerData) -> tuple[TopicPartition, Address]:
        """The partition for an event, and its leader. Raises HeritageError."""
        partitions = self._partitions.of(event.topic)
        if event.key is None or self._config.broker_list:
            led = [one for one in partitions if one.leader is not None and self._config.zk_connect]
            chosen = random.choice(led or partitions)  # noqa: S311 - no secret.
        else:
            number = self._partitioner.partition(event.key, len(partitions))
            if not 0 <= number < len(partitions):
                raise ConfigError(
                    f"the partitioner chose {number} among {len(partitions)} partitions of {event.topic!r}"
                )
            chosen = partitions[number]
        partition = TopicPartition(event.topic, chosen.number)
        if chosen.leader is None:
            raise BrokerUnavailable(f"no broker leads {partition} now")
        return partition, chosen.leader

    def _sent(
        self, leader: Address, parts: dict[TopicPartition, list[ProducerData]]
    ) -> dict[TopicPartition, HeritageError]:
        """Send to one leader; the errors of partitions."""
        topics: dict[str, list[PartitionProduceData]] = {}
        for partition, events in parts.items():
            row = PartitionProduceData(index=partition.partition, records=self._message_set(partition.topic, events))
            topics.setdefault(partition.topic, []).append(row)
        request = ProduceRequest(
            acks=self._config.request_required_acks,
            timeout_ms=self._config.socket_timeout_ms,
            topic_data=[TopicProduceData(name=topic, partition_data=rows) for topic, rows in topics.items()],
        )
        if leader not in self._links:
            self._links[leader] = BrokerLink(leader, self._config.client_id, self._config.socket_timeout_ms)
        try:
            answer = self._links[leader].ask(request, at_least=_FIRST_WITH_BATCHES, at_most=_NEWEST_WITH_NAMES)
        except BrokerUnavailable as error:
            return dict.fromkeys(parts, error)
        rows = (
            (TopicPartition(one.name, row.index), row) for one in answer.responses for row in one.partition_responses
        )
        return {
            partition: RequestRefused(f"messages for {partition}", row.error_code)
            for partition, row in rows
            if row.error_code
        }

    def _message_set(self, topic: str, events: list[ProducerData]) -> memoryview:
        messages = [self._encoder.to_message(message) for event in events for message in event.messages]
        now_ms = time.time_ns() // 1_000_000
        records = [Record(number, now_ms, None, message) for number, message in enumerate(messages)]
        return memoryview(build_batch(records, codec=self._config.codec_of(topic)))
