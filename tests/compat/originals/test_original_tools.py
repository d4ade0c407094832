"""The command-line tools of 1.1.1 that came with the original clients: producers, consumers, offsets, groups."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import pytest

from tests.cluster.cluster import Cluster
from tests.compat.originals.original_clients import BOTH, KAFKA, ZOOKEEPER
from tests.outside.tools import JavaTools

PRODUCER: Final = "kafka.tools.ConsoleProducer"
CODECS: Final = ("none", "gzip", "snappy", "lz4")
MODES: Final = {"sync": ("--sync",), "async": ("--timeout", "50", "--batch-size", "3")}

Ask = Callable[..., str]


@pytest.fixture
def produce(original_tools: JavaTools, single: Cluster) -> Ask:
    """`produce(topic, lines, *options)` by the old producer; it has sent them all when `--sync` is among the options."""

    def run(topic: str, lines: list[str], *options: str) -> str:
        where = ("--old-producer", "--broker-list", single.bootstrap, "--topic", topic, "--request-required-acks", "-1")
        return original_tools(PRODUCER, *where, *options, standard_input="".join(f"{line}\n" for line in lines))

    return run


class ConsoleConsumers:
    """Runs of the ZooKeeper consumer. In one JVM they go on counting: the limit of one includes those before."""

    def __init__(self, tools: JavaTools) -> None:
        self._tools = tools
        self._processed = 0

    def run(self, count: int, *options: str) -> list[str]:
        """The first so many messages, or fewer when no more come."""
        limits = ("--max-messages", str(self._processed + count), "--timeout-ms", "20000")
        done = self._tools.run("kafka.tools.ConsoleConsumer", *options, *limits)
        said = re.search(r"Processed a total of (\d+) messages", done.errors)
        assert said is not None, done.errors
        self._processed = int(said[1])
        return done.output.splitlines()


@pytest.fixture(scope="session")
def console_consumers(original_tools: JavaTools) -> ConsoleConsumers:
    return ConsoleConsumers(original_tools)


@pytest.fixture
def consume(console_consumers: ConsoleConsumers, single: Cluster) -> Callable[..., list[str]]:
    """`consume(count, "--topic", topic, group=...)`; with `settings`, the group is one that goes on where it was."""

    def run(count: int, *selection: str, group: str, settings: dict[str, str] | None = None) -> list[str]:
        pairs = {"group.id": group, "fetch.wait.max.ms": "50", **(settings or {})}
        options = [word for name, value in pairs.items() for word in ("--consumer-property", f"{name}={value}")]
        start = ("--from-beginning",) if settings is None else ()  # With offsets of the group it refuses to run.
        return console_consumers.run(count, "--zookeeper", single.tree.connect, *selection, *start, *options)

    return run


@pytest.mark.parametrize("mode", MODES)
def test_what_the_old_producer_sends_is_read_in_order_by_the_zookeeper_consumer(
    single: Cluster, produce: Ask, consume: Callable[..., list[str]], topic: str, mode: str
) -> None:
    single.create(topic, [[1]])
    sent = {codec: [f"{codec} {number}" for number in range(7)] for codec in CODECS}
    for codec, lines in sent.items():
        compression = () if codec == "none" else ("--compression-codec", codec)
        produce(topic, lines, *MODES[mode], *compression)
    read = consume(28, "--topic", topic, group=topic)
    assert {codec: [line for line in read if line.startswith(codec)] for codec in CODECS} == sent


def test_white_and_black_lists_of_patterns_choose_the_topics(
    single: Cluster, produce: Ask, consume: Callable[..., list[str]], topic: str
) -> None:
    for number, ending in enumerate(("views", "clicks", "other")):
        single.create(f"{topic}.{ending}", [[1]])
        produce(f"{topic}.{ending}", [f"{ending} {number}"], "--sync")
    white = f"{topic}.(views|clicks)"
    assert sorted(consume(2, "--whitelist", white, group="white")) == ["clicks 1", "views 0"]
    # Every topic but one is on the list.
    assert consume(1, "--blacklist", f"(?!{topic}.other).*", group="black") == ["other 2"]


def java_hash(key: bytes) -> int:
    """`java.util.Arrays.hashCode` of bytes that are ASCII, as the class ByteArrayPartitioner takes it."""
    value = 1
    for byte in key:
        value = (31 * value + byte) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


def test_a_partitioner_of_the_user_s_choice_sends_each_key_to_the_partition_of_its_hash(
    single: Cluster, produce: Ask, original_tools: JavaTools, topic: str
) -> None:
    single.create(topic, [[1]] * 3)
    keys = [f"member-{number}" for number in range(9)]
    by_key = ("--property", "parse.key=true", "--property", "key.separator=:")
    partitioner = ("--producer-property", "partitioner.class=kafka.producer.ByteArrayPartitioner")
    produce(
        topic, [f"{key}:visit {turn} of {key}" for turn in range(2) for key in keys], "--sync", *by_key, *partitioner
    )
    for partition in range(3):
        here = [key for key in keys if java_hash(key.encode()) % 3 == partition]
        assert here, "each partition has keys"
        printed = simple_shell(original_tools, single, topic, partition, "--offset", "-2")
        assert printed == [f"visit {turn} of {key}" for turn in range(2) for key in here]


def simple_shell(tools: JavaTools, cluster: Cluster, topic: str, partition: int, *options: str) -> list[str]:
    """What SimpleConsumerShell prints of a partition up to its end, without its last words."""
    where = ("--broker-list", cluster.bootstrap, "--topic", topic, "--partition", str(partition), "--max-wait-ms", "50")
    lines = tools("kafka.tools.SimpleConsumerShell", *where, "--no-wait-at-logend", *options).splitlines()
    return [line for line in lines if not line.startswith("Terminating.")]


def test_the_simple_consumer_reads_from_any_offset(
    single: Cluster, produce: Ask, original_tools: JavaTools, topic: str
) -> None:
    single.create(topic, [[1]])
    produce(topic, ["a", "b", "c", "d"], "--sync", "--compression-codec", "snappy")
    assert simple_shell(original_tools, single, topic, 0, "--offset", "-2") == ["a", "b", "c", "d"]
    from_two = simple_shell(original_tools, single, topic, 0, "--offset", "2", "--print-offsets")
    assert from_two == ["next offset = 3", "c", "next offset = 4", "d"]
    assert simple_shell(original_tools, single, topic, 0, "--offset", "4") == []


def test_offsets_before_a_time_are_those_of_segments_newest_first(
    single: Cluster, produce: Ask, original_tools: JavaTools, topic: str
) -> None:
    single.create(topic, [[1]], {"segment.bytes": "200"})
    for number in range(12):
        produce(topic, [f"message {number}"], "--sync")
    where = ("--broker-list", single.bootstrap, "--topic", topic)

    def offsets(*options: str) -> list[int]:
        printed = original_tools("kafka.tools.GetOffsetShell", *where, *options).strip()
        assert printed.startswith(f"{topic}:0:"), printed
        return [int(offset) for offset in filter(None, printed.rpartition(":")[2].split(","))]

    segments = single.brokers[1].directory.glob(f"data*/{topic}-0/*.log")
    starts = sorted(int(path.stem) for path in segments)
    assert len(starts) > 5
    assert offsets("--time", "-1", "--offsets", "5") == [12, *reversed(starts)][:5]
    assert offsets("--time", "-1", "--offsets", "100") == [12, *reversed(starts)]
    assert offsets("--time", "-2", "--offsets", "5") == [0]
    assert offsets("--time", "1", "--offsets", "5") == []


def test_groups_in_zookeeper_are_listed_and_described_with_the_next_offset_to_read(
    single: Cluster, produce: Ask, consume: Callable[..., list[str]], original_tools: JavaTools, topic: str
) -> None:
    single.create(topic, [[1]])
    produce(topic, ["a", "b", "c", "d", "e"], "--sync")
    group = f"group-of-{topic}"
    assert consume(3, "--topic", topic, group=group) == ["a", "b", "c"]
    assert single.tree.text(f"/consumers/{group}/offsets/{topic}/0") == "3"
    where = ("--zookeeper", single.tree.connect)
    assert group in original_tools("kafka.admin.ConsumerGroupCommand", *where, "--list").split()
    described = original_tools("kafka.admin.ConsumerGroupCommand", *where, "--describe", "--group", group)
    assert re.search(rf"^{topic} +0 +3 +5 +2 ", described, re.MULTILINE), described


def test_a_group_goes_on_where_it_was_when_its_offsets_move_by_dual_commit_and_not_without(
    single: Cluster, produce: Ask, consume: Callable[..., list[str]], topic: str
) -> None:
    single.create(topic, [[1]])
    produce(topic, [str(number) for number in range(20)], "--sync")

    def read(count: int, settings: dict[str, str] | None = None) -> list[int]:
        return list(map(int, consume(count, "--topic", topic, group=f"group-of-{topic}", settings=settings)))

    assert read(2) == [0, 1]
    assert read(3, BOTH) == [2, 3, 4]
    assert read(3, KAFKA) == [5, 6, 7]
    # The documents' way back, word by word: dual commit is for offsets in Kafka only, and ZooKeeper's are as they were.
    assert read(1, {"offsets.storage": "zookeeper", "dual.commit.enabled": "true"}) == [5]
    # The way back that repeats nothing.
    assert read(2, BOTH) == [8, 9]
    assert read(2, ZOOKEEPER) == [10, 11]


def test_the_old_producer_sends_messages_without_a_key_to_one_partition_that_it_has_chosen(
    single: Cluster, produce: Ask, original_tools: JavaTools, topic: str
) -> None:
    single.create(topic, [[1]] * 4)
    lines = [str(number) for number in range(8)]
    produce(topic, lines, "--sync")
    partitions = [simple_shell(original_tools, single, topic, number, "--offset", "-2") for number in range(4)]
    assert sorted(partitions) == [[], [], [], lines]


def test_the_old_producer_fails_when_no_broker_of_its_static_list_answers(
    original_tools: JavaTools, single: Cluster, topic: str
) -> None:
    unused = "127.0.0.1:1"
    options = ("--old-producer", "--sync", "--broker-list", unused, "--topic", topic, "--message-send-max-retries", "1")
    done = original_tools.run(PRODUCER, *options, standard_input="lost\n")
    assert done.status == 1
    assert "FailedToSendMessageException: Failed to send messages after 1 tries" in done.output + done.errors
