"""ShareFetch and ShareAcknowledge on a leader, over a persister of the test."""

from __future__ import annotations

import pytest

from sordini.broker.shares.machine.record_states import RecordState
from sordini.broker.shares.machine.share_partition import ShareLimits
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicPartition
from tests.support.share_world import GROUP, LOCK_MS, SETTINGS, a_world, acquired, code, rows_of
from tests.support.unit_broker import topic_id_of

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
ORDERS = topic_id_of("orders"), 0


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


async def test_an_acknowledgement_is_answered_and_in_force_when_it_is_written() -> None:
    async with a_world() as world:
        world.produce(2)
        world.fetch()
        world.persister.holds = True
        pending = world.send_acknowledge([(0, 0, [RELEASE])])
        other = world.send_fetch("b")
        assert not pending.is_answered
        world.persister.release()
        assert pending.is_answered
        assert acquired(world.answer(other)) == [(0, 0, 2)]


async def test_what_comes_while_a_write_is_out_is_written_with_the_next_in_one_write() -> None:
    async with a_world() as world:
        world.produce(4)
        world.fetch()
        world.persister.holds = True
        pending = [world.send_acknowledge([(offset, offset, [ACCEPT])]) for offset in range(4)]
        assert [len(write.runs) for write in world.persister.writes] == [1]
        world.persister.release()
        world.broker.timers.fire()
        assert [[run[:2] for run in write.runs] for write in world.persister.writes] == [[(0, 1)], [(1, 4)]]
        assert [one.is_answered for one in pending] == [True, False, False, False]
        world.persister.release()
        assert all(one.is_answered for one in pending)
        assert world.persister.writes[-1][2:4] == (1, 3), "the start offset has passed the first"


async def test_what_cannot_be_written_has_not_happened() -> None:
    async with a_world() as world:
        world.produce(2)
        world.fetch()
        world.persister.error = ErrorCode.NOT_COORDINATOR
        assert code(world.acknowledge([(0, 1, [ACCEPT])])) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.persister.error = ErrorCode.NONE
        assert code(world.acknowledge([(0, 1, [ACCEPT])])) == 0


@pytest.mark.parametrize("error", [ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_LEADER_EPOCH])
async def test_a_share_partition_that_is_fenced_ends_and_is_loaded_again(error: ErrorCode) -> None:
    async with a_world() as world:
        world.produce(2)
        world.fetch()
        world.persister.error = error
        assert code(world.acknowledge([(0, 1, [ACCEPT])])) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert len(world.partitions) == 0
        world.persister.error = ErrorCode.NONE
        assert code(world.acknowledge([(0, 1, [ACCEPT])])) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert acquired(world.fetch("b")) == [(0, 1, 1)]


async def test_a_fetch_waits_for_its_share_partition_to_be_loaded() -> None:
    async with a_world() as world:
        world.produce(1)
        world.persister.holds = True
        pending = world.send_fetch()
        world.persister.release()
        assert acquired(world.answer(pending)) == [(0, 0, 1)]


async def test_a_state_that_cannot_be_read_is_an_error_of_its_row() -> None:
    async with a_world() as world:
        world.persister.error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        row = rows_of(world.fetch())[ORDERS]
        assert row.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.persister.error = ErrorCode.NONE
        world.produce(1)
        assert acquired(world.fetch()) == [(0, 0, 1)]


async def test_the_next_leader_epoch_begins_with_what_is_stored() -> None:
    async with a_world() as world:
        world.produce(3)
        world.fetch()
        world.acknowledge([(0, 0, [ACCEPT])])
        world.acknowledge([(1, 1, [RELEASE])])
        await world.broker.lead("orders", epoch=1)
        assert acquired(world.fetch("b")) == [(1, 1, 2), (2, 2, 1)]
        assert code(world.acknowledge([(2, 2, [ACCEPT])])) == ErrorCode.INVALID_RECORD_STATE, "b holds it now"


async def test_a_fetch_that_waits_is_answered_when_the_leadership_ends() -> None:
    async with a_world() as world:
        world.fetch()
        pending = world.send_fetch()
        await world.broker.follow("orders", epoch=1)
        row = rows_of(world.answer(pending))[ORDERS]
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert row.current_leader.leader_epoch == 1
        assert len(world.partitions) == 0


async def test_a_deleted_topic_takes_its_share_partitions_with_it() -> None:
    async with a_world() as world:
        world.produce(1)
        world.fetch()
        world.broker.parts.metadata.drop_partition("orders", 0)
        world.broker.parts.replicas.stop_replica(TopicPartition("orders", 0), delete=True)
        assert len(world.partitions) == 0
        assert rows_of(world.fetch())[ORDERS].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_waiting_fetch_that_is_woken_for_nothing_waits_on_and_is_answered_at_its_time() -> None:
    async with a_world() as world:
        world.fetch("a")
        world.fetch("b")
        first, second = world.send_fetch("a"), world.send_fetch("b")
        world.produce(1)
        assert (first.is_answered, second.is_answered) == (True, False)
        world.broker.timers.fire()
        assert acquired(world.answer(second)) == []


async def test_a_fetch_whose_connection_is_lost_leaves_nothing_behind() -> None:
    async with a_world() as world:
        world.fetch()
        world.send_fetch().abandon()
        world.disconnect("a")
        partition = world.broker.parts.replicas.partition("orders", 0)
        assert not partition.purgatory
        assert not any(shared.purgatory for shared in world.partitions)
        assert not world.broker.timers.waiting


async def test_few_bytes_are_one_batch_and_what_is_sent_is_what_is_acquired() -> None:
    async with a_world() as world:
        world.produce(2, 2, 2)
        first = world.fetch(max_bytes=1)
        assert acquired(first) == [(0, 1, 1)]
        both = world.fetch()
        assert acquired(both) == [(2, 5, 1)]
        size = len(rows_of(first)[ORDERS].records)
        assert len(rows_of(both)[ORDERS].records) == 2 * size


async def test_records_are_not_pinned_once_they_are_sent() -> None:
    async with a_world() as world:
        world.produce(2)
        world.fetch()
        world.fetch()
        segments = world.broker.parts.replicas.partition("orders", 0).log.segments.all()
        assert not any(segment.handle.is_pinned for segment in segments)


async def test_settings_of_the_group_are_those_of_now() -> None:
    async with a_world() as world:
        world.produce(1)
        world.fetch()
        world.settings = SETTINGS._replace(limits=ShareLimits(2, 2_000, 5_000))
        world.acknowledge([(0, 0, [RELEASE])])
        assert world.fetch().acquisition_lock_timeout_ms == 5_000
        world.pass_time(5_000)
        assert world.machine().start == 1, "it was its last delivery"


async def test_the_log_start_moves_the_start_offset() -> None:
    async with a_world() as world:
        world.produce(2, 2)
        world.fetch(max_records=1)
        world.broker.parts.replicas.partition("orders", 0).log.log_start_offset = 3
        assert acquired(world.fetch()) == [(3, 3, 1)]
        assert code(world.acknowledge([(0, 1, [ACCEPT])])) == 0


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([(0, 1, [])], ErrorCode.INVALID_REQUEST),
        ([(0, 1, [ACCEPT] * 3)], ErrorCode.INVALID_REQUEST),
        ([(0, 1, [RENEW])], ErrorCode.INVALID_REQUEST),
        ([(0, 1, [7])], ErrorCode.INVALID_REQUEST),
        ([(1, 0, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 2, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 1, [ACCEPT]), (0, 1, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 1, [ACCEPT]), (1, 1, [ACCEPT])], ErrorCode.INVALID_RECORD_STATE),
    ],
)
async def test_acknowledgements_that_are_wrong_change_nothing(said: list[object], expected: ErrorCode) -> None:
    async with a_world() as world:
        world.produce(2)
        world.fetch()
        assert code(world.acknowledge(said)) == expected  # type: ignore[arg-type]
        assert world.persister.writes == []
        assert code(world.acknowledge([(0, 1, [ACCEPT])])) == 0


async def test_two_hundred_thousand_acknowledgements_are_checked_in_slices() -> None:
    async with a_world() as world:
        world.produce(3)
        world.fetch()
        said = [(offset, offset, [ACCEPT]) for offset in range(200_000)]
        assert code(await world.acknowledge_in_slices(said)) == ErrorCode.INVALID_REQUEST
        assert world.steps >= len(said) - 200
        assert world.persister.writes == []
        assert code(await world.acknowledge_in_slices([(0, 2, [ACCEPT])])) == 0


async def test_no_more_sessions_are_opened_than_allowed_and_their_partitions_are_bounded() -> None:
    async with a_world(sessions_max=1) as world:
        world.fetch("a")
        assert world.fetch("b").error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        world.fetch("a", share_session_epoch=-1)
        world.epochs["b"] = 0
        assert world.fetch("b").error_code == 0


async def test_share_partitions_that_are_not_used_make_room_for_others() -> None:
    async with a_world(partitions_max=2) as world:
        world.produce(1)
        for group in ("one", "two"):
            assert acquired(world.fetch(group, group_id=group)) == [(0, 0, 1)]
        assert rows_of(world.fetch("three", group_id="three"))[ORDERS].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert len(world.partitions) == 2
        world.acknowledge([(0, 0, [ACCEPT])], "one", group_id="one")
        assert acquired(world.fetch("three", group_id="three")) == [(0, 0, 1)]
        assert {shared.key.group_id for shared in world.partitions} == {"two", "three"}


async def test_what_is_archived_for_no_reason_is_written_as_gaps_are() -> None:
    async with a_world() as world:
        world.produce(2)
        world.fetch()
        world.acknowledge([(0, 1, [GAP, REJECT])])
        assert [run.state for run in world.persister.writes[-1].runs] == [RecordState.ARCHIVED]
        assert world.partitions.of_group(GROUP)[0].machine.start == 2
