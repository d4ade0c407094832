"""Signals that something in the store may have changed: the watches that raise them, and the events they lead to.

A signal names what to read, not what has changed. Equal signals in the queue are one. `read_event` reads the present
content of the store and makes an event for the machine of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sordini.replication.cluster_model import ClusterState
from sordini.replication.controller.machine import unclean_elections
from sordini.replication.controller.machine.events import (
    BrokersChanged,
    DeletionsListed,
    Event,
    TopicChanged,
    TopicsListed,
    UncleanSettingsRead,
    ZkReassignmentsRead,
)
from sordini.replication.controller.store_reader import StoreReader, Watches
from sordini.replication.ports import WatchEvent
from sordini.system.named_tuple import NamedTuple


class StoreSignal(NamedTuple):
    """What to read from the store, and of which topic."""

    kind: str
    topic: str = ""


ELECTION = StoreSignal("election")
BROKERS = StoreSignal("brokers")
TOPICS = StoreSignal("topics")
DELETIONS = StoreSignal("deletions")
ISR_CHANGES = StoreSignal("isr changes")
LOG_DIR_EVENTS = StoreSignal("log dir events")
LEADERLESS = StoreSignal("leaderless")
ZK_ELECTIONS = StoreSignal("zk elections")
ZK_REASSIGNMENTS = StoreSignal("zk reassignments")
REBALANCE = StoreSignal("rebalance")
"""Nothing has changed: the automatic leader rebalance is due."""


@dataclass(frozen=True, slots=True)
class SignalWatch:
    """The watch that raises a signal. Equal for equal signals, so the store keeps one of them per path."""

    raise_signal: Callable[[StoreSignal], None]
    signal: StoreSignal

    def __call__(self, _: WatchEvent) -> None:
        self.raise_signal(self.signal)


def watches_of(raise_signal: Callable[[StoreSignal], None]) -> Watches:
    """The watches of everything that the controller reads."""

    def watch(signal: StoreSignal) -> SignalWatch:
        return SignalWatch(raise_signal, signal)

    return Watches(
        watch(BROKERS),
        watch(TOPICS),
        watch(DELETIONS),
        watch(ISR_CHANGES),
        watch(LOG_DIR_EVENTS),
        watch(ZK_ELECTIONS),
        watch(ZK_REASSIGNMENTS),
        lambda _: watch(BROKERS),
        lambda name: watch(StoreSignal("topic", name)),
    )


def leaderless_signal(topic: str | None) -> StoreSignal:
    """The signal that unclean elections may be allowed now: of a topic, or of all."""
    return LEADERLESS if topic is None else StoreSignal(LEADERLESS.kind, topic)


async def read_event(reader: StoreReader, signal: StoreSignal, cluster: ClusterState) -> Event | None:
    """Read what a signal names; None when it leads to no event."""
    if signal == BROKERS:
        return BrokersChanged(await reader.brokers())
    if signal == TOPICS:
        names = await reader.topic_names()
        read = await reader.topics(names - cluster.topics.keys())
        return TopicsListed(names, read, reader.fresh_ids(read))
    if signal == DELETIONS:
        return DeletionsListed(await reader.deletions())
    if signal == ISR_CHANGES:
        return await reader.isr_changes()
    if signal == LOG_DIR_EVENTS:
        return await reader.log_dir_events()
    if signal == ZK_ELECTIONS:
        return await reader.zk_elections()
    if signal == ZK_REASSIGNMENTS:
        return ZkReassignmentsRead(await reader.zk_reassignments())
    if signal == REBALANCE:
        return reader.rebalance_due()
    if signal.kind == LEADERLESS.kind:
        return await _read_unclean_settings(reader, signal, cluster)
    if signal.topic not in cluster.topics:
        return await read_event(reader, TOPICS, cluster)  # Its node could not be decoded so far.
    topic = await reader.topic(signal.topic)
    return None if topic is None else TopicChanged(topic)


async def _read_unclean_settings(reader: StoreReader, signal: StoreSignal, cluster: ClusterState) -> Event | None:
    partitions = unclean_elections.leaderless(cluster, signal.topic or None)
    if not partitions:
        return None
    return UncleanSettingsRead(partitions, await reader.topics_allowing_unclean(one.topic for one in partitions))
