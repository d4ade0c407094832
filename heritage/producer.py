"""The producer: one interface over a synchronous and an asynchronous one (`producer.type`).

    producer = Producer(ProducerConfig.of({"zk.connect": "zookeeper:2181", "producer.type": "async"}))
    producer.send(ProducerData("visits", member_id, [visit]))
    producer.close()

The asynchronous one queues messages; a thread takes a batch out when there are `batch.size` of them, or when the first
has waited for `queue.time`, and hands it to the same event handler that the synchronous one uses in the caller's thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from queue import Empty, Full, Queue
from threading import Thread
from typing import Final

from sordini.heritage.config import ProducerConfig
from sordini.heritage.errors import HeritageError, QueueFull
from sordini.heritage.event_handler import EventHandler
from sordini.heritage.partitioner import CallbackHandler, Encoder, Partitioner
from sordini.heritage.producer_data import ProducerData

_LOG: Final = logging.getLogger("sordini.heritage")


class Producer:
    """Sends messages, partitioned by their keys. Threads may share it."""

    def __init__(
        self,
        config: ProducerConfig,
        *,
        partitioner: Partitioner | None = None,
        encoder: Encoder | None = None,
        callback_handler: CallbackHandler | None = None,
    ) -> None:
        """Raises ConfigError, NoZooKeeper."""
        self._handler = EventHandler(config, partitioner, encoder, callback_handler)
        self._sender = None if config.producer_type == "sync" else ProducerSendThread(config, self._handler)

    def send(self, data: ProducerData | list[ProducerData]) -> None:
        """Send, or queue. Raises HeritageError: synchronously, when the messages were perhaps not sent; else QueueFull."""
        events = data if isinstance(data, list) else [data]
        if self._sender is None:
            self._handler.handle(events)
        else:
            self._sender.put(events)

    def close(self) -> None:
        """Send what is queued, and close the connections."""
        if self._sender is not None:
            self._sender.finish()
        self._handler.close()


class ProducerSendThread:
    """The queue of an asynchronous producer and the thread that empties it."""

    def __init__(self, config: ProducerConfig, handler: EventHandler) -> None:
        self._handler = handler
        self._batch_size = config.batch_size
        self._queue_time_s = config.queue_time / 1000
        self._room_s = None if config.queue_enqueue_timeout_ms < 0 else config.queue_enqueue_timeout_ms / 1000
        self._queue: Queue[ProducerData | None] = Queue(config.queue_size)
        self._thread = Thread(target=self._run, name="heritage-producer", daemon=True)
        self._thread.start()

    def put(self, events: Sequence[ProducerData]) -> None:
        """Queue the messages one by one, which keep their order. Raises QueueFull."""
        for topic, key, messages in events:
            for message in messages:
                try:
                    self._queue.put(ProducerData(topic, key, [message]), timeout=self._room_s)
                except Full:
                    raise QueueFull(f"{self._queue.maxsize} messages wait to be sent (queue.size)") from None

    def finish(self) -> None:
        """Send what is queued and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            batch, is_last = self._next_batch()
            try:
                if batch:
                    self._handler.handle(batch)
            except HeritageError as error:
                _LOG.error("%d messages were perhaps not sent: %s", len(batch), error)

    def _next_batch(self) -> tuple[list[ProducerData], bool]:
        """A full batch, or what there was when the time was over; and whether it is the last."""
        batch: list[ProducerData] = []
        deadline_s = float("inf")
        while len(batch) < self._batch_size:
            left_s = None if not batch else max(0.0, deadline_s - time.monotonic())
            try:
                one = self._queue.get(timeout=left_s)
            except Empty:
                break
            if one is None:
                return batch, True
            if not batch:
                deadline_s = time.monotonic() + self._queue_time_s
            batch.append(one)
        return batch, False
