"""Topics with `sordini.schema.validate=id`: what is appended, and what is refused with the record's index."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sordini.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.compression import GZIP, LZ4, SNAPPY, ZSTD
from sordini.testing import Kafka, make_kafka
from tests.support.wire_client import Client

CHECKED = {"sordini.schema.validate": "id"}
VERSION = 11
NOW_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def site() -> Iterator[Kafka]:
    with make_kafka(3) as made:
        made.topic("_schemas", config={"cleanup.policy": "compact"})
        yield made


@pytest.fixture
def cluster(site: Kafka) -> Iterator[Kafka]:
    site.begin_test()
    yield site
    site.end_test()


def register(kafka: Kafka, subject: str, version: int, schema_id: int | None, **others: object) -> None:
    """What a registry writes; without an id the version is removed."""
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    value = {"subject": subject, "version": version, "id": schema_id, "schema": '"string"', "deleted": False, **others}
    text = None if schema_id is None else json.dumps(value)
    kafka.produce("_schemas", [text], key=json.dumps(key))


def framed(schema_id: int, payload: bytes = b"x") -> bytes:
    return struct.pack(">bi", 0, schema_id) + payload


def produced(
    kafka: Kafka, topic: str, values: Sequence[bytes | None], *, codec: int = 0, version: int = VERSION
) -> PartitionProduceResponse:
    """One batch to the leader; its row of the answer."""
    batch = build_batch([Record(index, NOW_MS, b"k", value) for index, value in enumerate(values)], codec=codec)
    with a_client(kafka, topic) as client:
        return sent(client, topic, batch, version)


def a_client(kafka: Kafka, topic: str) -> Client:
    """A connection to the topic's leader."""
    host, _, port = kafka.brokers[kafka.leader(topic) - 1].bootstrap_server.partition(":")
    return Client(host, int(port))


def sent(client: Client, topic: str, batch: bytes | bytearray, version: int = VERSION) -> PartitionProduceResponse:
    data = PartitionProduceData(index=0, records=memoryview(batch))
    rows = [TopicProduceData(name=topic, partition_data=[data])]
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=rows)
    (row,) = client.ask(ApiKey.PRODUCE, version, request).responses[0].partition_responses
    assert isinstance(row, PartitionProduceResponse)
    return row


def listed(row: PartitionProduceResponse) -> list[tuple[int, str | None]]:
    return [(one.batch_index, one.batch_index_error_message) for one in row.record_errors]


def test_a_value_with_an_id_of_the_topic_s_subject_is_appended_and_one_without_is_refused(cluster: Kafka) -> None:
    topic = cluster.topic(config=CHECKED)
    register(cluster, f"{topic}-value", 1, 71)
    assert produced(cluster, topic, [framed(71), None, framed(71, b"")]).error_code == ErrorCode.NONE
    refused = produced(cluster, topic, [framed(71), b"plain", framed(72), None, b"\0\0\0\0"])
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert listed(refused) == [
        (1, "the value does not begin with a schema id"),
        (2, f"schema id 72 is not registered for subject '{topic}-value'"),
        (4, "the value does not begin with a schema id"),
    ]
    assert f"subject '{topic}-value'" in (refused.error_message or "")
    assert cluster.end_offsets(topic) == {0: 3}


def test_an_id_of_another_subject_is_refused(cluster: Kafka) -> None:
    topic = cluster.topic(config=CHECKED)
    register(cluster, "another-value", 1, 81)
    register(cluster, f"{topic}-key", 1, 82)
    for schema_id in (81, 82):
        assert listed(produced(cluster, topic, [framed(schema_id)]))[0][0] == 0


def test_an_id_that_was_registered_just_now_is_known(cluster: Kafka) -> None:
    topic = cluster.topic(config=CHECKED)
    for version in range(1, 6):
        register(cluster, f"{topic}-value", version, 90 + version)
        assert produced(cluster, topic, [framed(90 + version)]).error_code == ErrorCode.NONE


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_compressed_batches_are_checked_as_well(cluster: Kafka, codec: int) -> None:
    topic = cluster.topic(config=CHECKED)
    register(cluster, f"{topic}-value", 1, 101)
    assert produced(cluster, topic, [framed(101)] * 3, codec=codec).error_code == ErrorCode.NONE
    assert listed(produced(cluster, topic, [framed(101), framed(1)], codec=codec))[0][0] == 1


@pytest.mark.parametrize("codec", [0, LZ4])
def test_a_batch_that_takes_long_is_checked_as_well(cluster: Kafka, codec: int) -> None:
    topic = cluster.topic(config=CHECKED)
    register(cluster, f"{topic}-value", 1, 111)
    many = [framed(111)] * 20_000
    assert produced(cluster, topic, many, codec=codec).error_code == ErrorCode.NONE
    refused = produced(cluster, topic, [*many, framed(112), *[b"plain"] * 2_000], codec=codec)
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert listed(refused)[0] == (20_000, f"schema id 112 is not registered for subject '{topic}-value'")
    assert len(refused.record_errors) == 1_000
    assert "1001 more records" in (refused.error_message or "")


def test_a_damaged_batch_has_its_own_error(cluster: Kafka) -> None:
    topic = cluster.topic(config=CHECKED)
    batch = bytearray(build_batch([Record(0, NOW_MS, b"k", b"plain")]))
    batch[-3] ^= 1
    register(cluster, f"{topic}-value", 1, 121)
    assert produced(cluster, topic, [framed(121)]).error_code == ErrorCode.NONE
    with a_client(cluster, topic) as client:
        assert sent(client, topic, batch).error_code == ErrorCode.CORRUPT_MESSAGE


def test_the_setting_takes_effect_and_ends_while_a_producer_repeats_its_request(cluster: Kafka) -> None:
    """A request that repeats is served in the prepared way, which knows nothing of schemas."""
    topic = cluster.topic()

    resource = AlterConfigsResource(resource_type=2, resource_name=topic)
    batch = build_batch([Record(0, NOW_MS, b"k", b"plain")])
    with a_client(cluster, topic) as client:

        def code() -> int:
            return sent(client, topic, batch).error_code

        def validate(value: str) -> None:
            resource.configs = [AlterableConfig(name="sordini.schema.validate", config_operation=0, value=value)]
            request = IncrementalAlterConfigsRequest(resources=[resource])
            answer = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
            assert answer.responses[0].error_code == ErrorCode.NONE

        assert [code() for _ in range(5)] == [ErrorCode.NONE] * 5
        validate("id")
        cluster.wait_for(lambda: code() == ErrorCode.INVALID_RECORD)
        validate("none")
        cluster.wait_for(lambda: code() == ErrorCode.NONE)


def test_a_request_that_repeats_is_checked_every_time(cluster: Kafka) -> None:
    topic = cluster.topic(config=CHECKED)
    register(cluster, f"{topic}-value", 1, 125)
    right, wrong = (build_batch([Record(0, NOW_MS, b"k", value)]) for value in (framed(125), framed(126)))
    with a_client(cluster, topic) as client:
        assert [sent(client, topic, right).error_code for _ in range(5)] == [ErrorCode.NONE] * 5
        assert sent(client, topic, wrong).error_code == ErrorCode.INVALID_RECORD
        assert sent(client, topic, right).error_code == ErrorCode.NONE


def test_an_id_that_was_deleted_permanently_is_refused_within_seconds(cluster: Kafka) -> None:
    topic = cluster.topic(config=CHECKED)
    register(cluster, f"{topic}-value", 1, 131)
    assert produced(cluster, topic, [framed(131)]).error_code == ErrorCode.NONE
    register(cluster, f"{topic}-value", 1, 131, deleted=True)
    cluster.clock.advance(6)
    assert produced(cluster, topic, [framed(131)]).error_code == ErrorCode.NONE
    register(cluster, f"{topic}-value", 1, None)
    cluster.clock.advance(6)
    assert produced(cluster, topic, [framed(131)]).error_code == ErrorCode.INVALID_RECORD


def test_without_a_registry_s_topic_producers_are_to_send_again_and_are_sent_the_reason() -> None:
    with make_kafka(config={"sordini.schema.topic": "nowhere"}) as kafka:
        topic = kafka.topic(config=CHECKED)
        row = produced(kafka, topic, [framed(1)])
        assert row.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (
            row.error_message
            == "schema ids cannot be checked: there is no topic 'nowhere': does a schema registry run?"
        )


def test_records_of_a_registry_s_topic_that_are_none_of_a_registry_are_skipped(cluster: Kafka) -> None:
    topic = cluster.topic(config=CHECKED)
    for key in ("no json", "[]", '{"keytype":"SCHEMA"}', '{"keytype":"NOOP","magic":0}'):
        cluster.produce("_schemas", ["{"], key=key)
    register(cluster, f"{topic}-value", 1, 141)
    assert produced(cluster, topic, [framed(141)]).error_code == ErrorCode.NONE


def test_old_produce_versions_are_refused_without_rows(cluster: Kafka) -> None:
    topic = cluster.topic(config=CHECKED)
    row = produced(cluster, topic, [b"plain"], version=7)
    assert row.error_code == ErrorCode.INVALID_RECORD
