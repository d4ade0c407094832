"""Threads that fetch the owned partitions: one for each broker that leads some, and one for those without a leader.

A fetch lasts no longer than the leases of its partitions: it begins while all last, is given up when the first is over,
and what comes after that is dropped. So of a partition no two members ever have a fetch at the same time, also when one
of them was stopped in the middle of a fetch and goes on much later, or has lost ZooKeeper (docs/heritage.md).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Final, NamedTuple

from sordini.client.addresses import Address
from sordini.heritage.config import ConsumerConfig
from sordini.heritage.errors import (
    BrokerUnavailable,
    HeritageError,
    MessageSizeTooLarge,
    OffsetOutOfRange,
    RequestRefused,
)
from sordini.heritage.message_set import MessageAndOffset, MessageSet
from sordini.heritage.offset_storage import NO_OFFSET
from sordini.heritage.registry import NO_LEADER, ClusterNodes
from sordini.heritage.simple_consumer import EARLIEST_TIME, LATEST_TIME, FetchRequest, SimpleConsumer
from sordini.heritage.streams import LEASE_POLL_S, FetchedChunk, OwnedPartition
from sordini.protocol.errors import BrokerError
from sordini.protocol.types import TopicPartition
from sordini.replication.ports import CoordinationError

_LOG: Final = logging.getLogger("sordini.heritage")
_RESET_TIMES: Final = {"largest": LATEST_TIME, "smallest": EARLIEST_TIME}


class FetchInterval(NamedTuple):
    """One fetch of one owned partition, in seconds on the monotonic clock of the machine."""

    partition: TopicPartition
    began_s: float
    ended_s: float
    """When the answer was accepted; for one that was dropped, when the lease was over at the latest."""
    is_accepted: bool


class Fetchers:
    """All threads of one balance of the group; `stop` ends them, and the next balance makes others."""

    def __init__(
        self, nodes: ClusterNodes, config: ConsumerConfig, on_fetch: Callable[[FetchInterval], None] | None
    ) -> None:
        self.nodes = nodes
        self.config = config
        self.on_fetch = on_fetch
        self.stopped = Event()
        self._lock = Lock()
        self._threads: dict[int, FetcherThread] = {}

    def place(self, owned: list[OwnedPartition]) -> None:
        """Give each partition to the thread of its leader."""
        try:
            brokers = self.nodes.brokers()
            leaders = {one.partition: self.nodes.leader(one.partition) for one in owned}
        except CoordinationError:
            brokers, leaders = {}, {}
        with self._lock:
            for one in owned if not self.stopped.is_set() else ():
                leader = leaders.get(one.partition, NO_LEADER)
                leader = leader if leader in brokers else NO_LEADER
                self._thread_of(leader, brokers.get(leader)).add(one)

    def stop(self) -> None:
        """End the threads; their partitions have been released, so an answer that comes later is dropped."""
        with self._lock:
            self.stopped.set()
            threads = list(self._threads.values())
        for thread in threads:
            thread.join(self.config.fetch_wait_max_ms / 1000 + 1)

    def _thread_of(self, leader: int, address: Address | None) -> FetcherThread:
        if leader not in self._threads:
            config = self.config
            consumer = None
            if address is not None:
                consumer = SimpleConsumer(
                    *address,
                    socket_timeout_ms=config.socket_timeout_ms,
                    buffer_bytes_max=config.fetch_buffer_max_bytes,
                    client_id=config.client_id,
                )
            self._threads[leader] = FetcherThread(self, consumer)
            self._threads[leader].start()
        return self._threads[leader]


class FetcherThread(Thread):
    """Fetches partitions of one leader, all of them in each request."""

    def __init__(self, fetchers: Fetchers, consumer: SimpleConsumer | None) -> None:
        super().__init__(name="heritage-fetcher", daemon=True)
        self._fetchers = fetchers
        self._config = fetchers.config
        self._consumer = consumer
        self._lock = Lock()
        self._partitions: list[OwnedPartition] = []

    def add(self, owned: OwnedPartition) -> None:
        with self._lock:
            self._partitions.append(owned)

    def run(self) -> None:
        stopped = self._fetchers.stopped
        while not stopped.is_set():
            with self._lock:
                partitions = list(self._partitions)
            if self._consumer is None:
                stopped.wait(self._config.refresh_leader_backoff_ms / 1000)
                self._place_again(partitions)
            elif not partitions or not min(one.lease_s for one in partitions):
                stopped.wait(LEASE_POLL_S)
            else:
                self._fetch(self._consumer, partitions)
        if self._consumer is not None:
            self._consumer.close()

    def _fetch(self, consumer: SimpleConsumer, partitions: list[OwnedPartition]) -> None:
        began_s = time.monotonic()
        lease_s = min(one.lease_s for one in partitions)
        try:
            self._begin(consumer, partitions)
            requests = [self._request(one) for one in partitions]
            wait_ms = min(self._config.fetch_wait_max_ms, int(lease_s * 1000))
            found = consumer.multifetch(
                requests,
                max_wait_ms=wait_ms,
                min_bytes=self._config.fetch_min_bytes,
                timeout_s=max(lease_s, LEASE_POLL_S),
            )
        except (BrokerUnavailable, RequestRefused) as error:
            _LOG.info("fetching again after %s: %s", self._config.refresh_leader_backoff_ms, error)
            self._fetchers.stopped.wait(self._config.refresh_leader_backoff_ms / 1000)
            self._place_again(partitions)
        else:
            for owned, message_set in zip(partitions, found, strict=True):
                self._take(owned, message_set, began_s, began_s + lease_s)

    def _begin(self, consumer: SimpleConsumer, partitions: list[OwnedPartition]) -> None:
        """Find the first offset of partitions without one."""
        for one in partitions:
            if one.fetch_offset == NO_OFFSET:
                reset = self._config.auto_offset_reset
                time_ms = _RESET_TIMES.get(reset, LATEST_TIME)
                offsets = consumer.offsets_before(*one.partition, time_ms, 1)
                one.fetch_offset = one.consumed_offset = offsets[0]

    def _request(self, owned: OwnedPartition) -> FetchRequest:
        return FetchRequest(*owned.partition, owned.fetch_offset, self._config.fetch_message_max_bytes)

    def _take(self, owned: OwnedPartition, found: MessageSet, began_s: float, lease_until_s: float) -> None:
        messages: list[MessageAndOffset] = []
        try:
            messages = list(found)
        except OffsetOutOfRange as error:
            if self._config.auto_offset_reset in _RESET_TIMES:
                owned.fetch_offset = NO_OFFSET
            else:
                self._fail(owned, error)
            return
        except RequestRefused:
            self._place_again([owned])
            return
        except (MessageSizeTooLarge, BrokerError) as error:
            self._fail(owned, HeritageError(f"{owned.partition} from offset {owned.fetch_offset} on: {error}"))
            return
        ended_s = time.monotonic()  # Before the lease is looked at: an accepted fetch ended within it.
        is_accepted = owned.fetched(messages[-1].next_offset if messages else owned.fetch_offset)
        if self._fetchers.on_fetch is not None:
            ended_s = ended_s if is_accepted else min(ended_s, lease_until_s)
            self._fetchers.on_fetch(FetchInterval(owned.partition, began_s, ended_s, is_accepted))
        if is_accepted and messages:
            owned.stream.put(FetchedChunk(owned, messages))

    def _fail(self, owned: OwnedPartition, error: HeritageError) -> None:
        """Let the iterator raise the error; the partition is not fetched any more."""
        self._remove([owned])
        owned.stream.put(FetchedChunk(owned, (), error))

    def _place_again(self, partitions: list[OwnedPartition]) -> None:
        self._remove(partitions)
        self._fetchers.place([one for one in partitions if not one.is_released])

    def _remove(self, partitions: list[OwnedPartition]) -> None:
        with self._lock:
            self._partitions = [one for one in self._partitions if one not in partitions]
