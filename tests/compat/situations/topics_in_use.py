"""CreateTopics' odd corners, and topics deleted while they are in use."""

from typing import Any

from tests.compat.situations.batches import batch
from tests.compat.situations.definitions import Values
from tests.compat.situations.members import Group
from tests.compat.situations.registry import situation
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker


def _create(broker: Broker, name: str, **fields: Any) -> Any:
    row: Values = {"name": name, "num_partitions": 1, "replication_factor": 1, **fields}
    answer = broker.ask("CreateTopics", 5, topics=[row], timeout_ms=10_000)
    for topic in answer["topics"]:
        topic["configs"] = "given" if topic["configs"] else topic["configs"]
    return answer


def _delete(broker: Broker, name: str) -> Any:
    return broker.ask("DeleteTopics", 4, topic_names=[name], timeout_ms=10_000)


@situation("CreateTopics with odd configurations")
def odd_configs(broker: Broker) -> Any:
    odd: dict[str, list[Values]] = {
        "key twice": [{"name": "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}],
        "null": [{"name": "retention.ms", "value": None}],
        "empty": [{"name": "retention.ms", "value": ""}],
        "empty key": [{"name": "", "value": "1"}],
        "broker's key": [{"name": "log.retention.ms", "value": "1"}],
        "spaces": [{"name": "retention.ms", "value": " 7 "}],
        "contradiction": [
            {"name": "min.compaction.lag.ms", "value": "9"},
            {"name": "max.compaction.lag.ms", "value": "3"},
        ],
    }
    return {
        name: _create(broker, broker.name(f"odd-configs{index}"), configs=rows)
        for index, (name, rows) in enumerate(odd.items())
    }


@situation("CreateTopics with counts beside an assignment")
def counts_and_assignment(broker: Broker) -> Any:
    assignment = [{"partition_index": 0, "broker_ids": [0]}]
    return {
        f"{count} {factor}": _create(
            broker,
            broker.name(f"odd-assigned{index}"),
            num_partitions=count,
            replication_factor=factor,
            assignments=assignment,
        )
        for index, (count, factor) in enumerate(((-1, -1), (1, 1), (-1, 1), (1, -1), (2, 1)))
    }


@situation("CreateTopics of many partitions at once")
def many_partitions(broker: Broker) -> Any:
    name = broker.name("odd-many")
    answer = _create(broker, name, num_partitions=60)
    metadata = broker.ask("Metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=False)["topics"][0]
    indexes = sorted(partition["partition_index"] for partition in metadata["partitions"])
    return [
        answer,
        indexes == list(range(60)),
        {partition["error_code"] for partition in metadata["partitions"]} == {0},
    ]


@situation("a topic deleted while a Fetch waits at its end")
def deleted_under_a_fetch(broker: Broker) -> Any:
    topic = broker.create("used-fetched")
    broker.produce(topic, batch(2))
    conversation = broker.connect()
    try:
        partition = {"partition": 0, "fetch_offset": 2, "partition_max_bytes": 1_000}
        fields = {"replica_id": -1, "max_wait_ms": 1_000, "min_bytes": 1}
        asked = conversation.send("Fetch", 11, topics=[{"topic": topic, "partitions": [partition]}], **fields)
        deleted = _delete(broker, topic)
        answer = conversation.receive("Fetch", 11, asked)
        again = conversation.ask("Fetch", 11, topics=[{"topic": topic, "partitions": [partition]}], **fields)
    finally:
        conversation.close()
    return {"deleted": deleted, "waited": answer["error_code"], "again": again["responses"][0]["partitions"]}


@situation("a topic deleted and made again begins at offset 0 under a new id")
def made_again(broker: Broker) -> Any:
    topic = broker.create("used-again")
    broker.produce(topic, batch(3))
    first = broker.topic_id(topic)
    _delete(broker, topic)
    answer = until(lambda: _create(broker, topic), lambda seen: seen["topics"][0]["error_code"] != 36)
    produced = until(lambda: broker.produce(topic, batch(1)), lambda seen: seen["error_code"] == 0)
    return {"created": answer, "another id": broker.topic_id(topic) != first, "produced": produced}


@situation("a topic deleted while a group has offsets in it")
def deleted_under_a_group(broker: Broker) -> Any:
    topic, other = broker.create("used-committed"), broker.create("used-kept")
    with Group(broker, "used-committed") as group:
        group.settle(member := group.member())
        member.commit(topic, 5)
        member.commit(other, 6)
        _delete(broker, topic)
        left = until(lambda: group.committed(topic), lambda row: row["committed_offset"] == -1)
        return {
            "offsets": [left, group.committed(other)],
            "commit": member.commit(topic, 7),
            "heartbeat": member.heartbeat(),
        }


@situation("requests to a topic that was deleted")
def asked_when_deleted(broker: Broker) -> Any:
    topic = broker.create("used-gone")
    topic_id = broker.topic_id(topic)
    deleted = _delete(broker, topic)
    # The answer may come before all of the topic is gone.
    row: Values = {"name": topic, "num_partitions": 1, "replication_factor": 1}
    until(
        lambda: broker.ask("CreateTopics", 5, topics=[row], timeout_ms=5_000, validate_only=True),
        lambda seen: seen["topics"][0]["error_code"] == 0,
    )
    wanted = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    records = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 0}]}]
    change = {"name": "retention.ms", "config_operation": 0, "value": "1"}
    return {
        "delete again": _delete(broker, topic),
        "delete by id": broker.ask("DeleteTopics", 6, topics=[{"topic_id": topic_id, "name": None}], timeout_ms=5_000),
        "delete records": broker.ask("DeleteRecords", 2, topics=records, timeout_ms=5_000),
        "partitions": broker.ask(
            "CreatePartitions", 3, topics=[{"name": topic, "count": 3, "assignments": None}], timeout_ms=5_000
        ),
        "configs": broker.ask(
            "IncrementalAlterConfigs",
            1,
            resources=[{"resource_type": 2, "resource_name": topic, "configs": [change]}],
            validate_only=False,
        ),
        "offsets": broker.ask("ListOffsets", 5, replica_id=-1, topics=wanted),
        "deleted": deleted,
    }
