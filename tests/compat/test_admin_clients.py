"""Administration as each client library offers it: topics, partitions, records, configurations, groups, log dirs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import closing
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource as PyConfigResource
from kafka.admin import ConfigResourceType, MemberToRemove
from kafka.errors import (
    GroupSubscribedToTopicError,
    InvalidPartitionsError,
    NoError,
    NonEmptyGroupError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from kafka.protocol.admin.topics import ElectionType
from kafka.structs import OffsetAndMetadata

from tests.compat.groups.waiting import eventually

MakeTopic = Callable[..., str]


@pytest.fixture
def rd_admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
async def aio_admin(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    yield client
    await client.close()


def as_numbers(offsets: dict[Any, Any]) -> dict[int, int]:
    return {partition.partition: one.offset for partition, one in offsets.items()}


# --- kafka-python ----------------------------------------------------------------------------------


def test_kafka_python_describes_and_lists_a_living_group(
    admin: KafkaAdminClient, member: KafkaConsumer, filled: str
) -> None:
    group = admin.describe_groups([filled])[filled]
    assert (group["group_state"], group["protocol_type"], group["protocol_data"]) == ("Stable", "consumer", "range")
    (described,) = group["members"]
    assert (described["client_id"], described["client_host"]) == ("watched", "/127.0.0.1")
    ((topic, partitions),) = [
        (one["topic"], one["partitions"]) for one in described["member_assignment"]["assigned_partitions"]
    ]
    assert (topic, sorted(partitions)) == (filled, [0, 1])
    (listed,) = [one for one in admin.list_groups() if one["group_id"] == filled]
    assert (listed["protocol_type"], listed["group_state"], listed["group_type"]) == ("consumer", "Stable", "classic")
    assert filled not in [one["group_id"] for one in admin.list_groups(states_filter=["Empty"])]
    assert filled in [one["group_id"] for one in admin.list_groups(states_filter=["Stable"], types_filter=["classic"])]


def test_kafka_python_may_not_change_the_offsets_of_a_living_group(
    admin: KafkaAdminClient, member: KafkaConsumer, filled: str
) -> None:
    partition = TopicPartition(filled, 0)
    assert as_numbers(admin.list_group_offsets(filled)[filled]) == {0: 3, 1: 4}
    refused = admin.alter_group_offsets(filled, {partition: OffsetAndMetadata(9, "", -1)})
    assert refused[partition].__name__ == "UnknownMemberIdError"
    assert admin.delete_group_offsets(filled, [partition]) == {partition: GroupSubscribedToTopicError}
    assert admin.delete_groups([filled]) == {filled: NonEmptyGroupError.__name__}
    assert as_numbers(admin.list_group_offsets(filled)[filled]) == {0: 3, 1: 4}


def test_kafka_python_removes_a_member_and_it_comes_back(
    admin: KafkaAdminClient, member: KafkaConsumer, filled: str
) -> None:
    (described,) = admin.describe_groups([filled])[filled]["members"]
    assert admin.remove_group_members(filled, [MemberToRemove(member_id=described["member_id"])])
    assert admin.describe_groups([filled])[filled]["group_state"] == "Empty"


def test_kafka_python_alters_resets_and_deletes_what_an_empty_group_committed(
    admin: KafkaAdminClient, member: KafkaConsumer, filled: str
) -> None:
    member.close()
    both = [TopicPartition(filled, part) for part in range(2)]
    assert admin.describe_groups([filled])[filled]["group_state"] == "Empty"
    altered = {both[0]: OffsetAndMetadata(7, "moved", -1)}
    assert admin.alter_group_offsets(filled, altered) == {both[0]: NoError}
    assert as_numbers(admin.list_group_offsets(filled)[filled]) == {0: 7, 1: 4}
    assert admin.reset_group_offsets(filled, {both[1]: 99})[both[1]] == {"error": NoError, "offset": 10}
    assert admin.delete_group_offsets(filled, both[:1]) == {both[0]: NoError}
    assert as_numbers(admin.list_group_offsets(filled)[filled]) == {1: 10}
    assert admin.delete_groups([filled]) == {filled: "OK"}
    assert filled not in [one["group_id"] for one in admin.list_groups()]
    assert admin.describe_groups([filled])[filled]["group_state"] == "Dead"
    assert admin.delete_groups([filled]) == {filled: "GroupIdNotFoundError"}


def test_kafka_python_adds_partitions(admin: KafkaAdminClient, filled: str) -> None:
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({filled: 2})
    admin.create_partitions({filled: 5}, validate_only=True)
    assert len(admin.describe_topics([filled])[0]["partitions"]) == 2
    admin.create_partitions({filled: 5})
    eventually(lambda: len(admin.describe_topics([filled])[0]["partitions"]) == 5, "the topic has five partitions")
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.create_partitions({f"{filled}-absent": 5})


def test_kafka_python_describes_topics_page_by_page(
    admin: KafkaAdminClient, make_topic: MakeTopic, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--broker") == "apache":
        pytest.skip("Apache Kafka serves DescribeTopicPartitions only without ZooKeeper")
    topic = make_topic(partitions=5)
    first = admin.describe_topic_partitions([topic], response_partition_limit=3)
    assert [part["partition_index"] for part in first["topics"][0]["partitions"]] == [0, 1, 2]
    assert first["next_cursor"] == {"topic_name": topic, "partition_index": 3}
    rest = admin.describe_topic_partitions([topic], response_partition_limit=3, cursor=first["next_cursor"])
    assert [part["partition_index"] for part in rest["topics"][0]["partitions"]] == [3, 4]
    assert rest["next_cursor"] is None


def test_kafka_python_deletes_records(bootstrap: str, admin: KafkaAdminClient, filled: str) -> None:
    partition = TopicPartition(filled, 0)
    assert admin.delete_records({partition: 4})[partition]["low_watermark"] == 4
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({partition: 11})
    with closing(KafkaConsumer(bootstrap_servers=bootstrap)) as consumer:
        assert consumer.beginning_offsets([partition, TopicPartition(filled, 1)]) == {
            partition: 4,
            TopicPartition(filled, 1): 0,
        }
    assert admin.delete_records({partition: -1})[partition]["low_watermark"] == 10


def test_kafka_python_alters_and_resets_configurations(admin: KafkaAdminClient, filled: str) -> None:
    def value(key: str) -> str:
        described = admin.describe_configs([PyConfigResource(ConfigResourceType.TOPIC, filled)], config_filter="all")
        return str(described["topic"][filled][key]["value"])

    def resource(configs: dict[str, Any]) -> list[PyConfigResource]:
        return [PyConfigResource(ConfigResourceType.TOPIC, filled, configs)]

    before = value("retention.ms")
    admin.alter_configs(resource({"retention.ms": "1234567", "cleanup.policy": ("APPEND", "compact")}))
    assert (value("retention.ms"), value("cleanup.policy")) == ("1234567", "delete,compact")
    admin.alter_configs(resource({"retention.ms": "5"}), validate_only=True)
    assert value("retention.ms") == "1234567"
    refused = admin.alter_configs(resource({"retention.ms": "soon"}))
    assert refused["topic"][filled] != "OK"
    admin.reset_configs(resource({"retention.ms": None}))
    assert (value("retention.ms"), value("cleanup.policy")) == (before, "delete,compact")
    # The older request replaces all of a topic's own settings at once; the library fills the others in.
    admin.alter_configs(resource({"max.message.bytes": "54321"}), incremental=False)
    assert (value("max.message.bytes"), value("cleanup.policy")) == ("54321", "delete,compact")


def test_kafka_python_sees_log_directories_and_producers(admin: KafkaAdminClient, filled: str) -> None:
    (answer,) = admin.describe_log_dirs({filled: [0, 1]})
    (directory,) = answer["log_dirs"]
    assert directory["error_code"] == 0
    (topic,) = directory["topics"]
    sizes = {part["partition_index"]: part["partition_size"] for part in topic["partitions"]}
    assert set(sizes) == {0, 1}
    assert min(sizes.values()) > 61  # More than the header of a batch.
    producers = admin.describe_producers([TopicPartition(filled, 0)])[TopicPartition(filled, 0)]
    assert len(getattr(producers, "active_producers", producers)) == 1


def test_kafka_python_elects_leaders_and_lists_no_reassignments(admin: KafkaAdminClient, filled: str) -> None:
    answer = admin.elect_leaders(ElectionType.PREFERRED, {filled: [0]})
    (result,) = answer.replica_election_results
    (partition,) = result.partition_result
    assert partition.error_code == 84  # ELECTION_NOT_NEEDED: the only replica leads already.
    assert admin.list_partition_reassignments({filled: [0, 1]}) == {}


# --- aiokafka --------------------------------------------------------------------------------------


async def test_aiokafka_describes_and_lists_a_living_group(
    aio_admin: AIOKafkaAdminClient, member: KafkaConsumer, filled: str
) -> None:
    (answer,) = await aio_admin.describe_consumer_groups([filled])
    ((error, group, state, protocol_type, protocol, members, *_),) = answer.groups
    assert (error, group, state, protocol_type, protocol) == (0, filled, "Stable", "consumer", "range")
    assert [one[1] if len(one) == 5 else one[2] for one in members] == ["watched"]
    assert (filled, "consumer") in [one[:2] for one in await aio_admin.list_consumer_groups()]
    offsets = await aio_admin.list_consumer_group_offsets(filled)
    assert as_numbers(offsets) == {0: 3, 1: 4}


async def test_aiokafka_adds_partitions_and_deletes_records(aio_admin: AIOKafkaAdminClient, filled: str) -> None:
    await aio_admin.create_partitions({filled: AioNewPartitions(total_count=3)})
    (described,) = await aio_admin.describe_topics([filled])
    assert len(described["partitions"]) == 3
    partition = AioPartition(filled, 1)
    deleted = await aio_admin.delete_records({partition: RecordsToDelete(before_offset=6)})
    assert deleted == {partition: 6}


async def test_aiokafka_alters_configurations(aio_admin: AIOKafkaAdminClient, filled: str) -> None:
    wanted = AioConfigResource(AioConfigResourceType.TOPIC, filled, configs={"retention.ms": "7654321"})
    altered = await aio_admin.alter_configs([wanted])
    assert "retention.ms" not in str(altered)  # It names only what failed.
    described = await aio_admin.describe_configs([AioConfigResource(AioConfigResourceType.TOPIC, filled)])
    ((_, _error, _, _, entries, *_),) = described[0].resources
    assert [entry[0] for entry in entries if entry[1] == "7654321"] == ["retention.ms"]


# --- confluent-kafka -------------------------------------------------------------------------------


def test_confluent_kafka_describes_and_lists_a_living_group(
    rd_admin: AdminClient, member: KafkaConsumer, filled: str
) -> None:
    described = rd_admin.describe_consumer_groups([filled])[filled].result(15)
    assert (described.state, described.partition_assignor) == (ConsumerGroupState.STABLE, "range")
    assert described.coordinator.id in rd_admin.list_topics(timeout=15).brokers
    (one,) = described.members
    assert (one.client_id, one.host) == ("watched", "/127.0.0.1")
    assert sorted(part.partition for part in one.assignment.topic_partitions) == [0, 1]
    stable = rd_admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(15)
    assert filled in [listing.group_id for listing in stable.valid]
    assert stable.errors == []
    offsets = rd_admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(filled)])[filled].result(15)
    assert {part.partition: part.offset for part in offsets.topic_partitions} == {0: 3, 1: 4}
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        rd_admin.delete_consumer_groups([filled])[filled].result(15)


def test_confluent_kafka_alters_offsets_and_deletes_an_empty_group(
    rd_admin: AdminClient, member: KafkaConsumer, filled: str
) -> None:
    member.close()
    wanted = ConsumerGroupTopicPartitions(filled, [RdPartition(filled, 0, 8)])
    rd_admin.alter_consumer_group_offsets([wanted])[filled].result(15)
    offsets = rd_admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(filled)])[filled].result(15)
    assert {part.partition: part.offset for part in offsets.topic_partitions} == {0: 8, 1: 4}
    rd_admin.delete_consumer_groups([filled])[filled].result(15)
    with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
        rd_admin.delete_consumer_groups([filled])[filled].result(15)


def test_confluent_kafka_adds_partitions_and_deletes_records(rd_admin: AdminClient, filled: str) -> None:
    rd_admin.create_partitions([NewPartitions(filled, 4)])[filled].result(15)

    def partitions() -> int:
        return len(rd_admin.describe_topics(TopicCollection([filled]))[filled].result(15).partitions)

    eventually(lambda: partitions() == 4, "the topic has four partitions")
    partition = RdPartition(filled, 0, 5)
    (deleted,) = rd_admin.delete_records([partition]).values()
    assert deleted.result(15).low_watermark == 5
    earliest = rd_admin.list_offsets({RdPartition(filled, 0): OffsetSpec.earliest()})
    assert [one.result(15).offset for one in earliest.values()] == [5]


def test_confluent_kafka_alters_configurations_of_topics_and_brokers(rd_admin: AdminClient, filled: str) -> None:
    def alter(kind: ResourceType, name: str, key: str, value: str | None, operation: AlterConfigOpType) -> None:
        entry = ConfigEntry(key, value, incremental_operation=operation)
        wanted = ConfigResource(kind, name, incremental_configs=[entry])
        rd_admin.incremental_alter_configs([wanted])[wanted].result(15)

    def described(kind: ResourceType, name: str, key: str) -> Any:
        resource = ConfigResource(kind, name)
        return rd_admin.describe_configs([resource])[resource].result(15)[key]

    alter(ResourceType.TOPIC, filled, "segment.bytes", "1048576", AlterConfigOpType.SET)
    found = described(ResourceType.TOPIC, filled, "segment.bytes")
    assert (found.value, found.is_default) == ("1048576", False)
    alter(ResourceType.TOPIC, filled, "segment.bytes", None, AlterConfigOpType.DELETE)
    assert described(ResourceType.TOPIC, filled, "segment.bytes").is_default
    with pytest.raises(KafkaException):
        alter(ResourceType.TOPIC, filled, "segment.bytes", "none", AlterConfigOpType.SET)
    broker = str(next(iter(rd_admin.list_topics(timeout=15).brokers)))
    before = described(ResourceType.BROKER, broker, "message.max.bytes").value
    alter(ResourceType.BROKER, broker, "message.max.bytes", "1048600", AlterConfigOpType.SET)
    try:
        eventually(
            lambda: described(ResourceType.BROKER, broker, "message.max.bytes").value == "1048600",
            "the broker's configuration has changed",
        )
        inherited = described(ResourceType.TOPIC, filled, "max.message.bytes")
        assert (inherited.value, inherited.is_default) == ("1048600", False)
    finally:
        alter(ResourceType.BROKER, broker, "message.max.bytes", None, AlterConfigOpType.DELETE)
    eventually(
        lambda: described(ResourceType.BROKER, broker, "message.max.bytes").value == before, "it is as it was before"
    )


def test_a_group_that_only_commits_is_listed_as_empty(bootstrap: str, rd_admin: AdminClient, filled: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "group.id": f"{filled}-simple", "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:
        consumer.commit(offsets=[RdPartition(filled, 0, 2)], asynchronous=False)
    listed = {one.group_id: one for one in rd_admin.list_consumer_groups().result(15).valid}
    assert listed[f"{filled}-simple"].is_simple_consumer_group
    assert listed[f"{filled}-simple"].state == ConsumerGroupState.EMPTY


def test_the_topic_of_offsets_is_internal_compacted_and_has_as_many_replicas_as_there_are_brokers(
    admin: KafkaAdminClient, member: KafkaConsumer
) -> None:
    (described,) = admin.describe_topics(["__consumer_offsets"])
    assert described["is_internal"]
    assert len(described["partitions"]) == 50
    brokers = len(admin.describe_cluster()["brokers"])
    assert {len(partition["replica_nodes"]) for partition in described["partitions"]} == {brokers}
    resource = PyConfigResource(ConfigResourceType.TOPIC, "__consumer_offsets")
    configs = admin.describe_configs([resource], config_filter="all")["topic"]["__consumer_offsets"]
    assert (configs["cleanup.policy"]["value"], configs["segment.bytes"]["value"]) == ("compact", "104857600")
