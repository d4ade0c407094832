"""What brokers answer that are no leader: the same request to a leader, a follower and another broker of both kinds.

Broker 1 is an Apache Kafka, 2 and 3 are ours. Three partitions hold the same batches, so that each kind is the leader
of one, the follower of another, and has no replica of the third.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from tests.cluster.cluster import OURS, Cluster
from tests.compat.situations.batches import THEN, batch
from tests.compat.situations.definitions import Definitions
from tests.compat.situations.registry import normalise
from tests.compat.situations.waiting import NOT_READY, until
from tests.compat.situations.wire import Broker
from tests.outside.needs import kafka_clients_jar
from tests.outside.versions import APACHE_KAFKA

TOPIC, TRANSACTIONAL_ID = "asked", "open"
TRANSACTIONAL = 0x10
REPLICAS = ((1, 2), (2, 1), (2, 3))
ROLES = {"leader": ((1, 0), (2, 1)), "follower": ((1, 1), (2, 0)), "other": ((1, 2), (3, 0))}
"""By role: Apache Kafka and ours, each as the broker and the partition of which it has that role."""
CONSUMER, DEBUGGING, A_REPLICA = -1, -2, 3
NO_COORDINATORS = (1, 3)
NOT_COORDINATOR = 16
NOT_LEADER = 6


class Question(NamedTuple):
    """One request of one partition."""

    title: str
    api: str
    version: int
    fields: dict[str, Any]
    row: dict[str, Any]
    names: tuple[str, str]
    """Of the topic, and of the partition's number."""

    def of(self, partition: int, topic_id: bytes) -> dict[str, Any]:
        topic, index = self.names
        named = {"topic_id": topic_id} if topic == "topic_id" else {topic: TOPIC}
        return {**self.fields, "topics": [{**named, "partitions": [{index: partition, **self.row}]}]}


def _list_offsets() -> Iterator[Question]:
    for version in (0, 1, 4, 9):
        for replica_id in (CONSUMER, DEBUGGING, A_REPLICA):
            for level in (0, 1) if version >= 2 else (0,):
                for timestamp in (-1, -2, THEN + 2, THEN + 10_000, *((-3,) if version >= 7 else ())):
                    row = {"timestamp": timestamp, **({"max_num_offsets": 9} if version == 0 else {})}
                    fields = {"replica_id": replica_id, **({"isolation_level": level} if version >= 2 else {})}
                    title = f"ListOffsets v{version} of {timestamp - THEN if timestamp > 0 else timestamp}"
                    title += f" as {replica_id}, level {level}"
                    yield Question(title, "ListOffsets", version, fields, row, ("name", "partition_index"))
    for replica_id in (CONSUMER, DEBUGGING):
        fields, row = {"replica_id": replica_id, "isolation_level": 0}, {"timestamp": -1, "current_leader_epoch": 9}
        title = f"ListOffsets of another leader epoch as {replica_id}"
        yield Question(title, "ListOffsets", 9, fields, row, ("name", "partition_index"))


def _fetch() -> Iterator[Question]:
    for version in (4, 10, 11, 12, 13, 15, 16, 17):
        for replica_id in (CONSUMER, DEBUGGING):
            for level in (0, 1):
                for offset in (0, 5, 99):
                    named = (
                        {"replica_id": replica_id} if version < 15 else {"replica_state": {"replica_id": replica_id}}
                    )
                    fields = {**named, "max_wait_ms": 0, "isolation_level": level}
                    if version >= 7:
                        fields["session_epoch"] = -1
                    row = {"fetch_offset": offset, "partition_max_bytes": 1_000_000}
                    title = f"Fetch v{version} at {offset} as {replica_id}, level {level}"
                    topic = "topic_id" if version >= 13 else "topic"
                    yield Question(title, "Fetch", version, fields, row, (topic, "partition"))


def _epochs() -> Iterator[Question]:
    for version in (2, 3, 4):
        for replica_id in (CONSUMER, DEBUGGING, A_REPLICA) if version >= 3 else (CONSUMER,):
            fields = {"replica_id": replica_id} if version >= 3 else {}
            title = f"OffsetForLeaderEpoch v{version} as {replica_id}"
            yield Question(title, "OffsetForLeaderEpoch", version, fields, {"leader_epoch": 0}, ("topic", "partition"))


QUESTIONS = [
    *_list_offsets(),
    *_fetch(),
    *_epochs(),
    Question("DeleteRecords", "DeleteRecords", 2, {"timeout_ms": 5_000}, {"offset": 0}, ("name", "partition_index")),
]


class Asked(NamedTuple):
    """The brokers, by id."""

    cluster: Cluster
    brokers: dict[int, Broker]
    topic_id: bytes

    def of(self, broker: int, api: str, version: int, **fields: Any) -> Any:
        """The answer, with the cluster's own things in words."""
        answer = self.brokers[broker].ask(api, version, **fields)
        if answer.get("node_endpoints"):
            answer["node_endpoints"] = [self._endpoint(node) for node in answer["node_endpoints"]]
        return _by_role(normalise(answer, self.brokers[broker].prefix))

    def of_question(self, question: Question, role: str, at: int) -> Any:
        """As `of`, of Apache Kafka (0) or ours (1) in a role."""
        broker, partition = ROLES[role][at]
        return self.of(broker, question.api, question.version, **question.of(partition, self.topic_id))

    def _endpoint(self, node: dict[str, Any]) -> str:
        """Which broker is named (KIP-951), if the address is that broker's."""
        assert (node["host"], node["port"]) == ("127.0.0.1", self.cluster.brokers[node["node_id"]].port)
        leaders = {leader for leader, _ in REPLICAS}
        return f"a leader of rack {node['rack']}" if node["node_id"] in leaders else f"broker {node['node_id']}"


def _by_role(value: Any) -> Any:
    """Without what tells the partitions apart: their numbers, and who leads them."""
    if isinstance(value, dict):
        kept = {key: _by_role(inner) for key, inner in value.items() if key != "topic_id"}
        for key in ("partition_index", "partition"):
            if isinstance(kept.get(key), int):
                kept[key] = "the partition"
        if kept.get("leader_id", -1) >= 0:
            kept["leader_id"] = "the leader"
        return kept
    return [_by_role(inner) for inner in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def asked(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    made = Cluster(tmp_path_factory.mktemp("asked"), zookeeper, "3.9")
    brokers: dict[int, Broker] = {}
    try:
        made.start({1: APACHE_KAFKA, 2: OURS, 3: OURS})
        made.create_internal((2, 1, 3))
        made.wait_until_known(made.create(TOPIC, REPLICAS))
        definitions = Definitions(kafka_clients_jar(APACHE_KAFKA))
        prefix = uuid4().hex[:8]
        brokers |= {
            one: Broker("127.0.0.1", process.port, definitions, prefix) for one, process in made.brokers.items()
        }
        _fill(brokers)
        yield Asked(made, brokers, brokers[2].topic_id(TOPIC))
    finally:
        for broker in brokers.values():
            broker.close()
        made.close()


def _fill(brokers: dict[int, Broker]) -> None:
    """Three committed records and two of an open transaction, in each partition."""
    coordinator = brokers[2]
    begun = until(
        lambda: coordinator.ask(
            "InitProducerId", 4, transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=600_000, producer_id=-1,
            producer_epoch=-1,
        ),
        lambda seen: seen["error_code"] not in NOT_READY,
    )  # fmt: skip
    assert begun["error_code"] == 0, begun
    producer = {"producer_id": begun["producer_id"], "producer_epoch": begun["producer_epoch"]}
    added = coordinator.ask(
        "AddPartitionsToTxn",
        3,
        v3_and_below_transactional_id=TRANSACTIONAL_ID,
        v3_and_below_producer_id=producer["producer_id"],
        v3_and_below_producer_epoch=producer["producer_epoch"],
        v3_and_below_topics=[{"name": TOPIC, "partitions": list(range(len(REPLICAS)))}],
    )
    assert [row["partition_error_code"] for row in added["results_by_topic_v3_and_below"][0]["results_by_partition"]] == [
        0, 0, 0,
    ]  # fmt: skip
    open_batch = batch(2, attributes=TRANSACTIONAL, base_sequence=0, base_timestamp=THEN + 3, **producer)
    for partition, (leader, _) in enumerate(REPLICAS):
        for records, transactional_id in ((batch(3), None), (open_batch, TRANSACTIONAL_ID)):
            data = [{"name": TOPIC, "partition_data": [{"index": partition, "records": records}]}]
            fields = {"acks": -1, "timeout_ms": 20_000, "transactional_id": transactional_id, "topic_data": data}
            answer = until(
                lambda leader=leader, fields=fields: brokers[leader].ask("Produce", 9, **fields),  # type: ignore[misc]
                lambda seen: seen["responses"][0]["partition_responses"][0]["error_code"] == 0,
            )
            assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0, answer
    # Followers know the high watermark with the next fetch.
    for broker, partition in ((1, 1), (2, 0), (3, 2)):
        row = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1_000}
        seen = until(
            lambda broker=broker, row=row: brokers[broker].ask(  # type: ignore[misc]
                "Fetch",
                12,
                replica_id=-1,
                max_wait_ms=0,
                session_epoch=-1,
                topics=[{"topic": TOPIC, "partitions": [row]}],
            ),
            lambda answer: answer["responses"][0]["partitions"][0]["high_watermark"] == 5,
        )
        assert seen["responses"][0]["partitions"][0]["high_watermark"] == 5, seen


@pytest.mark.parametrize("role", ROLES)
def test_a_question_of_a_partition_is_answered_as_by_apache_kafka_in_that_role(asked: Asked, role: str) -> None:
    different = {}
    for question in QUESTIONS:
        theirs, ours = (asked.of_question(question, role, at) for at in (0, 1))
        if theirs != ours:
            different[question.title] = {"Apache Kafka": theirs, "ours": ours}
    assert different == {}, json.dumps(different, default=repr, indent=1)
    assert len(QUESTIONS) > 100


@pytest.mark.parametrize("role", ["follower", "other"])
@pytest.mark.parametrize("version", [3, 9, 10, 11])
def test_a_produce_is_refused_as_by_apache_kafka_in_that_role(asked: Asked, role: str, version: int) -> None:
    """From version 10 on with the leader and its address (KIP-951)."""

    def refused(at: int, acks: int) -> Any:
        broker, partition = ROLES[role][at]
        data = [{"name": TOPIC, "partition_data": [{"index": partition, "records": batch(1)}]}]
        answer = asked.of(
            broker, "Produce", version, acks=acks, timeout_ms=5_000, transactional_id=None, topic_data=data
        )
        for row in answer["responses"][0]["partition_responses"]:
            row.pop("index")
            row.pop("error_message", None)
        return answer

    for acks in (1, -1):
        theirs, ours = refused(0, acks), refused(1, acks)
        assert ours == theirs
        (row,) = ours["responses"][0]["partition_responses"]
        assert row["error_code"] == NOT_LEADER
        assert bool(ours.get("node_endpoints")) == (version >= 10)


@pytest.mark.parametrize("role", ROLES)
def test_the_producers_of_a_replica_are_described_as_by_apache_kafka_in_that_role(asked: Asked, role: str) -> None:
    theirs, ours = (
        asked.of(broker, "DescribeProducers", 0, topics=[{"name": TOPIC, "partition_indexes": [partition]}])
        for broker, partition in ROLES[role]
    )
    assert ours == theirs
    (row,) = ours["topics"][0]["partitions"]
    assert len(row["active_producers"]) == (0 if role == "other" else 1)


@pytest.mark.parametrize("role", ROLES)
def test_a_replica_is_in_a_log_directory_as_with_apache_kafka_in_that_role(asked: Asked, role: str) -> None:
    def found(broker: int, partition: int) -> Any:
        answer = asked.brokers[broker].ask("DescribeLogDirs", 4, topics=[{"topic": TOPIC, "partitions": [partition]}])
        rows = [row for result in answer["results"] for topic in result["topics"] for row in topic["partitions"]]
        return answer["error_code"], len(answer["results"]), _by_role(rows)

    theirs, ours = (found(*one) for one in ROLES[role])
    assert ours == theirs
    assert len(ours[2]) == (0 if role == "other" else 1)


def test_a_broker_that_is_no_coordinator_says_so_as_apache_kafka_does(asked: Asked) -> None:
    questions: list[tuple[str, int, dict[str, Any]]] = [
        ("DescribeTransactions", 0, {"transactional_ids": [TRANSACTIONAL_ID, "none"]}),
        ("ListTransactions", 0, {"state_filters": [], "producer_id_filters": []}),
        ("DescribeGroups", 5, {"groups": ["none"]}),
        ("ListGroups", 4, {"states_filter": []}),
        ("OffsetFetch", 8, {"groups": [{"group_id": "none", "topics": [{"name": TOPIC, "partition_indexes": [0]}]}]}),
        ("DeleteGroups", 2, {"groups_names": ["none"]}),
        ("FindCoordinator", 4, {"key_type": 1, "coordinator_keys": [TRANSACTIONAL_ID]}),
    ]
    for api, version, fields in questions:
        theirs, ours = (asked.of(broker, api, version, **fields) for broker in NO_COORDINATORS)
        assert ours == theirs, api
