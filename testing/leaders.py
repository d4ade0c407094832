"""Moving the leadership of a partition: its replicas are put into another order, and the first one is elected."""

from __future__ import annotations

from typing import Any

from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from sordini.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from sordini.testing.own_client import KitError, OwnClient


def move_leader(client: OwnClient, topic: str, partition: int, to: int | None) -> int:
    """Let broker `to`, or the next replica in sync, lead a partition; returns the new leader. Raises KitError."""
    leader = client.leader(topic, partition)
    row = _row(client, topic, partition)
    able = [broker for broker in row.replica_nodes if broker in row.isr_nodes and broker != leader]
    if to is None:
        if not able:
            raise KitError(f"partition {partition} of topic {topic!r} has no other replica in sync than {leader}")
        to = able[0]
    if to == leader:
        return to
    if to not in able:
        raise KitError(f"broker {to} cannot lead partition {partition} of topic {topic!r}: in sync are {row.isr_nodes}")
    order = [to, *(broker for broker in row.replica_nodes if broker != to)]
    _reorder(client, topic, partition, order)

    def elect_and_check() -> bool | None:
        # Requested at each check: a replica in sync may have been out of the set as the last request came.
        request = ElectLeadersRequest(
            topic_partitions=[TopicPartitions(topic=topic, partitions=[partition])], timeout_ms=20_000
        )
        client.ask(request, client.metadata("").controller_id)
        return True if _row(client, topic, partition).leader_id == to else None

    client.wait(elect_and_check, f"broker {to} leads partition {partition} of topic {topic!r}")
    return to


def _row(client: OwnClient, topic: str, partition: int) -> Any:
    rows = client.metadata(topic).topics[0].partitions
    return next(row for row in rows if row.partition_index == partition)


def _reorder(client: OwnClient, topic: str, partition: int, order: list[int]) -> None:
    moved = ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=partition, replicas=order)])
    response = client.ask(
        AlterPartitionReassignmentsRequest(topics=[moved], timeout_ms=20_000), client.metadata("").controller_id
    )
    code = response.error_code or response.responses[0].partitions[0].error_code
    if code:
        raise KitError(f"the replicas of partition {partition} of topic {topic!r}: {ErrorCode(code).name}")
    client.wait(
        lambda: True if list(_row(client, topic, partition).replica_nodes) == order else None,
        f"the replicas of partition {partition} of topic {topic!r} are {order}",
    )
