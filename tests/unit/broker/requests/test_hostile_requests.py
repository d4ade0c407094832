"""Requests of groups and administrators that are lawful in form and meant to hurt (docs/hostile-inputs.md)."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.broker.requests.request_checks import NAME_REPEATS_MAX
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from sordini.protocol.messages.describe_groups import DescribeGroupsRequest
from sordini.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from sordini.protocol.messages.join_group import JoinGroupRequestProtocol
from sordini.protocol.messages.list_groups import ListGroupsRequest
from sordini.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from sordini.protocol.primitives import STRING_BYTES_MAX
from tests.support.group_requests import (
    a_coordinator,
    a_stable_group,
    codes,
    commit,
    commit_request,
    committed,
    heartbeat,
    join,
    sync_request,
)
from tests.support.unit_broker import a_broker

TOPIC, BROKER = 2, 4
LONGEST = "x" * STRING_BYTES_MAX


def naming(mentions: int) -> dict[ApiKey, tuple[int, Any]]:
    """Requests that name one thing so often, each with a version."""
    group = OffsetFetchRequestGroup(group_id="g", topics=None)
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name="orders")
    return {
        ApiKey.DESCRIBE_GROUPS: (5, DescribeGroupsRequest(groups=["g"] * mentions)),
        ApiKey.OFFSET_FETCH: (8, OffsetFetchRequest(groups=[group] * mentions)),
        ApiKey.DESCRIBE_CONFIGS: (4, DescribeConfigsRequest(resources=[resource] * mentions)),
        ApiKey.DESCRIBE_PRODUCERS: (
            0,
            DescribeProducersRequest(topics=[TopicRequest(name="orders", partition_indexes=[0] * mentions)]),
        ),
    }


def reported(key: ApiKey, answer: Any) -> list[int]:
    """The error code of each mention."""
    rows = {
        ApiKey.DESCRIBE_GROUPS: lambda: answer.groups,
        ApiKey.OFFSET_FETCH: lambda: answer.groups,
        ApiKey.DESCRIBE_CONFIGS: lambda: answer.results,
        ApiKey.DESCRIBE_PRODUCERS: lambda: answer.topics[0].partitions,
    }
    return [row.error_code for row in rows[key]()]


@pytest.mark.parametrize("key", naming(1))
async def test_a_request_that_names_one_thing_again_and_again_is_refused_as_a_whole(key: ApiKey) -> None:
    async with a_coordinator() as broker:
        a_stable_group(broker)
        version, request = naming(NAME_REPEATS_MAX)[key]
        assert reported(key, broker.ask(key, version, request)) == [0] * NAME_REPEATS_MAX
        _, request = naming(NAME_REPEATS_MAX + 1)[key]
        assert reported(key, broker.ask(key, version, request)) == [ErrorCode.INVALID_REQUEST] * (NAME_REPEATS_MAX + 1)


@pytest.mark.parametrize("version", [1, 4])
async def test_a_message_that_would_quote_more_than_a_string_holds_is_cut(version: int) -> None:
    async with a_broker() as broker:
        resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=LONGEST)
        answer = broker.ask(ApiKey.DESCRIBE_CONFIGS, version, DescribeConfigsRequest(resources=[resource]))
        (row,) = answer.results
        assert (row.error_code, row.resource_name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, LONGEST)
        assert row.error_message.endswith("xxx...")


@pytest.mark.parametrize("name", ["2", "0", "1" * 5_000])
async def test_a_broker_named_by_digits_without_end_is_another_broker(name: str) -> None:
    async with a_broker() as broker:
        resources = [DescribeConfigsResource(resource_type=BROKER, resource_name=one) for one in (name, "1", "001")]
        answer = broker.ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=resources))
        assert reported(ApiKey.DESCRIBE_CONFIGS, answer) == [ErrorCode.INVALID_REQUEST, 0, 0]
        assert broker.log.at("error") == []


async def test_a_retention_past_the_largest_timestamp_keeps_records_forever() -> None:
    async with a_coordinator() as broker:
        request = commit_request({0: 5}, retention_time_ms=2**63 - 1)
        assert codes(broker.ask(ApiKey.OFFSET_COMMIT, 4, request)) == [0]
        assert [held.expires_ms for _, held in broker.parts.groups.offsets("g").items()] == [2**63 - 1]


async def test_assignments_for_unknown_members_and_duplicates_harm_no_member() -> None:
    async with a_coordinator() as broker:
        joined = join(broker)
        given = {
            "": b"x",
            "unknown": b"y",
            **{f"../{number}": b"z" for number in range(1_000)},
            joined.member_id: b"own",
        }
        assert broker.ask(ApiKey.SYNC_GROUP, 2, sync_request(joined, **given)).assignment == b"own"
        group = broker.parts.groups.group("g")
        assert group is not None
        assert [(member.member_id, member.assignment) for member in group.members.values()] == [
            (joined.member_id, b"own")
        ]


async def test_protocols_without_number_name_or_meaning_are_one_members_own_affair() -> None:
    async with a_coordinator() as broker:
        other = a_stable_group(broker, "other")
        many = [JoinGroupRequestProtocol(name=f"p{number}", metadata=b"\xff" * 9) for number in range(10_000)]
        joined = join(broker, protocols=[*many, JoinGroupRequestProtocol(), JoinGroupRequestProtocol()])
        assert (joined.error_code, joined.protocol_name) == (0, "p0")
        answer = broker.ask(ApiKey.SYNC_GROUP, 2, sync_request(joined))
        assert answer.error_code == 0
        assert heartbeat(broker, other, "other") == 0


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", ".", "a\nb", "\x00", "\x1b[1A", LONGEST])
async def test_a_group_id_is_a_key_and_never_a_path(name: str) -> None:
    async with a_coordinator() as broker:
        files = set(broker.disk.tree())
        assert commit(broker, {0: 5}, group_id=name) == [0]
        assert committed(broker, name) == {("orders", 0): 5}
        assert set(broker.disk.tree()) == files
        listed = broker.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest()).groups
        assert [group.group_id for group in listed] == [name]


async def test_offsets_of_partitions_that_are_not_there_are_refused_one_by_one() -> None:
    async with a_coordinator() as broker:
        offsets = {index - 100: 1 for index in range(10_000)}
        answered = commit(broker, offsets)
        assert [index for index, code in zip(offsets, answered, strict=True) if code == 0] == [0, 1, 2]
        assert set(answered) == {0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert len(committed(broker)) == 3
