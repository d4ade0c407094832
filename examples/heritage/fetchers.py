"""Threads that fetch the owned partitions: one for each broker that leads some, and one for those without a leader.

A fetch lasts no longer than the leases of its partitions: it begins while all last, is given up when the first is over,
and what comes after that is dropped. So of a partition no two members ever have a fetch at the same time, also when one
of them was stopped in the middle of a fetch and continues much later, or has lost ZooKeeper (docs/heritage.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Final, NamedTuple

from examples.heritage import errors
from examples.heritage.cluster_nodes import NO_LEADER, ClusterNodes
from examples.heritage.config import ConsumerConfig
from examples.heritage.offsets import NO_OFFSET
from examples.heritage.registry import LOG
from examples.heritage.simple_consumer import EARLIEST_TIME, LATEST_TIME, FetchRequest, MessageSet, SimpleConsumer
from examples.heritage.streams import LEASE_POLL_S, FetchedChunk, OwnedPartition
from sordini.client.addresses import Address
from sordini.protocol.errors import BrokerError
from sordini.protocol.types import TopicPartition

_RESET_TIMES: Final = {"largest": LATEST_TIME, "smallest": EARLIEST_TIME}


class FetchInterval(NamedTuple):
    """One fetch of one owned partition, in seconds on the machine's monotonic clock."""

    partition: TopicPartition
    began_s: float
    ended_s: float  # Of one that was dropped: when the lease was over at the latest.
    is_accepted: bool


OnFetch = Callable[[FetchInterval], None]


class Fetchers:
    """The threads of one balance of the group; `stop` ends them, and the next balance makes others."""

    def __init__(self, nodes: ClusterNodes, config: ConsumerConfig, on_fetch: OnFetch | None) -> None:
        self._nodes = nodes
        self._config = config
        self._on_fetch = on_fetch or (lambda _interval: None)
        self._stopped = Event()
        self._lock = Lock()
        self._partitions: dict[int, tuple[OwnedPartition, ...]] = {}  # By the broker whose thread fetches them.
        self._threads: list[Thread] = []

    def place(self, owned: Iterable[OwnedPartition]) -> None:
        """Give each partition to the thread of its leader."""
        brokers: dict[int, Address] = {}
        leaders: dict[TopicPartition, int] = {}
        with suppress(errors.ZooKeeperError):  # Then they are looked for again.
            brokers = self._nodes.brokers()
            leaders = {one.partition: self._nodes.leader(one.partition) for one in owned}
        with self._lock:
            for one in owned if not self._stopped.is_set() else ():
                leader = leaders.get(one.partition, NO_LEADER)
                leader = leader if leader in brokers else NO_LEADER
                if leader not in self._partitions:
                    thread = Thread(target=self._run, args=[leader, brokers.get(leader)], daemon=True)
                    self._threads.append(thread)
                    thread.start()
                self._partitions[leader] = (*self._partitions.get(leader, ()), one)

    def stop(self) -> None:
        """End the threads; their partitions have been released, so an answer that comes later is dropped."""
        with self._lock:
            self._stopped.set()
        for thread in self._threads:
            thread.join(self._config.fetch_wait_ms / 1000 + 1)

    def _run(self, leader: int, address: Address | None) -> None:
        """Fetch the partitions of one leader, all in each request; without an address, only look for leaders."""
        config = self._config
        host, port = address or ("", 0)
        consumer = SimpleConsumer(host, port, config.socket_timeout_ms, config.fetch_bytes_max, config.client_id)
        while not self._stopped.is_set():
            partitions = self._partitions.get(leader, ())
            if address is None and partitions:
                self._place_again(partitions)
            elif partitions and (lease_s := min(one.lease_s for one in partitions)):
                self._fetch(consumer, partitions, lease_s)
            else:
                self._stopped.wait(LEASE_POLL_S)
        consumer.close()

    def _fetch(self, consumer: SimpleConsumer, partitions: tuple[OwnedPartition, ...], lease_s: float) -> None:
        began_s = time.monotonic()
        try:
            for one in partitions:
                if one.fetch_offset == NO_OFFSET:
                    reset_ms = _RESET_TIMES.get(self._config.auto_offset_reset, LATEST_TIME)
                    one.begin(*consumer.offsets_before(*one.partition, reset_ms, 1))
            size = self._config.fetch_bytes
            requests = [FetchRequest(*one.partition, one.fetch_offset, size) for one in partitions]
            wait_ms = min(self._config.fetch_wait_ms, int(lease_s * 1000))
            found = consumer.multifetch(requests, max_wait_ms=wait_ms, timeout_s=lease_s)
        except (errors.BrokerUnavailable, errors.RequestRefused) as error:
            LOG.info("leaders are looked for: %s", error)
            self._place_again(partitions)
        else:
            for owned, message_set in zip(partitions, found, strict=True):
                self._take(owned, message_set, began_s, began_s + lease_s)

    def _take(self, owned: OwnedPartition, found: MessageSet, began_s: float, lease_until_s: float) -> None:
        messages = []
        try:
            messages = list(found.messages())
        except (errors.RequestRefused, errors.MessageSizeTooLarge, BrokerError) as error:
            self._take_error(owned, error)
            return
        ended_s = time.monotonic()  # Before the lease is looked at: an accepted fetch ended within it.
        is_accepted = owned.fetched(messages[-1].offset + 1 if messages else owned.fetch_offset)
        ended_s = ended_s if is_accepted else min(ended_s, lease_until_s)
        self._on_fetch(FetchInterval(owned.partition, began_s, ended_s, is_accepted))
        if is_accepted and messages:
            owned.stream.put(FetchedChunk(owned, messages))

    def _take_error(self, owned: OwnedPartition, error: Exception) -> None:
        is_out_of_range = isinstance(error, errors.OffsetOutOfRange)
        if is_out_of_range and self._config.auto_offset_reset in _RESET_TIMES:
            owned.fetch_offset = NO_OFFSET
        elif isinstance(error, errors.RequestRefused) and not is_out_of_range:
            self._place_again((owned,))
        else:  # The iterator raises it, and the partition is not fetched any more.
            self._remove((owned,))
            owned.stream.put(FetchedChunk(owned, (), errors.HeritageError(f"{owned.partition}: {error}")))

    def _place_again(self, partitions: tuple[OwnedPartition, ...]) -> None:
        """After a pause, as an election takes time."""
        self._remove(partitions)
        self._stopped.wait(self._config.leader_backoff_ms / 1000)
        self.place([one for one in partitions if not one.is_released])

    def _remove(self, partitions: tuple[OwnedPartition, ...]) -> None:
        with self._lock:
            for leader, fetched in self._partitions.items():
                self._partitions[leader] = tuple(one for one in fetched if one not in partitions)
