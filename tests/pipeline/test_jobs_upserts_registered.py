"""Jobs that upsert changes whose values and keys have schemas in a registry, as Debezium's connectors write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.batch_writer import decode
from sordini.pipeline.jobs.job import Job
from sordini.pipeline.jobs.load import load
from sordini.testing import Kafka, make_kafka
from tests.pipeline.test_jobs import a_job, run_load
from tests.pipeline.test_jobs_upserts import reasons, rows
from tests.support.debezium_avro import envelope, framed, key_schema, optional, value_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")
ID = {"name": "id", "type": "long"}
KEY = key_schema([ID])
PERSON = value_schema([ID, optional("name", "string"), optional("age", "long")])
TRANSACTION = json.dumps(
    {"type": "record", "name": "Metadata", "fields": [{"name": "status", "type": "string"}, {"name": "id", "type": "string"}]}
)  # fmt: skip
JOB = """\
name: people
source: {bootstrap: '$bootstrap', topics: [$topic], records_max: 100}
decode:
  mode: schema_id_prefix
  registry: {url: 'URL', wait: 1 second}
  changes: debezium
  SCHEMA
  columns: {lsn: source.lsn long, op: op string}
sink: {kind: $kind, location: tables/people, mode: upsert, keys: id, sequence: lsn}
"""
PLAIN = """\
name: people
source: {bootstrap: '$bootstrap', topics: [$topic]}
decode: {mode: schema_id_prefix, registry: {url: 'URL', wait: 1 second}}
sink: {kind: $kind, location: tables/people, mode: upsert, keys: id, delete_when: age is null}
"""
SCHEMA = "schema: {fields: {id: long!, name: string!, age: int}}"
UNKNOWN = b"\0\0\1\0\0x"


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with make_kafka(registry=True) as made:
        yield made


class Writer:
    """Writes keys and values to a topic as confluent-kafka's serializers do; bytes as they are."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._kafka, self._topic = kafka, topic

    def write(self, records: Sequence[tuple[Any, Any]], value: str = PERSON, key: str = KEY) -> None:
        producer = Producer({"bootstrap.servers": self._kafka.bootstrap_servers})
        with SchemaRegistryClient({"url": self._kafka.registry.url}) as client:
            for part in ("key", "value"):
                client.set_compatibility(f"{self._topic}-{part}", "NONE")
            serializers = AvroSerializer(client, key), AvroSerializer(client, value)
            fields = (MessageField.KEY, MessageField.VALUE)
            for record in records:
                of_key, of_value = (
                    each if each is None or isinstance(each, bytes) else serializer(each, SerializationContext(self._topic, field))
                    for each, serializer, field in zip(record, serializers, fields, strict=True)
                )  # fmt: skip
                producer.produce(self._topic, of_value, of_key)
        assert producer.flush(30) == 0


@pytest.fixture
def made(kafka: Kafka, tmp_path: Path) -> Callable[..., Job]:
    def make(text: str, topic: str, schema: str = "", url: str = "") -> Job:
        written = text.replace("URL", url or kafka.registry.url).replace(
            "  SCHEMA\n", f"  {schema}\n" if schema else ""
        )
        return a_job(tmp_path, kafka.bootstrap_servers, topic, "delta", written)

    return make


def person(number: int, name: str | None, age: int | None = None) -> dict[str, Any]:
    return {"id": number, "name": name, "age": age}


def test_a_table_follows_changes_in_avro_and_each_that_cannot_be_is_a_dead_letter(
    spark: SparkSession, kafka: Kafka, made: Callable[..., Job]
) -> None:
    topic = "registered-changes"
    writer = Writer(kafka, topic)
    writer.write([(None, {"status": "BEGIN", "id": "571"})], TRANSACTION)
    writer.write(
        [
            ({"id": 1}, envelope("c", 1, None, person(1, "Ada", 30))),
            ({"id": 2}, envelope("r", 1, None, person(2, "Bo"))),
            ({"id": 1}, envelope("u", 3, None, person(1, "Ada", 31))),
            ({"id": 3}, envelope("c", 4, None, person(3, "Cy"))),
            ({"id": 3}, envelope("d", 5, person(3, None), None)),
            ({"id": 3}, None),
            # The key moves: 2 is no row any more.
            ({"id": 20}, envelope("u", 6, person(2, "Bo"), person(20, "Bo", 5))),
            ({"id": 4}, envelope("c", 6, None, person(4, "Di", 4))),
            # Nothing before it: the record's key says which row.
            ({"id": 4}, envelope("d", 7, None, None)),
            # Late: it was deleted later, and it is not written again.
            ({"id": 3}, envelope("u", 4, None, person(3, "Cy", 2))),
            # A key without a schema.
            (b'{"id": 20}', envelope("u", 8, None, person(20, "Bo", 6))),
        ]
    )
    job = made(JOB, topic, SCHEMA)
    assert [(batch.records, batch.dead) for batch in run_load(job, spark)] == [(12, 0)]
    assert rows(job, "id", "name", "age", "lsn", "op") == [(1, "Ada", 31, 3, "u"), (20, "Bo", 6, 8, "u")]
    wrong: list[tuple[Any, Any, str]] = [
        (None, envelope("d", 8), "a deletion without a key, in the value and in the record"),
        ({"id": 1}, envelope("x", 8, None, person(1, "Ada")), "op x is none of c, u, d, r, t"),
        ({"id": 1}, envelope("t", 8), "the source table was truncated (op t): no key names its rows, load the table again"),
        ({"id": 1}, envelope("u", 9), "op u without after"),
        ({"id": 1}, envelope("u", 9, None, person(1, "Ada", 2**40)), "age is not an int"),
        ({"id": 1}, envelope("u", 9, None, person(1, None)), "name is missing"),
        ({"id": 5}, envelope("c", None, None, person(5, "Ed")), "lsn is missing"),
        ({"id": 5}, UNKNOWN, "was written with schema 65536, which the registry does not have"),
        (UNKNOWN, envelope("d", 9), "the record's key was written with schema 65536, which the registry does not have"),
        ({"id": 5}, b'{"op": "c"}', "begins with byte 123, not 0: there is no schema id"),
    ]  # fmt: skip
    # Keys that are not needed do no harm, nor does what a deletion has besides its key.
    unneeded = [
        (UNKNOWN, envelope("u", 9, None, person(1, "Ada", 32))),
        (UNKNOWN, None),
        (None, envelope("d", 9, person(20, None, 2**40))),
    ]
    writer.write([*((key, value) for key, value, _ in wrong), *unneeded])
    assert [(batch.records, batch.dead) for batch in run_load(job, spark)] == [(13, 10)]
    assert reasons(job) == [(12 + number, reason) for number, (_, _, reason) in enumerate(wrong)]
    assert rows(job, "id", "age") == [(1, 32)]


@pytest.mark.slow
def test_columns_follow_the_rows_of_the_envelopes_and_a_registry_that_is_down_loses_nothing(
    spark: SparkSession, kafka: Kafka, made: Callable[..., Job]
) -> None:
    topic = "registered-columns"
    writer = Writer(kafka, topic)
    micros = {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"}
    first = value_schema([ID, optional("name", "string"), optional("age", "int"), optional("born", micros)])
    writer.write([({"id": 1}, envelope("c", 1, None, {**person(1, "Ada", 30), "born": 1_000_000}))], first)
    run_load(made(JOB, topic), spark)
    second = value_schema(
        [ID, optional("full_name", "string", aliases=["name"]), optional("age", "long"), optional("city", "string")]
    )
    after = {"id": 2, "full_name": "Bo", "age": 2**40, "city": "Bern"}
    writer.write([({"id": 2}, envelope("c", 2, None, after)), ({"id": 1}, envelope("d", 3)), ({"id": 1}, None)], second)
    writer.write([({"id": 3}, envelope("c", 4, None, {**person(3, "Cy", 3), "born": None}))], first)
    with pytest.raises(PipelineError, match="no record was decoded without its schema"):
        run_load(made(JOB, topic, url="http://127.0.0.1:1"), spark)
    job, said = made(JOB, topic), list[str]()
    list(load(job, spark, lambda: False, said.append))
    assert said == ["batch 1 was begun by an earlier run and is repeated"]
    assert rows(job, "id", "full_name", "age", "city") == [(2, "Bo", 2**40, "Bern"), (3, "Cy", 3, None)]


@pytest.mark.slow
def test_keys_that_a_transform_makes_are_those_of_a_deletion_s_key(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "people.avsc").write_text(PERSON)
    (tmp_path / "key.avsc").write_text(KEY)
    text = JOB.replace("registry: {url: 'URL', wait: 1 second}", "schemas: {1: people.avsc, 2: key.avsc}")
    text = text.replace("SCHEMA", SCHEMA).replace("keys: id", "keys: shop_id") + "transform: shops:with_shop_id\n"
    job = a_job(tmp_path, "127.0.0.1:1", "t", "delta", text)
    values = [
        (None, envelope("u", 1, person(2, "Bo"), person(1, "Ada"))),
        (framed(KEY, {"id": 3}, 2), envelope("d", 2, person(3, None))),
    ]
    data = [(key, framed(PERSON, value, 1), "t", 0, at) for at, (key, value) in enumerate(values)]
    columns = "key binary, value binary, topic string, partition int, offset bigint"
    records = spark.createDataFrame(data, columns).selectExpr("*", "timestamp'2026-11-22 00:00:00' as timestamp")
    found = decode(job, records).rows().select("id", "_deleted", "lsn").collect()
    assert sorted(map(tuple, found)) == [(1, False, 1), (3, True, 2)]


@pytest.mark.slow
def test_plain_records_of_a_registry_delete_by_their_condition_or_as_tombstones(
    spark: SparkSession, kafka: Kafka, made: Callable[..., Job]
) -> None:
    topic = "registered-plain"
    record = json.dumps({"type": "record", "name": "Person", "fields": [ID, optional("age", "int")]})
    writer = Writer(kafka, topic)
    rows_written = [({"id": number}, {"id": number, "age": number}) for number in range(1, 6)]
    writer.write(rows_written, record)
    job = made(PLAIN, topic)
    run_load(job, spark)
    writer.write([({"id": 1}, None), (b"2", None), ({"id": 3}, {"id": 3, "age": None}), (None, None)], record)
    writer.write([(4, None)], record, '"long"')
    run_load(job, spark)
    assert rows(job, "id", "age") == [(5, 5)]
    assert reasons(job) == [(8, "a deletion without a key, in the value and in the record")]
