"""Which protocol a group uses: one that all members know, and of those the one that most of them like best.

Every member lists its protocols in the order of its liking. A protocol's support is the number of members that list it,
so it is common to all when that equals their number. The machine admits nobody who would leave no common protocol.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from sordini.broker.groups.machine.state import Member, Protocol


def names(protocols: Iterable[Protocol]) -> dict[str, None]:
    """The names in order, each once."""
    return dict.fromkeys(protocol.name for protocol in protocols)


def count(support: dict[str, int], protocols: Iterable[Protocol], change: int) -> None:
    """Add a member's protocols to the support (`change` 1), or take them away (-1)."""
    for name in names(protocols):
        supporters = support.get(name, 0) + change
        if supporters:
            support[name] = supporters
        else:
            del support[name]


def has_common(support: Mapping[str, int], members: int, protocols: Iterable[Protocol]) -> bool:
    """Whether one of these protocols is known to all members there are."""
    return any(support.get(protocol.name, 0) == members for protocol in protocols)


def select(members: Collection[Member], support: Mapping[str, int]) -> str:
    """The common protocol with the most votes; among equals the one that was voted for first.

    Apache Kafka leaves it to a hash table which of the equals it takes.
    """
    common = {name for name, supporters in support.items() if supporters == len(members)}
    votes = Counter(next(name for name in names(member.protocols) if name in common) for member in members)
    return max(votes, key=votes.__getitem__)
