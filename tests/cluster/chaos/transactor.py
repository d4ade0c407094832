"""A transactional producer: some partitions of several topics in each transaction, two of three are committed."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Final

from tests.cluster.chaos.transacting import Records, StoppedError, Transactional
from tests.cluster.chaos.working import Orders, Working

PARTITIONS: Final = (2, 5)
"""How many partitions a transaction writes to."""
SECONDS: Final = 0.4
"""Of a transaction on average, before it is ended; the pace comes from its size."""
ABORTED_EVERY: Final = 3


def some_records(orders: Orders, chance: random.Random, transaction: str) -> Records:
    """What one transaction writes."""
    wanted = chance.sample(orders.partitions, min(len(orders.partitions), chance.randint(*PARTITIONS)))
    count = max(len(wanted), round(orders.per_second * SECONDS))
    return [(wanted[number % len(wanted)], f"{transaction}/{number}") for number in range(count)]


def main() -> None:
    working = Working()
    chance = random.Random(working.orders.name)
    number = 0
    with suppress(StoppedError):
        producers = Transactional(working)
        while working:
            number += 1
            records = some_records(working.orders, chance, producers.name())
            seconds = chance.uniform(0.0, 2 * SECONDS)
            producers.run(records, commit=number % ABORTED_EVERY != 0, seconds=seconds)
    working.recorder.close()


if __name__ == "__main__":
    main()
