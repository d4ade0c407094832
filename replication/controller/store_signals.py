"""What the controller looks at when something may have changed: which watch raises which signal, and which event for
the machine comes of it.
"""

from __future__ import annotations

from collections.abc import Callable

from sordini.replication.cluster_model import Cluster
from sordini.replication.controller.machine import unclean_elections
from sordini.replication.controller.machine.events import (
    BrokersChanged,
    DeletionsListed,
    Event,
    MovesNoted,
    TopicChanged,
    TopicsListed,
    UncleanRuled,
)
from sordini.replication.controller.store_reader import Reader, Watches
from sordini.replication.controller.signals import (
    BALANCE,
    BROKERS,
    DELETIONS,
    ISR_CHANGES,
    LEADERLESS,
    LOG_DIR_EVENTS,
    NOTED_ELECTIONS,
    NOTED_MOVES,
    TOPICS,
    Look,
    Watcher,
)


def watches_raising(raise_signal: Callable[[Look], None]) -> Watches:
    """The watches of everything that the controller reads."""

    def watch(look: Look) -> Watcher:
        return Watcher(raise_signal, look)

    return Watches(
        watch(BROKERS),
        watch(TOPICS),
        watch(DELETIONS),
        watch(ISR_CHANGES),
        watch(LOG_DIR_EVENTS),
        watch(NOTED_ELECTIONS),
        watch(NOTED_MOVES),
        lambda _: watch(BROKERS),
        lambda name: watch(Look("topic", name)),
    )


def leaderless_of(topic: str | None) -> Look:
    """The signal that replicas not in sync may now be allowed to lead: of a topic, or of any that does not say."""
    return LEADERLESS if topic is None else Look(LEADERLESS.at, topic)


async def look_at(reader: Reader, look: Look, cluster: Cluster) -> Event | None:
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
    if look == NOTED_ELECTIONS:
        return await reader.noted_elections()
    if look == NOTED_MOVES:
        return MovesNoted(await reader.noted_moves())
    if look == BALANCE:
        return reader.balance_due()
    if look.at == LEADERLESS.at:
        return await _leaderless(reader, look, cluster)
    if look.which not in cluster.topics:
        return await look_at(reader, TOPICS, cluster)  # It could not be read so far.
    topic = await reader.topic(look.which)
    return None if topic is None else TopicChanged(topic)


async def _leaderless(reader: Reader, look: Look, cluster: Cluster) -> Event | None:
    partitions = unclean_elections.leaderless(cluster, look.which or None)
    if not partitions:
        return None
    return UncleanRuled(partitions, await reader.allowing_unclean(one.topic for one in partitions))
