"""Members that speak the classic protocol in a consumer group (KIP-848), version by version."""

from __future__ import annotations

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.consumer_assignment import read_assignment
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.support.group_requests import a_coordinator, join, sync_request
from tests.support.unit_broker import UnitBroker


def a_consumer_group(broker: UnitBroker) -> None:
    """A group with one member of the consumer protocol, which has all partitions of `orders`."""
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="new",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    assert broker.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(6))
async def test_a_sync_names_its_protocol_from_version_5_on_and_before_that_none(version: int) -> None:
    async with a_coordinator() as broker:
        a_consumer_group(broker)
        joined = join(broker, "old")
        assert (joined.error_code, joined.member_id) == (ErrorCode.NONE, "old")
        request = sync_request(joined)
        if version >= 5:
            answer = broker.ask(ApiKey.SYNC_GROUP, version, request)
            assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            request.protocol_type, request.protocol_name = "consumer", "range"
        answer = broker.ask(ApiKey.SYNC_GROUP, version, request)
        assert (answer.error_code, read_assignment(answer.assignment)) == (ErrorCode.NONE, [])
        assert answer.protocol_name == ("range" if version >= 5 else None)


@pytest.mark.parametrize("protocol", [("connect", "range"), ("consumer", "sticky")])
async def test_a_sync_that_names_another_protocol_is_refused(protocol: tuple[str, str]) -> None:
    async with a_coordinator() as broker:
        a_consumer_group(broker)
        request = sync_request(join(broker, "old"))
        request.protocol_type, request.protocol_name = protocol
        answer = broker.ask(ApiKey.SYNC_GROUP, 5, request)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
