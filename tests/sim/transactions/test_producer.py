"""The simulated producers of one transactional id."""

from __future__ import annotations

import asyncio

import pytest

from sordini.testing.simulation.trace import Trace
from sordini.testing.simulation.virtual_loop import SimLoop, run
from tests.sim.client import ClientSocket
from tests.sim.history import History
from tests.sim.transactions.history import TransactionHistory
from tests.sim.transactions.producer import CLOCK_RESOLUTION_S, ProducerDeps, TransactionalId, TransactionRules


class RefusingNetwork:
    """Each connection is refused after a millisecond."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.trace = Trace(loop, 0)

    async def connect(self, address: tuple[str, int]) -> ClientSocket:
        await asyncio.sleep(0.001)
        raise ConnectionRefusedError(111, f"no listener at {address}")


@pytest.mark.parametrize("seconds", [0.0, 1e-10, CLOCK_RESOLUTION_S / 2])
def test_no_producer_begins_where_the_clock_cannot_reach_its_end(seconds: float) -> None:
    loop = SimLoop(steps_max=10_000)
    deps = ProducerDeps(RefusingNetwork(loop), [("broker", 1)], {}, History(), TransactionHistory(), 1)
    producers = TransactionalId("one", deps, TransactionRules())

    async def main() -> None:
        await producers.run(loop.time() + seconds, loop.time() + 1)

    run(loop, main())
    assert producers.incarnations == 0


def test_producers_begin_until_their_time_is_over() -> None:
    loop = SimLoop(steps_max=100_000)
    deps = ProducerDeps(RefusingNetwork(loop), [("broker", 1)], {}, History(), TransactionHistory(), 1)
    producers = TransactionalId("one", deps, TransactionRules(incarnation_mean_s=0.5))

    async def main() -> None:
        await producers.run(loop.time() + 10, loop.time() + 11)

    run(loop, main())
    assert 5 < producers.incarnations < 60
