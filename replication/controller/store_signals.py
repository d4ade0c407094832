"""What the controller looks at when something may have changed: which watch raises which signal, and which event for
the machine comes of it.
"""

from __future__ import annotations

from collections.abc import Callable

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
from sordini.replication.controller.store_signals import (
    BALANCE,
    BROKERS,
    DELETIONS,
    ISR_CHANGES,
    LEADERLESS,
    LOG_DIR_EVENTS,
    TOPICS,
    ZK_ELECTIONS,
    ZK_REASSIGNMENTS,
    SignalWatch,
    StoreSignal,
)


def watches_of(raise_signal: Callable[[StoreSignal], None]) -> Watches:
    """The watches of everything that the controller reads."""

    def watch(look: StoreSignal) -> SignalWatch:
        return SignalWatch(raise_signal, look)

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
    """The signal that replicas not in sync may now be allowed to lead: of a topic, or of any that does not say."""
    return LEADERLESS if topic is None else StoreSignal(LEADERLESS.at, topic)


async def read_event(reader: StoreReader, look: StoreSignal, cluster: ClusterState) -> Event | None:
    """Read what a signal points at; None when there is nothing to tell the machine."""
    if look == BROKERS:
        return BrokersChanged(await reader.brokers())
    if look == TOPICS:
        names = await reader.topic_names()
        read = await reader.topics(names - cluster.topics.keys())
        return TopicsListed(names, read, reader.fresh_ids(read))
    if look == DELETIONS:
        return DeletionsListed(await reader.deletions())
    if look == ISR_CHANGES:
        return await reader.isr_changes()
    if look == LOG_DIR_EVENTS:
        return await reader.log_dir_events()
    if look == ZK_ELECTIONS:
        return await reader.zk_elections()
    if look == ZK_REASSIGNMENTS:
        return ZkReassignmentsRead(await reader.zk_reassignments())
    if look == BALANCE:
        return reader.balance_due()
    if look.at == LEADERLESS.at:
        return await _leaderless(reader, look, cluster)
    if look.which not in cluster.topics:
        return await read_event(reader, TOPICS, cluster)  # It could not be read so far.
    topic = await reader.topic(look.which)
    return None if topic is None else TopicChanged(topic)


async def _leaderless(reader: StoreReader, look: StoreSignal, cluster: ClusterState) -> Event | None:
    partitions = unclean_elections.leaderless(cluster, look.which or None)
    if not partitions:
        return None
    return UncleanSettingsRead(partitions, await reader.topics_allowing_unclean(one.topic for one in partitions))
