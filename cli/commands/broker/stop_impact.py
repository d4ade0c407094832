"""The effect of stopping a broker on its partitions while it is down.

Pure. A partition is affected if this broker's replica is needed: without it no in-sync replica is left to lead, or
fewer than `min.insync.replicas` are in sync. A partition that is in that state already is not counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sordini.protocol.printable import counted
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

NAMES_MAX = 5
"""Partitions named in one line."""


class PartitionReplicas(NamedTuple):
    """One partition: its leader and replicas, and the topic's settings that matter when replicas are missing."""

    name: TopicPartition
    leader: int
    replicas: Sequence[int]
    in_sync: Collection[int]
    in_sync_min: int = 1
    is_unclean: bool = False
    """`unclean.leader.election.enable`: whether an out-of-sync replica may lead."""


class StopImpact(NamedTuple):
    """The replicas of one broker, and the partitions that its stop affects."""

    broker: int
    replicas: int
    leads: int
    handed_over: int
    """How many of the partitions that it leads get another leader."""
    leaderless: list[TopicPartition]
    unclean: list[TopicPartition]
    """Partitions that an out-of-sync replica will lead: records are lost."""
    below_min_isr: list[TopicPartition]
    """Partitions that refuse acks=all with the remaining replicas."""

    @property
    def affects_partitions(self) -> bool:
        return bool(self.leaderless or self.unclean or self.below_min_isr)


def assess_stop(broker: int, partitions: Iterable[PartitionReplicas], running: Collection[int]) -> StopImpact:
    """The effect of stopping `broker`; replicas on brokers that are not running count as missing."""
    found = StopImpact(broker, 0, 0, 0, [], [], [])
    replicas = leads = handed_over = 0
    for one in partitions:
        if broker not in one.replicas:
            continue
        replicas += 1
        leads += one.leader == broker
        others = [member for member in one.in_sync if member != broker and member in running]
        handed_over += one.leader == broker and bool(others)
        if broker not in one.in_sync:
            continue
        if not others:
            is_led_uncleanly = one.is_unclean and any(holder != broker and holder in running for holder in one.replicas)
            (found.unclean if is_led_uncleanly else found.leaderless).append(one.name)
        elif len(others) + 1 >= one.in_sync_min > len(others):
            found.below_min_isr.append(one.name)
    return found._replace(replicas=replicas, leads=leads, handed_over=handed_over)


def stop_impact_lines(held: StopImpact, *, hands_over: bool) -> list[str]:
    """Lines to print before the stop; `hands_over` is whether leadership moves before the broker stops."""
    if not held.replicas:
        return [f"broker {held.broker} holds no replica"]
    first = f"broker {held.broker} holds {counted(held.replicas, 'replica')} and leads {held.leads or 'none'} of them"
    if held.handed_over:
        when = "before it stops" if hands_over else "after it has stopped"
        first += f"; other brokers lead {held.handed_over} of these {when}"
    effects = (
        (held.leaderless, "no other in-sync replica, and no leader until it is back"),
        (held.unclean, "no other in-sync replica: an out-of-sync replica leads, and records are lost"),
        (held.below_min_isr, "fewer in-sync replicas than min.insync.replicas without it: acks=all is refused"),
    )
    return [first, *(_effect_line(names, what) for names, what in effects if names)]


def _effect_line(names: Sequence[TopicPartition], what: str) -> str:
    named = ", ".join(map(str, sorted(names)[:NAMES_MAX]))
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return f"{counted(len(names), 'partition')} {'has' if len(names) == 1 else 'have'} {what}: {named}{more}"
