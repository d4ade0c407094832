"""Selection of a generation's protocol (assignment strategy).

Every member lists its protocols in order of preference. A protocol's support is the number of members that list it, so
a protocol is common to all members when its support equals their number. Members without a common protocol are not
admitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from sordini.broker.groups.machine.state import Member, Protocol


def names(protocols: Iterable[Protocol]) -> dict[str, None]:
    """The names in order, without repetitions."""
    return dict.fromkeys(protocol.name for protocol in protocols)


def count(support: dict[str, int], protocols: Iterable[Protocol], change: int) -> None:
    """Add a member's protocols to the support (`change` 1), or subtract them (-1)."""
    for name in names(protocols):
        supporters = support.get(name, 0) + change
        if supporters:
            support[name] = supporters
        else:
            del support[name]


def has_common(support: Mapping[str, int], members: int, protocols: Iterable[Protocol]) -> bool:
    """Whether all members support one of these protocols."""
    return any(support.get(protocol.name, 0) == members for protocol in protocols)


def select(members: Collection[Member], support: Mapping[str, int]) -> str:
    """The common protocol with the most votes; at equality the one with the earliest vote.

    Apache Kafka's choice between equals depends on the order of a hash table.
    """
    common = {name for name, supporters in support.items() if supporters == len(members)}
    votes = Counter(next(name for name in names(member.protocols) if name in common) for member in members)
    return max(votes, key=votes.__getitem__)
