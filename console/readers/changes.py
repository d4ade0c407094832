"""What changed in a cluster between two states of it: a bounded record of one process, or of one visitor. Pure.

What is compared are Metadata responses. What came and went between two of them is not seen; leader epochs show
elections that ended where they began. Changes of many partitions at once are one line, with the first names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from sordini.console.readers.cluster_state import ClusterState, PartitionRow
from sordini.protocol.printable import counted
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

CHANGES_MAX: Final = 500
NAMES_SHOWN: Final = 5
STALE_STATES_MAX: Final = 2

BROKER, CONTROLLER, ELECTION, IN_SYNC, TOPIC, REBALANCE, RESTART, RETENTION, COMPACTION = (
    "broker",
    "controller",
    "election",
    "in-sync replicas",
    "topic",
    "rebalance",
    "restart",
    "retention",
    "compaction",
)


class Change(NamedTuple):
    """One line of the record."""

    at_ms: int
    """When it was seen, since 1970."""
    kind: str
    text: str
    is_bad: bool = False


class ChangeLog:
    """The changes, and since when states are compared."""

    def __init__(self) -> None:
        self._changes: deque[Change] = deque(maxlen=CHANGES_MAX)
        self._before: ClusterState | None = None
        self._is_reached = True
        self._stale_states = 0
        self.since_ms: int | None = None

    @property
    def changes(self) -> list[Change]:
        """Oldest first."""
        return list(self._changes)

    def compare(self, state: ClusterState, at_ms: int) -> None:
        """Compare with the state before."""
        if not self._is_reached:
            self._is_reached = True
            self._changes.append(Change(at_ms, BROKER, "the cluster answers again"))
        if self._before is None:
            self.since_ms = at_ms if self.since_ms is None else self.since_ms
        else:
            if self._stale_states < STALE_STATES_MAX and is_older(state, self._before):
                self._stale_states += 1
                return
            self._changes += differences(self._before, state, at_ms)
        self._stale_states = 0
        self._before = state

    def miss(self, at_ms: int) -> None:
        """The cluster did not answer: one line, however often."""
        self.since_ms = at_ms if self.since_ms is None else self.since_ms
        if self._is_reached:
            self._is_reached = False
            self._changes.append(Change(at_ms, BROKER, "the cluster does not answer", is_bad=True))


def is_older(one: ClusterState, other: ClusterState) -> bool:
    """Whether a partition has an earlier leader epoch: a broker has answered that hears of elections late.

    A topic that was made again begins at epoch 0 too; so that this is seen, only a few looks are passed over.
    """
    epochs = {row.name: row.leader_epoch for row in other.partitions}
    return any(
        row.leader_epoch is not None and (known := epochs.get(row.name)) is not None and row.leader_epoch < known
        for row in one.partitions
    )


def differences(before: ClusterState, after: ClusterState, at_ms: int) -> list[Change]:
    """What is different between two readings."""
    found: list[Change] = []
    old_ids, new_ids = {row.broker for row in before.brokers}, {row.broker for row in after.brokers}
    found += [Change(at_ms, BROKER, f"broker {one} is gone", is_bad=True) for one in sorted(old_ids - new_ids)]
    found += [Change(at_ms, BROKER, f"broker {one} is there") for one in sorted(new_ids - old_ids)]
    if before.controller != after.controller:
        is_none = after.controller is None
        whose = "no broker is" if is_none else f"broker {after.controller} is"
        was = "" if before.controller is None else f", it was broker {before.controller}"
        found.append(Change(at_ms, CONTROLLER, f"{whose} the controller{was}", is_bad=is_none))
    old_topics, new_topics = {row.topic: row for row in before.topics}, {row.topic: row for row in after.topics}
    found += [Change(at_ms, TOPIC, f"{text} created") for text in _named(sorted(new_topics.keys() - old_topics))]
    found += [Change(at_ms, TOPIC, f"{text} deleted") for text in _named(sorted(old_topics.keys() - new_topics))]
    for name in sorted(old_topics.keys() & new_topics):
        was_count, count = old_topics[name].partitions, new_topics[name].partitions
        if was_count != count:
            found.append(Change(at_ms, TOPIC, f"{name} has {counted(count, 'partition')}, it had {was_count}"))
    return found + _of_partitions(before.partitions, after.partitions, at_ms)


def _of_partitions(before: Iterable[PartitionRow], after: Iterable[PartitionRow], at_ms: int) -> list[Change]:
    old = {row.name: row for row in before}
    led: dict[tuple[int | None, int | None], list[TopicPartition]] = {}
    lost: dict[int, list[TopicPartition]] = {}
    joined: dict[int, list[TopicPartition]] = {}
    for row in after:
        was = old.get(row.name)
        if was is None or was == row:
            continue
        if (was.leader, was.leader_epoch) != (row.leader, row.leader_epoch):
            led.setdefault((was.leader, row.leader), []).append(row.name)
        for broker in set(was.in_sync) - set(row.in_sync):
            lost.setdefault(broker, []).append(row.name)
        for broker in set(row.in_sync) - set(was.in_sync):
            joined.setdefault(broker, []).append(row.name)
    elections = [
        Change(at_ms, ELECTION, f"{_leaders(*pair)}: {_partitions(names)}", is_bad=pair[1] is None)
        for pair, names in led.items()
    ]
    shrinks = [
        Change(at_ms, IN_SYNC, f"broker {broker} fell behind: {_partitions(names)}", is_bad=True)
        for broker, names in sorted(lost.items())
    ]
    expands = [
        Change(at_ms, IN_SYNC, f"broker {broker} is in sync again: {_partitions(names)}")
        for broker, names in sorted(joined.items())
    ]
    return elections + shrinks + expands


def _leaders(was: int | None, now: int | None) -> str:
    if now is None:
        return f"no leader, it was broker {was}"
    if was is None:
        return f"leader {now} after none"
    return f"leader {now} elected again" if was == now else f"leader {now} after {was}"


def _partitions(names: list[TopicPartition]) -> str:
    ordered = sorted(names)
    text = ", ".join(f"{name.topic}:{name.partition}" for name in ordered[:NAMES_SHOWN])
    more = len(ordered) - NAMES_SHOWN
    return f"{text} and {more} more" if more > 0 else text


def _named(topics: list[str]) -> list[str]:
    """Each name, or the first ones of many."""
    if len(topics) <= NAMES_SHOWN:
        return topics
    return [f"{', '.join(topics[:NAMES_SHOWN])} and {len(topics) - NAMES_SHOWN} more"]
