"""Apache Flink's own source and sink, unchanged: a topic is copied exactly once, over a failure and a savepoint.

The program (`Copier.java`) runs Flink's cluster inside its JVM. It is run against ours and against Apache Kafka 4.4.0, with the
client's `group.protocol` as `classic` and as `consumer`: Flink assigns partitions itself, and so its group has offsets
and no members by either.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.outside.java import QUICK_COMPILER, KRaftProcess
from tests.outside.needs import need_flink, need_java
from tests.outside.processes import BrokerProcess, SordiniProcess

PROGRAM: Final = Path(__file__).with_name("Copier.java")
SETTINGS: Final[dict[str, object]] = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 3}
PARTITIONS: Final = 5
RECORDS_EACH: Final = 600
JVM_SECONDS_MAX: Final = 300
CLIENT_SECONDS_MAX: Final = 30
FLAGS: Final = (
    "-Xmx768m",
    QUICK_COMPILER,
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "util", "time", "nio")),
)
SUFFIXES: Final = ("-bounded", "")
"""Of the outputs and groups of the job that is bounded, and of those around the savepoint."""
STARTS: Final = {"sordini": SordiniProcess, "apache": KRaftProcess}


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of the program and of Flink."""
    folder = tmp_path_factory.mktemp("flink-classes")
    path = os.pathsep.join([str(folder), *map(str, need_flink())])
    compiler = ["-m", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn", "-Xlint:-deprecation", "-d", str(folder)]
    run_java("-cp", path, *compiler, str(PROGRAM))
    return path


@pytest.fixture(scope="module", params=STARTS)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    start = STARTS[request.param]
    with start(tmp_path_factory.mktemp(f"flink-{request.param}"), SETTINGS) as process:
        yield process


def run_java(*arguments: str) -> str:
    """What a JVM printed; it must end well."""
    command = [need_java(), *FLAGS, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=JVM_SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def filled(bootstrap: str, topic: str) -> Counter[tuple[int, int, str]]:
    """A topic with records in each partition: what a copy has to have, once each."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS_EACH):
        for partition in range(PARTITIONS):
            producer.produce(topic, f"value-{number}".encode(), partition=partition)
    assert producer.flush(CLIENT_SECONDS_MAX) == 0
    return Counter((part, number, f"value-{number}") for part in range(PARTITIONS) for number in range(RECORDS_EACH))


def copied(bootstrap: str, topic: str) -> Counter[tuple[int, int, str]]:
    """The committed records of a topic of one partition, to its end."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    reader.assign([TopicPartition(topic, 0, 0)])
    found: Counter[tuple[int, int, str]] = Counter()
    while True:
        message = reader.poll(CLIENT_SECONDS_MAX)
        assert message is not None, "the end was not reached: a transaction is open"
        if message.error() is not None:
            reader.close()
            return found
        partition, offset, value = message.value().decode().split(" ", 2)
        found[int(partition), int(offset), value] += 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_flink_copies_a_topic_exactly_once_over_a_failure_and_a_savepoint_and_commits_its_offsets(
    broker: BrokerProcess, classes: str, tmp_path: Path, protocol: str
) -> None:
    source, sink, group = (f"{name}-{protocol}" for name in ("source", "sink", "group"))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    shapes = [NewTopic(source, PARTITIONS, 1), *(NewTopic(f"{sink}{suffix}", 1, 1) for suffix in SUFFIXES)]
    for made in admin.create_topics(shapes).values():
        made.result(CLIENT_SECONDS_MAX)
    expected = filled(broker.bootstrap, source)
    total = expected.total()
    arguments = [broker.bootstrap, protocol, source, sink, group, str(tmp_path), str(total)]
    assert run_java("-cp", classes, "Copier", *arguments).splitlines() == [
        f"bounded: failed=true seen={total}",
        "second: failed=true is before the end=true",
        f"third: seen={total}",
    ]
    for suffix in SUFFIXES:
        found = copied(broker.bootstrap, f"{sink}{suffix}")
        assert (found - expected, expected - found) == (Counter(), Counter()), "left: twice or unknown; right: missing"
        ends = dict.fromkeys([(source, part) for part in range(PARTITIONS)], RECORDS_EACH)
        offsets = committed(admin, f"{group}{suffix}")
        # As a bounded job ends, the commit of its last checkpoint is on its way, and may not arrive.
        assert offsets == ends or (suffix and offsets.keys() <= ends.keys() and max(offsets.values()) <= RECORDS_EACH)
        described = admin.describe_consumer_groups([f"{group}{suffix}"])[f"{group}{suffix}"].result(CLIENT_SECONDS_MAX)
        assert (described.state, described.members) == (ConsumerGroupState.EMPTY, [])


def committed(admin: AdminClient, group: str) -> dict[tuple[str, int], int]:
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {(row.topic, row.partition): row.offset for row in future.result(CLIENT_SECONDS_MAX).topic_partitions}
