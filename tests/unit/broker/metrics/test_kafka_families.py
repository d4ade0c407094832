"""Metrics under Apache Kafka's names: what they count, and between scrapes."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sordini.broker.metrics.exporter import FAMILIES
from sordini.broker.metrics.families import MetricFamily, MetricKind
from sordini.broker.metrics.kafka_families import kafka_families
from sordini.broker.metrics.latency import Latencies
from sordini.broker.metrics.recent_latencies import COPIES_MAX, COPY_MS_MIN, QUANTILES, RecentLatencies
from sordini.broker.topics.metadata_cache import PartitionMetadata
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch
from tests.support.builders import a_batch
from tests.support.unit_broker import ME, OTHER, a_broker, known_broker
from tests.unit.broker.metrics.test_readings import Scraped

BATCH, RECORDS = len(a_batch()), 3
TOPICS = "kafka_server_brokertopicmetrics_"
PRODUCE = 0


class KafkaNames:
    """A broker whose families with Apache Kafka's names are read."""

    def __init__(self, scraped: Scraped) -> None:
        self.scraped, self.broker = scraped, scraped.broker
        self._families: dict[str, MetricFamily] = {family.name: family for family in kafka_families()}

    def __getitem__(self, name: str) -> dict[tuple[str, ...], Any]:
        rows = [step for step in self._families[name].read(self.scraped.sources) if step is not None]
        found = dict(rows)
        assert len(found) == len(rows), "the same labels twice"
        return found

    def records(self) -> dict[str, float]:
        return {topic: value for (topic,), value in self[f"{TOPICS}messagesin_total"].items()}

    def bytes(self) -> dict[str, float]:
        return {topic: value for (topic,), value in self[f"{TOPICS}bytesin_total"].items()}


@pytest.fixture
async def names() -> AsyncIterator[KafkaNames]:
    async with a_broker() as broker:
        yield KafkaNames(Scraped(broker))


def test_names_follow_the_exporters_conventions_and_are_not_ours() -> None:
    families = kafka_families()
    assert len({family.name for family in families}) == len(families)
    assert not {family.name for family in families} & {family.name for family in FAMILIES}
    for family in families:
        assert re.fullmatch(r"kafka_[a-z_]+", family.name)
        assert family.name.endswith("_total") == (family.kind is MetricKind.COUNTER), family.name
        assert re.fullmatch(r"[A-Z0-9].{10,}\.", family.meaning), family.meaning


async def test_records_and_bytes_are_counted_by_topic_with_their_sum(names: KafkaNames) -> None:
    await names.broker.lead("orders", 2)
    await names.broker.lead("bills")
    names.scraped.produce("orders", 2, index=1)
    names.scraped.produce("bills", 1)
    assert names.records() == {"orders": 2 * RECORDS, "bills": RECORDS, "": 3 * RECORDS}
    assert names.bytes() == {"orders": 2 * BATCH, "bills": BATCH, "": 3 * BATCH}
    names.scraped.produce("orders", 1)
    assert names.records() == {"orders": 3 * RECORDS, "bills": RECORDS, "": 4 * RECORDS}
    assert names.bytes()["orders"] == 3 * BATCH


async def test_counters_do_not_fall_when_a_leadership_ends_and_count_from_the_next_one(names: KafkaNames) -> None:
    await names.broker.lead("orders")
    names.scraped.produce("orders", 2)
    assert names.records()["orders"] == 2 * RECORDS
    names.broker.parts.replicas.resign_all()
    assert names.records() == {"orders": 2 * RECORDS, "": 2 * RECORDS}
    await names.broker.lead("orders", epoch=1)
    assert names.records()["orders"] == 2 * RECORDS, "what is there already was not appended now"
    names.scraped.produce("orders", 1)
    assert names.records()["orders"] == 3 * RECORDS
    assert names.bytes()["orders"] == 3 * BATCH


async def test_of_a_new_leader_epoch_only_what_was_appended_in_it_is_counted(names: KafkaNames) -> None:
    """Between two readings another broker may have led, and its records are not this one's."""
    await names.broker.lead("orders")
    names.scraped.produce("orders", 1)
    assert names.records()["orders"] == RECORDS
    names.scraped.produce("orders", 1)
    await names.broker.lead("orders", epoch=1)
    names.scraped.produce("orders", 1)
    assert names.records()["orders"] == 2 * RECORDS


async def test_bytes_are_counted_over_rolled_and_deleted_segments(names: KafkaNames) -> None:
    await names.broker.lead("orders")
    names.scraped.produce("orders", 2)
    assert names.bytes()["orders"] == 2 * BATCH
    (log,) = names.broker.logs.logs()
    log.roll(0)
    names.scraped.produce("orders", 1)
    log.roll(0)
    names.scraped.produce("orders", 1)
    assert names.bytes()["orders"] == 4 * BATCH
    assert names.bytes()["orders"] == 4 * BATCH, "nothing is counted twice"


async def test_only_the_controller_counts_partitions_of_the_cluster(names: KafkaNames) -> None:
    metadata = names.broker.parts.metadata
    metadata.set_brokers(ME, [known_broker(ME), known_broker(OTHER)])
    nowhere = PartitionMetadata(BrokerId(-1), LeaderEpoch(0), (OTHER,), (), ())
    metadata.set_partition("lost", NO_TOPIC_ID, 0, nowhere)
    controller = "kafka_controller_kafkacontroller_"
    counts = ("activecontrollercount", "offlinepartitionscount", "globaltopiccount", "globalpartitioncount")
    assert [names[controller + one][()] for one in (*counts, "activebrokercount")] == [1, 1, 1, 1, 2]
    names.scraped.sources.controller.is_active = False  # type: ignore[misc]
    assert [names[controller + one][()] for one in (*counts, "activebrokercount")] == [0, 0, 0, 0, 0]


async def test_replicas_are_counted_as_apache_kafka_does(names: KafkaNames) -> None:
    await names.broker.lead("orders", 2)
    manager = "kafka_server_replicamanager_"
    one, _ = names.broker.parts.replicas
    one.replicas = (ME, OTHER)
    kinds = ("partitioncount", "leadercount", "underreplicatedpartitions", "atminisrpartitioncount")
    assert [names[manager + kind][()] for kind in kinds] == [2, 2, 1, 2]
    names.broker.parts.replicas.resign_all()
    assert [names[manager + kind][()] for kind in kinds] == [2, 0, 0, 0]


async def test_requests_are_named_as_apache_kafka_names_them(names: KafkaNames) -> None:
    await names.broker.lead("orders")
    names.scraped.produce("orders", 2)
    assert names["kafka_network_requestmetrics_requests_total"] == {("Produce", "9"): 2}
    assert names[f"{TOPICS}totalproducerequests_total"] == {("",): 2}


def quantiles(recent: RecentLatencies, latencies: Latencies, now_ms: int) -> dict[int, dict[float, float]]:
    return {key: dict(zip(QUANTILES, row, strict=True)) for key, row in recent.quantiles(latencies, now_ms)}


def test_a_quantile_lies_within_the_bucket_of_its_duration() -> None:
    recent, latencies = RecentLatencies(), Latencies()
    for milliseconds in range(1, 101):
        latencies.add(PRODUCE, milliseconds * 1_000_000)
    (found,) = quantiles(recent, latencies, 0).values()
    assert 33.5 < found[0.5] < 67.2, "50 ms lie between 2^25 and 2^26 ns"
    assert 67.1 < found[0.99] <= 134.3
    assert sorted(found.values()) == list(found.values())


def test_what_is_older_than_five_minutes_is_not_in_the_quantiles() -> None:
    recent, latencies = RecentLatencies(), Latencies()
    latencies.add(PRODUCE, 4_000_000_000)
    assert quantiles(recent, latencies, 0)[PRODUCE][0.5] > 2_000
    for minute in range(1, COPIES_MAX + 1):
        latencies.add(PRODUCE, 1_000_000)
        found = quantiles(recent, latencies, minute * COPY_MS_MIN)
        assert (found[PRODUCE][0.999] > 2_000) == (minute < COPIES_MAX)
    assert found[PRODUCE][0.999] < 2
    assert quantiles(recent, latencies, 100 * COPY_MS_MIN).keys() == {PRODUCE}
