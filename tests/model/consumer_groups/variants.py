"""What remains: a heartbeat that is delayed until its coordinator has moved away and back.

What a coordinator remembers of connections ends with its leadership, and there is no floor: before its member's next
heartbeat, the delayed one may come on any connection. No commit is accepted of a partition that another member has, but a
partition may be consumed twice for a while.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.model.consumer_groups.invariants import RELEASED
from tests.model.consumer_groups.rules import Rules
from tests.model.consumer_groups.scopes import RETURNED, Scope
from tests.model.consumer_groups.space import Space
from tests.model.explore import Explored, explore

WORLDS_MAX = 100_000


class Variant(NamedTuple):
    scope: Scope
    law: str
    what: str


VARIANTS = {
    "a delayed join arrives after the coordinator has moved away and back": Variant(
        RETURNED, RELEASED, "a partition is consumed twice"
    ),
}


def found(name: str) -> Explored:
    """The shortest trace on which a delayed heartbeat breaks this law."""
    variant = VARIANTS[name]
    return explore(Space(Rules(variant.scope), frozenset({variant.law})), WORLDS_MAX)
