"""Placement of the replicas of new partitions.

Pure. Brokers are in an order, and replica j of partition i goes to index (s + i + j) mod n of it; s is a hash of the
topic's name. Without racks the order is that of the broker ids. With racks it alternates between the racks (KIP-36);
where the rule would put a second replica into a rack while another rack has fewer of them, the next broker of such a
rack is taken. Each round of the order shifts the candidates by one more, so that the followers of one broker's
partitions are not all on one other broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from sordini.protocol.types import BrokerId

Racks = Mapping[BrokerId, str | None]
"""The live brokers with their racks, None for an unknown one."""
Placement = dict[int, tuple[BrokerId, ...]]


def without_racks(brokers: Collection[BrokerId]) -> Racks:
    """The brokers, each without a rack."""
    return dict.fromkeys(brokers)


def brokers_without_rack(racks: Racks) -> list[BrokerId]:
    """The brokers without a rack where others have one: then replicas cannot be spread over racks."""
    missing = sorted(broker for broker, rack in racks.items() if rack is None)
    return missing if len(missing) < len(racks) else []


def place_from(start: int, racks: Racks, partitions: range, replication_factor: int) -> Placement:
    """The replicas of these partitions, the preferred leader first. Deterministic.

    `start` is the rule's s. Every broker has a rack or none has; the factor is at most their number.
    """
    order = broker_order(racks)
    if None in racks.values():
        return {
            partition: tuple(order[(start + partition + replica) % len(order)] for replica in range(replication_factor))
            for partition in partitions
        }
    return {
        partition: _over_racks(
            _rotated(order, (start + partition) % len(order), partition // len(order)), racks, replication_factor
        )
        for partition in partitions
    }


def start_of(first: BrokerId, racks: Racks) -> int:
    """The s by which partition 0 is led by this broker, or by the next live one."""
    order = broker_order(racks)
    return order.index(min((broker for broker in order if broker >= first), default=min(order)))


def broker_order(racks: Racks) -> list[BrokerId]:
    """The brokers sorted, alternating between the racks (KIP-36)."""
    by_rack: dict[str, list[BrokerId]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker] or "", []).append(broker)
    keys = {broker: (index, rack) for rack, members in by_rack.items() for index, broker in enumerate(members)}
    return sorted(racks, key=keys.__getitem__)


def _rotated(order: Sequence[BrokerId], leader: int, round_number: int) -> list[BrokerId]:
    """The order from a leader on; in each later round the others are shifted by one more."""
    others = [*order[leader + 1 :], *order[:leader]]
    shift = round_number % len(others) if others else 0
    return [order[leader], *others[shift:], *others[:shift]]


def _over_racks(candidates: Sequence[BrokerId], racks: Racks, factor: int) -> tuple[BrokerId, ...]:
    """The first candidate, then each time the next one whose rack has the fewest replicas."""
    left, used, held = list(candidates), Counter[str | None](), list[BrokerId]()
    while len(held) < factor:
        chosen = min(left, key=lambda broker: used[racks[broker]])  # The first minimum.
        left.remove(chosen)
        held.append(chosen)
        used[racks[chosen]] += 1
    return tuple(held)
