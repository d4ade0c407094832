"""Whatever the order of commits, transactions, markers, deletions and loads: readers see what a naive reading says."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.support.group_requests import commit, fetch
from tests.support.parts import examples
from tests.support.transaction_requests import (
    UNVERIFIED,
    Producer,
    a_cluster_of_one,
    mark,
    stable_fetch,
    txn_commit,
)
from tests.support.unit_broker import UnitBroker

GROUPS = ("g", "h")
PARTITIONS = (0, 1)
PRODUCERS = (11, 12)


class Commit(NamedTuple):
    group_id: str
    partition: int


class TxnCommit(NamedTuple):
    producer_id: int
    group_id: str
    partition: int


class End(NamedTuple):
    producer_id: int
    commit: bool


class Delete(NamedTuple):
    group_id: str
    partition: int


class Reload(NamedTuple):
    """The leadership ends and begins again."""


Step = Commit | TxnCommit | End | Delete | Reload
groups, partitions, producers = map(st.sampled_from, (GROUPS, PARTITIONS, PRODUCERS))
STEPS = st.lists(
    st.builds(Commit, groups, partitions)
    | st.builds(TxnCommit, producers, groups, partitions)
    | st.builds(TxnCommit, producers, groups, partitions)
    | st.builds(End, producers, st.booleans())
    | st.builds(Delete, groups, partitions)
    | st.builds(Reload),
    min_size=6,
    max_size=20,
)

Key = tuple[str, int]


class Naive:
    """Every record ever written, read again for each question. The offset that is committed is the step's number."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def visible(self) -> dict[Key, int]:
        counted: dict[int, Key] = {}
        deleted: dict[int, Key] = {}
        for number, step in enumerate(self.steps):
            match step:
                case Commit(group_id, partition):
                    counted[number] = group_id, partition
                case Delete(group_id, partition):
                    deleted[number] = group_id, partition
                case End(producer_id, True):
                    for earlier in self._written_by(producer_id, number):
                        written = self.steps[earlier]
                        assert isinstance(written, TxnCommit)
                        counted[earlier] = written.group_id, written.partition
        latest = {key: number for number, key in sorted(counted.items())}
        return {
            key: number for key, number in latest.items() if not any(d > number and deleted[d] == key for d in deleted)
        }

    def unstable(self) -> set[Key]:
        found: set[Key] = set()
        for producer_id in PRODUCERS:
            for number in self._written_by(producer_id, len(self.steps)):
                written = self.steps[number]
                assert isinstance(written, TxnCommit)
                key = written.group_id, written.partition
                if not any(isinstance(s, Delete) and s == key for s in self.steps[number:]):
                    found.add(key)
        return found

    def _written_by(self, producer_id: int, end: int) -> list[int]:
        """The commits of the producer's transaction that is open right before step `end`."""
        begin = max(
            (n for n, s in enumerate(self.steps[:end]) if isinstance(s, End) and s[0] == producer_id), default=-1
        )
        return [n for n in range(begin + 1, end) if isinstance(s := self.steps[n], TxnCommit) and s[0] == producer_id]


async def carry_out(broker: UnitBroker, step: Step, number: int) -> None:
    match step:
        case Commit(group_id, partition):
            assert commit(broker, {partition: number}, group_id=group_id) == [0]
        case TxnCommit(producer_id, group_id, partition):
            producer = Producer("t", producer_id)
            assert txn_commit(broker, producer, {partition: number}, group_id=group_id) == [0]
        case End(producer_id, is_commit):
            assert mark(broker, producer_id, commit=is_commit) == 0
        case Delete(group_id, partition):
            rows = [OffsetDeleteRequestPartition(partition_index=partition)]
            topics = [OffsetDeleteRequestTopic(name="orders", partitions=rows)]
            request = OffsetDeleteRequest(group_id=group_id, topics=topics)
            code = broker.ask(ApiKey.OFFSET_DELETE, 0, request).error_code
            assert code in (0, ErrorCode.GROUP_ID_NOT_FOUND)
        case Reload():
            broker.parts.replicas.resign_all()
            epoch = max(log.epochs.latest for log in broker.logs.logs()) + 1
            await broker.lead("orders", 3, epoch=epoch)
            await broker.lead(OFFSETS_TOPIC, epoch=epoch)
            await broker.settled()


def check(broker: UnitBroker, naive: Naive) -> None:
    visible, unstable = naive.visible(), naive.unstable()
    seen, stable = {}, {}
    for group_id in GROUPS:
        for topic in fetch(broker, *PARTITIONS, group_id=group_id).topics:
            seen |= {
                (group_id, row.partition_index): row.committed_offset
                for row in topic.partitions
                if row.committed_offset >= 0
            }
        stable |= {
            (group_id, index): row for index, row in stable_fetch(broker, *PARTITIONS, group_id=group_id).items()
        }
    assert seen == visible
    for key, (offset, code) in stable.items():
        expected = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT) if key in unstable else (visible.get(key, -1), 0)
        assert (offset, code) == expected


@settings(deadline=None, max_examples=examples(250))
@given(STEPS)
def test_visible_offsets_are_those_of_a_naive_reading(steps: list[Step]) -> None:
    async def run() -> None:
        async with a_cluster_of_one(UNVERIFIED) as broker:
            naive = Naive()
            for number, step in enumerate(steps):
                await carry_out(broker, step, number)
                naive.steps.append(step)
                check(broker, naive)
            for producer_id in PRODUCERS:
                naive.steps.append(End(producer_id, commit=False))
                await carry_out(broker, naive.steps[-1], 0)
            for group_id in GROUPS:
                for partition in PARTITIONS:
                    await carry_out(broker, Delete(group_id, partition), 0)
            # What is left is accounted for: nothing is kept of offsets that are gone.
            broker.parts.replicas.resign_all()
            assert broker.parts.groups.memory.held_bytes == 0

    asyncio.run(run())
