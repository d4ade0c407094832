"""Rules in front of handlers: what a peer may not do is refused, the rest is served, and no API is forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.network.principal import Principal
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    txn_offset_commit,
)
from sordini.protocol.served_apis import ALL_APIS, TELEMETRY_APIS
from sordini.replication.metadata_store.acl_model import (
    CLUSTER_NAME,
    AclEntry,
    AclOperation,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tests.support.builders import a_batch, an_idempotent_batch
from tests.support.routes import rules
from tests.support.unit_broker import UnitBroker, a_broker, answer_of, read_answer, topic_id_of

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:root",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "auto.create.topics.enable": "false",
}
Op, Kind = AclOperation, ResourceType
NO_TOPIC, NO_GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_CLUSTER, NO_ID = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@asynccontextmanager
async def guarded(**settings: str) -> AsyncIterator[UnitBroker]:
    """Two topics; the peer is alice, who has no entries yet."""
    async with a_broker({**SETTINGS, **settings}) as broker:
        for topic in ("open", "shut", "__consumer_offsets", "__transaction_state"):
            await broker.lead(topic)
        broker.peer.principal = Principal("User", "alice")
        yield broker


def allow(broker: UnitBroker, kind: ResourceType, name: str, *operations: AclOperation) -> None:
    acls = broker.parts.security.acls
    assert acls is not None
    entries = frozenset(AclEntry("User:alice", "*", one, Permission.ALLOW) for one in operations)
    acls.authorizer.set(ResourcePattern(kind, name), entries)


async def answered(broker: UnitBroker, key: ApiKey, version: int, request: Any) -> Any:
    parts = broker.serve(key, version, request)
    if isinstance(parts, DelayedResponse):
        while not parts.is_answered:
            while broker.parts.dispatcher.slices.waiting:
                broker.parts.dispatcher.slices.run_slice()
            await broker.run_round()
        return answer_of(parts, key, version)
    assert parts is not None
    return read_answer(key, version, parts)


def test_every_api_has_its_rule() -> None:
    assert rules().keys() == ALL_APIS.keys()


def codes(message: Any) -> set[int]:
    """All error codes in a message."""
    found: set[int] = set()
    slots = [name for cls in type(message).__mro__ for name in getattr(cls, "__slots__", ())]
    for name in slots:
        value = getattr(message, name)
        if name.endswith("error_code"):
            found.add(value)
        for one in value if isinstance(value, list) else [value]:
            if hasattr(type(one), "__slots__") and not isinstance(one, int | str | bytes | memoryview):
                found |= codes(one)
    return found


def produce_of(*topics: str, acks: int = 1, transactional_id: str | None = None, batch: Any = None) -> Any:
    data = batch or a_batch()
    return produce.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1_000,
        topic_data=[
            produce.TopicProduceData(
                name=name, partition_data=[produce.PartitionProduceData(index=0, records=bytes(data))]
            )
            for name in topics
        ],
    )


def fetch_of(*topics: str, **changes: Any) -> Any:
    rows = [
        fetch.FetchTopic(topic=name, partitions=[fetch.FetchPartition(partition=0, partition_max_bytes=1_000)])
        for name in topics
    ]
    given: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 10_000, "session_epoch": -1, "topics": rows}
    return fetch.FetchRequest(**(given | changes))


TOPIC = "shut"
CASES: list[tuple[ApiKey, int, Any, set[int]]] = [
    (ApiKey.PRODUCE, 9, produce_of(TOPIC), {NO_TOPIC}),
    (ApiKey.FETCH, 11, fetch_of(TOPIC), {NO_TOPIC, 0}),
    (ApiKey.FETCH, 11, fetch_of(TOPIC, replica_id=2), {NO_TOPIC, 0}),
    (
        ApiKey.LIST_OFFSETS,
        5,
        list_offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=[list_offsets.ListOffsetsTopic(name=TOPIC, partitions=[list_offsets.ListOffsetsPartition()])],
        ),
        {NO_TOPIC},
    ),
    (
        ApiKey.METADATA,
        9,
        metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=TOPIC)]),
        {NO_TOPIC},
    ),
    (
        ApiKey.OFFSET_COMMIT,
        8,
        offset_commit.OffsetCommitRequest(
            group_id="g",
            topics=[
                offset_commit.OffsetCommitRequestTopic(
                    name=TOPIC, partitions=[offset_commit.OffsetCommitRequestPartition()]
                )
            ],
        ),
        {NO_GROUP},
    ),
    (ApiKey.OFFSET_FETCH, 7, offset_fetch.OffsetFetchRequest(group_id="g", topics=None), {NO_GROUP}),
    (
        ApiKey.OFFSET_FETCH,
        8,
        offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)]),
        {NO_GROUP},
    ),
    (ApiKey.FIND_COORDINATOR, 3, find_coordinator.FindCoordinatorRequest(key="g", key_type=0), {NO_GROUP}),
    (ApiKey.FIND_COORDINATOR, 3, find_coordinator.FindCoordinatorRequest(key="t", key_type=1), {NO_ID}),
    (ApiKey.FIND_COORDINATOR, 4, find_coordinator.FindCoordinatorRequest(coordinator_keys=["g"]), {NO_GROUP, 0}),
    (ApiKey.HEARTBEAT, 4, heartbeat.HeartbeatRequest(group_id="g", member_id="m"), {NO_GROUP}),
    (ApiKey.DESCRIBE_GROUPS, 5, describe_groups.DescribeGroupsRequest(groups=["g"]), {NO_GROUP}),
    (ApiKey.DELETE_GROUPS, 2, delete_groups.DeleteGroupsRequest(groups_names=["g"]), {NO_GROUP}),
    (
        ApiKey.CREATE_TOPICS,
        5,
        create_topics.CreateTopicsRequest(
            topics=[create_topics.CreatableTopic(name="new", num_partitions=1, replication_factor=1)]
        ),
        {NO_TOPIC, 0},
    ),
    (ApiKey.DELETE_TOPICS, 5, delete_topics.DeleteTopicsRequest(topic_names=[TOPIC]), {NO_TOPIC}),
    (
        ApiKey.DELETE_TOPICS,
        6,
        delete_topics.DeleteTopicsRequest(topics=[delete_topics.DeleteTopicState(topic_id=topic_id_of(TOPIC))]),
        {NO_TOPIC},
    ),
    (
        ApiKey.CREATE_PARTITIONS,
        3,
        create_partitions.CreatePartitionsRequest(
            topics=[create_partitions.CreatePartitionsTopic(name=TOPIC, count=2)]
        ),
        {NO_TOPIC},
    ),
    (
        ApiKey.DELETE_RECORDS,
        2,
        delete_records.DeleteRecordsRequest(
            topics=[delete_records.DeleteRecordsTopic(name=TOPIC, partitions=[delete_records.DeleteRecordsPartition()])]
        ),
        {NO_TOPIC},
    ),
    (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        describe_configs.DescribeConfigsRequest(
            resources=[
                describe_configs.DescribeConfigsResource(resource_type=2, resource_name=TOPIC),
                describe_configs.DescribeConfigsResource(resource_type=4, resource_name="1"),
                describe_configs.DescribeConfigsResource(resource_type=32, resource_name="g"),
            ]
        ),
        {NO_TOPIC, NO_CLUSTER, NO_GROUP},
    ),
    (
        ApiKey.ALTER_CONFIGS,
        2,
        alter_configs.AlterConfigsRequest(
            resources=[alter_configs.AlterConfigsResource(resource_type=2, resource_name=TOPIC)]
        ),
        {NO_TOPIC},
    ),
    (
        ApiKey.ALTER_CONFIGS,
        2,
        alter_configs.AlterConfigsRequest(
            resources=[alter_configs.AlterConfigsResource(resource_type=32, resource_name="g")]
        ),
        {NO_GROUP},
    ),
    (ApiKey.INIT_PRODUCER_ID, 4, init_producer_id.InitProducerIdRequest(transactional_id=None), {NO_CLUSTER}),
    (ApiKey.INIT_PRODUCER_ID, 4, init_producer_id.InitProducerIdRequest(transactional_id="t"), {NO_ID}),
    (
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="t",
            v3_and_below_topics=[add_partitions_to_txn.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        ),
        {NO_ID},
    ),
    (ApiKey.ADD_PARTITIONS_TO_TXN, 4, add_partitions_to_txn.AddPartitionsToTxnRequest(), {NO_CLUSTER}),
    (ApiKey.ADD_OFFSETS_TO_TXN, 3, add_offsets_to_txn.AddOffsetsToTxnRequest(transactional_id="t"), {NO_ID}),
    (ApiKey.END_TXN, 3, end_txn.EndTxnRequest(transactional_id="t"), {NO_ID}),
    (
        ApiKey.TXN_OFFSET_COMMIT,
        3,
        txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id="t",
            group_id="g",
            topics=[
                txn_offset_commit.TxnOffsetCommitRequestTopic(
                    name=TOPIC, partitions=[txn_offset_commit.TxnOffsetCommitRequestPartition()]
                )
            ],
        ),
        {NO_ID},
    ),
    (
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        3,
        offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    topic=TOPIC, partitions=[offset_for_leader_epoch.OffsetForLeaderPartition()]
                )
            ],
        ),
        {NO_TOPIC},
    ),
    (
        ApiKey.OFFSET_DELETE,
        0,
        offset_delete.OffsetDeleteRequest(
            group_id="g", topics=[offset_delete.OffsetDeleteRequestTopic(name=TOPIC, partitions=[])]
        ),
        {NO_GROUP},
    ),
    (
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        describe_producers.DescribeProducersRequest(
            topics=[describe_producers.TopicRequest(name=TOPIC, partition_indexes=[0])]
        ),
        {NO_TOPIC},
    ),
    (
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        describe_transactions.DescribeTransactionsRequest(transactional_ids=["t"]),
        {NO_ID},
    ),
    (
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[describe_topic_partitions.TopicRequest(name=TOPIC)]
        ),
        {NO_TOPIC},
    ),
]


@pytest.mark.parametrize(("key", "version", "request_", "expected"), CASES, ids=[f"{c[0].name}-{c[1]}" for c in CASES])
async def test_without_an_entry_everything_is_refused(
    key: ApiKey, version: int, request_: Any, expected: set[int]
) -> None:
    async with guarded() as broker:
        assert codes(await answered(broker, key, version, request_)) - {0} == expected - {0}


@pytest.mark.parametrize(
    "key",
    [
        key
        for key, rule in rules().items()
        if rule is not None and key not in {ApiKey.DESCRIBE_CLUSTER, *TELEMETRY_APIS, *(case[0] for case in CASES)}
    ],
    ids=lambda key: key.name,
)
async def test_an_empty_request_of_any_other_api_is_refused_or_answered_with_nothing(key: ApiKey) -> None:
    async with guarded() as broker:
        api = ALL_APIS[key]
        version = max(api.min_version, min(3, api.max_version))
        response = await answered(broker, key, version, api.request())
        refused = {NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_ID}
        lists = [value for value in (getattr(response, name, None) for name in _slots(response)) if value]
        assert codes(response) & refused or not any(isinstance(value, list) for value in lists), response


def _slots(message: Any) -> list[str]:
    return [name for cls in type(message).__mro__ for name in getattr(cls, "__slots__", ())]


async def test_of_several_topics_those_are_served_that_are_allowed_and_each_has_its_row() -> None:
    async with guarded() as broker:
        allow(broker, Kind.TOPIC, "open", Op.WRITE, Op.READ)
        response = await answered(broker, ApiKey.PRODUCE, 9, produce_of("open", "shut"))
        assert {row.name: row.partition_responses[0].error_code for row in response.responses} == {
            "open": 0,
            "shut": NO_TOPIC,
        }
        response = await answered(broker, ApiKey.FETCH, 11, fetch_of("shut", "open"))
        assert {row.topic: row.partitions[0].error_code for row in response.responses} == {"open": 0, "shut": NO_TOPIC}
        request = metadata.MetadataRequest(topics=None, include_topic_authorized_operations=True)
        response = await answered(broker, ApiKey.METADATA, 9, request)
        operations = 1 << Op.WRITE | 1 << Op.READ | 1 << Op.DESCRIBE
        assert [(row.name, row.topic_authorized_operations) for row in response.topics] == [("open", operations)]


@pytest.mark.parametrize("version", [0, 1, 9])
async def test_all_topics_are_those_that_the_peer_may_describe(version: int) -> None:
    async with guarded() as broker:
        topics: Any = [] if version == 0 else None
        for allowed in ([], ["open"]):
            for name in allowed:
                allow(broker, Kind.TOPIC, name, Op.DESCRIBE)
            response = await answered(broker, ApiKey.METADATA, version, metadata.MetadataRequest(topics=topics))
            assert [row.name for row in response.topics] == allowed
            assert response.brokers


def about_a_new_topic(*, creates: bool) -> metadata.MetadataRequest:
    return metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(name="new")], allow_auto_topic_creation=creates
    )


async def test_a_topic_is_not_created_for_a_peer_that_may_only_describe_it() -> None:
    async with guarded(**{"auto.create.topics.enable": "true"}) as broker:
        allow(broker, Kind.TOPIC, "new", Op.DESCRIBE)
        asked = about_a_new_topic(creates=True)
        assert codes(await answered(broker, ApiKey.METADATA, 9, asked)) - {0} == {NO_TOPIC}
        unknown = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        asked = about_a_new_topic(creates=False)
        assert codes(await answered(broker, ApiKey.METADATA, 9, asked)) - {0} == unknown


async def test_where_no_topics_are_created_no_permission_to_create_is_needed() -> None:
    async with guarded() as broker:
        allow(broker, Kind.TOPIC, "new", Op.DESCRIBE)
        asked = about_a_new_topic(creates=True)
        assert codes(await answered(broker, ApiKey.METADATA, 9, asked)) - {0} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_a_broker_that_does_not_know_the_topics_yet_refuses_none_of_them() -> None:
    """It creates none either; a producer takes TOPIC_AUTHORIZATION_FAILED for fatal."""
    async with guarded(**{"auto.create.topics.enable": "true"}) as broker:
        allow(broker, Kind.TOPIC, "new", Op.DESCRIBE)
        broker.parts.metadata.awaits_first_topics = True
        asked = about_a_new_topic(creates=True)
        assert codes(await answered(broker, ApiKey.METADATA, 9, asked)) - {0} == {ErrorCode.LEADER_NOT_AVAILABLE}


async def test_a_repeated_produce_is_refused_from_the_change_of_the_entries_on_and_for_another_peer_always() -> None:
    """The second request is served in the prepared way."""
    async with guarded() as broker:
        allow(broker, Kind.TOPIC, "open", Op.WRITE)
        for _ in range(3):
            assert codes(await answered(broker, ApiKey.PRODUCE, 9, produce_of("open"))) == {0}
        assert broker.parts.dispatcher.prepared.by_prefix
        alice = broker.peer.principal
        broker.peer.principal = Principal("User", "mallory")
        assert codes(await answered(broker, ApiKey.PRODUCE, 9, produce_of("open"))) == {NO_TOPIC}
        broker.peer.principal = alice
        assert codes(await answered(broker, ApiKey.PRODUCE, 9, produce_of("open"))) == {0}
        allow(broker, Kind.TOPIC, "open", Op.READ)
        assert codes(await answered(broker, ApiKey.PRODUCE, 9, produce_of("open"))) == {NO_TOPIC}


async def test_a_refused_produce_without_acks_closes_the_connection() -> None:
    async with guarded() as broker:
        with pytest.raises(WireError, match="refused"):
            broker.serve(ApiKey.PRODUCE, 9, produce_of("shut", acks=0))


async def test_transactional_batches_need_the_transactional_id_whatever_else_is_allowed() -> None:
    """CVE-2018-17196: the batch counts, not only the request."""
    async with guarded() as broker:
        allow(broker, Kind.TOPIC, "open", Op.WRITE)
        batch = an_idempotent_batch(transactional=True)
        request = produce_of("open", transactional_id="t", batch=batch)
        assert codes(await answered(broker, ApiKey.PRODUCE, 9, request)) == {NO_ID}


def rows_of(response: Any) -> dict[str, int]:
    return {topic.topic: topic.partitions[0].error_code for topic in response.responses}


async def test_a_fetch_session_repeats_what_may_not_be_read_and_reads_it_once_it_may_be() -> None:
    async with guarded() as broker:
        allow(broker, Kind.TOPIC, "open", Op.READ)
        opened = await answered(broker, ApiKey.FETCH, 11, fetch_of("open", "shut", session_epoch=0))
        assert opened.session_id
        assert rows_of(opened) == {"open": 0, "shut": NO_TOPIC}
        following = fetch_of(session_id=opened.session_id, session_epoch=1)
        assert rows_of(await answered(broker, ApiKey.FETCH, 11, following))["shut"] == NO_TOPIC
        allow(broker, Kind.TOPIC, "shut", Op.READ)
        following.session_epoch = 2
        assert rows_of(await answered(broker, ApiKey.FETCH, 11, following)) == {"shut": 0}


async def test_a_fetch_session_keeps_the_topics_that_may_no_longer_be_read() -> None:
    async with guarded() as broker:
        allow(broker, Kind.TOPIC, "open", Op.READ)
        opened = await answered(broker, ApiKey.FETCH, 11, fetch_of("open", session_epoch=0))
        following = fetch_of(session_id=opened.session_id, session_epoch=1)
        allow(broker, Kind.TOPIC, "open", Op.WRITE)
        for following.session_epoch in (1, 2):
            refused = await answered(broker, ApiKey.FETCH, 11, following)
            assert (refused.error_code, rows_of(refused)) == (0, {"open": NO_TOPIC})
        allow(broker, Kind.TOPIC, "open", Op.READ)
        following.session_epoch = 3
        assert rows_of(await answered(broker, ApiKey.FETCH, 11, following)) == {"open": 0}


async def test_a_fetch_session_forgets_a_topic_that_may_not_be_read_when_its_client_does() -> None:
    async with guarded() as broker:
        allow(broker, Kind.TOPIC, "open", Op.READ)
        opened = await answered(broker, ApiKey.FETCH, 11, fetch_of("open", "shut", session_epoch=0))
        sessions = broker.parts.fetch_sessions
        assert sessions.partitions == 2
        following = fetch_of(session_id=opened.session_id, session_epoch=1)
        following.forgotten_topics_data = [fetch.ForgottenTopic(topic="shut", partitions=[0])]
        assert "shut" not in rows_of(await answered(broker, ApiKey.FETCH, 11, following))
        assert sessions.partitions == 1


async def test_a_fetch_with_another_epoch_than_its_sessions_gets_no_rows_of_topics_that_may_not_be_read() -> None:
    async with guarded() as broker:
        allow(broker, Kind.TOPIC, "open", Op.READ)
        opened = await answered(broker, ApiKey.FETCH, 11, fetch_of("open", "shut", session_epoch=0))
        refused = await answered(broker, ApiKey.FETCH, 11, fetch_of(session_id=opened.session_id, session_epoch=9))
        assert (refused.error_code, refused.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])


async def test_a_topic_that_a_fetch_session_knew_by_an_unknown_id_is_checked_once_it_has_a_name() -> None:
    async with guarded() as broker:
        acls = broker.parts.security.acls
        assert acls is not None
        allow(broker, Kind.TOPIC, "*", Op.READ)
        denied = AclEntry("User:alice", "*", Op.READ, Permission.DENY)
        acls.authorizer.set(ResourcePattern(Kind.TOPIC, "late"), frozenset({denied}))
        rows = [
            fetch.FetchTopic(topic_id=topic_id_of(name), partitions=[fetch.FetchPartition()])
            for name in ("open", "late")
        ]
        opened = await answered(broker, ApiKey.FETCH, 13, fetch_of(session_epoch=0, topics=rows))
        following = fetch_of(session_id=opened.session_id, session_epoch=1)
        assert codes(await answered(broker, ApiKey.FETCH, 13, following)) == {0, ErrorCode.UNKNOWN_TOPIC_ID}
        await broker.lead("late")
        following.session_epoch = 2
        assert codes(await answered(broker, ApiKey.FETCH, 13, following)) == {0, NO_TOPIC}


async def test_a_session_with_topics_that_may_not_be_read_is_not_served_in_the_prepared_way() -> None:
    async with guarded() as broker:
        allow(broker, Kind.TOPIC, "open", Op.READ)
        opened = await answered(broker, ApiKey.FETCH, 11, fetch_of("open", session_epoch=0))
        epochs = iter(range(1, 9))

        async def asked(*names: str) -> dict[str, int]:
            request = fetch_of(*names, session_id=opened.session_id, session_epoch=next(epochs))
            request.max_wait_ms, request.min_bytes = 500, 1
            pending = broker.serve(ApiKey.FETCH, 11, request)
            assert isinstance(pending, DelayedResponse)
            broker.timers.fire()
            return rows_of(answer_of(pending, ApiKey.FETCH, 11))

        for _ in range(3):
            assert await asked("open") == {}
        assert broker.parts.dispatcher.prepared.by_prefix
        assert await asked("shut") == {"shut": NO_TOPIC}
        for _ in range(2):
            assert await asked("open") == {"shut": NO_TOPIC}


async def test_an_idempotent_producer_needs_any_topic_that_it_may_write_to() -> None:
    async with guarded() as broker:
        request = init_producer_id.InitProducerIdRequest(transactional_id=None)
        allow(broker, Kind.TOPIC, "open", Op.READ)
        assert codes(await answered(broker, ApiKey.INIT_PRODUCER_ID, 4, request)) == {NO_CLUSTER}
        allow(broker, Kind.TOPIC, "open", Op.WRITE)
        assert NO_CLUSTER not in codes(await answered(broker, ApiKey.INIT_PRODUCER_ID, 4, request))


async def test_of_a_transaction_nothing_is_added_when_one_topic_is_refused() -> None:
    async with guarded() as broker:
        allow(broker, Kind.TRANSACTIONAL_ID, "t", Op.WRITE)
        allow(broker, Kind.TOPIC, "open", Op.WRITE)
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="t",
            v3_and_below_topics=[
                add_partitions_to_txn.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("open", "shut")
            ],
        )
        response = await answered(broker, ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
        assert {
            row.name: row.results_by_partition[0].partition_error_code for row in response.results_by_topic_v3_and_below
        } == {"open": ErrorCode.OPERATION_NOT_ATTEMPTED, "shut": NO_TOPIC}


async def test_offsets_of_topics_that_may_not_be_described_are_refused_or_left_out() -> None:
    async with guarded() as broker:
        allow(broker, Kind.GROUP, "g", Op.READ)
        allow(broker, Kind.TOPIC, "open", Op.READ)
        commit = offset_commit.OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=-1,
            topics=[
                offset_commit.OffsetCommitRequestTopic(
                    name=name, partitions=[offset_commit.OffsetCommitRequestPartition(committed_offset=7)]
                )
                for name in ("open", "shut")
            ],
        )
        response = await answered(broker, ApiKey.OFFSET_COMMIT, 8, commit)
        assert {row.name: row.partitions[0].error_code for row in response.topics} == {"open": 0, "shut": NO_TOPIC}
        named = [offset_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in ("open", "shut")]
        groups = [
            offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=named),
            offset_fetch.OffsetFetchRequestGroup(group_id="h", topics=named),
            offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None),
        ]
        response = await answered(broker, ApiKey.OFFSET_FETCH, 8, offset_fetch.OffsetFetchRequest(groups=groups))
        first, second, refused = response.groups
        assert {row.name: row.partitions[0].error_code for row in first.topics} == {"open": 0, "shut": NO_TOPIC}
        assert [row.name for row in second.topics] == ["open"]
        assert (refused.group_id, refused.error_code) == ("h", NO_GROUP)


async def test_groups_that_may_not_be_described_are_not_listed() -> None:
    async with guarded() as broker:
        broker.peer.principal = Principal("User", "root")
        for group in ("g", "h"):
            commit = offset_commit.OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=-1,
                topics=[
                    offset_commit.OffsetCommitRequestTopic(
                        name="open", partitions=[offset_commit.OffsetCommitRequestPartition(committed_offset=7)]
                    )
                ],
            )
            assert codes(await answered(broker, ApiKey.OFFSET_COMMIT, 8, commit)) == {0}
        broker.peer.principal = Principal("User", "alice")
        allow(broker, Kind.GROUP, "g", Op.DESCRIBE)

        async def listed() -> list[str]:
            response = await answered(broker, ApiKey.LIST_GROUPS, 4, list_groups.ListGroupsRequest())
            return sorted(row.group_id for row in response.groups)

        assert await listed() == ["g"]
        allow(broker, Kind.CLUSTER, CLUSTER_NAME, Op.DESCRIBE)
        assert await listed() == ["g", "h"]


async def test_settings_of_a_group_need_the_operation_on_that_group_and_to_change_them_implies_to_describe_them() -> (
    None
):
    def described() -> Any:
        resources = [describe_configs.DescribeConfigsResource(resource_type=32, resource_name=name) for name in "gh"]
        return describe_configs.DescribeConfigsRequest(resources=resources)

    def altered() -> Any:
        entry = alter_configs.AlterableConfig(name="consumer.session.timeout.ms", value="50000")
        resources = [
            alter_configs.AlterConfigsResource(resource_type=32, resource_name=name, configs=[entry]) for name in "gh"
        ]
        return alter_configs.AlterConfigsRequest(resources=resources)

    async with guarded() as broker:

        async def codes_of(key: ApiKey, request: Any) -> dict[str, int]:
            answer = await answered(broker, key, 2, request)
            rows = answer.results if key is ApiKey.DESCRIBE_CONFIGS else answer.responses
            return {row.resource_name: row.error_code for row in rows}

        allow(broker, Kind.GROUP, "g", Op.DESCRIBE_CONFIGS)
        assert await codes_of(ApiKey.DESCRIBE_CONFIGS, described()) == {"g": 0, "h": NO_GROUP}
        assert await codes_of(ApiKey.ALTER_CONFIGS, altered()) == {"g": NO_GROUP, "h": NO_GROUP}
        allow(broker, Kind.GROUP, "h", Op.ALTER_CONFIGS)
        assert await codes_of(ApiKey.DESCRIBE_CONFIGS, described()) == {"g": 0, "h": 0}
        assert await codes_of(ApiKey.ALTER_CONFIGS, altered()) == {"g": NO_GROUP, "h": 0}
        assert broker.parts.group_configs.group_ids == ["h"]


async def test_the_operations_that_a_peer_may_do_to_the_cluster_are_its_own() -> None:
    async with guarded() as broker:
        allow(broker, Kind.CLUSTER, CLUSTER_NAME, Op.ALTER)
        request = describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
        response = await answered(broker, ApiKey.DESCRIBE_CLUSTER, 0, request)
        assert response.cluster_authorized_operations == 1 << Op.ALTER | 1 << Op.DESCRIBE
