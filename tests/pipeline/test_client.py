"""The client against live brokers: one of ours and three; with everything, an Apache Kafka, too."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing

import pytest

with warnings.catch_warnings():
    # kafka-python reads its schemas, when it is imported, through a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer

from sordini.pipeline.source.client import (
    EARLIEST,
    LATEST,
    Client,
    ClientSettings,
    Fetched,
    OffsetLost,
    Refused,
    TopicRecreated,
    UnknownTopic,
)
from sordini.pipeline.source.decode import COLUMNS, Decoder, DecodeRequest
from sordini.protocol.types import TopicPartition
from tests.outside.processes import BrokerProcess
from tests.pipeline.sent import KEEP, START_MS, Row, fill
from tests.pipeline.topics import Place

LONG = pytest.mark.long


def settings(bootstrap: str, **options: object) -> ClientSettings:
    given = {f"kafka.{name.replace('_', '.')}": str(value) for name, value in options.items()}
    return ClientSettings.from_options({"kafka.bootstrap.servers": bootstrap, **given})


def decoded(
    fetches: Iterable[Fetched], partition: TopicPartition, start: int, end: int, *, read_committed: bool = False
) -> list[Row]:
    """Every record of what was read, as `fill` returns them."""
    decoder = Decoder(DecodeRequest(*partition, start, end, frozenset(COLUMNS), read_committed))
    found = []
    for fetched in fetches:
        for piece in decoder.pieces(fetched.records, fetched.aborted):
            for row in [] if piece.batch is None else piece.batch.to_pylist():
                key, value = (None if row[name] is None else row[name].decode() for name in ("key", "value"))
                pairs = tuple((header["key"], header["value"]) for header in row["headers"] or ())
                time_ms = round(row["timestamp"].timestamp() * 1000)
                found.append(Row(row["partition"], row["offset"], time_ms, key, value, pairs or None))
    return found


def read(client: Client, topic: str, partitions: Iterable[int] = (0,), *, start: int = 0) -> list[Row]:
    """All there is of some partitions of a topic from an offset on."""
    asked = [TopicPartition(topic, number) for number in partitions]
    ends = client.offsets(dict.fromkeys(asked, LATEST))
    return [row for one in asked for row in decoded(client.read(one, start, ends[one]), one, start, ends[one])]


@pytest.mark.parametrize(
    "codec", [None, "zstd", *(pytest.param(name, marks=LONG) for name in ("gzip", "snappy", "lz4"))]
)
def test_what_was_sent_is_read_in_many_small_fetches(place: Place, codec: str | None) -> None:
    topic = place.make_topic(2, configs=KEEP)
    sent = fill(place.bootstrap, topic, 3_000, compression=codec)
    with Client(settings(place.bootstrap, max_partition_fetch_bytes=10_000)) as client:
        assert read(client, topic, (0, 1)) == sent
        assert read(client, topic, (1,), start=777) == [row for row in sent if row.partition == 1 and row.offset >= 777]


def test_three_brokers_are_asked_for_what_each_leads(three: str) -> None:
    topic = Place(three, 3).make_topic(6, configs=KEEP)
    sent = fill(three, topic, 600, partitions=6)
    with Client(settings(three.split(",", maxsplit=1)[0])) as client:
        assert client.partitions([topic]) == {topic: [0, 1, 2, 3, 4, 5]}
        assert read(client, topic, range(6)) == sent


def test_offsets_are_found_by_time(place: Place) -> None:
    topic = place.make_topic(configs=KEEP)
    fill(place.bootstrap, topic, 100, partitions=1)
    partition = TopicPartition(topic, 0)
    with Client(settings(place.bootstrap)) as client:
        for time, offset in {EARLIEST: 0, LATEST: 100, START_MS + 41_500: 42, 0: 0, START_MS + 10**9: -1}.items():
            assert client.offsets({partition: time}) == {partition: offset}


def test_topics_are_listed_without_the_internal_ones(place: Place) -> None:
    topic = place.make_topic()
    with Client(settings(place.bootstrap)) as client:
        client.commit(f"{topic}-group", {TopicPartition(topic, 0): 0})  # Makes __consumer_offsets, if need be.
        assert topic in client.topics()
        assert "__consumer_offsets" not in client.topics()
        assert "__consumer_offsets" in client.topics(internal=True)
        with pytest.raises(UnknownTopic, match="no topic 'nowhere'"):
            client.partitions([topic, "nowhere"])


def test_consumers_resume_at_the_committed_offsets(place: Place) -> None:
    topic = place.make_topic()
    fill(place.bootstrap, topic, 10, partitions=1)
    group, partition = f"{topic}-group", TopicPartition(topic, 0)
    with Client(settings(place.bootstrap)) as client:
        assert client.committed(group) == {}
        client.commit(group, {partition: 7})
        assert client.committed(group) == {partition: 7}
        consumer = KafkaConsumer(topic, bootstrap_servers=place.bootstrap, group_id=group)
        with closing(consumer):
            found = consumer.poll(timeout_ms=20_000, max_records=1)
            assert [record.offset for records in found.values() for record in records] == [7]
            with pytest.raises(Refused, match="consumers are members of this group"):
                client.commit(group, {partition: 9})
        assert client.committed(group)[partition] in (7, 8)  # The consumer itself may commit as it leaves.


def test_retention_that_passes_a_reader_is_reported(place: Place) -> None:
    topic = place.make_topic(configs=KEEP)
    fill(place.bootstrap, topic, 3_000, partitions=1)
    partition = TopicPartition(topic, 0)
    with Client(settings(place.bootstrap, max_partition_fetch_bytes=10_000)) as client:
        fetches = client.read(partition, 0, 3_000)
        place.delete_records(topic, {0: 2_900})
        with pytest.raises(OffsetLost) as caught:
            list(fetches)
        assert (caught.value.log_start_offset, caught.value.log_end_offset) == (2_900, 3_000)
        with pytest.raises(OffsetLost, match="the log ends before it"):
            list(client.read(partition, 4_000, 5_000))


def test_a_topic_created_again_in_mid_reading_is_reported_and_not_read_on(place: Place) -> None:
    topic = place.make_topic(configs=KEEP)
    fill(place.bootstrap, topic, 3_000, partitions=1)
    with Client(settings(place.bootstrap, max_partition_fetch_bytes=10_000)) as client:
        noted = client.topic_ids([topic])[topic]
        fetches = client.read(TopicPartition(topic, 0), 0, 3_000)
        next(fetches)
        place.recreate(topic, configs=KEEP)
        fill(place.bootstrap, topic, 3_000, partitions=1)
        with pytest.raises(TopicRecreated) as caught:
            list(fetches)
        assert caught.value.expected_id == noted
        assert caught.value.found_id == client.topic_ids([topic])[topic] != noted


@pytest.mark.parametrize("how", ["kill", pytest.param("stop", marks=LONG)])
def test_a_broker_that_is_killed_and_started_again_interrupts_a_reading_and_loses_nothing(
    start_broker: Callable[[Mapping[str, object]], BrokerProcess], how: str
) -> None:
    broker = start_broker({})
    topic = Place(broker.bootstrap).make_topic(configs=KEEP)
    sent = fill(broker.bootstrap, topic, 3_000, partitions=1)
    partition = TopicPartition(topic, 0)
    with Client(settings(broker.bootstrap, max_partition_fetch_bytes=10_000)) as client:
        fetches = client.read(partition, 0, 3_000)
        found = [next(fetches), next(fetches)]
        getattr(broker, how)()
        broker.launch()  # It comes up while the client tries.
        found += fetches
        assert decoded(found, partition, 0, 3_000) == sent
