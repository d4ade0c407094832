"""`Kafka.load`: what consumers read of a pack is what they would have read where it is from."""

from __future__ import annotations

import asyncio
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer
from confluent_kafka import TopicPartition as Assigned
from hypothesis import given, settings
from hypothesis import strategies as st

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, TopicPartition

from sordini.protocol.records.batch import Record
from sordini.protocol.records.compression import GZIP
from sordini.testing import Kafka, KitError, PackError, make_kafka
from sordini.testing.packs.loading import OFFSET_MAX
from tests.testing.clients import producer
from tests.testing.packs.conftest import pack
from tests.testing.packs.made_packs import Given, givens, plain, write


class Read(NamedTuple):
    """A record as a client gives it."""

    partition: int
    offset: int
    timestamp_ms: int
    is_log_append_time: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def read_of(row: Any) -> Read:
    """A record of kafka-python or aiokafka."""
    is_append = row.timestamp_type == 1
    return Read(row.partition, row.offset, row.timestamp, is_append, row.key, row.value, tuple(row.headers))


def with_kafka_python(kafka: Kafka, topic: str, partitions: int) -> list[Read]:
    names = [TopicPartition(topic, number) for number in range(partitions)]
    found = []
    with closing(
        KafkaConsumer(
            bootstrap_servers=kafka.bootstrap_servers,
            auto_offset_reset="earliest",
            group_id=None,
            isolation_level="read_committed",
        )
    ) as consumer:
        consumer.assign(names)
        ends = consumer.end_offsets(names)
        while any(consumer.position(name) < ends[name] for name in names):
            for rows in consumer.poll(timeout_ms=500).values():
                found += map(read_of, rows)
    return sorted(found)


def with_aiokafka(kafka: Kafka, topic: str, partitions: int) -> list[Read]:
    async def read() -> list[Read]:
        found = []
        async with AIOKafkaConsumer(
            topic,
            bootstrap_servers=kafka.bootstrap_servers,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            names = sorted(consumer.assignment())
            assert len(names) == partitions
            ends = await consumer.end_offsets(names)
            while not all([await consumer.position(name) >= ends[name] for name in names]):
                for rows in (await consumer.getmany(timeout_ms=500)).values():
                    found += map(read_of, rows)
        return sorted(found)

    return asyncio.run(read())


def with_confluent(kafka: Kafka, topic: str, partitions: int) -> list[Read]:
    found, left = [], set(range(partitions))
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": "reader",
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 50,  # Its close waits for the fetch that is delayed.
        "log_level": 0,
    }
    with closing(Consumer(settings)) as consumer:
        consumer.assign([Assigned(topic, number, 0) for number in range(partitions)])
        while left:
            row = consumer.poll(20)
            assert row is not None
            if row.error():
                left.discard(row.partition())
                continue
            kind, timestamp_ms = row.timestamp()
            is_append = kind == TIMESTAMP_LOG_APPEND_TIME
            headers = tuple(row.headers() or ())
            found.append(Read(row.partition(), row.offset(), timestamp_ms, is_append, row.key(), row.value(), headers))
    return sorted(found)


CLIENTS = [with_kafka_python, with_aiokafka, with_confluent]
ReadAll = Callable[[Kafka, str, int], list[Read]]


def with_the_kit(kafka: Kafka, topic: str) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {number: [] for number in kafka.end_offsets(topic)}
    for one in kafka.records(topic):
        found[one.partition].append(Record(one.offset, one.timestamp_ms, one.key, one.value, one.headers))
    return found


@pytest.fixture(scope="module")
def packed(brokers: Kafka, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A pack of a topic with all kinds of records, and the topic: it is there, too."""
    topic = brokers.topic("all-kinds", partitions=2)
    brokers.produce(topic, ["one", None, "three"], key="k", headers={"h": b"\xff", "n": None}, timestamp_ms=1_000)
    brokers.produce(topic, "old", timestamp_ms=1, partition=1)
    writer = producer(brokers, **{"transactional.id": topic, "compression.type": "lz4"})
    writer.init_transactions(20)
    for ends in ("abort", "commit", "abort"):
        writer.begin_transaction()
        for number in range(3):
            writer.produce(topic, f"{ends} {number}", partition=0, timestamp=2_000)
        writer.flush(20)
        getattr(writer, f"{ends}_transaction")(20)
    path = tmp_path_factory.mktemp("packs") / "all.pack"
    pack(brokers, path, topic, "--from-offset", "1")
    return path, topic


@pytest.fixture(scope="module")
def loaded(packed: tuple[Path, str]) -> Iterator[Kafka]:
    """Other brokers, into which that pack is loaded."""
    with make_kafka() as kafka:
        counts = kafka.load(packed[0])
        assert counts == {(packed[1], 0): 5, (packed[1], 1): 0}
        yield kafka


@pytest.mark.parametrize("read", CLIENTS)
def test_every_client_reads_the_records_that_it_read_before(
    brokers: Kafka, packed: tuple[Path, str], loaded: Kafka, read: ReadAll
) -> None:
    wanted = [one for one in read(brokers, packed[1], 2) if one.offset >= 1]
    assert [one.value for one in wanted] == [None, b"three", b"commit 0", b"commit 1", b"commit 2"]
    assert read(loaded, packed[1], 2) == wanted
    assert loaded.end_offsets(packed[1]) == brokers.end_offsets(packed[1])


def test_a_partition_begins_where_its_slice_begins(packed: tuple[Path, str], loaded: Kafka) -> None:
    with closing(Consumer({"bootstrap.servers": loaded.bootstrap_servers, "group.id": "reader"})) as consumer:
        found = [consumer.get_watermark_offsets(Assigned(packed[1], number), 20) for number in (0, 1)]
    assert found == [(1, 15), (1, 1)]


def test_records_can_be_produced_and_consumed_after_those_of_a_pack(packed: tuple[Path, str]) -> None:
    with make_kafka() as kafka:
        kafka.load(packed[0])
        ends = kafka.end_offsets(packed[1])
        assert kafka.produce(packed[1], "more") == ends[0]
        assert with_confluent(kafka, packed[1], 2)[-1].value == b"more"


def test_times_of_the_append_stay_and_new_records_get_new_ones(brokers: Kafka, tmp_path: Path) -> None:
    topic = brokers.topic(config={"message.timestamp.type": "LogAppendTime"})
    for value in ("one", "two"):
        brokers.produce(topic, value, timestamp_ms=5)
    wanted = with_confluent(brokers, topic, 1)
    assert all(one.is_log_append_time and one.timestamp_ms > 5 for one in wanted)
    pack(brokers, tmp_path / "a", topic)
    with make_kafka() as kafka:
        for name, offsets in (("kept", "keep"), ("dense", "dense")):
            kafka.clock.advance(60)
            kafka.load(tmp_path / "a", {topic: name}, offsets=offsets)
            assert with_confluent(kafka, name, 1) == wanted
            kafka.produce(name, "new", timestamp_ms=5)
            new = with_confluent(kafka, name, 1)[-1]
            assert new.is_log_append_time
            assert new.timestamp_ms > wanted[-1].timestamp_ms


TIMES = st.integers(0, 2**42)


@settings(max_examples=25)
@given(st.lists(givens(TIMES, at_most=8), min_size=1, max_size=2), st.sampled_from([0, GZIP]), st.booleans())
def test_what_is_loaded_is_what_is_in_the_pack(brokers: Kafka, slices: list[Given], codec: int, keeps: bool) -> None:
    topic = f"law-{len(brokers.brokers)}-{next(NUMBERS)}"
    with tempfile.TemporaryDirectory() as directory:
        rows = {(topic, number): one for number, one in enumerate(slices)}
        path = write(Path(directory) / "a", rows, codec=codec, partitions=len(slices))
        counts = brokers.load(path, offsets="keep" if keeps else "dense")
    assert counts == {name: len(one.records) for name, one in rows.items()}
    found, ends = with_the_kit(brokers, topic), brokers.end_offsets(topic)
    for number, one in enumerate(slices):
        records = [record for record, _ in one.records]
        if not keeps:
            records = [record._replace(offset=offset) for offset, record in enumerate(records)]
        assert found[number] == records
        assert ends[number] == (one.end_offset if keeps else len(records))


NUMBERS = iter(range(1_000_000))


def test_a_topic_gets_the_settings_that_clients_notice(brokers: Kafka, tmp_path: Path) -> None:
    configs = {"cleanup.policy": "compact", "min.insync.replicas": "2", "retention.ms": "5", "max.message.bytes": "77"}
    path = write(tmp_path / "a", {("settings", 0): plain(b"one")}, configs=configs)
    with make_kafka() as kafka:
        kafka.load(path, config={"max.message.bytes": 1_000, "segment.ms": 600_000})
        found = pack(kafka, tmp_path / "b", "settings") and (tmp_path / "b").read_bytes()
        for setting in (b'"cleanup.policy":"compact"', b'"max.message.bytes":"1000"', b'"retention.ms":"-1"'):
            assert setting in found
        assert b"min.insync.replicas" not in found


def test_records_of_long_ago_outlive_a_clock_that_is_moved(tmp_path: Path) -> None:
    path = write(tmp_path / "a", {("old", 0): plain(b"one", timestamp=1)})
    with make_kafka() as kafka:
        kafka.load(path)
        kafka.load(path, {"old": "short"}, config={"retention.ms": 1_000})
        kafka.clock.advance(3_600)
        kafka.assert_produced("old", ["one"])
        kafka.wait_for(lambda: not kafka.records("short"))


def test_some_topics_are_loaded_under_other_names(brokers: Kafka, tmp_path: Path) -> None:
    path = write(tmp_path / "a", {("bills", 0): plain(b"b"), ("orders", 0): plain(b"o", b"p")})
    assert brokers.load(path, {"orders": "my-orders"}) == {("my-orders", 0): 2}
    assert brokers.load(path, ["bills"]) == {("bills", 0): 1}
    brokers.assert_produced("my-orders", ["o", "p"])


def test_a_pack_follows_what_is_there_when_its_offsets_allow_it(brokers: Kafka, tmp_path: Path) -> None:
    topic = brokers.topic()
    brokers.produce(topic, ["one", "two"])
    path = write(tmp_path / "a", {("orders", 0): plain(b"x", start=5)})
    brokers.load(path, {"orders": topic})
    assert [(one.offset, one.text) for one in brokers.records(topic)] == [(0, "one"), (1, "two"), (5, "x")]
    with pytest.raises(
        KitError, match=f"partition 0 of topic '{topic}' ends at offset 6, and the pack begins at 5: load it with off"
    ):
        brokers.load(path, {"orders": topic})
    brokers.load(path, {"orders": topic}, offsets="dense")
    assert [(one.offset, one.text) for one in brokers.records(topic)][3:] == [(6, "x")]


def test_what_cannot_be_loaded_is_refused_before_anything_is(brokers: Kafka, tmp_path: Path) -> None:
    rows = {("refused", 0): plain(b"a"), ("refused", 1): plain(b"b"), ("also-refused", 0): plain(b"c")}
    path = write(tmp_path / "a", rows, partitions=2)
    small = brokers.topic()
    far = write(tmp_path / "far", {("refused", 0): plain(b"a", start=OFFSET_MAX)})
    for where, topics, offsets, error, said in (
        (
            path,
            {"order": "x"},
            "keep",
            ValueError,
            "topics: 'order' is not in the pack; these are: also-refused, refused",
        ),
        (path, {"refused": small}, "keep", KitError, f"topic '{small}' has 1 partitions, and in the pack 2"),
        (path, None, "dens", ValueError, "offsets='dens': allowed are 'keep' and 'dense'"),
        (
            path,
            {"refused": "x", "also-refused": "x"},
            "keep",
            ValueError,
            "two topics of the pack cannot be loaded into",
        ),
        (far, None, "keep", ValueError, f"offsets up to {OFFSET_MAX} can be kept; load it with offsets='dense'"),
        (tmp_path / "none", None, "keep", PackError, "none: no such file or directory"),
        (tmp_path, None, "keep", PackError, "is a directory"),
    ):
        with pytest.raises(error, match=re.escape(said)):
            brokers.load(where, topics, offsets=offsets)
    damaged = tmp_path / "damaged"
    damaged.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(PackError, match="was cut off"):
        brokers.load(damaged)
    with pytest.raises(KitError, match="refused"):
        brokers.records("refused")
    assert brokers.load(far, offsets="dense") == {("refused", 0): 1}


def test_all_replicas_have_what_was_loaded(packed: tuple[Path, str]) -> None:
    path, topic = packed
    with make_kafka(3) as kafka:
        kafka.load(path)
        before = with_the_kit(kafka, topic)
        kafka.wait_for(lambda: len(kafka.in_sync(topic)) == 3)
        kafka.brokers[kafka.leader(topic) - 1].kill()
        assert with_the_kit(kafka, topic) == before
        assert len(before[0]) == 5


def test_loading_ends_when_all_replicas_in_sync_have_it(tmp_path: Path) -> None:
    path = write(tmp_path / "a", {("orders", 0): plain(b"one", b"two")})
    with make_kafka(2, topics=["orders"], config={"replica.lag.time.max.ms": 500}) as kafka:
        controller = kafka.controller()
        if kafka.leader("orders") != controller:
            kafka.move_leader("orders", to=controller)
        kafka.brokers[controller - 1].partition_from(3 - controller)
        kafka.load(path)
        # The other one left the in-sync set meanwhile. Until then nothing was committed.
        assert kafka.end_offsets("orders") == {0: 2}


def test_a_broker_that_is_killed_finds_what_was_loaded_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a", {("orders", 0): Given(2**33, 2**33 + 9, [(Record(2**33 + 4, 1, None, b"v"), False)])})
    with make_kafka() as kafka:
        kafka.load(path)
        kafka.brokers[0].kill()
        kafka.brokers[0].start()
        assert [one.offset for one in kafka.records("orders")] == [2**33 + 4]
        assert kafka.end_offsets("orders") == {0: 2**33 + 9}


def test_a_leader_that_is_gone_ends_the_loading_in_words(tmp_path: Path) -> None:
    path = write(tmp_path / "a", {("orders", 0): plain(b"one")})
    with make_kafka() as kafka:
        kafka.topic("orders")
        kafka.brokers[0].kill()
        with pytest.raises(KitError, match="no broker runs"):
            kafka.load(path)


def test_brokers_in_another_process_load_the_same(packed: tuple[Path, str], loaded: Kafka, tmp_path: Path) -> None:
    path, topic = packed
    with make_kafka(isolation="process") as kafka:
        assert kafka.load(path) == {(topic, 0): 5, (topic, 1): 0}
        assert with_the_kit(kafka, topic) == with_the_kit(loaded, topic)
        assert kafka.load(path, {topic: "dense"}, offsets="dense") == {("dense", 0): 5, ("dense", 1): 0}
        assert kafka.end_offsets("dense") == {0: 5, 1: 0}
        with pytest.raises(PackError, match="no such file"):
            kafka.load(tmp_path / "none")
