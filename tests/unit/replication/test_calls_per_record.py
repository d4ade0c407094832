"""What one record costs in Python calls where three replicas keep it: counts, which no load of the machine changes."""

from __future__ import annotations

from itertools import count

from sordini.protocol.types import BrokerId
from sordini.testing.simulation.virtual_loop import SimLoop
from tests.support.builders import a_batch
from tests.support.replica_pair import in_virtual_time
from tests.support.three_replicas import (
    ALL,
    LEADER,
    PRODUCE_VERSION,
    CallCounter,
    ReplicatedPartition,
    produce,
)

RECORDS = 40
LEADER_CALLS_MAX = 120
LEADER_CALLS_OF_FOUR_MAX = 222
"""With four partitions in the followers' sessions: a row for the record, and one for the last one's high watermark."""
FOLLOWER_CALLS_MAX = 30


def calls_per_record(partitions: int = 1) -> dict[BrokerId, float]:
    """With acks=all, one record at a time, to one partition after the other: by broker."""
    measured: dict[BrokerId, float] = {}

    async def main(loop: SimLoop) -> None:
        partition = ReplicatedPartition(loop, partitions)
        turn = count()
        await partition.start()
        client = await partition.connect()

        async def produce_one() -> None:
            answer = await client.send(produce(a_batch(1), next(turn) % partitions), PRODUCE_VERSION, 5_000)
            ((row,),) = (topic.partition_responses for topic in answer.responses)
            assert row.error_code == 0
            await partition.settled()

        for _ in range(10):
            await produce_one()
        counter = CallCounter()
        with counter.counting():
            for _ in range(RECORDS):
                await produce_one()
        for broker_id in ALL:
            logs = [partition.replicas[broker_id].partition(*name).log for name in partition.names]
            assert sum(log.log_end_offset for log in logs) == RECORDS + 10
        measured.update({each: counter.total(partition.processes[each]) / RECORDS for each in ALL})
        await partition.close()

    in_virtual_time(main)
    return measured


def test_a_record_costs_the_leader_and_its_followers_few_calls() -> None:
    calls = calls_per_record()
    leader = calls.pop(LEADER)
    assert leader <= LEADER_CALLS_MAX
    assert max(calls.values()) <= FOLLOWER_CALLS_MAX


def test_a_record_for_one_of_several_partitions_is_read_once_for_each_follower() -> None:
    assert calls_per_record(partitions=4)[LEADER] <= LEADER_CALLS_OF_FOUR_MAX
