"""The producer: one interface over a synchronous and an asynchronous one (`producer.type`).

    producer = Producer(ProducerConfig.of({"zk.connect": "zookeeper:2181", "producer.type": "async"}))
    producer.send(ProducerData("visits", member_id, [visit]))
    producer.close()

The asynchronous one queues messages; a thread takes a batch out when there are `batch.size` of them, or when the first
has waited for `queue.time`, and hands it to the event handler, which the synchronous one calls in `send`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from queue import Empty, Queue
from threading import Lock, Thread
from typing import Final

from examples.heritage.broker_link import BrokerLink
from examples.heritage.config import ProducerConfig
from examples.heritage.errors import BrokerUnavailable, ConfigError, HeritageError, RequestRefused
from examples.heritage.partitions import (
    CallbackHandler,
    Encoder,
    ListedPartitions,
    Partitioner,
    ProducerData,
    WatchedPartitions,
)
from examples.heritage.registry import LOG
from sordini.client.addresses import Address
from sordini.client.retries import RETRIABLE
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.types import TopicPartition

_VERSIONS: Final = {"at_least": 3, "at_most": 12}
"""Of Produce: with record batches, and with the names of topics."""


class Producer:
    """Sends messages to the partitions of their keys. Threads may share it."""

    def __init__(
        self,
        config: ProducerConfig,
        *,
        partitioner: Partitioner | None = None,
        encoder: Encoder | None = None,
        callback_handler: CallbackHandler | None = None,
    ) -> None:
        """Raises ConfigError, NoZooKeeper."""
        self._config = config
        self._handler = EventHandler(config, partitioner, encoder or Encoder(), callback_handler or CallbackHandler())
        self._queue: Queue[ProducerData | None] = Queue(config.queue_size)
        self._thread: Thread | None = None
        if config.producer_type == "async":
            self._thread = Thread(target=self._send_batches, name="heritage-producer", daemon=True)
            self._thread.start()

    def send(self, data: ProducerData | list[ProducerData]) -> None:
        """Send, or queue, which waits for room. Raises HeritageError when messages were perhaps not sent at once."""
        events = data if isinstance(data, list) else [data]
        if self._thread is None:
            self._handler.handle(events)
            return
        for topic, key, messages in events:
            for message in messages:
                self._queue.put(ProducerData(topic, key, [message]))

    def close(self) -> None:
        """Send what is queued, and close the connections."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
        self._handler.close()

    def _send_batches(self) -> None:
        is_last = False
        while not is_last:
            batch, is_last = self._next_batch()
            try:
                if batch:
                    self._handler.handle(batch)
            except HeritageError as error:
                LOG.error("%d messages were perhaps not sent: %s", len(batch), error)

    def _next_batch(self) -> tuple[list[ProducerData], bool]:
        """A full batch, or what there was when the time was over; and whether it is the last."""
        one = self._queue.get()
        deadline_s = time.monotonic() + self._config.queue_time / 1000
        batch: list[ProducerData] = []
        while one is not None:
            batch.append(one)
            if len(batch) == self._config.batch_size:
                return batch, False
            try:
                one = self._queue.get(timeout=max(0.0, deadline_s - time.monotonic()))
            except Empty:
                return batch, False
        return batch, True


class EventHandler:
    """Serialises and sends; with `zk.connect` again after a change of leaders, with `broker.list` once."""

    def __init__(
        self, config: ProducerConfig, partitioner: Partitioner | None, encoder: Encoder, callbacks: CallbackHandler
    ) -> None:
        if config.broker_list and partitioner is not None:
            raise ConfigError("with broker.list each request goes to a random partition: leave the partitioner out")
        self._config = config
        self._partitioner = partitioner or Partitioner()
        self._encoder = encoder
        self._callbacks = callbacks
        self._partitions = WatchedPartitions(config) if config.zk_connect else ListedPartitions(config)
        self._links: dict[Address, BrokerLink] = {}
        self._lock = Lock()

    def handle(self, events: Sequence[ProducerData]) -> None:
        """Send all of it. Raises HeritageError, after the hook; other parts may have been sent then."""
        attempts = self._config.retries if self._config.zk_connect else 0
        with self._lock:
            left = list(self._callbacks.before_sending_data(events))
            while (failures := self._send(left)) is not None:
                error, left = failures
                if not attempts or isinstance(error, ConfigError) or getattr(error, "code", 0) not in {0, *RETRIABLE}:
                    self._callbacks.on_failure(left, error)
                    raise error
                attempts -= 1
                time.sleep(self._config.backoff_ms / 1000)

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._partitions.close()

    def _send(self, events: list[ProducerData]) -> tuple[HeritageError, list[ProducerData]] | None:
        """Send once, one request for each leader; an error, with the events of all partitions that had one."""
        requests: dict[Address, dict[TopicPartition, list[ProducerData]]] = {}
        failures: list[tuple[HeritageError, list[ProducerData]]] = []
        for one in events:
            try:
                partition, leader = self._chosen(one)
            except HeritageError as error:
                failures.append((error, [one]))
            else:
                requests.setdefault(leader, {}).setdefault(partition, []).append(one)
        for leader, parts in requests.items():
            failures += [(error, parts[partition]) for partition, error in self._sent(leader, parts).items()]
        return (failures[-1][0], [one for _, some in failures for one in some]) if failures else None

    def _chosen(self, event: ProducerData) -> tuple[TopicPartition, Address]:
        """The partition for an event, and its leader. Raises HeritageError."""
        leaders = self._partitions.leaders(event.topic)
        if self._config.broker_list:
            number = random.randrange(len(leaders))
        elif event.key is None:
            led = [number for number, leader in enumerate(leaders) if leader] or range(len(leaders))
            number = random.choice(led)
        else:
            number = self._partitioner.partition(event.key, len(leaders))
            if not 0 <= number < len(leaders):
                raise ConfigError(f"the partitioner chose {number} of the {len(leaders)} partitions of {event.topic}")
        partition, leader = TopicPartition(event.topic, number), leaders[number]
        if leader is None:
            raise BrokerUnavailable(f"no broker leads {partition} now")
        return partition, leader

    def _sent(
        self, leader: Address, parts: dict[TopicPartition, list[ProducerData]]
    ) -> dict[TopicPartition, HeritageError]:
        """Send to one leader; the errors of partitions."""
        topics: dict[str, list[PartitionProduceData]] = {}
        for (topic, number), events in parts.items():
            row = PartitionProduceData(index=number, records=memoryview(self._message_set(topic, events)))
            topics.setdefault(topic, []).append(row)
        rows = [TopicProduceData(name=topic, partition_data=rows) for topic, rows in topics.items()]
        config = self._config
        request = ProduceRequest(acks=config.acks, timeout_ms=config.socket_timeout_ms, topic_data=rows)
        link = self._links.setdefault(leader, BrokerLink(leader, config.client_id, config.socket_timeout_ms / 1000))
        try:
            answer = link.ask(request, **_VERSIONS)
        except BrokerUnavailable as error:
            return dict.fromkeys(parts, error)
        results = {
            TopicPartition(one.name, row.index): row.error_code
            for one in answer.responses
            for row in one.partition_responses
        }
        return {one: RequestRefused(f"messages for {one}", code) for one, code in results.items() if code}

    def _message_set(self, topic: str, events: list[ProducerData]) -> bytes:
        messages = [self._encoder.to_message(message) for event in events for message in event.messages]
        now_ms = time.time_ns() // 1_000_000
        records = [Record(number, now_ms, None, message) for number, message in enumerate(messages)]
        return build_batch(records, codec=self._config.codec_of(topic))
