"""Members that mean harm, or have bad luck: what they cost a broker, and what they leave behind."""

from __future__ import annotations

import pytest

from sordini.broker.shares.machine.record_states import AckType
from sordini.broker.shares.machine.share_partition import LOCKS_MIN
from sordini.broker.shares.share_partitions import EXPIRY_STEPS
from sordini.broker.shares.share_reading import BATCHES_MAX
from sordini.broker.shares.state_writer import WAITING_MIN
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from tests.support.share_world import GROUP, LIMITS, LOCK_MS, SETTINGS, ShareWorld, a_world, acquired, code, rows_of
from tests.support.unit_broker import topic_id_of

ACCEPT, RENEW = AckType.ACCEPT, AckType.RENEW
ORDERS = topic_id_of("orders"), 0
CLOSE = -1


def row_code(answer: object) -> int:
    error: int = rows_of(answer)[ORDERS].error_code
    return error


async def test_a_fetch_that_waits_for_a_state_which_cannot_be_read_gets_the_error_and_reads_it_once() -> None:
    async with a_world() as world:
        world.persister.holds, world.persister.error = True, ErrorCode.INVALID_REQUEST
        pending = world.send_fetch()
        world.persister.release()
        assert world.persister.waiting == 0, "it would be asked for again and again, for as long as the fetch waits"
        assert row_code(world.answer(pending)) == ErrorCode.UNKNOWN_SERVER_ERROR
        world.persister.holds, world.persister.error = False, ErrorCode.NONE
        assert row_code(world.fetch("b")) == 0, "the next request does read it again"


async def test_a_fetch_of_a_session_that_was_opened_again_elsewhere_takes_no_records_with_it() -> None:
    async with a_world() as world:
        world.fetch("a")
        pending = world.send_fetch("a")
        world.fetch("a on another connection", member_id="a", share_session_epoch=0)
        world.produce(1)
        assert acquired(world.answer(pending)) == []
        assert acquired(world.fetch("c")) == [(0, 0, 1)]


async def test_a_connection_keeps_nothing_of_the_sessions_that_were_closed_on_it() -> None:
    async with a_world() as world:
        for number in range(20):
            world.fetch("a", member_id=f"member {number}", share_session_epoch=0)
            world.fetch("a", member_id=f"member {number}", share_session_epoch=CLOSE)
        assert not world.peers["a"].on_closed
        world.fetch("a", member_id="moved", share_session_epoch=0)
        world.fetch("b", member_id="moved", share_session_epoch=0)
        assert not world.peers["a"].on_closed, "its session is another connection's now"
        world.disconnect("a")
        assert world.fetch("b", member_id="moved", share_session_epoch=1).error_code == 0


async def test_locks_that_are_renewed_without_end_are_noted_a_few_times() -> None:
    async with a_world() as world:
        world.produce(1)
        world.fetch()
        for _ in range(20):
            said = [(0, 0, [RENEW])] * LOCKS_MIN
            assert code(world.acknowledge(said, is_renew_ack=True)) == 0
        assert len(world.machine()._locks) <= LOCKS_MIN + 1
        world.pass_time(LOCK_MS)
        assert acquired(world.fetch("b")) == [(0, 0, 2)], "and they end"


async def test_sessions_that_come_and_go_while_nothing_can_be_written_fill_no_memory() -> None:
    async with a_world() as world:
        world.settings = SETTINGS._replace(limits=LIMITS._replace(delivery_count_max=1))
        world.fetch("b")
        world.persister.holds = True
        for _ in range(WAITING_MIN + 50):
            world.produce(1)
            world.fetch("a", share_session_epoch=0)
            world.fetch("a", share_session_epoch=CLOSE)
        (shared,) = world.partitions
        assert shared._writer is not None
        assert len(shared._writer._waiting) < 100
        world.persister.release()
        world.broker.timers.fire()
        assert world.persister.writes[-1].runs == (), "all of it is below the start offset"
        assert world.persister.writes[-1].start == WAITING_MIN + 50


async def test_partitions_that_a_session_has_are_not_counted_again_where_they_are_acknowledged() -> None:
    async with a_world() as world:
        world.sessions._sessions._partitions_max = 1
        world.produce(1)
        assert acquired(world.fetch()) == [(0, 0, 1)]
        assert code(world.fetch(said=[(0, 0, [ACCEPT])])) == 0
        assert world.fetch(topics=["returns"]).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


async def test_one_response_has_a_bounded_number_of_record_batches_and_the_next_one_the_rest() -> None:
    async with a_world() as world:
        world.produce(*[1] * (BATCHES_MAX + 1))
        everything = dict.fromkeys(("max_records", "max_bytes", "batch_size"), 2**31 - 1)
        assert acquired(world.fetch(**everything)) == [(0, BATCHES_MAX - 1, 1)]
        assert acquired(world.fetch(**everything)) == [(BATCHES_MAX, BATCHES_MAX, 1)]


async def test_locks_of_many_share_partitions_that_end_together_end_a_thousand_at_a_time() -> None:
    groups, records = 100, 19
    async with a_world(sessions_max=groups) as world:
        world.produce(*[1] * records)
        for number in range(groups):
            world.fetch(f"member {number}", group_id=f"group {number}", batch_size=1)
        world.broker.clock.ms += LOCK_MS
        left = [_held(world)]
        while left[-1]:
            world.broker.timers.fire()
            left.append(_held(world))
        at_once = EXPIRY_STEPS // (records + 1) * records
        assert left == [groups * records, groups * records - at_once, 0]


def _held(world: ShareWorld) -> int:
    return sum(
        part.member != "" for shared in world.partitions for batch in shared.machine.batches for part in batch.parts
    )


@pytest.mark.parametrize("error", [ErrorCode.INVALID_REQUEST, ErrorCode.FENCED_STATE_EPOCH])
async def test_behind_a_write_of_a_state_that_is_gone_nothing_is_written_any_more(error: ErrorCode) -> None:
    async with a_world() as world:
        world.produce(2)
        world.fetch()
        world.persister.holds = True
        first, second = (world.send_acknowledge([(offset, offset, [ACCEPT])]) for offset in range(2))
        world.persister.error = error
        world.persister.release()
        assert first.is_answered
        assert second.is_answered, "with the same error: a state that another group has made is not written to"
        world.persister.error = ErrorCode.NONE
        world.broker.timers.fire()
        assert (len(world.persister.writes), len(world.partitions)) == (1, 0)


# A group may be deleted, and its offsets may be set, when its last member has gone.


async def test_with_the_last_member_a_share_partition_is_forgotten_and_the_next_one_reads_what_is_stored() -> None:
    async with a_world() as world:
        world.produce(2)
        world.fetch("a")
        world.fetch("b")
        world.acknowledge([(0, 1, [ACCEPT])], "a")
        world.disconnect("a")
        assert len(world.partitions) == 1, "b is there yet"
        world.disconnect("b")
        assert len(world.partitions) == 0
        (key,) = world.persister.starts
        world.persister.starts[key] = 0
        world.persister.runs.clear()
        assert acquired(world.fetch("c")) == [(0, 1, 1)]


async def test_the_start_offset_is_written_when_the_last_member_goes_where_it_has_moved_since_the_last_write() -> None:
    async with a_world() as world:
        world.produce(2)
        world.fetch("a")
        world.acknowledge([(0, 1, [ACCEPT])], "a")
        assert [write.start for write in world.persister.writes] == [0], "it follows with the next change"
        world.disconnect("a")
        assert [(write.start, write.runs) for write in world.persister.writes[1:]] == [(2, ())]
        world.fetch("b")
        world.disconnect("b")
        assert len(world.persister.writes) == 2


async def test_a_share_partition_is_not_forgotten_before_what_was_acknowledged_is_written() -> None:
    async with a_world() as world:
        world.produce(2)
        world.fetch("a")
        world.persister.holds = True
        world.send_acknowledge([(0, 0, [ACCEPT])], "a")
        world.disconnect("a")
        (shared,) = world.partitions.of_group(GROUP)
        assert shared.is_retiring
        world.persister.release()
        world.broker.timers.fire()
        assert len(world.partitions) == 1, "what a held is being written"
        world.persister.release()
        assert len(world.partitions) == 0
        pending = world.send_fetch("b")
        world.persister.release()
        assert acquired(world.answer(pending)) == [(1, 1, 2)]


async def test_a_member_that_comes_before_all_is_written_keeps_the_share_partition() -> None:
    async with a_world() as world:
        world.produce(2)
        world.fetch("a")
        world.persister.holds = True
        world.disconnect("a")
        assert acquired(world.fetch("b")) == [(0, 1, 2)]
        world.persister.release()
        pending = world.send_acknowledge([(0, 1, [ACCEPT])], "b")
        world.persister.release()
        assert code(world.answer(pending, ApiKey.SHARE_ACKNOWLEDGE)) == 0


async def test_a_fetch_acquires_records_when_what_it_acknowledges_is_written_and_not_before() -> None:
    async with a_world() as world:
        world.produce(1, 1)
        assert acquired(world.fetch("a", max_records=1, batch_size=1)) == [(0, 0, 1)]
        world.persister.holds = True
        pending = world.send_fetch("a", [(0, 0, [ACCEPT])])
        assert acquired(world.fetch("b")) == [(1, 1, 1)], "its lock would end while a waits for the coordinator"
        world.persister.release()
        assert not pending.is_answered, "now it waits for records"
        world.produce(1)
        answer = world.answer(pending)
        assert (code(answer), acquired(answer)) == (0, [(2, 2, 1)])


async def test_a_fetch_whose_connection_is_lost_before_its_acknowledgements_are_written_acquires_nothing() -> None:
    async with a_world() as world:
        world.produce(1, 1)
        world.fetch("a", max_records=1, batch_size=1)
        world.fetch("b", max_records=0)
        world.persister.holds = True
        world.send_fetch("a", [(0, 0, [ACCEPT])]).abandon()
        world.persister.release()
        assert acquired(world.fetch("b")) == [(1, 1, 1)]
