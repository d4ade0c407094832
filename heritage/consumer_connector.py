"""The high level: streams over the partitions of a group's member, whose offsets are committed for it.

    connector = ConsumerConnector(ConsumerConfig.of({"group.id": "reports", "zookeeper.connect": "zookeeper:2181"}))
    (stream,) = connector.create_message_streams({"orders": 1})["orders"]
    for message in stream:
        ...

One thread registers the member, watches, and balances the group whenever what the balance depends on has changed:

    release what is owned   the fetch threads stop, consumed offsets are committed, owner nodes are deleted
    compute                 members, partitions, the rule (`assignment.py`)
    claim                   an ephemeral owner node for each partition; all or none, as another may not have released yet
    read the offsets        after the claim, so that what the former owner committed last is seen
    fetch

A session that is over takes the id and all owner nodes with it: the member registers again, in another one.
"""

from __future__ import annotations

import logging
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from threading import Event, RLock, Thread
from typing import Final

from sordini.heritage.assignment import assign, threads_of
from sordini.heritage.config import ConsumerConfig
from sordini.heritage.errors import ConfigError, ConsumerRebalanceFailed, HeritageError
from sordini.heritage.fetchers import Fetchers, FetchInterval
from sordini.heritage.offset_storage import OffsetStorage
from sordini.heritage.registry import GroupNodes, GroupView
from sordini.heritage.streams import Decoder, KafkaStream, OwnedPartition
from sordini.heritage.subscription import STATIC, Subscription, TopicFilter
from sordini.heritage.zookeeper import ZooKeeper
from sordini.protocol.types import TopicPartition
from sordini.replication.ports import ConnectionLoss, CoordinationError

_LOG: Final = logging.getLogger("sordini.heritage")


class ConsumerConnector:
    """One member of a consumer group."""

    def __init__(self, config: ConsumerConfig, on_fetch: Callable[[FetchInterval], None] | None = None) -> None:
        """`on_fetch` gets each fetch of an owned partition, on the thread that fetched. Raises NoZooKeeper."""
        self._config = config
        self._on_fetch = on_fetch
        self._zookeeper = ZooKeeper(
            config.zookeeper_connect, config.zookeeper_session_timeout_ms, config.zookeeper_connection_timeout_ms
        )
        unique = f"{socket.gethostname()}-{time.time_ns() // 1_000_000}-{uuid.uuid4().hex[:8]}"
        self.consumer_id: Final = f"{config.group_id}_{config.consumer_id or unique}"
        self._subscription: Subscription | None = None
        self._streams: dict[str, KafkaStream] = {}
        self._changed, self._stopping = Event(), Event()
        self._balanced: Future[None] = Future()
        self._lock = RLock()  # Of what is owned, and of commits: an old commit never comes after a newer one.
        self._owned: dict[TopicPartition, OwnedPartition] = {}
        self._claimed: set[TopicPartition] = set()
        """Partitions whose owner nodes may be ours: a claim that was not answered may have been made."""
        self._fetchers: Fetchers | None = None
        self._storage = OffsetStorage(config, self._stopping.wait)
        self._threads = [Thread(target=self._run, name="heritage-balancer", daemon=True)]
        if config.auto_commit_enable:
            self._threads.append(Thread(target=self._commit_regularly, name="heritage-committer", daemon=True))

    def create_message_streams(
        self, topic_count_map: Mapping[str, int], key_decoder: Decoder = bytes, decoder: Decoder = bytes
    ) -> dict[str, list[KafkaStream]]:
        """Subscribe to topics with a number of streams each, and wait until this member has its partitions.

        Raises ConsumerRebalanceFailed, NoZooKeeper, ConfigError.
        """
        streams = {}
        for topic, count in topic_count_map.items():
            if count < 1:
                raise ConfigError(f"topic {topic!r} has {count} streams; at least one is needed")
            streams[topic] = [self._stream(key_decoder, decoder) for _ in range(count)]
            names = threads_of(self.consumer_id, count)
            self._streams.update({f"{topic}/{name}": one for name, one in zip(names, streams[topic], strict=True)})
        self._start(Subscription(STATIC, dict(topic_count_map)))
        return streams

    def create_message_streams_by_filter(
        self, topic_filter: TopicFilter, num_streams: int = 1, key_decoder: Decoder = bytes, decoder: Decoder = bytes
    ) -> list[KafkaStream]:
        """Subscribe to all topics that the filter allows, those that come later among them; a stream has all of them.

        Raises as `create_message_streams`.
        """
        if num_streams < 1:
            raise ConfigError(f"{num_streams} streams; at least one is needed")
        streams = [self._stream(key_decoder, decoder) for _ in range(num_streams)]
        self._streams.update(zip(threads_of(self.consumer_id, num_streams), streams, strict=True))
        self._start(Subscription(topic_filter.pattern, {topic_filter.regex: num_streams}))
        return streams

    def commit_offsets(self, *, retries: int | None = None) -> None:
        """Commit the offsets of all messages consumed so far of the partitions that are owned now. Raises HeritageError."""
        with self._lock:
            certain = {one.partition: one.consumed_offset for one in self._owned.values() if one.lease_s}
            self._storage.commit(certain, retries)

    @property
    def owned_partitions(self) -> list[TopicPartition]:
        """The partitions that this member owns now."""
        with self._lock:
            return sorted(self._owned)

    def shutdown(self) -> None:
        """Commit if that is automatic, leave the group, and let the streams end. May be called again."""
        self._stopping.set()
        self._changed.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        for stream in self._streams.values():
            stream.end()
        self._storage.close()
        self._zookeeper.close()

    def _stream(self, key_decoder: Decoder, decoder: Decoder) -> KafkaStream:
        config = self._config
        return KafkaStream(config.queued_max_message_chunks, config.consumer_timeout_ms, key_decoder, decoder)

    def _start(self, subscription: Subscription) -> None:
        if self._subscription is not None:
            raise ConfigError("a connector creates its streams once, all of them in one call")
        self._subscription = subscription
        for thread in self._threads:
            thread.start()
        try:
            self._balanced.result()
        except HeritageError:
            self.shutdown()
            raise

    # The balancer's thread.

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._run_session()
            except (CoordinationError, HeritageError) as error:
                _LOG.warning("%s: %s", self.consumer_id, error)
                if not self._balanced.done() and isinstance(error, HeritageError):
                    self._balanced.set_exception(error)
                self._stopping.wait(self._config.rebalance_backoff_ms / 1000)
        if not self._balanced.done():
            self._balanced.set_result(None)

    def _run_session(self) -> None:
        """Be a member until the session is over or the connector shuts down."""
        session = self._zookeeper.open(self._changed.set)
        nodes = GroupNodes(session, self._config.group_id)
        self._storage.nodes = nodes
        view: GroupView | None = None
        try:
            while session.is_open and not self._stopping.is_set():
                self._changed.clear()
                try:
                    if self._is_registered(nodes) and self._view(nodes) != view:
                        view = None
                        view = self._balance(nodes)
                except ConnectionLoss as error:  # The same session may be connected again, or expire: both wake us.
                    _LOG.info("%s: %s", self.consumer_id, error)
                self._changed.wait()
        finally:
            self._release(nodes)
            session.close()

    def _is_registered(self, nodes: GroupNodes) -> bool:
        """Whether this member's id is there, after having made it if it was not."""
        assert self._subscription is not None
        is_ours = nodes.register(self.consumer_id, self._subscription, time.time_ns() // 1_000_000)
        if not is_ours:
            _LOG.warning("%s is registered in another session: this member waits for its end", self.consumer_id)
        return is_ours

    def _view(self, nodes: GroupNodes) -> GroupView:
        config = self._config
        return nodes.view(
            self.consumer_id,
            exclude_internal=config.exclude_internal_topics,
            by_leader=config.partition_order == "document",
        )

    def _balance(self, nodes: GroupNodes) -> GroupView | None:
        """Try to get this member's partitions; what they depended on, or None after the last attempt."""
        for _ in range(self._config.rebalance_max_retries):
            self._changed.clear()
            self._release(nodes)
            view = self._view(nodes)
            if self._claim(nodes, view):
                if not self._balanced.done():
                    self._balanced.set_result(None)
                return view
            if self._stopping.is_set():
                return None
            self._changed.wait(self._config.rebalance_backoff_ms / 1000)
        error = ConsumerRebalanceFailed(
            f"{self.consumer_id} has no partitions after {self._config.rebalance_max_retries} attempts: others own them"
        )
        _LOG.error("%s", error)
        if not self._balanced.done():
            self._balanced.set_exception(error)
        return None

    def _claim(self, nodes: GroupNodes, view: GroupView) -> bool:
        """Own, and begin to fetch, all partitions that the rule gives to this member."""
        own: dict[TopicPartition, KafkaStream] = {}
        for partition, thread in assign(view.members, view.partitions).items() if view.brokers else ():
            stream = self._streams.get(thread) or self._streams.get(f"{partition.topic}/{thread}")
            if stream is None:
                continue
            self._claimed.add(partition)
            if not nodes.claim(partition, thread):
                _LOG.info("%s waits for the release of %s", self.consumer_id, partition)
                return False
            own[partition] = stream
        try:
            offsets = self._storage.fetch(own)
        except HeritageError as error:
            _LOG.warning("%s: %s", self.consumer_id, error)
            return False
        session = nodes.session
        with self._lock:
            for partition, stream in own.items():
                self._owned[partition] = OwnedPartition(partition, stream, offsets[partition], lambda: session.lease_s)
            self._fetchers = Fetchers(nodes, self._config, self._on_fetch)
            self._fetchers.place(list(self._owned.values()))
        return True

    def _release(self, nodes: GroupNodes) -> None:
        """Stop to fetch and to deliver, commit what was delivered, and give the partitions up."""
        with self._lock:
            for one in self._owned.values():
                one.release()
            if self._fetchers is not None:
                self._fetchers.stop()
            for stream in self._streams.values():
                stream.clear()
            consumed = {one.partition: one.consumed_offset for one in self._owned.values()}
            self._owned.clear()
            try:
                if self._config.auto_commit_enable and nodes.session.lease_s:
                    self._storage.commit(consumed)
            except HeritageError as error:  # They are consumed again.
                _LOG.warning("%s releases partitions without a commit: %s", self.consumer_id, error)
        if nodes.session.is_open:
            for partition in sorted(self._claimed):
                nodes.release(partition)
        self._claimed.clear()

    # The committer's thread.

    def _commit_regularly(self) -> None:
        while not self._stopping.wait(self._config.auto_commit_interval_ms / 1000):
            try:
                self.commit_offsets(retries=0)
            except HeritageError as error:
                _LOG.warning("%s: %s", self.consumer_id, error)
