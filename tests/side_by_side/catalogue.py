"""The attacks, in the order of the table."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.api_versions import ApiVersionsRequest
from sordini.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from sordini.protocol.records.compression import GZIP, LZ4, ZSTD
from tests.side_by_side.cases import (
    CLOSED,
    NOT_DUE,
    Case,
    Sent,
    Size,
    a_request,
    coordinated_groups,
    known_topics,
    largest_of,
    prepared,
)
from tests.support import worst_batches
from tests.support.builders import a_batch
from tests.support.largest_bodies import KNOWN, REPEATED, UNKNOWN
from tests.support.wire_client import Client

OUTSIDE: Final = "../../x"
REFUSED: Final = frozenset({"CLUSTER_AUTHORIZATION_FAILED"})
FOR_NOW: Final = frozenset({"NONE", "NOT_ENOUGH_REPLICAS", "MESSAGE_TOO_LARGE"})
EPOCH_MAX: Final = 2**31 - 1


def leads(topic: str, partition: int = 0) -> Sent:
    """The controller, broker 0 itself, has the broker lead a partition."""
    state = LeaderAndIsrPartitionState(
        partition_index=partition, controller_epoch=1, leader=0, isr=[0], replicas=[0], is_new=True
    )
    request = LeaderAndIsrRequest(
        controller_epoch=1,
        topic_states=[LeaderAndIsrTopicState(topic_name=topic, partition_states=[state])],
        live_leaders=[LeaderAndIsrLiveLeader(host_name="127.0.0.1", port=9092)],
    )
    return a_request(ApiKey.LEADER_AND_ISR, 4, request)


def governs(controller_epoch: int) -> Sent:
    """A command of a controller of this epoch, for no partition."""
    return a_request(ApiKey.LEADER_AND_ISR, 4, LeaderAndIsrRequest(controller_epoch=controller_epoch))


def deletes(topic: str) -> Sent:
    """The controller has the broker delete a partition."""
    state = StopReplicaPartitionState(leader_epoch=-2, delete_partition=True)
    topics = [StopReplicaTopicState(topic_name=topic, partition_states=[state])]
    return a_request(ApiKey.STOP_REPLICA, 3, StopReplicaRequest(controller_epoch=1, topic_states=topics))


def produces(version: int, topic: str, *batches: bytes) -> Sent:
    rows = [PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)]
    data = [TopicProduceData(name=topic, partition_data=rows)]
    return a_request(ApiKey.PRODUCE, version, ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=data))


def ordinary(size: Size) -> list[Sent]:
    return [a_request(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())] * size.ordinary


def bombs(size: Size) -> list[Sent]:
    return [produces(9, "bombs", *[worst_batches.bomb(ZSTD, size.bomb_bytes)] * size.bombs)]


def keyless(size: Size) -> list[Sent]:
    return [produces(9, "keyless", worst_batches.tiny_records(size.records, ZSTD, shapes=3))]


def last_wrong(size: Size) -> list[Sent]:
    return [produces(9, "last", worst_batches.last_is_wrong(size.body_bytes - 1024))]


def wrapped(size: Size) -> list[Sent]:
    return [produces(2, "wrapped", worst_batches.wrapper(LZ4, messages=size.records // 6))]


def _old(client: Client, size: Size) -> None:
    prepared(client, "old")
    client.produce("old", [worst_batches.tiny_records(size.records * 4 // 9, GZIP)])


def old_fetch(_size: Size) -> list[Sent]:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=EPOCH_MAX)
    return [a_request(ApiKey.FETCH, 1, FetchRequest(topics=[FetchTopic(topic="old", partitions=[partition])]))]


def _dated(client: Client, size: Size) -> None:
    prepared(client, "dated", 2)
    # Apache Kafka opens every batch that it is sent, and refuses the second: time for that is not the attack's.
    client.socket.settimeout(60)
    client.produce("dated", [worst_batches.tiny_records(size.records // 3), worst_batches.endless_zstd(1024**3)])


def times(_size: Size) -> list[Sent]:
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=worst_batches.TIMESTAMP) for index in range(2)]
    topics = [ListOffsetsTopic(name="dated", partitions=partitions)]
    return [a_request(ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(replica_id=-1, topics=topics))]


def announcements(size: Size) -> list[Sent]:
    """100 MiB announced, ten bytes sent."""
    return [Sent(None, 0, struct.pack(">i", 100 * 1024 * 1024) + bytes(10))] * size.announced


def reserving(_size: Size) -> list[Sent]:
    configs = [
        CreatableTopicConfig(name="preallocate", value="true"),
        CreatableTopicConfig(name="segment.bytes", value=str(64 * worst_batches.MIB)),
    ]
    made = [
        CreatableTopic(name=name, num_partitions=50, replication_factor=1, configs=configs) for name in ("one", "two")
    ]
    creating = [
        a_request(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=[row], timeout_ms=20_000)) for row in made
    ]
    return [*creating, produces(9, "plain", a_batch(value=bytes(1000)))]


def _compacted(topic: str, partitions: int) -> Callable[[Client, Size], None]:
    def prepare(client: Client, _size: Size) -> None:
        prepared(client, topic, partitions, cleanup_policy="compact", compression_type="gzip")

    return prepare


def _plain(topic: str) -> Callable[[Client, Size], None]:
    def prepare(client: Client, _size: Size) -> None:
        prepared(client, topic)

    return prepare


def _command(name: str, title: str, *sent: Sent) -> Case:
    return Case(name, title, lambda _size: list(sent), REFUSED, spoils=True)


CASES: Final = (
    Case("nothing", "nothing hostile: 300 times ApiVersions", ordinary, frozenset({"NONE"}), is_long=True),
    _command("long-name", "LeaderAndIsr: a topic of 300 letters", leads("l" * 300)),
    _command("line-break", r'LeaderAndIsr: a topic "a\nb"', leads("a\nb")),
    _command("negative", "LeaderAndIsr: partition -5", leads("x", -5)),
    _command("outside", "LeaderAndIsr, then StopReplica (delete): `../../x`", leads(OUTSIDE), deletes(OUTSIDE)),
    _command("epoch", "LeaderAndIsr: controller epoch 2^31-1", governs(EPOCH_MAX)),
    Case(
        "bombs",
        "Produce: 20 zstd batches that expand to 62 MiB each, to a compacted topic stored as gzip",
        bombs,
        FOR_NOW,
        _compacted("bombs", 20),
        is_long=True,
    ),
    Case(
        "keyless",
        "Produce: 900,000 records without a key, to a compacted topic",
        keyless,
        frozenset({"INVALID_RECORD", "MESSAGE_TOO_LARGE"}),
        _compacted("keyless", 1),
        is_long=True,
    ),
    Case(
        "last-wrong",
        "Produce: 95,000 records, the last of which is wrong",
        last_wrong,
        frozenset({"INVALID_RECORD", "MESSAGE_TOO_LARGE"}),
        _plain("last"),
    ),
    Case(
        "wrapped",
        "Produce v2: 150,000 messages of format 1 in one lz4 wrapper",
        wrapped,
        frozenset({"NONE", "MESSAGE_TOO_LARGE"}),
        _plain("wrapped"),
        is_long=True,
    ),
    Case(
        "old-fetch", "Fetch v1 of a gzip batch of 400,000 records", old_fetch, frozenset({"NONE"}), _old, is_long=True
    ),
    Case(
        "times",
        "ListOffsets by time in a batch of 300,000 records and one that expands to 1 GiB",
        times,
        frozenset({"NONE"}),
        _dated,
    ),
    Case(
        "configs",
        "DescribeConfigs v4: 1 MiB of names of resources",
        largest_of(ApiKey.DESCRIBE_CONFIGS, 4, "resources", UNKNOWN),
        frozenset({"UNKNOWN_TOPIC_OR_PARTITION", "INVALID_REQUEST"}),
        known_topics,
    ),
    Case(
        "config-keys",
        "DescribeConfigs v4: 1 MiB of names of settings of one topic",
        largest_of(ApiKey.DESCRIBE_CONFIGS, 4, "resources.configuration_keys", UNKNOWN),
        frozenset({"NONE"}),
        known_topics,
    ),
    Case(
        "metadata",
        "Metadata v0 of topics that there are not",
        largest_of(ApiKey.METADATA, 0, "topics", UNKNOWN),
        frozenset({"UNKNOWN_TOPIC_OR_PARTITION"}),
        known_topics,
    ),
    Case(
        "list-offsets",
        "ListOffsets v0 of partitions, again and again",
        largest_of(ApiKey.LIST_OFFSETS, 0, "topics.partitions", REPEATED),
        frozenset({"NONE", "INVALID_REQUEST"}),
        known_topics,
    ),
    Case(
        "fetch",
        "Fetch v0 of partitions",
        largest_of(ApiKey.FETCH, 0, "topics.partitions", KNOWN),
        frozenset({"NONE"}),
        known_topics,
    ),
    Case(
        "offset-fetch",
        "OffsetFetch v8 of groups that there are not",
        largest_of(ApiKey.OFFSET_FETCH, 8, "groups", UNKNOWN),
        frozenset({"NONE"}),
        coordinated_groups,
    ),
    Case(
        "join-group",
        "JoinGroup v9 with as many protocols as fit",
        largest_of(ApiKey.JOIN_GROUP, 9, "protocols", UNKNOWN),
        frozenset({"NONE"}),
        coordinated_groups,
    ),
    Case(
        "leave-group",
        "LeaveGroup v5 of members that there are not",
        largest_of(ApiKey.LEAVE_GROUP, 5, "members", UNKNOWN),
        frozenset({"UNKNOWN_MEMBER_ID"}),
        coordinated_groups,
    ),
    Case(
        "announced",
        "8 connections that announce 100 MiB and send ten bytes",
        announcements,
        frozenset({NOT_DUE, CLOSED}),
    ),
    Case(
        "preallocate",
        "two topics of 50 partitions with `preallocate` and segments of 64 MiB on a disk of 256 MiB, then a record",
        reserving,
        frozenset({"NONE"}),
        _plain("plain"),
        on_a_small_disk=True,
    ),
)
