"""Reading what the controller must know from the store, in few round trips, watches set on the way.

Reads that do not depend on each other go out together. What cannot be understood is reported and left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

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
from sordini.replication.ports import Create, Delete, Log, NoNode, Session, Set, Watch

T = TypeVar("T")

READS_IN_FLIGHT_MAX = 500
"""Bounds what waits in the store's queue at once when a cluster has many partitions."""


class Watches(NamedTuple):
    """What to call when something that was read changes."""

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
    """Reads through one session."""

    def __init__(
        self,
        session: Session,
        watches: Watches,
        new_topic_id: Callable[[], TopicId],
        policy: Policy,
        log: Log,
    ) -> None:
        self._session = session
        self._watches = watches
        self._new_topic_id = new_topic_id
        self._policy = policy
        self._conventions = policy.cluster_settings
        self._log = log

    async def everything(self, controller_id: BrokerId, epoch: int) -> Elected:
        """All that a new controller starts from."""
        brokers, names, deletions, feature, overtaken = await asyncio.gather(
            self.brokers(), self.topic_names(), self.deletions(), self._feature(), self._overtaken()
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
            (*feature, *overtaken),
            self.fresh_ids(topics),
            self._conventions,
        )

    async def brokers(self) -> dict[BrokerId, Broker]:
        names = await self._children(paths.BROKER_IDS, self._watches.brokers)
        ids = [BrokerId(int(name)) for name in names if _is_broker_id(name)]
        found = await _together(self._broker(broker_id) for broker_id in ids)
        return {broker.broker_id: broker for broker in found if broker is not None}

    async def topic_names(self) -> frozenset[str]:
        return frozenset(await self._children(paths.TOPICS, self._watches.topics))

    async def deletions(self) -> frozenset[str]:
        return frozenset(await self._children(paths.DELETE_TOPICS, self._watches.deletions))

    async def topics(self, names: Iterable[str]) -> dict[str, TopicAssignment]:
        found = await _together(self.topic(name) for name in sorted(names))
        return {topic.name: topic for topic in found if topic is not None}

    async def topic(self, name: str) -> TopicAssignment | None:
        """None when it is gone or cannot be understood."""
        try:
            data, stat = await self._session.get(paths.topic(name), watch=self._watches.topic(name))
        except NoNode:
            return None
        return self._sound(znodes.decode_topic(name, data, stat.version))

    async def states(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, KnownState]:
        wanted = list(partitions)
        found = await _together(self.state(topic_partition) for topic_partition in wanted)
        return {tp: known for tp, known in zip(wanted, found, strict=True) if known is not None}

    async def state(self, topic_partition: TopicPartition) -> KnownState | None:
        try:
            data, stat = await self._session.get(paths.state(topic_partition))
        except NoNode:
            return None
        state = self._sound(znodes.decode_state(topic_partition, data))
        return None if state is None else KnownState(state, stat.version)

    async def isr_changes(self) -> StatesRead | None:
        """What leaders of old protocols have written themselves, by the notes they left; None without notes."""
        notes = await self._notes(paths.ISR_CHANGES, self._watches.isr_changes)
        if not notes:
            return None
        named = [self._sound(znodes.decode_isr_change(data)) for data in notes.values()]
        states = await self.states(dict.fromkeys(one for some in named for one in some or ()))
        return StatesRead(states, tuple(notes))

    async def log_dir_events(self) -> LogDirsFailed | None:
        """Which brokers say that a log directory failed; None without notes."""
        notes = await self._notes(paths.LOG_DIR_EVENTS, self._watches.log_dir_events)
        if not notes:
            return None
        brokers = [self._sound(znodes.decode_log_dir_event(data)) for data in notes.values()]
        return LogDirsFailed(frozenset(broker for broker in brokers if broker is not None), tuple(notes))

    async def zk_elections(self) -> ZkElectionsRead | None:
        """What a tool wants led by its preferred replicas; None without such a node."""
        # Watched before it is read, as below. A note that cannot be understood goes as well: it is in others' way.
        await self._session.exists(paths.PREFERRED_ELECTION, watch=self._watches.zk_elections)
        try:
            data, stat = await self._session.get(paths.PREFERRED_ELECTION)
        except NoNode:
            return None
        return ZkElectionsRead(tuple(self._sound(znodes.decode_preferred_election(data)) or ()), stat.version)

    def balance_due(self) -> LeaderRebalanceDue | None:
        """It is time to see who leads what; None where that is not the controller's to even out."""
        balance = self._policy.balance
        return None if balance is None else LeaderRebalanceDue(balance.percentage)

    async def topics_allowing_unclean(self, topics: Iterable[str]) -> frozenset[str]:
        """Those of the topics whose settings, or else the brokers' defaults, allow unclean elections."""
        names = sorted(set(topics))
        found = await _together(self._settings(name) for name in names)
        allows = self._policy.allows_unclean
        allowed = [name for name, settings in zip(names, found, strict=True) if allows(settings)]
        if allowed:
            self._log.warning("nobody in sync is there, a replica that lags may lead", topics=", ".join(allowed))
        return frozenset(allowed)

    async def _settings(self, topic: str) -> Mapping[str, str]:
        try:
            data, _ = await self._session.get(paths.topic_config(topic))
        except NoNode:
            return {}
        return self._sound(znodes.decode_config(paths.topic_entity(topic), data)) or {}

    async def zk_reassignments(self) -> ZkReassignments | None:
        """What a tool wants moved; None without such a node. One that cannot be understood wants nothing."""
        # Watched before it is read: it is made, written and removed by others.
        await self._session.exists(paths.REASSIGN_PARTITIONS, watch=self._watches.zk_reassignments)
        try:
            data, stat = await self._session.get(paths.REASSIGN_PARTITIONS)
        except NoNode:
            return None
        return ZkReassignments(self._sound(znodes.decode_reassignment(data)) or {}, stat.version)

    async def producer_id_block(self) -> tuple[ProducerIdBlock | Malformed | None, int]:
        """The block taken last, and its node's version."""
        data, stat = await self._session.get(paths.PRODUCER_ID_BLOCK)
        return znodes.decode_producer_id_block(data), stat.version

    async def _children(self, path: str, watch: Watch) -> list[str]:
        """A node's children; none of a node that somebody removed, which is watched for all the same."""
        while True:
            try:
                return await self._session.children(path, watch=watch)
            except NoNode:
                if await self._session.exists(path, watch=watch) is None:
                    return []

    async def _notes(self, parent: str, watch: Watch) -> dict[str, bytes]:
        """The notes below a node, by their paths, in the order in which they were left."""
        names = sorted(await self._children(parent, watch))
        found = await _together(self._note(f"{parent}/{name}") for name in names)
        return {path: data for path, data in found if data is not None}

    async def _note(self, path: str) -> tuple[str, bytes | None]:
        try:
            data, _ = await self._session.get(path)
        except NoNode:
            return path, None
        return path, data

    def fresh_ids(self, topics: Mapping[str, TopicAssignment]) -> dict[str, TopicId]:
        """Ids for the topics that have none, where topics have ids at all."""
        if not self._conventions.uses_topic_ids:
            return {}
        return {name: self._new_topic_id() for name, topic in topics.items() if topic.topic_id == NO_TOPIC_ID}

    async def _broker(self, broker_id: BrokerId) -> Broker | None:
        watch = self._watches.broker(broker_id)
        try:
            data, stat = await self._session.get(paths.broker(broker_id), watch=watch)
        except NoNode:
            return None
        # A malformed registration costs that broker its place, and nobody else anything.
        broker = self._sound(znodes.decode_broker(broker_id, data, stat.czxid))
        listener = self._conventions.inter_broker_listener
        if broker is None or listener is None or any(endpoint.listener == listener for endpoint in broker.endpoints):
            return broker
        self._log.warning("broker left out, brokers cannot reach it", broker=broker_id, listener=listener)
        return None

    async def _feature(self) -> list[Create | Set | Delete]:
        wanted = self._conventions.feature_version
        try:
            data, _ = await self._session.get(paths.FEATURE)
        except NoNode:
            return [Create(paths.FEATURE, znodes.encode_features(wanted))]
        found = znodes.decode_feature_version(data)
        return [] if found == wanted else [Set(paths.FEATURE, znodes.encode_features(wanted))]

    async def _overtaken(self) -> list[Create | Set | Delete]:
        """Remove the notes to the previous controller: what they point at is being read anyway."""
        parents = (paths.LOG_DIR_EVENTS, paths.ISR_CHANGES)
        watches = (self._watches.log_dir_events, self._watches.isr_changes)
        found = await asyncio.gather(
            *(self._children(path, watch) for path, watch in zip(parents, watches, strict=True))
        )
        return [Delete(f"{path}/{name}") for path, names in zip(parents, found, strict=True) for name in sorted(names)]

    def _sound(self, value: T | Malformed) -> T | None:
        if isinstance(value, Malformed):
            self._log.warning("unreadable node left out", path=value.path, reason=value.reason)
            return None
        return value


def _is_broker_id(name: str) -> bool:
    """Whether a node's name is a broker's id for which the wire has room."""
    return name.isascii() and name.isdigit() and len(name) <= 10 and int(name) < 2**31


async def _together(reads: Iterable[Awaitable[T]]) -> list[T]:
    """Make many reads, some hundreds at a time; the answers in their order."""
    waiting, answers = list(reads), list[T]()
    for start in range(0, len(waiting), READS_IN_FLIGHT_MAX):
        answers += await asyncio.gather(*waiting[start : start + READS_IN_FLIGHT_MAX])
    return answers
