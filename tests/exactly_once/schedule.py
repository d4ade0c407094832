"""What is killed, and when: a plan that is made of a seed. Pure but for the seeded generator that it is given.

Times are counted in records that arrived in the sink: a slow machine has the same plan as a fast one.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

AFTER_MIN: Final = 40
AFTER_MAX: Final = 240


class Kill(NamedTuple):
    """One kill -9, when so many more records have arrived since the last one was over."""

    after: int
    is_broker: bool
    victim: int
    """A broker's id, or a client's number."""


def plan(seed: int, brokers: Sequence[int], clients: int, rounds: int) -> list[Kill]:
    """In each round every broker and every client is killed once, in an order of the seed's."""
    choice = Random(seed)
    kills = []
    for _ in range(rounds):
        victims = [(True, broker) for broker in brokers] + [(False, client) for client in range(clients)]
        choice.shuffle(victims)
        kills += [Kill(choice.randrange(AFTER_MIN, AFTER_MAX), *victim) for victim in victims]
    return kills
