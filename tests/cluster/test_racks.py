"""Brokers in racks: where topics go, reading from the closest replica (KIP-392), and what `cluster status` says.

Consumers are real ones and say where they stand (`client.rack`). Which broker served is seen by what each of ours has sent: the records are produced and replicated before. A quick run
has three of ours; with SORDINI_MIXED=all the third is an Apache Kafka, which sends consumers to ours and serves those
that ours send to it.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from prometheus_client.parser import text_string_to_metric_families

from sordini.cli.__main__ import main
from tests.cluster.cluster import OURS, SECONDS_MAX, Cluster
from tests.cluster.conftest import EVERYTHING
from tests.outside.ports import free_port
from tests.outside.tools import JavaTools
from tests.outside.versions import APACHE_KAFKA

COMMON = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "replica.fetch.max.bytes": 65_536,  # So that one that is held back does not get everything at once.
}
RACKS = {1: "a", 2: "b", 3: "c"}
KINDS = {1: OURS, 2: OURS, 3: APACHE_KAFKA if EVERYTHING else OURS}
# (the leader, the broker in the reader's rack)
PAIRS = [(leader, reader) for leader in RACKS for reader in RACKS] if EVERYTHING else [(1, 1), (1, 2), (3, 1)]
JAVA_PAIRS = [(1, 2), (3, 1), (1, 3)] if EVERYTHING else [(1, 2)]
RECORDS, RECORD_BYTES = 400, 5_000
TOTAL_BYTES = RECORDS * RECORD_BYTES
LITTLE_BYTES = TOTAL_BYTES // 10
"""What empty fetches, metadata and answers that send a consumer elsewhere amount to."""


@pytest.fixture(scope="module")
def cluster(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Brokers 1 to 3, each in a rack of its own, and `from-N` with all records, led by broker N."""
    made = Cluster(tmp_path_factory.mktemp("racks"), zookeeper, "3.9")
    try:
        for broker, kind in KINDS.items():
            metrics = {"sordini.metrics.port": free_port()} if kind == OURS else {}
            made.start({broker: kind}, {**COMMON, "broker.rack": RACKS[broker], **metrics})
        for leader in RACKS:
            made.create(f"from-{leader}", [[leader, *(other for other in RACKS if other != leader)]])
        _fill(made)
        yield made
    finally:
        made.close()


def _fill(cluster: Cluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for leader in RACKS:
        for number in range(RECORDS):
            producer.produce(f"from-{leader}", f"{number:<{RECORD_BYTES}}".encode(), partition=0)
    assert producer.flush(SECONDS_MAX) == 0


def sent_bytes(cluster: Cluster) -> dict[int, float]:
    """What each of ours has sent since it was started."""
    return {broker: _sent(cluster, broker) for broker in RACKS if cluster.is_ours(broker)}


def _sent(cluster: Cluster, broker: int) -> float:
    port = cluster.ours(broker).overrides["sordini.metrics.port"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS_MAX) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        samples = [sample for family in families for sample in family.samples]
    return sum(sample.value for sample in samples if sample.name == "sordini_sent_bytes_total")


def servers(before: Mapping[int, float], after: Mapping[int, float]) -> list[int]:
    """Who of ours sent the records."""
    amounts = {broker: after[broker] - before[broker] for broker in before}
    assert all(amount < LITTLE_BYTES or amount > TOTAL_BYTES / 2 for amount in amounts.values()), amounts
    return [broker for broker, amount in amounts.items() if amount > LITTLE_BYTES]


def expected(reader: int) -> list[int]:
    return [reader] if KINDS[reader] == OURS else []


def consume(cluster: Cluster, topic: str, rack: str, **settings: Any) -> Consumer:
    """A librdkafka consumer that stands in a rack and has read all records."""
    common = {"bootstrap.servers": cluster.bootstrap, "group.id": "none", "client.rack": rack, "log_level": 0}
    # A consumer's close waits for the fetch that is delayed.
    consumer = Consumer({**common, "fetch.wait.max.ms": 50, **settings})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values = []
    while len(values) < RECORDS:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None
        assert message.error() is None, message.error()
        values.append(int(message.value()))
    assert values == list(range(RECORDS))
    return consumer


@pytest.mark.parametrize(("leader", "reader"), PAIRS)
def test_librdkafka_reads_from_the_replica_in_its_rack(cluster: Cluster, leader: int, reader: int) -> None:
    before = sent_bytes(cluster)
    consume(cluster, f"from-{leader}", RACKS[reader]).close()
    assert servers(before, sent_bytes(cluster)) == expected(reader)


@pytest.mark.parametrize("rack", ["", "elsewhere"])
def test_who_stands_nowhere_or_far_from_all_reads_from_the_leader(cluster: Cluster, rack: str) -> None:
    before = sent_bytes(cluster)
    consume(cluster, "from-2", rack).close()
    assert servers(before, sent_bytes(cluster)) == [2]


@pytest.mark.parametrize(("leader", "reader"), JAVA_PAIRS)
def test_the_java_consumer_reads_from_the_replica_in_its_rack(
    cluster: Cluster, java: JavaTools, leader: int, reader: int
) -> None:
    before = sent_bytes(cluster)
    words = {
        "--bootstrap-server": cluster.bootstrap,
        "--topic": f"from-{leader}",
        "--partition": "0",
        "--offset": "earliest",
        "--max-messages": str(RECORDS),
        "--timeout-ms": str(round(SECONDS_MAX * 1_000)),
        "--consumer-property": f"client.rack={RACKS[reader]}",
    }
    output = java("org.apache.kafka.tools.consumer.ConsoleConsumer", *(word for pair in words.items() for word in pair))
    assert [int(line) for line in output.split()] == list(range(RECORDS))
    assert servers(before, sent_bytes(cluster)) == expected(reader)


@pytest.fixture(scope="module")
def java() -> Iterator[JavaTools]:
    with JavaTools() as tools:
        yield tools


def test_a_consumer_at_a_follower_gets_what_is_produced_while_it_waits(cluster: Cluster) -> None:
    reported: list[dict[str, Any]] = []
    settings = {"statistics.interval.ms": 100, "stats_cb": lambda text: reported.append(json.loads(text))}
    settings |= {"fetch.wait.max.ms": 500}
    cluster.create("live", [[1, 2]])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce("live", str(number).encode(), partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    consumer = consume(cluster, "live", "b", **settings)
    for number in range(2):
        producer.produce("live", str(number).encode(), partition=0)
        assert producer.flush(SECONDS_MAX) == 0
        message = consumer.poll(SECONDS_MAX)
        assert message is not None
        assert int(message.value()) == number
    consumer.close()
    at = reported[-1]["topics"]["live"]["partitions"]["0"]
    assert (at["leader"], at["broker"]) == (1, 2)


@pytest.mark.skipif(not EVERYTHING, reason="takes as long as a session timeout")
def test_a_consumer_goes_back_to_the_leader_when_the_follower_is_gone(cluster: Cluster) -> None:
    cluster.create("left", [[1, 2]])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce("left", str(number).encode(), partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    consumer = consume(cluster, "left", "b")
    cluster.kill(2)
    producer.produce("left", b"later", partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    message = consumer.poll(SECONDS_MAX)
    assert message is not None
    assert (message.error(), message.value()) == (None, b"later")
    consumer.close()
    cluster.restart(2)


def status(cluster: Cluster, *options: str, code: int = 0) -> Any:
    """What `sordini cluster status` says: as JSON, or with options of its own as text."""
    shape = options or ("--json",)
    done = CliRunner().invoke(main, ["cluster", "status", *shape], env={"SORDINI_BOOTSTRAP": cluster.bootstrap})
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    return done.stdout if options else json.loads(done.stdout)


def test_a_topic_lies_in_different_racks_and_status_says_where(cluster: Cluster) -> None:
    cluster.ask_controller(lambda admin: admin.create_topics([NewTopic("spread", 6, 2)], operation_timeout=30))
    cluster.wait(lambda: status(cluster)["under_replicated_partitions"] == 0, "all replicas are in sync")
    reported = status(cluster)
    rows = [row for row in reported["partitions"] if row["topic"] == "spread"]
    assert sorted(row["leader"] for row in rows) == [1, 1, 2, 2, 3, 3]
    assert [(row["broker"], row["rack"], row["state"]) for row in reported["brokers"]] == [
        (1, "a", "up"),
        (2, "b", "up"),
        (3, "c", "up"),
    ]
    assert reported["controller"] == cluster.tree.controller()
    held = sum(len(row["replicas"]) for row in reported["partitions"])
    assert (
        sum(row["replicas"] for row in reported["brokers"])
        == sum(row["in_sync"] for row in reported["brokers"])
        == held
    )
    assert sum(row["leads"] for row in reported["brokers"]) == len(reported["partitions"])
    cluster.wait(lambda: [row["lag"] for row in status(cluster)["brokers"]] == [0, 0, 0], "no replica is behind")
    assert "0 without a leader, 0 under-replicated" in status(cluster, "--check")


def test_status_tells_who_is_gone_and_how_far_a_follower_is_behind(cluster: Cluster) -> None:
    config = {"follower.replication.throttled.replicas": "*"}
    cluster.create("lagging", [[1, 2]], config)
    throttle(cluster, 2, "1")
    assert cluster.brokers[2].stop() == 0
    cluster.wait_for_isr(("lagging", 0), [1])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "batch.num.messages": 10})
    for number in range(RECORDS):
        producer.produce("lagging", f"{number:<{RECORD_BYTES}}".encode(), partition=0)
    assert producer.flush(SECONDS_MAX) == 0

    reported = status(cluster)
    (row,) = [row for row in reported["partitions"] if row["topic"] == "lagging"]
    assert (row["leader"], row["in_sync_replicas"], row["high_watermark"], row["lags"]) == (
        1,
        [1],
        RECORDS,
        {"2": None},
    )
    assert [row["state"] for row in reported["brokers"]] == ["up", "gone", "up"]
    assert "lagging-0" in status(cluster, "--check", code=1)

    cluster.restart(2)
    reported = status(cluster)
    (row,) = [row for row in reported["partitions"] if row["topic"] == "lagging"]
    lag = row["lags"]["2"]
    assert 0 < lag <= RECORDS
    assert [row["lag"] >= lag for row in reported["brokers"]] == [False, True, False]
    throttle(cluster, 2, None)
    cluster.wait_for_full_isr([("lagging", 0)])


@pytest.mark.skipif(not EVERYTHING, reason="waits as long as a broker has for its answers")
def test_status_tells_who_is_there_and_says_nothing(cluster: Cluster) -> None:
    cluster.create("silent", [[2, 1, 3], [1, 2, 3]])
    cluster.wait(lambda: not any(row["lag"] for row in status(cluster)["brokers"]), "no replica is behind")
    with cluster.brokers[2].hung():
        reported = status(cluster)
    assert [row["state"] for row in reported["brokers"]] == ["up", "silent", "up"]
    silent, answering = (row for row in reported["partitions"] if row["topic"] == "silent")
    assert (silent["leader"], silent["high_watermark"], silent["lags"]) == (2, None, {"1": None, "3": None})
    assert (answering["leader"], answering["high_watermark"], answering["lags"]) == (1, 0, {"2": None, "3": 0})


def throttle(cluster: Cluster, broker: int, rate: str | None) -> None:
    """Limit what a broker fetches of throttled replicas, in bytes in a second."""
    kind = AlterConfigOpType.DELETE if rate is None else AlterConfigOpType.SET
    entry = ConfigEntry("follower.replication.throttled.rate", rate or "", incremental_operation=kind)
    resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[entry])
    for future in cluster.admin.incremental_alter_configs([resource]).values():
        future.result(SECONDS_MAX)
