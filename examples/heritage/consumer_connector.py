"""The high level: streams over the partitions of a group's member, whose offsets are committed for it.

    connector = ConsumerConnector(ConsumerConfig.of({"group.id": "reports", "zookeeper.connect": "zookeeper:2181"}))
    (stream,) = connector.create_message_streams({"orders": 1})["orders"]
    for message in stream:
        ...

One thread registers the member, watches, and balances the group whenever what the balance depends on has changed:

    release what is owned   delivery and fetch threads stop, consumed offsets are committed, owner nodes are deleted
    compute                 members, partitions, the rule (`assignment.py`)
    claim                   an ephemeral owner node for each partition: all or none, since others may not have released
    read the offsets        after the claim, so that what the former owner committed last is seen
    fetch

A session that is over takes the id and all owner nodes with it: the member registers again, in another one.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import closing
from threading import Event, RLock, Thread
from typing import Final

from examples.heritage.assignment import Subscription, TopicFilter, assign, threads_of
from examples.heritage.config import ConsumerConfig
from examples.heritage.errors import ConfigError, ConnectionLost, ConsumerRebalanceFailed, HeritageError, ZooKeeperError
from examples.heritage.fetchers import Fetchers, OnFetch
from examples.heritage.offsets import OffsetStorage
from examples.heritage.registry import LOG, GroupNodes, GroupView, ZooKeeper
from examples.heritage.streams import KafkaStream, OwnedPartition
from sordini.protocol.types import TopicPartition


class ConsumerConnector:
    """One member of a consumer group."""

    def __init__(self, config: ConsumerConfig, on_fetch: OnFetch | None = None) -> None:
        """`on_fetch` gets each fetch of an owned partition, on the thread that fetched. Raises NoZooKeeper."""
        self._config = config
        self._on_fetch = on_fetch
        self._zookeeper = ZooKeeper(config.zookeeper_connect, config.session_timeout_ms)
        unique = f"{socket.gethostname()}-{time.time_ns() // 1_000_000}-{uuid.uuid4().hex[:8]}"
        self.consumer_id: Final = f"{config.group_id}_{config.consumer_id or unique}"
        self._streams: dict[str, KafkaStream] = {}  # By thread, with a topic in front where it has streams of its own.
        self._changed, self._stopping = Event(), Event()
        self._balanced: Future[None] = Future()
        self._lock = RLock()  # Of what is owned and of commits: no commit comes after a later one.
        self._owned: dict[TopicPartition, OwnedPartition] = {}
        self._claimed: set[TopicPartition] = set()  # What may be ours: a claim without an answer is perhaps made.
        self._fetchers: Fetchers | None = None
        self._storage: OffsetStorage | None = None
        self._threads: list[Thread] = []

    def create_message_streams(self, topic_count_map: Mapping[str, int]) -> dict[str, list[KafkaStream]]:
        """Subscribe to topics with a number of streams each, and wait until this member has its partitions.

        Raises ConsumerRebalanceFailed, NoZooKeeper, ConfigError.
        """
        streams = {topic: self._new_streams(f"{topic}/", count) for topic, count in topic_count_map.items()}
        self._start(Subscription("static", dict(topic_count_map)))
        return streams

    def create_message_streams_by_filter(self, topic_filter: TopicFilter, num_streams: int = 1) -> list[KafkaStream]:
        """The same for the topics that the filter allows, also later ones; each stream may have all of them."""
        subscription = topic_filter.subscription(num_streams)
        streams = self._new_streams("", num_streams)
        self._start(subscription)
        return streams

    def commit_offsets(self, retries: int | None = None) -> None:
        """Commit the offsets of all messages consumed so far, of the owned partitions. Raises HeritageError."""
        with self._lock:
            consumed = {one.partition: one.consumed_offset for one in self._owned.values() if one.lease_s}
            if self._storage is not None:
                self._storage.commit(consumed, retries)

    @property
    def owned_partitions(self) -> list[TopicPartition]:
        """The partitions that this member owns now."""
        with self._lock:
            return sorted(self._owned)

    def shutdown(self) -> None:
        """Commit if that is automatic, leave the group, and let the streams end."""
        self._stopping.set()
        self._changed.set()
        for thread in self._threads:
            thread.join()
        for stream in self._streams.values():
            stream.end()
        self._zookeeper.close()

    def _new_streams(self, prefix: str, count: int) -> list[KafkaStream]:
        if self._threads or count < 1:
            raise ConfigError(f"{count} streams for {prefix or 'a filter'}: allowed is one call, for one or more")
        streams = [KafkaStream(self._config.queued_chunks, self._config.consumer_timeout_ms) for _ in range(count)]
        self._streams.update(zip(threads_of(f"{prefix}{self.consumer_id}", count), streams, strict=True))
        return streams

    def _start(self, subscription: Subscription) -> None:
        self._threads.append(Thread(target=self._run, args=[subscription], name="heritage-balancer", daemon=True))
        if self._config.auto_commit:
            self._threads.append(Thread(target=self._commit_regularly, name="heritage-committer", daemon=True))
        for thread in self._threads:
            thread.start()
        try:
            self._balanced.result()
        except HeritageError:
            self.shutdown()
            raise

    # The balancer's thread.

    def _run(self, subscription: Subscription) -> None:
        while not self._stopping.is_set():
            try:
                self._run_session(subscription)
            except (ZooKeeperError, HeritageError) as error:
                LOG.warning("%s: %s", self.consumer_id, error)
                if isinstance(error, HeritageError) and not self._balanced.done():
                    self._balanced.set_exception(error)
                self._stopping.wait(self._config.rebalance_backoff_ms / 1000)
        if not self._balanced.done():
            self._balanced.set_result(None)

    def _run_session(self, subscription: Subscription) -> None:
        """Be a member until the session is over or the connector shuts down."""
        session = self._zookeeper.open(self._changed.set)
        nodes = GroupNodes(session, self._config.group_id)
        view: GroupView | None = None
        with self._lock:
            self._storage = OffsetStorage(self._config, nodes, self._stopping.wait)
        try:
            while True:
                self._changed.clear()  # Before all that is looked at: what changes later is noticed.
                if self._stopping.is_set() or not session.is_open:
                    return
                try:
                    if not nodes.register(self.consumer_id, subscription):
                        LOG.warning("%s is registered in another session, whose end is waited for", self.consumer_id)
                    elif nodes.view(self.consumer_id, self._config.partition_order) != view:
                        view = None
                        view = self._balance(nodes)
                except ConnectionLost as error:  # The session is connected again, or over: both are changes.
                    LOG.info("%s: %s", self.consumer_id, error)
                if not self._stopping.is_set():  # A balance clears the event, too.
                    self._changed.wait()
        finally:
            with closing(session):  # Also when ZooKeeper does not answer: nothing may keep the session alive.
                self._release(nodes)

    def _balance(self, nodes: GroupNodes) -> GroupView | None:
        """Try to get this member's partitions; what they depended on, or None after the last attempt."""
        attempts = self._config.rebalance_retries
        for _ in range(attempts):
            self._changed.clear()
            self._release(nodes)
            view = nodes.view(self.consumer_id, self._config.partition_order)
            if self._claim(nodes, view):
                if not self._balanced.done():
                    self._balanced.set_result(None)
                return view
            self._changed.wait(self._config.rebalance_backoff_ms / 1000)
        error = ConsumerRebalanceFailed(f"{self.consumer_id}: others owned its partitions at {attempts} attempts")
        LOG.error("%s", error)
        if not self._balanced.done():
            self._balanced.set_exception(error)
        return None

    def _claim(self, nodes: GroupNodes, view: GroupView) -> bool:
        """Own, and begin to fetch, all partitions that the rule gives to this member."""
        own: dict[TopicPartition, KafkaStream] = {}
        for partition, thread in assign(view.members, view.partitions if view.brokers else {}).items():
            stream = self._streams.get(thread) or self._streams.get(f"{partition.topic}/{thread}")
            if stream is None:
                continue
            self._claimed.add(partition)
            if not nodes.claim(partition, thread):
                LOG.info("%s waits for the release of %s", self.consumer_id, partition)
                return False
            own[partition] = stream
        try:
            assert self._storage is not None
            offsets = self._storage.fetch(own)
        except HeritageError as error:
            LOG.warning("%s: %s", self.consumer_id, error)
            return False
        with self._lock:
            for one, stream in own.items():
                self._owned[one] = OwnedPartition(one, stream, offsets[one], lambda: nodes.session.lease_s)
            self._fetchers = Fetchers(nodes, self._config, self._on_fetch)
            self._fetchers.place(self._owned.values())
        return True

    def _release(self, nodes: GroupNodes) -> None:
        """Stop to deliver and to fetch, commit what was delivered, and give the partitions up."""
        with self._lock:
            for one in self._owned.values():
                one.release()
            if self._fetchers is not None:
                self._fetchers.stop()
            consumed = {one.partition: one.consumed_offset for one in self._owned.values()}
            self._owned.clear()
            try:
                if self._config.auto_commit and self._storage and nodes.session.lease_s:
                    self._storage.commit(consumed)
            except HeritageError as error:
                LOG.warning("%s releases partitions without a commit: %s", self.consumer_id, error)
        for partition in sorted(self._claimed) if nodes.session.is_open else ():
            nodes.release(partition)
        self._claimed.clear()

    # The committer's thread.

    def _commit_regularly(self) -> None:
        while not self._stopping.wait(self._config.auto_commit_interval_ms / 1000):
            try:
                self.commit_offsets(retries=0)
            except HeritageError as error:
                LOG.warning("%s: %s", self.consumer_id, error)
