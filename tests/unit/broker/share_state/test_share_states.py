"""The share coordinator of a whole broker: its five requests, its records, and what the next coordinator makes of them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.share_state.machine.state_runs import StateRun
from sordini.broker.share_state.machine.stored_state import STATE_RUNS_MAX, StoredState
from sordini.broker.share_state.ports import ReadState, SharePartitionKey, StateSummary, StateWrite
from sordini.broker.share_state.records import SHARE_STATE_TOPIC
from sordini.broker.share_state.state_apis import (
    BATCHES_MAX,
    DELETE,
    INITIALIZE,
    READ,
    STATE_APIS,
    SUMMARIZE,
    WRITE,
    InitialState,
    StateApi,
)
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.common import StateBatch
from sordini.protocol.messages.write_share_group_state import PartitionData
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import Offset, TopicPartition
from sordini.replication.follower_truncation import FetchPosition
from sordini.storage.log import Log
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, answer_of, topic_id_of

TOPIC = "orders"
KEY = SharePartitionKey("workers", topic_id_of(TOPIC), 0)
AVAILABLE, ACKNOWLEDGED = 0, 2
ONE_PARTITION = {"share.coordinator.state.topic.num.partitions": "1"}


async def lead_all(broker: UnitBroker, epoch: int = 0) -> None:
    await broker.lead(TOPIC, 2, epoch=epoch)
    await broker.lead(SHARE_STATE_TOPIC, 1, epoch=epoch)
    await broker.settled()


def ask(broker: UnitBroker, api: StateApi, argument: Any, key: SharePartitionKey = KEY) -> Any:
    """The answer to a request for one share partition."""
    topic = api.topic(topic_id=key.topic_id, partitions=[api.row(key.partition, argument)])
    request = api.request(group_id=key.group_id, topics=[topic])
    response = broker.ask(api.key, APIS[api.key].max_version, request)
    ((result,),) = ([topic.partitions for topic in response.results],)
    (row,) = result
    assert row.partition == key.partition
    return api.answer_of(row)


def a_write(
    *runs: tuple[int, int, int, int], start: int = 0, done: int = 0, leader_epoch: int = 0, state_epoch: int = 2
) -> StateWrite:
    return StateWrite(state_epoch, leader_epoch, Offset(start), done, tuple(StateRun(*run) for run in runs))


async def test_a_state_is_initialized_read_written_summarized_and_deleted() -> None:
    async with a_broker(ONE_PARTITION) as broker:
        await lead_all(broker)
        assert ask(broker, SUMMARIZE, None) == StateSummary(ErrorCode.NONE)
        assert ask(broker, INITIALIZE, InitialState(2, None)) is ErrorCode.NONE
        assert ask(broker, SUMMARIZE, None) == StateSummary(ErrorCode.NONE, 2, 0, None, None)
        assert ask(broker, READ, 3) == ReadState(ErrorCode.NONE, 2, None, ())
        written = a_write((0, 4, ACKNOWLEDGED, 1), (4, 6, AVAILABLE, 1), done=4, leader_epoch=3)
        assert ask(broker, WRITE, written) is ErrorCode.NONE
        runs = (StateRun(0, 4, ACKNOWLEDGED, 1), StateRun(4, 6, AVAILABLE, 1))
        assert ask(broker, READ, 3) == ReadState(ErrorCode.NONE, 2, Offset(0), runs)
        assert ask(broker, SUMMARIZE, None) == StateSummary(ErrorCode.NONE, 2, 3, Offset(0), 4)
        assert ask(broker, DELETE, None) is ErrorCode.NONE
        assert ask(broker, READ, 3) == ReadState(ErrorCode.INVALID_REQUEST)
        assert ask(broker, DELETE, None) is ErrorCode.NONE


def states_of(broker: UnitBroker) -> dict[SharePartitionKey, StoredState]:
    return dict(broker.parts.share_states.coordinator.runtime.shards()[0].state.states)


def log_of(broker: UnitBroker) -> Log:
    return broker.parts.replicas.partition(SHARE_STATE_TOPIC, 0).log


async def load_again(broker: UnitBroker) -> None:
    """Another broker leads for a moment, and this one loads what the log has."""
    epoch = broker.parts.replicas.partition(SHARE_STATE_TOPIC, 0).leader_epoch
    await broker.follow(SHARE_STATE_TOPIC, epoch=epoch + 1)
    await broker.lead(SHARE_STATE_TOPIC, epoch=epoch + 2)
    for _ in range(200):
        if not broker.parts.share_states.coordinator.runtime.is_loading:
            return
        await broker.run_round()
    raise AssertionError("the partition is not loaded")


def keys(count: int) -> list[SharePartitionKey]:
    return [SharePartitionKey(f"group-{number}", KEY.topic_id, number % 2) for number in range(count)]


async def test_the_next_coordinator_has_every_answered_write_of_every_share_partition() -> None:
    chance = Random(1)
    async with a_broker({**ONE_PARTITION, "share.coordinator.snapshot.update.records.per.snapshot": "3"}) as broker:
        await lead_all(broker)
        for key in keys(12):
            ask(broker, INITIALIZE, InitialState(2, None), key)
        for number in range(400):
            first = chance.randrange(40)
            runs = (first, first + 1 + chance.randrange(5), chance.choice([AVAILABLE, ACKNOWLEDGED]), 1 + number // 100)
            write = a_write(runs, start=number // 20, done=number % 7)
            assert ask(broker, WRITE, write, chance.choice(keys(12))) is ErrorCode.NONE
            if number % 50 == 7:
                ask(broker, DELETE, None, chance.choice(keys(3)))
                for key in keys(3):
                    ask(broker, INITIALIZE, InitialState(2, Offset(0)), key)
        before = states_of(broker)
        assert len(before) == 12
        await load_again(broker)
        assert states_of(broker) == before


async def test_a_broker_that_is_killed_between_two_writes_has_what_it_answered() -> None:
    disk = ForgetfulDisk()
    async with a_broker(ONE_PARTITION, disk) as broker:
        await lead_all(broker)
        ask(broker, INITIALIZE, InitialState(2, Offset(0)))
        for number in range(5):
            write = a_write((number, number + 1, ACKNOWLEDGED, 1), start=number // 2, done=number % 2)
            assert ask(broker, WRITE, write) is ErrorCode.NONE
            disk = disk.killed()
            async with a_broker(ONE_PARTITION, disk) as next_broker:
                await lead_all(next_broker, epoch=1)
                assert states_of(next_broker) == states_of(broker)
            disk = broker.disk


async def test_a_write_is_answered_when_it_is_committed_and_a_read_waits_for_it() -> None:
    async with a_broker(ONE_PARTITION) as broker:
        await broker.lead(TOPIC, 2)
        await broker.lead(SHARE_STATE_TOPIC, 1, isr=(ME, OTHER))
        await broker.settled()
        pending = [serve(broker, INITIALIZE, InitialState(2, Offset(0)))]
        pending += [serve(broker, WRITE, a_write((0, 1, ACKNOWLEDGED, 1))), serve(broker, READ, 0)]
        assert [one.is_answered for one in pending] == [False] * 3
        replicate(broker, 1)
        assert [one.is_answered for one in pending] == [True, False, False]
        replicate(broker, 2)
        assert [one.is_answered for one in pending] == [True] * 3
        found = answer_of(pending[2], READ.key, 0).results[0].partitions[0]
        assert READ.answer_of(found).runs == (StateRun(0, 1, ACKNOWLEDGED, 1),)


async def test_what_is_not_committed_when_the_leadership_ends_is_answered_that_the_coordinator_is_another() -> None:
    async with a_broker(ONE_PARTITION) as broker:
        await broker.lead(TOPIC, 2)
        await broker.lead(SHARE_STATE_TOPIC, 1, isr=(ME, OTHER))
        await broker.settled()
        pending = serve(broker, INITIALIZE, InitialState(2, Offset(0)))
        await broker.follow(SHARE_STATE_TOPIC, epoch=1)
        row = answer_of(pending, INITIALIZE.key, 0).results[0].partitions[0]
        assert row.error_code == ErrorCode.NOT_COORDINATOR
        assert ask(broker, READ, 0) == ReadState(ErrorCode.NOT_COORDINATOR)


async def test_records_that_newer_snapshots_replace_are_deleted_and_the_states_are_still_whole() -> None:
    async with a_broker({**ONE_PARTITION, "share.coordinator.snapshot.update.records.per.snapshot": "2"}) as broker:
        await lead_all(broker)
        for key in keys(2):
            ask(broker, INITIALIZE, InitialState(2, Offset(0)), key)
        for number in range(9):
            ask(broker, WRITE, a_write((number, number + 1, ACKNOWLEDGED, 1)), keys(1)[0])
        await run_upkeep(broker)
        assert log_of(broker).log_start_offset == 1  # The first snapshot of the other share partition.
        ask(broker, INITIALIZE, InitialState(3, Offset(5)), keys(2)[1])
        before = states_of(broker)
        await run_upkeep(broker)
        assert log_of(broker).log_start_offset == 10  # The last snapshot of the first one.
        await load_again(broker)
        assert states_of(broker) == before
        for key in keys(2):
            ask(broker, DELETE, None, key)
        await run_upkeep(broker)
        assert log_of(broker).log_start_offset == log_of(broker).log_end_offset - 1  # A tombstone.
        await load_again(broker)
        assert states_of(broker) == {}


async def test_a_snapshot_that_is_not_committed_makes_nothing_redundant() -> None:
    async with a_broker({**ONE_PARTITION, "share.coordinator.snapshot.update.records.per.snapshot": "0"}) as broker:
        await broker.lead(TOPIC, 2)
        await broker.lead(SHARE_STATE_TOPIC, 1, isr=(ME, OTHER))
        await broker.settled()
        for number in range(3):
            serve(broker, INITIALIZE, InitialState(2 + number, Offset(number)))
        replicate(broker, 2)
        await run_upkeep(broker)
        assert log_of(broker).log_start_offset == 1


async def test_a_state_that_does_not_change_gets_a_snapshot_when_its_last_one_is_old() -> None:
    async with a_broker(ONE_PARTITION) as broker:
        await lead_all(broker)
        for key in keys(2):
            ask(broker, INITIALIZE, InitialState(2, Offset(0)), key)
        ask(broker, WRITE, a_write((0, 1, ACKNOWLEDGED, 1)), keys(1)[0])
        before = states_of(broker)
        await run_upkeep(broker)
        assert log_of(broker).log_end_offset == 3
        broker.clock.ms += 300_000
        await run_upkeep(broker)
        assert log_of(broker).log_end_offset == 5
        for key, state in states_of(broker).items():
            assert state.whole.snapshot_epoch == 1
            assert state.whole.runs == before[key].whole.runs
        broker.clock.ms += 300_000
        await run_upkeep(broker)
        assert log_of(broker).log_end_offset == 5  # All are old: nothing would be gained.


async def test_the_states_of_a_deleted_topic_are_deleted() -> None:
    async with a_broker(ONE_PARTITION) as broker:
        await lead_all(broker)
        await broker.lead("kept", 1)
        of_kept = SharePartitionKey("workers", topic_id_of("kept"), 0)
        for key in (KEY, of_kept):
            ask(broker, INITIALIZE, InitialState(2, Offset(0)), key)
        for index in range(2):
            broker.parts.metadata.drop_partition(TOPIC, index)
        broker.parts.share_states.coordinator.topics_deleted([TopicPartition(TOPIC, 0)])
        await broker.settled()
        assert set(states_of(broker)) == {of_kept}
        await load_again(broker)
        assert set(states_of(broker)) == {of_kept}


async def test_states_of_a_topic_that_was_never_known_here_are_kept() -> None:
    async with a_broker(ONE_PARTITION) as broker:
        await lead_all(broker)
        ask(broker, INITIALIZE, InitialState(2, Offset(0)))
        for index in range(2):
            broker.parts.metadata.drop_partition(TOPIC, index)
        await load_again(broker)
        broker.parts.share_states.coordinator.topics_deleted([TopicPartition("another", 0)])
        await broker.settled()
        assert set(states_of(broker)) == {KEY}
        assert ask(broker, SUMMARIZE, None) == StateSummary(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("api", STATE_APIS, ids=lambda api: api.kind.value)
async def test_a_request_that_names_no_group_or_no_partition_is_answered_with_nothing(api: StateApi) -> None:
    async with a_broker(ONE_PARTITION) as broker:
        await lead_all(broker)
        version = APIS[api.key].max_version
        empty = api.request(group_id="workers", topics=[api.topic(topic_id=KEY.topic_id)])
        for request in (api.request(), api.request(group_id="workers"), empty):
            assert broker.ask(api.key, version, request) == api.response()


@pytest.mark.parametrize(
    ("first", "last"), [(5, 4), (-1, 3), (-(2**63), 2**63 - 1)], ids=["turned around", "negative", "all offsets"]
)
async def test_a_batch_that_is_no_range_of_offsets_is_refused(first: int, last: int) -> None:
    async with a_broker(ONE_PARTITION) as broker:
        await lead_all(broker)
        ask(broker, INITIALIZE, InitialState(2, Offset(0)))
        assert ask(broker, WRITE, a_write((first, last + 1, AVAILABLE, 1))) is ErrorCode.INVALID_REQUEST
        assert log_of(broker).log_end_offset == 1


async def test_200_000_batches_in_one_request_are_served_in_slices_or_refused() -> None:
    async with a_broker(ONE_PARTITION) as broker:
        await lead_all(broker)
        ask(broker, INITIALIZE, InitialState(2, Offset(0)))
        batches = [
            StateBatch(first_offset=2 * n, last_offset=2 * n, delivery_state=2, delivery_count=1)
            for n in range(200_000)
        ]
        whole = [a_row(batches[: BATCHES_MAX + 1])]
        parts = [a_row(batches[first : first + BATCHES_MAX]) for first in range(0, len(batches), BATCHES_MAX)]
        for rows, expected in (
            (whole, [ErrorCode.INVALID_REQUEST]),
            (parts, [0, 0] + [ErrorCode.INVALID_REQUEST] * 18),
        ):
            topic = WRITE.topic(topic_id=KEY.topic_id, partitions=rows)
            slices = broker.parts.dispatcher.slices.slices
            response = broker.ask(WRITE.key, 1, WRITE.request(group_id="workers", topics=[topic]))
            assert [row.error_code for row in response.results[0].partitions] == expected
            assert broker.parts.dispatcher.slices.slices - slices > len(rows)
        assert len(states_of(broker)[KEY].whole.runs) <= STATE_RUNS_MAX


def a_row(batches: list[StateBatch]) -> PartitionData:
    return PartitionData(partition=0, state_epoch=2, state_batches=batches)


def serve(broker: UnitBroker, api: StateApi, argument: Any) -> DelayedResponse:
    """A request that is not answered at once."""
    topic = api.topic(topic_id=KEY.topic_id, partitions=[api.row(KEY.partition, argument)])
    pending = broker.serve(api.key, 0, api.request(group_id=KEY.group_id, topics=[topic]))
    assert isinstance(pending, DelayedResponse)
    return pending


def replicate(broker: UnitBroker, end: int) -> None:
    """The other replica has the records below this offset."""
    partition = broker.parts.replicas.partition(SHARE_STATE_TOPIC, 0)
    position = FetchPosition(Offset(end), partition.leader_epoch, -1)
    partition.update_follower_fetch_state(OTHER, position, broker.clock.ms)


async def run_upkeep(broker: UnitBroker) -> None:
    """The time of cold snapshots, and of deletions, has come."""
    broker.timers.fire()
    await broker.settled()
