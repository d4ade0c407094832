"""A heartbeat of a consumer group's member that arrives on a connection which its client has given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.outside.processes import SordiniProcess
from tests.support.wire_client import PATIENCE_S, Client

Start = Callable[..., SordiniProcess]
Connect = Callable[..., Client]

QUICK = {"offsets.topic.num.partitions": 1, "group.consumer.assignment.interval.ms": 0}
NOT_READY = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


def beat(client: Client, member: str, epoch: int) -> Any:
    whole: dict[str, Any] = {}
    if epoch == 0:
        whole = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"], "topic_partitions": []}
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch, **whole)
    return client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)


def partitions(answer: Any) -> list[int]:
    assert answer.error_code == 0
    return sorted(index for row in answer.assignment.topic_partitions for index in row.partitions)


def with_coordinator(broker: SordiniProcess, client: Client) -> None:
    """Make the topics, and wait until the group is coordinated."""
    assert client.create("orders", partitions=2) == [0]
    client.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["g"]))
    broker.wait_until(lambda: beat(client, "nobody", 1).error_code not in NOT_READY, PATIENCE_S, "coordinate the group")


def test_the_older_connection_is_closed_without_an_answer_and_the_newer_one_is_served(
    start_sordini: Start, connect: Connect
) -> None:
    broker = start_sordini(QUICK)
    other = connect(broker)
    with_coordinator(broker, other)
    abandoned, present = connect(broker), connect(broker)
    assert partitions(beat(abandoned, "a", 0)) == [0, 1]
    assert beat(present, "a", 2).error_code == 0
    assert partitions(beat(other, "b", 0)) == []
    with pytest.raises(ConnectionError, match="closed after 0 of 4 bytes"):
        beat(abandoned, "a", 0)
    assert beat(other, "b", 3).assignment is None, "nothing was given away"
    assert partitions(beat(present, "a", 2)) == [0]
    assert beat(connect(broker), "a", 2).error_code == 0, "a client that was disconnected connects again"


def test_the_delayed_join_is_served_where_the_setting_is_false(start_sordini: Start, connect: Connect) -> None:
    broker = start_sordini({**QUICK, "sordini.group.consumer.stale.connection.fencing.enable": "false"})
    other = connect(broker)
    with_coordinator(broker, other)
    abandoned, present = connect(broker), connect(broker)
    assert partitions(beat(present, "a", 0)) == [0, 1]
    assert partitions(beat(other, "b", 0)) == []
    assert partitions(beat(abandoned, "a", 0)) == [0]
    assert partitions(beat(other, "b", 3)) == [1], "which its former owner still reads"
