"""Where the replicas of new partitions go.

Pure. Brokers stand in a row, and replica j of partition i goes to place (s + i + j) mod n of it: the rule of document
000's table, with s from the topic's name. Without racks the row is the brokers in their order. With racks the row
takes one broker of each rack in turn (KIP-36), and where the rule would put a second replica into a rack while
another rack has fewer of them, it looks further along the row; each round of the row begins that search one place
further on, so that the same broker does not get all followers of another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from sordini.protocol.types import BrokerId

Racks = Mapping[BrokerId, str | None]
"""Living brokers, and the rack that each stands in, if it is known."""
Placement = dict[int, tuple[BrokerId, ...]]


def without_racks(brokers: Collection[BrokerId]) -> Racks:
    """The brokers, as if nobody knew where they stand."""
    return dict.fromkeys(brokers)


def brokers_without_rack(racks: Racks) -> list[BrokerId]:
    """The brokers without a rack among others that have one: with them nothing can be told of racks."""
    missing = sorted(broker for broker, rack in racks.items() if rack is None)
    return missing if len(missing) < len(racks) else []


def place_from(start: int, racks: Racks, partitions: range, replication_factor: int) -> Placement:
    """The replicas of these partitions, first the one that is to lead; the same whenever they are asked for.

    `start` is the rule's s. Every broker has a rack or none has; the factor is not above their number.
    """
    row = broker_order(racks)
    if None in racks.values():
        return {
            partition: tuple(row[(start + partition + replica) % len(row)] for replica in range(replication_factor))
            for partition in partitions
        }
    return {
        partition: _over_racks(
            _seen_from(row, (start + partition) % len(row), partition // len(row)), racks, replication_factor
        )
        for partition in partitions
    }


def start_of(first: BrokerId, racks: Racks) -> int:
    """The s by which partition 0 is led by this broker, or where that is gone, by the next one still there."""
    row = broker_order(racks)
    return row.index(min((broker for broker in row if broker >= first), default=min(row)))


def broker_order(racks: Racks) -> list[BrokerId]:
    """One broker of each rack in turn, racks and brokers in their order, until all stand in the row."""
    by_rack: dict[str, list[BrokerId]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker] or "", []).append(broker)
    places = {broker: (place, rack) for rack, held in by_rack.items() for place, broker in enumerate(held)}
    return sorted(racks, key=places.__getitem__)


def _seen_from(row: Sequence[BrokerId], leader: int, round_number: int) -> list[BrokerId]:
    """The row from a leader on; in later rounds the others begin further on."""
    others = [*row[leader + 1 :], *row[:leader]]
    shift = round_number % len(others) if others else 0
    return [row[leader], *others[shift:], *others[:shift]]


def _over_racks(candidates: Sequence[BrokerId], racks: Racks, factor: int) -> tuple[BrokerId, ...]:
    """The first of them, and of the rest the next one whose rack has fewest replicas, again and again."""
    left, used, held = list(candidates), Counter[str | None](), list[BrokerId]()
    while len(held) < factor:
        chosen = min(left, key=lambda broker: used[racks[broker]])  # The first of the equals.
        left.remove(chosen)
        held.append(chosen)
        used[racks[chosen]] += 1
    return tuple(held)
