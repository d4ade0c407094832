"""What a broker holds, and what its stop costs while it is away.

Pure. A partition costs something when this broker's copy is needed: without it no copy in sync is left to lead, or too
few are in sync for `min.insync.replicas`. What is so already costs nothing more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from sordini.protocol.printable import counted
from sordini.protocol.types import TopicPartition

NAMES_MAX = 5
"""So many partitions are named in one line."""


class PartitionReplicas(NamedTuple):
    """One partition: who leads and holds it, and its topic's settings that count when copies are missing."""

    name: TopicPartition
    leader: int
    replicas: Sequence[int]
    in_sync: Collection[int]
    in_sync_min: int = 1
    is_unclean: bool = False
    """Whether a copy that is not in sync may lead."""


class StopImpact(NamedTuple):
    """What one broker holds; the lists are what its stop costs."""

    broker: int
    replicas: int
    leads: int
    leaves: int
    """How many of the partitions that it leads go on under another leader."""
    leaderless: list[TopicPartition]
    behind: list[TopicPartition]
    """Those that go on with a copy that is not in sync: records are lost."""
    refusing: list[TopicPartition]
    """Those in which acks=all is refused, with the copies that are left."""

    @property
    def costs(self) -> bool:
        return bool(self.leaderless or self.behind or self.refusing)


def assess_stop(broker: int, partitions: Iterable[PartitionReplicas], running: Collection[int]) -> StopImpact:
    """What a broker holds; copies on brokers that do not run count as not there."""
    found = StopImpact(broker, 0, 0, 0, [], [], [])
    replicas = leads = leaves = 0
    for one in partitions:
        if broker not in one.replicas:
            continue
        replicas += 1
        leads += one.leader == broker
        others = [member for member in one.in_sync if member != broker and member in running]
        leaves += one.leader == broker and bool(others)
        if broker not in one.in_sync:
            continue
        if not others:
            is_led_behind = one.is_unclean and any(holder != broker and holder in running for holder in one.replicas)
            (found.behind if is_led_behind else found.leaderless).append(one.name)
        elif len(others) + 1 >= one.in_sync_min > len(others):
            found.refusing.append(one.name)
    return found._replace(replicas=replicas, leads=leads, leaves=leaves)


def stop_impact_lines(held: StopImpact, *, hands_over: bool) -> list[str]:
    """What to say before the broker stops; `hands_over` is whether others lead before it is gone."""
    if not held.replicas:
        return [f"broker {held.broker} holds no replica"]
    first = f"broker {held.broker} holds {counted(held.replicas, 'replica')} and leads {held.leads or 'none'} of them"
    if held.leaves:
        first += f"; other brokers lead {held.leaves} of these {'before it stops' if hands_over else 'when it is gone'}"
    costs = (
        (held.leaderless, "no other copy in sync, and no leader until it is back"),
        (held.behind, "no other copy in sync: a copy that is behind leads, and records are lost"),
        (held.refusing, "fewer copies in sync than min.insync.replicas without it: acks=all is refused"),
    )
    return [first, *(_cost(names, what) for names, what in costs if names)]


def _cost(names: Sequence[TopicPartition], what: str) -> str:
    named = ", ".join(map(str, sorted(names)[:NAMES_MAX]))
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return f"{counted(len(names), 'partition')} {'has' if len(names) == 1 else 'have'} {what}: {named}{more}"
