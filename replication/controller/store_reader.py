"""Reads what the controller needs from the store, in few round trips, and sets watches on the way.

Independent reads are pipelined. Nodes that cannot be decoded are logged and left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from sordini.protocol.types import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from sordini.replication.cluster_model import Broker, KnownState, Malformed, TopicAssignment, ZkReassignments
from sordini.replication.controller.machine.events import (
    Elected,
    LeaderRebalanceDue,
    LogDirsFailed,
    StatesRead,
    ZkElectionsRead,
)
from sordini.replication.controller.policy import Policy
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.znodes import ProducerIdBlock
from sordini.replication.ports import Create, Delete, Logger, NoNode, Session, Set, Watch
from sordini.system.named_tuple import NamedTuple

T = TypeVar("T")

READS_IN_FLIGHT_MAX = 500
"""Bounds the queue to the store when a cluster has many partitions."""


class Watches(NamedTuple):
    """The watches of what the controller reads."""

    brokers: Watch
    topics: Watch
    deletions: Watch
    isr_changes: Watch
    log_dir_events: Watch
    zk_elections: Watch
    zk_reassignments: Watch
    broker: Callable[[BrokerId], Watch]
    topic: Callable[[str], Watch]


class StoreReader:
    """Reads in one session."""

    def __init__(
        self,
        session: Session,
        watches: Watches,
        new_topic_id: Callable[[], TopicId],
        policy: Policy,
        log: Logger,
    ) -> None:
        self._session = session
        self._watches = watches
        self._new_topic_id = new_topic_id
        self._policy = policy
        self._conventions = policy.cluster_settings
        self._log = log

    async def full_state(self, controller_id: BrokerId, epoch: int) -> Elected:
        """All that a new controller needs."""
        brokers, names, deletions, feature, outdated = await asyncio.gather(
            self.brokers(), self.topic_names(), self.deletions(), self._feature(), self._outdated_notifications()
        )
        topics = await self.topics(names)
        states = await self.states(
            TopicPartition(topic.name, partition) for topic in topics.values() for partition in topic.replicas
        )
        return Elected(
            controller_id,
            epoch,
            brokers,
            topics,
            states,
            deletions,
            (*feature, *outdated),
            self.fresh_ids(topics),
            self._conventions,
        )

    async def brokers(self) -> dict[BrokerId, Broker]:
        names = await self._children(paths.BROKER_IDS, self._watches.brokers)
        ids = [BrokerId(int(name)) for name in names if _is_broker_id(name)]
        found = await _gather_bounded(self._broker(broker_id) for broker_id in ids)
        return {broker.broker_id: broker for broker in found if broker is not None}

    async def topic_names(self) -> frozenset[str]:
        return frozenset(await self._children(paths.TOPICS, self._watches.topics))

    async def deletions(self) -> frozenset[str]:
        return frozenset(await self._children(paths.DELETE_TOPICS, self._watches.deletions))

    async def topics(self, names: Iterable[str]) -> dict[str, TopicAssignment]:
        found = await _gather_bounded(self.topic(name) for name in sorted(names))
        return {topic.name: topic for topic in found if topic is not None}

    async def topic(self, name: str) -> TopicAssignment | None:
        """None when it does not exist or cannot be decoded."""
        try:
            data, stat = await self._session.get(paths.topic(name), watch=self._watches.topic(name))
        except NoNode:
            return None
        return self._decoded(znodes.decode_topic(name, data, stat.version))

    async def states(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, KnownState]:
        unique = list(partitions)
        found = await _gather_bounded(self.state(topic_partition) for topic_partition in unique)
        return {tp: known for tp, known in zip(unique, found, strict=True) if known is not None}

    async def state(self, topic_partition: TopicPartition) -> KnownState | None:
        try:
            data, stat = await self._session.get(paths.state(topic_partition))
        except NoNode:
            return None
        state = self._decoded(znodes.decode_state(topic_partition, data))
        return None if state is None else KnownState(state, stat.version)

    async def isr_changes(self) -> StatesRead | None:
        """The states that leaders of old protocols wrote themselves, by their notifications; None without any."""
        notifications = await self._notifications(paths.ISR_CHANGES, self._watches.isr_changes)
        if not notifications:
            return None
        named = [self._decoded(znodes.decode_isr_change(data)) for data in notifications.values()]
        states = await self.states(dict.fromkeys(one for some in named for one in some or ()))
        return StatesRead(states, tuple(notifications))

    async def log_dir_events(self) -> LogDirsFailed | None:
        """The brokers that notified of a failed log directory; None without a notification."""
        notifications = await self._notifications(paths.LOG_DIR_EVENTS, self._watches.log_dir_events)
        if not notifications:
            return None
        brokers = [self._decoded(znodes.decode_log_dir_event(data)) for data in notifications.values()]
        return LogDirsFailed(frozenset(broker for broker in brokers if broker is not None), tuple(notifications))

    async def zk_elections(self) -> ZkElectionsRead | None:
        """The elections that a tool requests; None without such a node."""
        # Watched before it is read, as below. A node that cannot be decoded is deleted, too: it would block tools.
        await self._session.exists(paths.PREFERRED_ELECTION, watch=self._watches.zk_elections)
        try:
            data, stat = await self._session.get(paths.PREFERRED_ELECTION)
        except NoNode:
            return None
        return ZkElectionsRead(tuple(self._decoded(znodes.decode_preferred_election(data)) or ()), stat.version)

    def rebalance_due(self) -> LeaderRebalanceDue | None:
        """The event of an automatic leader rebalance; None where it is disabled."""
        rebalance = self._policy.rebalance
        return None if rebalance is None else LeaderRebalanceDue(rebalance.percentage)

    async def topics_allowing_unclean(self, topics: Iterable[str]) -> frozenset[str]:
        """The topics whose settings, or else the brokers' defaults, allow unclean elections."""
        names = sorted(set(topics))
        found = await _gather_bounded(self._settings(name) for name in names)
        allows = self._policy.allows_unclean
        allowed = [name for name, settings in zip(names, found, strict=True) if allows(settings)]
        if allowed:
            self._log.warning("no in-sync replica is live, unclean election allowed", topics=", ".join(allowed))
        return frozenset(allowed)

    async def _settings(self, topic: str) -> Mapping[str, str]:
        try:
            data, _ = await self._session.get(paths.topic_config(topic))
        except NoNode:
            return {}
        return self._decoded(znodes.decode_config(paths.topic_entity(topic), data)) or {}

    async def zk_reassignments(self) -> ZkReassignments | None:
        """The reassignments that a tool requests; None without such a node. One that cannot be decoded has none."""
        # Watched before it is read: tools create and change it.
        await self._session.exists(paths.REASSIGN_PARTITIONS, watch=self._watches.zk_reassignments)
        try:
            data, stat = await self._session.get(paths.REASSIGN_PARTITIONS)
        except NoNode:
            return None
        return ZkReassignments(self._decoded(znodes.decode_reassignment(data)) or {}, stat.version)

    async def producer_id_block(self) -> tuple[ProducerIdBlock | Malformed | None, int]:
        """The last allocated block, and its node's version."""
        data, stat = await self._session.get(paths.PRODUCER_ID_BLOCK)
        return znodes.decode_producer_id_block(data), stat.version

    async def _children(self, path: str, watch: Watch) -> list[str]:
        """A node's children; none of a deleted node, whose creation is then watched for."""
        while True:
            try:
                return await self._session.children(path, watch=watch)
            except NoNode:
                if await self._session.exists(path, watch=watch) is None:
                    return []

    async def _notifications(self, parent: str, watch: Watch) -> dict[str, bytes]:
        """The notifications below a node, by their paths, oldest first."""
        names = sorted(await self._children(parent, watch))
        found = await _gather_bounded(self._notification(f"{parent}/{name}") for name in names)
        return {path: data for path, data in found if data is not None}

    async def _notification(self, path: str) -> tuple[str, bytes | None]:
        try:
            data, _ = await self._session.get(path)
        except NoNode:
            return path, None
        return path, data

    def fresh_ids(self, topics: Mapping[str, TopicAssignment]) -> dict[str, TopicId]:
        """Ids for the topics without one, if the cluster uses topic ids."""
        if not self._conventions.uses_topic_ids:
            return {}
        return {name: self._new_topic_id() for name, topic in topics.items() if topic.topic_id == NO_TOPIC_ID}

    async def _broker(self, broker_id: BrokerId) -> Broker | None:
        watch = self._watches.broker(broker_id)
        try:
            data, stat = await self._session.get(paths.broker(broker_id), watch=watch)
        except NoNode:
            return None
        # A malformed registration affects only that broker.
        broker = self._decoded(znodes.decode_broker(broker_id, data, stat.czxid))
        listener = self._conventions.inter_broker_listener
        if broker is not None and broker.is_exclusive != self._conventions.is_exclusive:
            self._log.warning("broker ignored, it differs in sordini.cluster.exclusive", broker=broker_id)
            return None
        if broker is None or listener is None or any(endpoint.listener == listener for endpoint in broker.endpoints):
            return broker
        self._log.warning("broker ignored, it has no inter-broker listener", broker=broker_id, listener=listener)
        return None

    async def _feature(self) -> list[Create | Set | Delete]:
        version, is_exclusive = self._conventions.feature_version, self._conventions.is_exclusive
        wanted = znodes.encode_features(version, is_exclusive=is_exclusive)
        try:
            data, _ = await self._session.get(paths.FEATURE)
        except NoNode:
            return [Create(paths.FEATURE, wanted)]
        found = znodes.decode_features(data)
        return [] if found == znodes.Features(version, is_exclusive) else [Set(paths.FEATURE, wanted)]

    async def _outdated_notifications(self) -> list[Create | Set | Delete]:
        """Deletes of the notifications to a former controller: everything is being read anyway."""
        parents = (paths.LOG_DIR_EVENTS, paths.ISR_CHANGES)
        watches = (self._watches.log_dir_events, self._watches.isr_changes)
        found = await asyncio.gather(
            *(self._children(path, watch) for path, watch in zip(parents, watches, strict=True))
        )
        return [Delete(f"{path}/{name}") for path, names in zip(parents, found, strict=True) for name in sorted(names)]

    def _decoded(self, value: T | Malformed) -> T | None:
        if isinstance(value, Malformed):
            self._log.warning("unreadable node ignored", path=value.path, reason=value.reason)
            return None
        return value


def _is_broker_id(name: str) -> bool:
    """Whether a node's name is a broker id that fits the wire format."""
    return name.isascii() and name.isdigit() and len(name) <= 10 and int(name) < 2**31


async def _gather_bounded(reads: Iterable[Awaitable[T]]) -> list[T]:
    """The results of many reads in order, READS_IN_FLIGHT_MAX at a time."""
    pending, results = list(reads), list[T]()
    for start in range(0, len(pending), READS_IN_FLIGHT_MAX):
        results += await asyncio.gather(*pending[start : start + READS_IN_FLIGHT_MAX])
    return results
