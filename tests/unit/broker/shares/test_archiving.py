"""Records that become dead letters, from what a member says of them to where the share partition begins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sordini.broker.share_state.machine.state_runs import StateRun
from sordini.broker.share_state.ports import SharePartitionKey
from sordini.broker.shares.machine.record_states import DeathReason, RecordState
from sordini.broker.shares.machine.share_partition import DeadLetters
from sordini.protocol.errors import ErrorCode
from tests.support.share_world import GROUP, LIMITS, LOCK_MS, SETTINGS, ShareWorld, a_world, acquired, code
from tests.support.unit_broker import topic_id_of

ACCEPT, RELEASE, REJECT = 1, 2, 3
KEY = SharePartitionKey(GROUP, topic_id_of("orders"), 0)
REJECTED, EXCEEDED = DeathReason.REJECTED, DeathReason.DELIVERIES_EXCEEDED
ARCHIVING, ARCHIVED = RecordState.ARCHIVING, RecordState.ARCHIVED


@asynccontextmanager
async def a_world_with_dead_letters(deliveries: int = 5) -> AsyncIterator[ShareWorld]:
    async with a_world() as world:
        limits = LIMITS._replace(has_dead_letters=True, delivery_count_max=deliveries)
        world.settings = SETTINGS._replace(limits=limits)
        yield world


async def test_a_rejected_record_is_stored_as_archiving_then_written_then_archived() -> None:
    async with a_world_with_dead_letters() as world:
        world.produce(3)
        world.fetch()
        world.persister.holds = True
        pending = world.send_acknowledge([(0, 1, [REJECT])])
        assert (pending.is_answered, world.dead_letters.added) == (False, [])
        world.persister.release()
        assert world.dead_letters.added == [DeadLetters(0, 2, 1, REJECTED)]
        assert world.persister.runs[KEY] == (StateRun(0, 2, ARCHIVING, 1),)
        world.dead_letters.write()
        assert world.machine().start == 0, "it is not stored yet"
        world.persister.release()
        assert world.persister.runs[KEY] == (StateRun(0, 2, ARCHIVED, 1),)
        assert world.machine().start == 2


async def test_a_lock_that_ends_after_the_last_delivery_makes_a_dead_letter() -> None:
    async with a_world_with_dead_letters(deliveries=2) as world:
        world.produce(1)
        for number in (1, 2):
            assert acquired(world.fetch()) == [(0, 0, number)]
            world.pass_time(LOCK_MS)
        assert world.dead_letters.added == [DeadLetters(0, 1, 2, EXCEEDED)]
        world.dead_letters.write()
        assert (world.machine().start, acquired(world.fetch())) == (1, [])


async def test_what_could_not_be_stored_as_archived_is_stored_later_and_written_once() -> None:
    async with a_world_with_dead_letters() as world:
        world.produce(1)
        world.fetch()
        assert code(world.acknowledge([(0, 0, [REJECT])])) == 0
        world.persister.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.dead_letters.write()
        world.pass_time(LOCK_MS)
        assert world.machine().start == 0
        world.persister.error = ErrorCode.NONE
        for _ in range(10):
            world.pass_time(LOCK_MS)
        assert world.machine().start == 1
        assert world.dead_letters.added == [DeadLetters(0, 1, 1, REJECTED)]


async def test_a_leader_that_is_fenced_drops_its_dead_letters_and_the_next_one_writes_them() -> None:
    async with a_world_with_dead_letters() as world:
        world.produce(2)
        world.fetch()
        world.acknowledge([(0, 0, [REJECT])])
        world.persister.error = ErrorCode.FENCED_LEADER_EPOCH
        world.dead_letters.write()
        assert world.dead_letters.dropped == [KEY]
        assert world.partitions.of_group(GROUP) == []
        world.persister.error = ErrorCode.NONE
        world.fetch()
        assert world.dead_letters.waiting == {KEY: [DeadLetters(0, 1, 1, REJECTED)]}
        world.dead_letters.write()
        assert world.machine().start == 1


async def test_a_change_of_leadership_leaves_them_to_the_next_leader() -> None:
    async with a_world_with_dead_letters() as world:
        world.produce(2)
        world.fetch()
        world.acknowledge([(0, 0, [REJECT])])
        await world.broker.follow("orders", epoch=1)
        assert world.dead_letters.dropped == [KEY]
        await world.broker.lead("orders", epoch=2)
        world.fetch("b")
        assert world.dead_letters.waiting == {KEY: [DeadLetters(0, 1, 1, REJECTED)]}


async def test_a_rejection_that_is_stored_behind_a_change_of_leadership_is_the_next_leaders() -> None:
    async with a_world_with_dead_letters() as world:
        world.produce(2)
        world.fetch()
        world.persister.holds = True
        world.send_acknowledge([(0, 0, [REJECT])])
        await world.broker.follow("orders", epoch=1)
        await world.broker.lead("orders", epoch=2)
        world.persister.holds = False
        world.persister.release()
        assert world.dead_letters.added == [], "the former leader has ended"
        world.fetch("b")
        assert world.dead_letters.waiting == {KEY: [DeadLetters(0, 1, 1, REJECTED)]}
        world.dead_letters.write()
        assert world.machine().start == 1


async def test_dead_letters_are_written_and_archived_when_the_last_member_has_gone() -> None:
    async with a_world_with_dead_letters(deliveries=2) as world:
        world.produce(1)
        world.fetch()
        world.acknowledge([(0, 0, [RELEASE])])
        world.fetch()
        world.partitions.retire(GROUP)
        (shared,) = world.partitions.of_group(GROUP) or [None]
        assert shared is None, "nothing waits"
        world.fetch("b")
        world.acknowledge([(0, 0, [REJECT])], "b")
        world.partitions.retire(GROUP)
        assert world.dead_letters.waiting == {KEY: [DeadLetters(0, 1, 2, REJECTED)]}
        world.dead_letters.write()
        assert world.persister.runs[KEY] == (StateRun(0, 1, ARCHIVED, 2),)
        assert world.partitions.of_group(GROUP) == []


async def test_a_share_partition_with_unwritten_dead_letters_is_not_forgotten() -> None:
    async with a_world_with_dead_letters() as world:
        world.produce(1)
        world.fetch()
        world.acknowledge([(0, 0, [REJECT])])
        (shared,) = world.partitions.of_group(GROUP)
        assert not shared.is_unused
        world.dead_letters.write()
        assert shared.is_unused


async def test_records_that_are_deleted_meanwhile_still_become_dead_letters() -> None:
    async with a_world_with_dead_letters() as world:
        world.produce(2, 2)
        world.fetch()
        world.acknowledge([(0, 1, [REJECT])])
        world.broker.parts.replicas.partition("orders", 0).log.advance_log_start(2)
        world.fetch("b")
        assert world.machine().start == 2
        world.dead_letters.write()
        assert code(world.acknowledge([(2, 3, [ACCEPT])])) == 0
        assert world.machine().start == 4
        assert world.dead_letters.added == [DeadLetters(0, 2, 1, REJECTED)]


async def test_a_group_that_gives_up_its_topic_archives_at_once_from_then_on() -> None:
    async with a_world_with_dead_letters() as world:
        world.produce(2)
        world.fetch()
        world.acknowledge([(0, 0, [REJECT])])
        world.settings = SETTINGS
        world.acknowledge([(1, 1, [REJECT])])
        assert world.dead_letters.added == [DeadLetters(0, 1, 1, REJECTED)]
        world.dead_letters.write()
        assert world.machine().start == 2
