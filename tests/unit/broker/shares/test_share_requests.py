"""ShareFetch and ShareAcknowledge on a leader, over a persister of the test."""

from __future__ import annotations

from tests.support.share_world import LOCK_MS, a_world, acquired, code

ACCEPT, RELEASE = 1, 2


async def test_records_are_locked_given_back_and_delivered_again() -> None:
    async with a_world() as world:
        world.produce(3, 2)
        assert acquired(world.fetch()) == [(0, 4, 1)]
        assert code(world.acknowledge([(0, 1, [ACCEPT])])) == 0
        pending = world.send_fetch("b")
        assert code(world.acknowledge([(2, 3, [RELEASE])])) == 0
        assert acquired(world.answer(pending)) == [(2, 3, 2)]
        pending = world.send_fetch("b")
        world.produce(1)
        assert acquired(world.answer(pending)) == [(5, 5, 1)]
        world.disconnect("b")
        assert acquired(world.fetch()) == [(2, 3, 3), (5, 5, 2)]
        world.pass_time(LOCK_MS)
        assert acquired(world.fetch()) == [(2, 3, 4)]
