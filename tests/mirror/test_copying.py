"""What is kept of copied topics and records, on clusters in this process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from sordini.cli.commands.mirror.mirror_file import read_mirror_file
from sordini.client.authentication import SaslCredentials
from sordini.mirror.formats import KeyValue, read_offset_sync
from sordini.mirror.naming import Naming
from sordini.mirror.plan import Delivery, Start, SyncsIn
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.records.batch import HEADER_SIZE, read_header
from sordini.protocol.records.legacy import entries
from sordini.testing import Kafka, make_kafka
from sordini.testing.faults.seen import SeenRequest
from tests.mirror.running import (
    RunningMirror,
    eventually,
    plan,
    records_of,
    source,
    topics_of,
    values_of,
    wait_for_values,
)
from tests.support.wire_client import Client

EAST_TOPIC = "east.orders"


@pytest.fixture
def east() -> Iterator[Kafka]:
    with make_kafka(topics={"orders": 3}) as kafka:
        yield kafka


@pytest.fixture
def west() -> Iterator[Kafka]:
    with make_kafka(topics={"orders": 1}) as kafka:
        yield kafka


def administer(kafka: Kafka, operation: Callable[[AdminClient], dict[Any, Any]]) -> list[Any]:
    """The results of an operation of an admin client."""
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    return [future.result(10) for future in operation(client).values()]


def test_keys_values_headers_times_and_partitions_are_kept(east: Kafka, central: Kafka) -> None:
    for partition in range(3):
        east.produce(
            "orders",
            [f"{partition}-a", None, "c"],
            key="k",
            partition=partition,
            headers={"h": "1", "n": None},
            timestamp_ms=1_700_000_000_000 + partition,
        )
    with RunningMirror(plan(central, source("east", east))):
        eventually(lambda: len(records_of(central, EAST_TOPIC)) == 9)
    assert [record[1:] for record in central.records(EAST_TOPIC)] == [record[1:] for record in east.records("orders")]


def test_topics_are_chosen_by_pattern_and_new_ones_are_found(east: Kafka, central: Kafka) -> None:
    east.topic("clicks-test")
    with RunningMirror(plan(central, source("east", east, ["orders", "late.*"]))):
        eventually(lambda: EAST_TOPIC in topics_of(central))
        east.topic("late-one", partitions=2)
        east.produce("late-one", "x", partition=1)
        wait_for_values(central, "east.late-one", ["x"])
    assert topics_of(central).keys() & {"east.clicks-test", "clicks-test"} == set()


def test_a_topic_that_gets_more_partitions_has_them_in_the_target(east: Kafka, central: Kafka) -> None:
    with RunningMirror(plan(central, source("east", east))):
        eventually(lambda: topics_of(central).get(EAST_TOPIC) == 3)
        administer(east, lambda client: client.create_partitions([NewPartitions("orders", 5)]))
        eventually(lambda: topics_of(east)["orders"] == 5)
        east.produce("orders", "in the new one", partition=4)
        wait_for_values(central, EAST_TOPIC, ["in the new one"])
    assert topics_of(central)[EAST_TOPIC] == 5


def settings(kafka: Kafka, topic: str) -> dict[str, str]:
    """What is set for the topic itself."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    (found,) = administer(kafka, lambda client: client.describe_configs([resource]))
    return {name: entry.value for name, entry in found.items() if not entry.is_default and entry.source == 1}


def change(kafka: Kafka, topic: str, **operations: tuple[AlterConfigOpType, str]) -> None:
    rows = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=operation)
        for name, (operation, value) in operations.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=rows)
    administer(kafka, lambda client: client.incremental_alter_configs([resource]))


def test_settings_of_topics_are_followed_but_those_of_the_cluster_s_own(east: Kafka, central: Kafka) -> None:
    east.topic(
        "kept", config={"retention.ms": 5_000_000, "min.insync.replicas": 1, "message.timestamp.type": "LogAppendTime"}
    )
    with RunningMirror(plan(central, source("east", east))):
        eventually(lambda: "east.kept" in topics_of(central))
        assert settings(central, "east.kept") == {"retention.ms": "5000000"}
        change(
            east, "kept", cleanup_policy=(AlterConfigOpType.SET, "compact"), retention_ms=(AlterConfigOpType.DELETE, "")
        )
        eventually(lambda: settings(central, "east.kept") == {"cleanup.policy": "compact"})


def test_settings_are_left_alone_where_they_are_not_to_be_followed(east: Kafka, central: Kafka) -> None:
    change(east, "orders", retention_ms=(AlterConfigOpType.SET, "5000000"))
    with RunningMirror(plan(central, source("east", east), sync_configs=False)):
        eventually(lambda: EAST_TOPIC in topics_of(central))
    assert settings(central, EAST_TOPIC) == {}


def batches_of(kafka: Kafka, topic: str) -> list[bytes]:
    """The record batches of partition 0 but markers, as they are in the log."""
    host, _, port = kafka.bootstrap_servers.partition(":")
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10_000_000)
    request = FetchRequest(max_bytes=10_000_000, topics=[FetchTopic(topic=topic, partitions=[wanted])])
    with Client(host, int(port)) as client:
        records = bytes(client.ask(ApiKey.FETCH, 12, request).responses[0].partitions[0].records)
    found = [records[entry.position : entry.position + entry.size] for entry in entries(records)]
    return [batch for batch in found if not read_header(batch).is_control]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_in_the_target_byte_for_byte(east: Kafka, central: Kafka, codec: str) -> None:
    producer = Producer({"bootstrap.servers": east.bootstrap_servers, "compression.type": codec, "linger.ms": 50})
    for number in range(5_000):
        producer.produce("orders", f"value {number}", key=str(number), partition=0)
    assert producer.flush(20) == 0
    with RunningMirror(plan(central, source("east", east))):
        eventually(lambda: len(records_of(central, EAST_TOPIC)) == 5_000)
    sent, copied = batches_of(east, "orders"), batches_of(central, EAST_TOPIC)
    assert {read_header(batch).codec for batch in sent} != {0}
    assert [batch[HEADER_SIZE:] for batch in copied] == [batch[HEADER_SIZE:] for batch in sent]


def test_of_transactions_only_committed_records_are_copied(east: Kafka, central: Kafka) -> None:
    producer = Producer({"bootstrap.servers": east.bootstrap_servers, "transactional.id": "shop"})
    producer.init_transactions(20)
    for number in range(6):
        producer.begin_transaction()
        producer.produce("orders", str(number), partition=0)
        assert producer.flush(20) == 0  # An abort drops what is not sent yet.
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(20)
    with RunningMirror(plan(central, source("east", east))):
        wait_for_values(central, EAST_TOPIC, ["0", "2", "4"])
    assert len(central.records(EAST_TOPIC, isolation="read_uncommitted")) == 3


def test_a_transaction_that_is_open_is_copied_once_it_is_committed(east: Kafka, central: Kafka) -> None:
    producer = Producer({"bootstrap.servers": east.bootstrap_servers, "transactional.id": "shop"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("orders", "open", partition=0)
    assert producer.flush(20) == 0
    east.produce("orders", "elsewhere", partition=1)
    with RunningMirror(plan(central, source("east", east))):
        wait_for_values(central, EAST_TOPIC, ["elsewhere"])
        producer.commit_transaction(20)
        wait_for_values(central, EAST_TOPIC, ["open", "elsewhere"])


def test_times_of_the_source_s_log_are_the_copies_own(east: Kafka, central: Kafka) -> None:
    east.topic("stamped", config={"message.timestamp.type": "LogAppendTime"})
    east.produce("stamped", ["a", "b"], timestamp_ms=5)
    with RunningMirror(plan(central, source("east", east))):
        wait_for_values(central, "east.stamped", ["a", "b"])
    assert [one.timestamp_ms for one in central.records("east.stamped")] == [
        one.timestamp_ms for one in east.records("stamped")
    ]
    assert min(one.timestamp_ms for one in central.records("east.stamped")) > 5


def test_two_sources_are_copied_beside_each_other(east: Kafka, west: Kafka, central: Kafka) -> None:
    east.produce("orders", ["1", "2"])
    west.produce("orders", ["3"])
    with RunningMirror(plan(central, source("east", east), source("west", west))):
        wait_for_values(central, EAST_TOPIC, ["1", "2"])
        wait_for_values(central, "west.orders", ["3"])


def test_two_sources_are_merged_into_one_topic(east: Kafka, west: Kafka, central: Kafka) -> None:
    east.produce("orders", [f"e{number}" for number in range(50)])
    west.produce("orders", [f"w{number}" for number in range(50)])
    merged = plan(central, source("east", east), source("west", west), naming=Naming.MERGE)
    with RunningMirror(merged):
        eventually(lambda: len(values_of(central, "orders")) == 100 and topics_of(central)["orders"] == 3)
    found = [value or "" for value in values_of(central, "orders")]
    for letter in "ew":
        assert [value for value in found if value.startswith(letter)] == [f"{letter}{number}" for number in range(50)]


def test_a_source_that_is_not_there_does_not_hold_up_the_others(east: Kafka, west: Kafka, central: Kafka) -> None:
    west.brokers[0].kill()
    east.produce("orders", "1")
    with RunningMirror(plan(central, source("west", west), source("east", east))) as mirror:
        wait_for_values(central, EAST_TOPIC, ["1"])
        eventually(lambda: mirror.figures[0].problem)
        west.brokers[0].start()
        west.produce("orders", "2")
        wait_for_values(central, "west.orders", ["2"])
    assert any(notice.startswith("west: no broker of cluster 'west' answers") for notice in mirror.notices)


def test_copies_go_on_where_they_were_when_a_mirror_is_started_again(east: Kafka, central: Kafka) -> None:
    expected = []
    for number in range(3):
        east.produce("orders", str(number))
        expected.append(str(number))
        with RunningMirror(plan(central, source("east", east))):
            wait_for_values(central, EAST_TOPIC, expected)


def test_what_is_under_way_is_committed_when_a_mirror_is_stopped(east: Kafka, central: Kafka) -> None:
    """The transaction would be open for a minute."""
    with RunningMirror(plan(central, source("east", east), commit_s=60.0)) as mirror:
        eventually(lambda: mirror.is_copying)
        east.produce("orders", "1")
        eventually(lambda: len(central.records(EAST_TOPIC, isolation="read_uncommitted")) == 1)
        assert values_of(central, EAST_TOPIC) == []
    assert values_of(central, EAST_TOPIC) == ["1"]


def test_a_start_at_the_latest_record_leaves_out_what_was_there_before(east: Kafka, central: Kafka) -> None:
    east.produce("orders", "old")
    latest = plan(central, source("east", east, start=Start.LATEST))
    with RunningMirror(latest) as mirror:
        eventually(lambda: mirror.figures[0].transactions)
    east.produce("orders", "while it was stopped")
    east.topic("new")
    east.produce("new", "in a new topic")
    with RunningMirror(latest):
        wait_for_values(central, EAST_TOPIC, ["while it was stopped"])
        wait_for_values(central, "east.new", ["in a new topic"])


def test_a_topic_that_is_created_again_is_copied_from_its_beginning(east: Kafka, central: Kafka) -> None:
    east.produce("orders", ["1", "2", "3"])
    with RunningMirror(plan(central, source("east", east))):
        wait_for_values(central, EAST_TOPIC, ["1", "2", "3"])
    administer(east, lambda client: client.delete_topics(["orders"]))
    eventually(lambda: "orders" not in topics_of(east))
    east.topic("orders", partitions=3)
    east.produce("orders", ["4"])
    with RunningMirror(plan(central, source("east", east))) as mirror:
        wait_for_values(central, EAST_TOPIC, ["1", "2", "3", "4"])
    (said,) = [notice for notice in mirror.notices if "created again" in notice]
    assert said == (
        "east: topic 'orders' was created again since it was copied: the new one is copied from its first record, "
        "behind what 'east.orders' has of the old one"
    )


def test_a_topic_that_is_deleted_and_created_again_while_it_is_copied_is_named_each_time(
    east: Kafka, central: Kafka
) -> None:
    east.produce("orders", "1")
    with RunningMirror(plan(central, source("east", east))) as mirror:
        wait_for_values(central, EAST_TOPIC, ["1"])
        administer(east, lambda client: client.delete_topics(["orders"]))
        gone = (
            "east: topic 'orders' is gone: it was deleted, or may not be described any more; what was copied into "
            "'east.orders' stays"
        )
        eventually(lambda: gone in mirror.notices)
        east.topic("orders", partitions=3)
        east.produce("orders", "2")
        wait_for_values(central, EAST_TOPIC, ["1", "2"])
    assert mirror.notices.count(gone) == 1
    assert any("topic 'orders' was deleted and created again" in notice for notice in mirror.notices)
    assert any("topic 'orders' was created again since it was copied" in notice for notice in mirror.notices)


def test_records_that_the_source_deletes_before_they_are_copied_are_counted(east: Kafka, central: Kafka) -> None:
    east.produce("orders", "1")
    with RunningMirror(plan(central, source("east", east))):
        wait_for_values(central, EAST_TOPIC, ["1"])
    east.produce("orders", ["2", "3"])
    east.expire("orders")
    east.produce("orders", "4")
    with RunningMirror(plan(central, source("east", east))) as mirror:
        wait_for_values(central, EAST_TOPIC, ["1", "4"])
        assert mirror.figures[0].lost_records == 2
    assert any("2 offsets of orders-0 were deleted" in notice for notice in mirror.notices)


def test_at_least_once_is_said_aloud(east: Kafka, central: Kafka) -> None:
    east.produce("orders", "1")
    with RunningMirror(plan(central, source("east", east), delivery=Delivery.AT_LEAST_ONCE)) as mirror:
        wait_for_values(central, EAST_TOPIC, ["1"])
        assert mirror.figures[0].delivery == "at least once"
    assert mirror.notices[0] == (
        "east: copied at least once, with repetitions after a failure: the configuration asks for it"
    )
    assert central.requests("EndTxn") == []
    with RunningMirror(plan(central, source("east", east), delivery=Delivery.AT_LEAST_ONCE)) as mirror:
        eventually(lambda: mirror.is_copying)
        east.produce("orders", "2")
        wait_for_values(central, EAST_TOPIC, ["1", "2"])


def test_a_second_mirror_of_one_name_takes_over_and_the_first_one_ends(east: Kafka, central: Kafka) -> None:
    same = plan(central, source("east", east))
    with RunningMirror(same) as first:
        eventually(lambda: first.is_copying)
        with RunningMirror(same) as second:
            sent: list[str] = []

            def one_is_left() -> bool:
                sent.append(str(len(sent)))
                east.produce("orders", sent[-1])
                return not (first.is_alive and second.is_alive)

            eventually(one_is_left)
            wait_for_values(central, EAST_TOPIC, sent)
            assert "another mirror called 'test'" in str(first.failure or second.failure)


@pytest.mark.parametrize(
    ("where", "topic"),
    [(SyncsIn.TARGET, "mm2-offset-syncs.east.internal"), (SyncsIn.SOURCE, "mm2-offset-syncs.central.internal")],
)
def test_offset_syncs_pair_each_record_with_its_copy(east: Kafka, central: Kafka, where: SyncsIn, topic: str) -> None:
    cluster = central if where is SyncsIn.TARGET else east
    with RunningMirror(plan(central, source("east", east), syncs_in=where)) as mirror:
        for number in range(3):
            east.produce("orders", [f"{number}", f"{number}b"])
            eventually(lambda number=number: len(records_of(central, EAST_TOPIC)) == 2 * number + 2)
        eventually(lambda: len(records_of(cluster, topic)) >= 3)
        assert mirror.figures[0].failures == 0  # Sequences go on from one transaction to the next.
    upstream = {record.offset: record.value for record in east.records("orders", 0)}
    downstream = {record.offset: record.value for record in central.records(EAST_TOPIC, 0)}
    for record in cluster.records(topic):
        sync = read_offset_sync(KeyValue(record.key or b"", record.value))
        for delta in range(sync.record_count):
            assert upstream[sync.upstream + delta] == downstream[sync.downstream + delta]


def test_heartbeats_are_written_in_both_clusters_and_copied(east: Kafka, central: Kafka) -> None:
    with RunningMirror(plan(central, source("east", east), heartbeat_s=0.05)):
        eventually(lambda: records_of(central, "east.heartbeats") and records_of(central, "heartbeats"))
    assert central.records("heartbeats")[0].key == b"\0\4east\0\7central"
    assert central.records("east.heartbeats")[0].key == b"\0\7central\0\4east"


def count_of(kafka: Kafka, topic: str) -> int:
    return len(records_of(kafka, topic))


@pytest.mark.parametrize("naming", list(Naming))
def test_two_way_copies_never_loop(east: Kafka, central: Kafka, naming: Naming) -> None:
    central.topic("orders", partitions=3)
    forth = plan(central, source("east", east), naming=naming, heartbeat_s=0.1)
    back = plan(east, source("central", central), alias="east", naming=naming, heartbeat_s=0.1)
    there, here = ("orders", "orders") if naming is Naming.MERGE else (EAST_TOPIC, "central.orders")
    with RunningMirror(forth), RunningMirror(back):
        for number in range(30):
            east.produce("orders", f"e{number}", partition=number % 3)
            central.produce("orders", f"c{number}", partition=number % 3)
        all_of = 60 if naming is Naming.MERGE else 30
        eventually(lambda: count_of(central, there) >= all_of and count_of(east, here) >= all_of)
        # What looped would come in with, or before, what is sent now.
        east.produce("orders", "e-last")
        central.produce("orders", "c-last")
        more = 2 if naming is Naming.MERGE else 1
        eventually(lambda: count_of(central, there) >= all_of + more and count_of(east, here) >= all_of + more)
    for kafka, topic in ((central, there), (east, here)):
        found = values_of(kafka, topic)
        assert len(found) == len(set(found)) == all_of + more
    for name in {*topics_of(east), *topics_of(central)}:
        assert not name.startswith(("east.central.", "central.east.")), name


Fault = Callable[[Kafka, Kafka], object]
FAULTS: dict[str, Fault] = {
    "an answer to Produce is lost": lambda _, central: central.on("Produce", times=1, after=3).close_connection(
        after=True
    ),
    "a Produce is lost": lambda _, central: central.on("Produce", times=1, after=3).close_connection(),
    "a Produce is refused": lambda _, central: central.on("Produce", times=2, after=3).fail("NOT_LEADER_OR_FOLLOWER"),
    "an answer to EndTxn is lost": lambda _, central: central.on("EndTxn", times=1, after=1).close_connection(
        after=True
    ),
    "an EndTxn is lost": lambda _, central: central.on("EndTxn", times=1, after=1).close_connection(),
    "an EndTxn meets one that is not complete": lambda _, central: central.on("EndTxn", times=2).fail(
        "CONCURRENT_TRANSACTIONS"
    ),
    "partitions are not added": lambda _, central: central.on("AddPartitionsToTxn", times=2).fail("NOT_COORDINATOR"),
    "the producer was fenced": lambda _, central: central.on("AddPartitionsToTxn", times=1).fail("PRODUCER_FENCED"),
    "a Fetch is lost": lambda east, _: east.on("Fetch", topic="orders", times=3).close_connection(),
    "a Fetch is refused": lambda east, _: east.on("Fetch", topic="orders", times=3).fail("NOT_LEADER_OR_FOLLOWER"),
    "a response to Fetch is damaged": lambda east, _: east.on("Fetch", topic="orders", times=1).corrupt(),
    "the source is killed": lambda east, _: east.brokers[0].kill(),
    "the target is killed": lambda _, central: central.brokers[0].kill(),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_record_is_copied_once_though(east: Kafka, central: Kafka, fault: str) -> None:
    values = [f"{number}" for number in range(40)]
    with RunningMirror(plan(central, source("east", east))) as mirror:
        eventually(lambda: mirror.is_copying)
        for number, value in enumerate(values):
            east.produce("orders", value)
            if number == 20:
                FAULTS[fault](east, central)
                east.brokers[0].start()
                central.brokers[0].start()
        wait_for_values(central, EAST_TOPIC, values)


def test_each_record_is_copied_once_though_the_mirror_is_killed_again_and_again(east: Kafka, central: Kafka) -> None:
    sent: list[str] = []
    for kill in range(12):
        mirror = RunningMirror(plan(central, source("east", east))).start()
        deadline = time.monotonic() + 0.04 * kill
        while time.monotonic() < deadline:
            sent += [f"{len(sent)}", f"{len(sent) + 1}"]
            east.produce("orders", sent[-2:])
        mirror.kill()
    with RunningMirror(plan(central, source("east", east))):
        wait_for_values(central, EAST_TOPIC, sent)


@pytest.mark.parametrize("version", ["0.9.0", "0.10.2"])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_messages_of_old_formats_are_copied(east: Kafka, central: Kafka, version: str, codec: str) -> None:
    east.topic("old", config={"message.format.version": version})
    producer = Producer({"bootstrap.servers": east.bootstrap_servers, "compression.type": codec, "linger.ms": 20})
    for number in range(20):
        producer.produce("old", str(number), key="k")
    assert producer.flush(20) == 0
    with RunningMirror(plan(central, source("east", east))):
        wait_for_values(central, "east.old", [str(number) for number in range(20)])
    assert [one[3:] for one in central.records("east.old")] == [one[3:] for one in east.records("old")]


def test_clusters_with_tls_and_logins_are_copied(tmp_path: Path) -> None:
    users = {"alice": "secret"}
    with make_kafka(tls=True, sasl=users, topics=["orders"]) as east, make_kafka(tls=True, sasl=users) as central:
        for alias, kafka in (("east", east), ("central", central)):
            (tmp_path / f"{alias}.properties").write_text(
                "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n"
                f"ssl.truststore.type=PEM\nssl.truststore.location={kafka.ca_file}\n"
                "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
                'username="alice" password="secret";\n'
            )
        clusters = {
            alias: {"bootstrap": kafka.bootstrap_servers, "command_config": f"{alias}.properties"}
            for alias, kafka in (("east", east), ("central", central))
        }
        file = tmp_path / "mirror.yaml"
        file.write_text(
            json.dumps(
                {
                    "name": "secured",
                    "target": {"alias": "central", **clusters["central"]},
                    "sources": {"east": clusters["east"]},
                    "commit_interval": "50 milliseconds",
                }
            )
        )
        producer = Producer(east.client_settings("alice"))
        for number in range(1_000):
            producer.produce("orders", str(number))
        assert producer.flush(20) == 0
        reader = Consumer({**central.client_settings("alice"), "group.id": "reader", "auto.offset.reset": "earliest"})
        found: list[str] = []
        with RunningMirror(read_mirror_file(file, {})) as mirror:
            eventually(lambda: mirror.figures[0].records >= 1_000, lambda: mirror.notices)
            reader.subscribe(["east.orders"])
            eventually(
                lambda: found.extend(one.value().decode() for one in reader.consume(500, 0.2)) or len(found) == 1_000
            )
        reader.close()
        assert found == [str(number) for number in range(1_000)]


def test_a_refused_login_is_said_and_tried_again(tmp_path: Path, central: Kafka) -> None:
    with make_kafka(sasl={"alice": "secret"}) as east:
        wrong = SaslCredentials("SCRAM-SHA-256", "alice", "wrong")
        refused = source("east", east)
        refused = refused._replace(access=refused.access._replace(credentials=lambda: wrong))
        with RunningMirror(plan(central, refused)) as mirror:
            eventually(lambda: mirror.figures[0].failures > 1)
    assert "refuses 'alice' (SCRAM-SHA-256)" in mirror.notices[0]
    assert len(mirror.notices) == 1


def test_a_mirror_that_waits_for_its_target_ends_at_once(east: Kafka, central: Kafka) -> None:
    """It would wait for a minute."""
    loading = central.on("InitProducerId").fail("COORDINATOR_LOAD_IN_PROGRESS")
    with loading, RunningMirror(plan(central, source("east", east))) as mirror:
        eventually(lambda: central.requests("InitProducerId"))
    assert mirror.figures[0].failures == 0


def test_a_target_that_is_not_there_is_reported_once(east: Kafka, central: Kafka) -> None:
    central.brokers[0].kill()
    with RunningMirror(plan(central, source("east", east))) as mirror:
        eventually(lambda: mirror.figures[0].failures > 1)
    (notice,) = mirror.notices
    assert "no broker of cluster 'central' answers" in notice


def test_without_the_right_to_create_heartbeats_records_are_copied(east: Kafka, central: Kafka) -> None:
    east.produce("orders", "1")
    refused = east.on("CreateTopics").fail("TOPIC_AUTHORIZATION_FAILED")
    with refused, RunningMirror(plan(central, source("east", east), heartbeat_s=0.1)) as mirror:
        wait_for_values(central, EAST_TOPIC, ["1"])
    assert any("'heartbeats'" in notice for notice in mirror.notices)


def test_a_topic_that_the_target_refuses_is_left_out_and_the_others_are_copied(east: Kafka, central: Kafka) -> None:
    east.topic("other")
    east.produce("other", "1")
    east.produce("orders", "2")
    refused = central.on("CreateTopics", topic="east.other").fail("POLICY_VIOLATION")
    with RunningMirror(plan(central, source("east", east))) as mirror:
        with refused:
            wait_for_values(central, EAST_TOPIC, ["2"])
        wait_for_values(central, "east.other", ["1"])
    notices = [notice for notice in mirror.notices if "'other' of 'east' is not copied" in notice]
    assert len(notices) == 1


def test_a_topic_that_cannot_be_copied_for_a_while_goes_on_where_it_was(east: Kafka, central: Kafka) -> None:
    sent = [str(number) for number in range(10)]
    with RunningMirror(plan(central, source("east", east))) as mirror:
        east.produce("orders", sent[:5])
        wait_for_values(central, EAST_TOPIC, sent[:5])
        with central.on("CreatePartitions").fail("POLICY_VIOLATION"):
            administer(east, lambda client: client.create_partitions([NewPartitions("orders", 4)]))
            eventually(lambda: any("'orders' of 'east' is not copied" in notice for notice in mirror.notices))
            east.produce("orders", sent[5:])
        wait_for_values(central, EAST_TOPIC, sent)
        east.produce("orders", "last", partition=3)
        wait_for_values(central, EAST_TOPIC, [*sent, "last"])


def reads_positions(request: SeenRequest) -> bool:
    return any(topic.topic == "mm2-offsets.east.internal" for topic in request.body.topics)


def test_an_open_transaction_of_another_mirror_does_not_hide_the_last_position(east: Kafka, central: Kafka) -> None:
    east.topic("clicks")
    orders = plan(central, source("east", east, ["orders"]))
    clicks = plan(central, source("east", east, ["clicks"]))._replace(name="other")
    with RunningMirror(clicks) as other:
        with RunningMirror(orders) as first:
            eventually(lambda: other.is_copying and first.is_copying)
            id_of_other = "sordini-mirror-other-east-central"
            held = central.on("EndTxn", transactional_id=id_of_other, times=1).hold(before=True)
            east.produce("clicks", "1")
            eventually(lambda: [one for one in central.requests("EndTxn") if one.fault])
            east.produce("orders", "1")
            wait_for_values(central, EAST_TOPIC, ["1"])
        central.forget_requests()
        with RunningMirror(orders) as again:
            east.produce("orders", "2")
            eventually(lambda: len(central.requests("Fetch", when=reads_positions)) > 2)
            held.release()
            eventually(lambda: again.is_copying)
            wait_for_values(central, EAST_TOPIC, ["1", "2"])
        wait_for_values(central, "east.clicks", ["1"])
