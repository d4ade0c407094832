"""OffsetCommit, OffsetFetch and OffsetDelete, version by version."""

from __future__ import annotations

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sordini.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from sordini.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.support.group_requests import (
    a_coordinator,
    a_stable_group,
    codes,
    commit,
    commit_request,
    committed,
    fetch,
    join,
    leave,
    old_fetch,
)
from tests.support.unit_broker import UnitBroker, topic_id_of


@pytest.mark.parametrize("version", range(10))
async def test_every_version_fetches_commits_of_every_version(version: int) -> None:
    async with a_coordinator() as broker:
        request = commit_request({0: 5})
        request.topics[0].partitions[0].committed_metadata = "a note"
        request.topics[0].partitions[0].committed_leader_epoch = 3
        assert codes(broker.ask(ApiKey.OFFSET_COMMIT, version, request)) == [0]
        epoch = 3 if version >= 6 else -1
        for old in range(8):
            [row] = old_fetch(broker, old, 0).topics[0].partitions
            assert (row.committed_offset, row.metadata, row.error_code) == (5, "a note", 0)
            assert row.committed_leader_epoch == (epoch if old >= 5 else -1)
        [row] = fetch(broker, 0).topics[0].partitions
        assert (row.committed_offset, row.committed_leader_epoch, row.metadata) == (5, epoch, "a note")


async def test_version_1_has_a_commit_time() -> None:
    async with a_coordinator() as broker:
        request = commit_request({0: 5, 1: 6})
        request.topics[0].partitions[0].commit_timestamp = 4_711
        broker.ask(ApiKey.OFFSET_COMMIT, 1, request)
        times = [held.committed_ms for _, held in broker.parts.groups.offsets("g").items()]
        assert times == [4_711, broker.clock.ms]


async def test_offsets_are_for_partitions_that_exist() -> None:
    async with a_coordinator() as broker:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert commit(broker, {0: 1, 9: 1}) == [0, unknown]
        assert commit(broker, {0: 1}, topic="ghost") == [unknown]
        assert committed(broker) == {("orders", 0): 1}
        broker.parts.replicas.resign_all()
        assert commit(broker, {9: 1}) == [unknown]
        assert commit(broker, {0: 1, 9: 1}) == [ErrorCode.NOT_COORDINATOR, unknown]


async def test_too_long_metadata_is_refused_and_other_offsets_are_committed() -> None:
    async with a_coordinator({"offset.metadata.max.bytes": "4"}) as broker:
        request = commit_request({0: 1, 1: 2, 2: 3})
        for partition, note in zip(request.topics[0].partitions, ("four", "ffünf", None), strict=True):
            partition.committed_metadata = note
        assert codes(broker.ask(ApiKey.OFFSET_COMMIT, 8, request)) == [0, ErrorCode.OFFSET_METADATA_TOO_LARGE, 0]
        assert committed(broker) == {("orders", 0): 1, ("orders", 2): 3}
        [row] = fetch(broker, 2).topics[0].partitions
        assert row.metadata == ""


async def test_a_simple_consumer_may_have_no_group_name() -> None:
    async with a_coordinator() as broker:
        assert commit(broker, {0: 1}, group_id="") == [0]
        assert committed(broker, "") == {("orders", 0): 1}


async def test_topics_are_named_by_their_ids_from_version_10_on() -> None:
    async with a_coordinator() as broker:
        known, ghost = topic_id_of("orders"), topic_id_of("ghost")
        topics = [
            OffsetCommitRequestTopic(
                topic_id=topic_id, partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=8)]
            )
            for topic_id in (known, ghost)
        ]
        answer = broker.ask(ApiKey.OFFSET_COMMIT, 10, OffsetCommitRequest(group_id="g", topics=topics))
        assert [topic.topic_id for topic in answer.topics] == [known, ghost]
        assert codes(answer) == [0, ErrorCode.UNKNOWN_TOPIC_ID]
        wanted = [OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0]) for topic_id in (known, ghost)]
        groups = [
            OffsetFetchRequestGroup(group_id="g", topics=wanted),
            OffsetFetchRequestGroup(group_id="g", topics=None),
        ]
        named, everything = broker.ask(ApiKey.OFFSET_FETCH, 10, OffsetFetchRequest(groups=groups)).groups
        rows = [
            (topic.topic_id, topic.partitions[0].committed_offset, topic.partitions[0].error_code)
            for topic in named.topics
        ]
        assert rows == [(known, 8, 0), (ghost, -1, ErrorCode.UNKNOWN_TOPIC_ID)]
        assert [topic.topic_id for topic in everything.topics] == [known]


async def test_what_was_never_committed_is_minus_one() -> None:
    async with a_coordinator() as broker:
        for group_id in ("g", "ghost"):
            [row] = fetch(broker, 1, group_id=group_id, topic="anything").topics[0].partitions
            assert (row.committed_offset, row.committed_leader_epoch, row.metadata, row.error_code) == (
                -1,
                -1,
                "",
                0,
            )
            [row] = old_fetch(broker, 0, 1, group_id=group_id).topics[0].partitions
            assert (row.committed_offset, row.error_code) == (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            [row] = old_fetch(broker, 1, 1, group_id=group_id).topics[0].partitions
            assert (row.committed_offset, row.error_code) == (-1, 0)


async def test_many_groups_are_fetched_together() -> None:
    async with a_coordinator() as broker:
        commit(broker, {0: 1}, group_id="a")
        commit(broker, {1: 2}, group_id="b")
        groups = [
            OffsetFetchRequestGroup(group_id="a", topics=None),
            OffsetFetchRequestGroup(group_id="b", member_id="m", member_epoch=3, topics=None),
            OffsetFetchRequestGroup(group_id="c", topics=[]),
        ]
        answer = broker.ask(ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=groups, require_stable=True))
        rows = [
            [
                (partition.partition_index, partition.committed_offset)
                for topic in group.topics
                for partition in topic.partitions
            ]
            for group in answer.groups
        ]
        assert rows == [[(0, 1)], [(1, 2)], []]


@pytest.mark.parametrize("version", range(11))
async def test_an_error_of_the_group_is_in_the_field_that_the_version_has(version: int) -> None:
    async with a_coordinator() as broker:
        broker.parts.replicas.resign_all()
        if version >= 8:
            groups = [OffsetFetchRequestGroup(group_id="g", topics=None)]
            [group] = broker.ask(ApiKey.OFFSET_FETCH, version, OffsetFetchRequest(groups=groups)).groups
            assert (group.error_code, group.topics) == (ErrorCode.NOT_COORDINATOR, [])
            return
        answer = old_fetch(broker, version, 0, 1)
        rows = [partition.error_code for topic in answer.topics for partition in topic.partitions]
        assert rows == [ErrorCode.NOT_COORDINATOR] * 2
        assert answer.error_code == (ErrorCode.NOT_COORDINATOR if version >= 2 else 0)


def delete_offsets(
    broker: UnitBroker, *indexes: int, topic: str = "orders", group_id: str = "g"
) -> tuple[int, list[int]]:
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
    request = OffsetDeleteRequest(
        group_id=group_id, topics=[OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
    )
    answer = broker.ask(ApiKey.OFFSET_DELETE, 0, request)
    return answer.error_code, codes(answer)


async def test_unused_offsets_are_deleted() -> None:
    async with a_coordinator() as broker:
        await broker.lead("bills")
        joined = a_stable_group(broker)
        commit(broker, {0: 1}, joined)
        commit(broker, {0: 2}, joined, topic="bills")
        assert delete_offsets(broker, 0) == (0, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])
        assert delete_offsets(broker, 0, 5, topic="bills") == (0, [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
        assert committed(broker) == {("orders", 0): 1}
        leave(broker, joined)
        assert delete_offsets(broker, 0) == (0, [0])
        assert broker.parts.groups.groups() == []


async def test_offsets_in_use_or_unknown_are_not_deleted() -> None:
    async with a_coordinator() as broker:
        assert delete_offsets(broker, 0, topic="ghost") == (0, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
        assert delete_offsets(broker, 0) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
        assert delete_offsets(broker, 0, group_id="") == (ErrorCode.INVALID_GROUP_ID, [])
        join(broker, group_id="workers", protocol_type="connect")
        assert delete_offsets(broker, 0, group_id="workers") == (ErrorCode.NON_EMPTY_GROUP, [])
        commit(broker, {0: 1})
        broker.disk.fail_while(lambda kind, _path: kind == "write", 28)
        assert delete_offsets(broker, 0) == (ErrorCode.NOT_COORDINATOR, [])
        assert committed(broker) == {("orders", 0): 1}
