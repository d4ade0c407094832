"""Samples of log ends and committed offsets: only what moved is kept, and a truncation forgets everything."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sordini.broker.administration.lag.commit_watch import SAMPLE_INTERVAL_MS, CommitWatch
from sordini.broker.administration.lag.offset_history import NO_ADVANCE, UNKNOWN_AGE, Advance, AgeBounds
from sordini.broker.groups.machine.offset_table import OffsetTable
from sordini.broker.groups.machine.state import CommittedOffset, Group, GroupState
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.types import TopicPartition
from sordini.replication.partition import Partition
from tests.support.builders import a_batch
from tests.support.unit_broker import UnitBroker, a_broker

RECORDS = 3
"""Of `a_batch`."""
ORDERS = TopicPartition("orders", 0)
SECOND = 1_000


@pytest.fixture
async def broker() -> AsyncIterator[UnitBroker]:
    async with a_broker() as made:
        yield made


def orders(broker: UnitBroker) -> Partition:
    found = broker.parts.replicas.get("orders", 0)
    assert found is not None
    return found


def produce(broker: UnitBroker) -> None:
    data = PartitionProduceData(index=0, records=a_batch())
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="orders", partition_data=[data])])
    assert broker.ask(ApiKey.PRODUCE, 9, request).responses[0].partition_responses[0].error_code == 0


async def sample(broker: UnitBroker, after_ms: int = SECOND) -> int:
    broker.clock.ms += after_ms
    await broker.parts.lag.appends.sample(broker.clock.monotonic_ms())
    return broker.clock.monotonic_ms()


async def test_a_record_is_as_old_as_between_the_two_samples_around_its_append(broker: UnitBroker) -> None:
    await broker.lead("orders")
    await sample(broker)
    produce(broker)
    await sample(broker)
    now = await sample(broker, 10 * SECOND)
    assert broker.parts.lag.appends.age_of(orders(broker), 0, now) == AgeBounds(10 * SECOND, 11 * SECOND)


async def test_an_idle_hour_before_an_append_does_not_blur_its_age(broker: UnitBroker) -> None:
    await broker.lead("orders")
    await sample(broker)
    for _ in range(360):
        await sample(broker, 10 * SECOND)
    produce(broker)
    now = await sample(broker)
    assert broker.parts.lag.appends.age_of(orders(broker), 0, now) == AgeBounds(0, SECOND)


async def test_the_rate_of_appends_is_that_of_the_last_minute(broker: UnitBroker) -> None:
    await broker.lead("orders")
    await sample(broker)
    for _ in range(100):
        produce(broker)
        now = await sample(broker)
    assert broker.parts.lag.appends.advance(orders(broker), now) == Advance(60 * RECORDS, 60 * SECOND)


async def test_after_a_truncation_nothing_is_known_until_the_next_sample(broker: UnitBroker) -> None:
    await broker.lead("orders")
    await sample(broker)
    produce(broker)
    produce(broker)
    now = await sample(broker)
    orders(broker).log.truncate_to(RECORDS)
    appends = broker.parts.lag.appends
    assert appends.age_of(orders(broker), 0, now) == UNKNOWN_AGE
    assert appends.advance(orders(broker), now) == NO_ADVANCE
    now = await sample(broker)
    assert appends.age_of(orders(broker), 0, now) == AgeBounds(0, None)


async def test_records_that_replaced_truncated_ones_do_not_have_their_age(broker: UnitBroker) -> None:
    await broker.lead("orders")
    await sample(broker)
    produce(broker)
    produce(broker)
    await sample(broker)
    await sample(broker, 60 * SECOND)
    orders(broker).log.truncate_to(RECORDS)
    produce(broker)
    produce(broker)
    now = await sample(broker)
    assert broker.parts.lag.appends.age_of(orders(broker), RECORDS, now) == AgeBounds(0, None)


async def test_a_new_leader_knows_only_the_least_age_of_what_it_fetched(broker: UnitBroker) -> None:
    await broker.follow("orders")
    await sample(broker)
    await broker.lead("orders", epoch=1)
    produce(broker)
    await sample(broker)
    produce(broker)
    now = await sample(broker)
    appends = broker.parts.lag.appends
    assert appends.age_of(orders(broker), 0, now) == AgeBounds(SECOND, None)
    assert appends.age_of(orders(broker), RECORDS, now) == AgeBounds(0, SECOND)


async def test_partitions_that_are_gone_are_forgotten(broker: UnitBroker) -> None:
    await broker.lead("orders")
    now = await sample(broker)
    former = orders(broker)
    broker.parts.replicas.stop_replica(ORDERS, delete=True)
    await sample(broker)
    assert broker.parts.lag.appends.age_of(former, 0, now) == UNKNOWN_AGE


class GroupsOfATest:
    """Groups whose offsets a test commits."""

    def __init__(self) -> None:
        self.tables: dict[str, OffsetTable] = {}
        self.moved: set[str] = set()

    def commit(self, group: str, offset: int) -> None:
        self.tables.setdefault(group, OffsetTable()).commit({ORDERS: CommittedOffset(offset, -1, "", 0)})

    def groups(self) -> list[Group]:
        return [Group(name, GroupState.STABLE) for name in self.tables]

    def offsets(self, group_id: str) -> OffsetTable:
        if group_id in self.moved:
            raise BrokerError(ErrorCode.NOT_COORDINATOR, "moved")
        return self.tables[group_id]


async def commits_each(groups: GroupsOfATest, watch: CommitWatch, offsets: list[int]) -> int:
    """Sample each of these committed offsets, one interval after another; the time of the last sample."""
    for number, offset in enumerate(offsets):
        groups.commit("billing", offset)
        await watch.sample_if_due((number + 1) * SAMPLE_INTERVAL_MS)
    return len(offsets) * SAMPLE_INTERVAL_MS


async def test_the_rate_of_commits_is_that_of_the_last_minute() -> None:
    groups = GroupsOfATest()
    watch = CommitWatch(groups)
    now = await commits_each(groups, watch, [10 * number for number in range(40)])
    assert watch.advance("billing", ORDERS, 390, now) == Advance(120, 60 * SECOND)


async def test_an_offset_that_does_not_move_has_advanced_by_nothing_since_it_is_watched() -> None:
    groups = GroupsOfATest()
    watch = CommitWatch(groups)
    now = await commits_each(groups, watch, [7] * 4)
    assert watch.advance("billing", ORDERS, 7, now) == Advance(0, 3 * SAMPLE_INTERVAL_MS)


async def test_after_a_reset_the_rate_is_measured_from_there_on() -> None:
    groups = GroupsOfATest()
    watch = CommitWatch(groups)
    now = await commits_each(groups, watch, [100, 200, 300, 0, 10])
    assert watch.advance("billing", ORDERS, 10, now) == Advance(10, SAMPLE_INTERVAL_MS)


async def test_between_two_samples_nothing_is_read() -> None:
    groups = GroupsOfATest()
    watch = CommitWatch(groups)
    await commits_each(groups, watch, [0])
    groups.commit("other", 5)
    await watch.sample_if_due(SAMPLE_INTERVAL_MS + 1)
    assert watch.advance("other", ORDERS, 5, SAMPLE_INTERVAL_MS + 2) == NO_ADVANCE


async def test_a_group_that_has_moved_away_is_forgotten() -> None:
    groups = GroupsOfATest()
    watch = CommitWatch(groups)
    await commits_each(groups, watch, [0, 5])
    groups.moved.add("billing")
    await watch.sample_if_due(10 * SAMPLE_INTERVAL_MS)
    assert watch.advance("billing", ORDERS, 5, 11 * SAMPLE_INTERVAL_MS) == NO_ADVANCE
