"""What a broker answers between its registration and the first UpdateMetadata of a controller, about existing topics.

Apache Kafka 3.9.1 answers that they do not exist, and may refuse a Metadata request by INVALID_REPLICATION_FACTOR,
because it would create them and knows no broker. Its producer retries most of that; librdkafka drops its batches and
aborts the transaction. Here the answers are those of a broker that does not lead, and coordinates nothing. Those that
describe the cluster are given when the metadata is there, or after the session timeout without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from kazoo.client import KazooClient

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from sordini.protocol.messages.api_versions import ApiVersionsRequest
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sordini.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.compat.groups.waiting import eventually
from tests.outside.java import ApacheKafkaProcess
from tests.outside.ports import is_listening
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.support.builders import a_batch
from tests.support.wire_client import Client

TOPIC: Final = "orders"
ANSWERS: Final = {
    "Metadata": ("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE"),
    "Metadata that creates": ("INVALID_REPLICATION_FACTOR", "LEADER_NOT_AVAILABLE"),
    "Produce": ("UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER"),
    "Fetch": ("UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER"),
    "ListOffsets": ("UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER"),
    "AddPartitionsToTxn": ("UNKNOWN_TOPIC_OR_PARTITION", "NOT_COORDINATOR"),
    "OffsetCommit": ("UNKNOWN_TOPIC_OR_PARTITION", "NOT_COORDINATOR"),
    "TxnOffsetCommit": ("UNKNOWN_TOPIC_OR_PARTITION", "NOT_COORDINATOR"),
}
"""By request, the error of Apache Kafka 3.9.1, and ours."""


@pytest.fixture
def tree(zookeeper: str) -> Iterator[KazooClient]:
    """A cluster with one topic, whose controller has a broker id that is not there, and sends nothing."""
    chroot = f"/{uuid4().hex}"
    client = KazooClient(hosts=zookeeper)
    client.start(timeout=20)
    client.create(chroot)
    client.chroot = chroot
    client.ensure_path("/brokers/topics")
    topic = {"version": 2, "partitions": {"0": [1]}, "adding_replicas": {}, "removing_replicas": {}}
    client.create(f"/brokers/topics/{TOPIC}", json.dumps(topic).encode())
    controller = {"version": 1, "brokerid": 99, "timestamp": "1"}
    client.create("/controller", json.dumps(controller).encode(), ephemeral=True)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def fresh(tree: KazooClient, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerProcess]:
    settings: dict[str, object] = {"broker.id": 1, "zookeeper.session.timeout.ms": 2_000}
    where = f"{request.getfixturevalue('zookeeper')}{tree.chroot}"
    made: BrokerProcess
    if request.config.getoption("--broker") == "apache":
        made = ApacheKafkaProcess(tmp_path, where, settings)
    else:
        made = SordiniProcess(tmp_path, {**settings, "zookeeper.connect": where})
    with made:
        yield made


def metadata_error(client: Client, name: str, *, creates: bool) -> int:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=creates)
    code: int = client.ask(ApiKey.METADATA, 12, request).topics[0].error_code
    return code


def errors(client: Client) -> dict[str, str]:
    """By request, its error for the partition that exists."""
    fetched = FetchTopic(topic=TOPIC, partitions=[FetchPartition(partition=0, partition_max_bytes=1_000)])
    listed = ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=0,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
    )
    committed = OffsetCommitRequestTopic(
        name=TOPIC, partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    )
    in_transaction = TxnOffsetCommitRequestTopic(
        name=TOPIC, partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    )
    ask: Any = client.ask
    codes = {
        "Metadata": metadata_error(client, TOPIC, creates=False),
        "Metadata that creates": metadata_error(client, TOPIC, creates=True),
        "Produce": client.produce(TOPIC, [a_batch(1)])[0].error_code,
        "Fetch": ask(ApiKey.FETCH, 12, FetchRequest(topics=[fetched])).responses[0].partitions[0].error_code,
        "ListOffsets": ask(ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(topics=[listed]))
        .topics[0]
        .partitions[0]
        .error_code,
        "AddPartitionsToTxn": ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, added)
        .results_by_topic_v3_and_below[0]
        .results_by_partition[0]
        .partition_error_code,
        "OffsetCommit": ask(ApiKey.OFFSET_COMMIT, 7, OffsetCommitRequest(group_id="g", topics=[committed]))
        .topics[0]
        .partitions[0]
        .error_code,
        "TxnOffsetCommit": ask(
            ApiKey.TXN_OFFSET_COMMIT,
            3,
            TxnOffsetCommitRequest(
                transactional_id="t", group_id="g", producer_id=0, producer_epoch=0, topics=[in_transaction]
            ),
        )
        .topics[0]
        .partitions[0]
        .error_code,
    }
    return {name: ErrorCode(code).name for name, code in codes.items()}


def test_before_its_first_metadata_a_broker_denies_no_topic_that_may_exist(
    fresh: BrokerProcess, tree: KazooClient, request: pytest.FixtureRequest
) -> None:
    ours = request.config.getoption("--broker") != "apache"
    with Client("127.0.0.1", fresh.port) as client:
        assert errors(client) == {name: both[ours] for name, both in ANSWERS.items()}
        tree.delete("/controller")  # The broker becomes the controller, and has the metadata.
        eventually(lambda: client.produce(TOPIC, [a_batch(1)])[0].error_code == ErrorCode.NONE, "it leads")
        assert metadata_error(client, "none", creates=False) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_client_of_a_starting_broker_is_answered_when_that_has_the_metadata(
    zookeeper: str, tree: KazooClient, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """librdkafka would drop every broker, and leave its assignment, at a response without brokers and topics."""
    if request.config.getoption("--broker") == "apache":
        pytest.skip("Apache Kafka on ZooKeeper answers at once")
    settings = {
        "broker.id": 1,
        "zookeeper.connect": f"{zookeeper}{tree.chroot}",
        "zookeeper.session.timeout.ms": 20_000,
    }
    broker = SordiniProcess(tmp_path, settings)
    try:
        broker.launch()
        eventually(lambda: tree.exists("/brokers/ids/1") is not None and is_listening(broker.port), "it is registered")
        with Client("127.0.0.1", broker.port) as client, ThreadPoolExecutor(1) as pool:
            client.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())  # Requests are processed.
            asked = pool.submit(client.metadata, TOPIC)
            with Client("127.0.0.1", broker.port) as other:
                assert other.produce(TOPIC, [a_batch(1)])[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            tree.delete("/controller")  # The broker becomes the controller, and has the metadata.
            answer = asked.result(20)
        assert [row.node_id for row in answer.brokers] == [1]
        assert [(row.name, row.error_code, len(row.partitions)) for row in answer.topics] == [(TOPIC, 0, 1)]
    finally:
        broker.kill()
