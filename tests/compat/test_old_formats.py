"""Message formats 0 and 1, stored: the same requests to Apache Kafka and to Sordini, and each reads the other's logs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from sordini.protocol.records.compression import NO_CODEC, SNAPPY
from sordini.protocol.records.legacy import entries, message_header, read_any
from sordini.protocol.types import TopicPartition
from tests.compat.situations.batches import THEN, message
from tests.compat.situations.definitions import Definitions
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker
from tests.outside.java import ApacheKafkaProcess
from tests.outside.needs import kafka_clients_jar, kafka_jars
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.outside.tools import JavaTools
from tests.outside.versions import APACHE_KAFKA, OLDER_APACHE_KAFKA
from tests.support.old_formats import (
    JUDGE,
    NOT_THE_SAME,
    SENT,
    SETTINGS,
    TOPICS,
    VERSIONS,
    Sent,
    fill,
    look_ups_are_right,
    messages,
    opened,
    records_of,
    wrapper,
)


class Party(NamedTuple):
    """A broker that runs, and how to speak to it."""

    process: BrokerProcess
    broker: Broker

    def directory(self, topic: str) -> Path:
        return self.process.data_directory / f"{topic}-0"

    def stored(self, topic: str) -> bytes:
        """The records of a topic's only partition, as they stand in its one segment."""
        return (self.directory(topic) / f"{0:020d}.log").read_bytes()


@pytest.fixture(scope="module")
def definitions() -> Definitions:
    coordinator = kafka_jars(APACHE_KAFKA) / f"kafka-group-coordinator-{APACHE_KAFKA}.jar"
    return Definitions(kafka_clients_jar(APACHE_KAFKA), coordinator)


def _party(process: BrokerProcess, definitions: Definitions) -> Party:
    broker = Broker("127.0.0.1", process.port, definitions, prefix="old")
    until(lambda: broker.ask("Metadata", 8, topics=[]), lambda seen: isinstance(seen, dict) and bool(seen["brokers"]))
    return Party(process, broker)


@pytest.fixture(scope="module")
def apache(zookeeper: str, definitions: Definitions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Party]:
    chroot = f"{zookeeper}/formats-{uuid4().hex[:8]}"
    with ApacheKafkaProcess(tmp_path_factory.mktemp("formats-apache"), chroot, SETTINGS, version=JUDGE) as process:
        party = _party(process, definitions)
        yield party
        party.broker.close()


@pytest.fixture(scope="module")
def sordini(definitions: Definitions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Party]:
    # Apache Kafka unpacks every compressed batch that it is sent; ours does so where it is configured.
    settings = {**SETTINGS, "sordini.validate.compressed": "true"}
    with SordiniProcess(tmp_path_factory.mktemp("formats-sordini"), settings) as process:
        party = _party(process, definitions)
        yield party
        party.broker.close()


def _answer(answered: dict[str, Any]) -> dict[str, Any]:
    return {
        "error": answered["error_code"],
        "base offset": answered["base_offset"],
        "dated by the broker": answered["log_append_time_ms"] > 0,
        "wrong records": [one["batch_index"] for one in answered.get("record_errors") or []],
    }


def _stored(data: bytes, *, dated: bool) -> list[Any]:
    """What a segment holds: plain messages byte by byte; what was compressed, or dated by the broker, as it reads."""
    seen: list[Any] = []
    for entry in entries(data):
        piece = data[entry.position : entry.position + entry.size]
        header = message_header(piece, 0, entry.size)
        if header is None:
            seen.append("a batch")
        elif header.codec == NO_CODEC and not dated:
            seen.append(piece.hex())
        else:
            records = read_any(piece, header)
            times = (
                [entry.magic and one.timestamp > THEN * 1.01 for one in records]
                if dated
                else [one.timestamp for one in records]
            )
            seen.append(
                (
                    header.magic,
                    header.attributes,
                    header.base_offset,
                    times,
                    [(one.offset, one.key, one.value) for one in records],
                )
            )
    return seen


@pytest.mark.parametrize("magic", VERSIONS)
@pytest.mark.parametrize("kind", TOPICS)
def test_what_is_produced_is_answered_and_stored_as_by_apache_kafka(
    apache: Party, sordini: Party, magic: int, kind: str
) -> None:
    name = f"{kind}-{magic}"
    topics = [
        one.broker.create(name, message_format_version=VERSIONS[magic], **TOPICS[kind]) for one in (apache, sordini)
    ]
    for what, sent in SENT.items():
        if kind == "of-today" and what.endswith("both formats"):
            continue  # Two things are wrong with it then, and Apache Kafka looks at the times first.
        theirs, ours = (
            _answer(one.broker.produce(topic, sent.data, version=sent.version, acks=1))
            for one, topic in zip((apache, sordini), topics, strict=True)
        )
        assert (what, ours) == (what, theirs)
    theirs, ours = (
        _stored(one.stored(topic), dated=kind == "own-time")
        for one, topic in zip((apache, sordini), topics, strict=True)
    )
    assert ours == theirs


@pytest.mark.parametrize("what", NOT_THE_SAME)
def test_where_apache_kafka_answers_otherwise(apache: Party, sordini: Party, what: str) -> None:
    sent, their_code, our_code = NOT_THE_SAME[what]
    answers = []
    for party in (apache, sordini):
        topic = party.broker.create(
            what.replace(" ", "-").replace("'", "").replace(",", ""), message_format_version="0.10.0"
        )
        answers.append(party.broker.produce(topic, sent.data, version=sent.version)["error_code"])
    assert answers == [their_code, our_code]


def _fetched(party: Party, topic: str, version: int, offset: int) -> Any:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 100_000}
    answer = party.broker.ask(
        "Fetch",
        version,
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        topics=[{"topic": topic, "partitions": [partition]}],
    )
    seen = answer["responses"][0]["partitions"][0]
    return seen["error_code"], seen["high_watermark"], _stored(seen["records"] or b"", dated=False)


def _listed(party: Party, topic: str, version: int, timestamp: int) -> Any:
    partition = {"partition_index": 0, "timestamp": timestamp, "max_num_offsets": 10, "current_leader_epoch": -1}
    answer = party.broker.ask(
        "ListOffsets", version, replica_id=-1, topics=[{"name": topic, "partitions": [partition]}]
    )
    seen = answer["topics"][0]["partitions"][0]
    return seen["error_code"], seen.get("timestamp"), seen.get("offset")


@pytest.mark.parametrize("magic", VERSIONS)
def test_old_formats_are_fetched_and_looked_up_as_from_apache_kafka(apache: Party, sordini: Party, magic: int) -> None:
    """A log that was written in one format after the other, as upgrades leave it, and is read by clients of all ages."""
    seen = []
    for party in (apache, sordini):
        topic = party.broker.create(f"fetched-{magic}", message_format_version=VERSIONS[magic])
        for sent in (
            Sent(messages(0)),
            Sent(messages(1)),
            Sent(wrapper(messages(0), 0)),
            Sent(wrapper(messages(1), 1)),
            Sent(wrapper(messages(1), 1, SNAPPY)),
            SENT["a gzip batch"],
            Sent(message(b"late", magic=1, timestamp=THEN + 9)),
            SENT["a batch"],
        ):
            party.broker.produce(topic, sent.data, version=sent.version, acks=1)
        found = {
            f"Fetch v{version} from {offset}": _fetched(party, topic, version, offset)
            for version in (0, 1, 2, 3, 4, 11)
            for offset in (0, 1, 4, 7, 10, 14, 17, 18, 20, 22)
        }
        for version in (1, 4, 5):
            for timestamp in (-1, -2, 0, THEN, THEN + 1, THEN + 2, THEN + 3, THEN + 9, THEN + 10):
                found[f"ListOffsets v{version} {timestamp}"] = _listed(party, topic, version, timestamp)
        seen.append(found)
    theirs, ours = seen
    assert {what: (theirs[what], ours[what]) for what in ours if ours[what] != theirs[what]} == {}


# -- each other's logs


async def test_logs_of_apache_kafkas_old_formats_read_the_same_here_clean_and_not(
    apache: Party, tmp_path: Path
) -> None:
    process = apache.process
    topics = fill(process.bootstrap, apache.broker)
    shutil.copytree(process.data_directory, tmp_path / "copied")  # As a power cut would leave it.
    process.stop()
    assert not (tmp_path / "copied" / ".kafka_cleanshutdown").exists()
    assert (process.data_directory / ".kafka_cleanshutdown").exists()
    stopped, copied = opened(process.data_directory), opened(tmp_path / "copied")
    for name, topic in topics.items():
        client, magic, codec = name.split("-")
        log, recovered = (logs.get(TopicPartition(topic, 0)) for logs in (stopped, copied))
        assert log is not None
        assert recovered is not None
        data = (process.data_directory / f"{topic}-0" / f"{0:020d}.log").read_bytes()
        assert {(entry.magic, data[entry.position + 17] & 7 > 0) for entry in entries(data)} == {
            (int(magic), codec != "none")
        }
        records = records_of(log)
        assert [record.offset for record in records] == list(range(40))
        assert [(record.key, record.value) for record in records] == [
            (b"key%d" % n, b"%s %d" % (name.encode(), n)) for n in range(40)
        ]
        if magic == "0":
            assert {record.timestamp for record in records} == {-1}
        elif client == "python":
            assert [record.timestamp for record in records] == [THEN + n for n in range(40)]
        assert records_of(recovered) == records
        for one in (log, recovered):
            look_ups_are_right(one, records)
    await stopped.close()
    await copied.close()


DUMP = ["kafka.tools.DumpLogSegments", "--deep-iteration", "--print-data-log", "--files"]


@pytest.mark.parametrize("version", [APACHE_KAFKA, OLDER_APACHE_KAFKA])
def test_apache_kafkas_dump_finds_nothing_wrong_with_our_old_formats(ours_in_old_formats: Path, version: str) -> None:
    with JavaTools(version) as tools:
        for directory in sorted(ours_in_old_formats.glob("old-*-0")):
            files = [str(directory / f"{0:020d}{suffix}") for suffix in (".log", ".index", ".timeindex")]
            done = tools.run(*DUMP, ",".join(files))
            assert done.status == 0, done.errors
            said = done.output + done.errors
            assert not re.search(
                r"(?i)isvalid: false|corrupt|mismatch|non-consecutive|not found|exception|invalid", said
            ), said
            offsets = [int(found) for found in re.findall(r"^\| ?offset: (\d+)", done.output, re.MULTILINE)]
            assert offsets == list(range(40)), said
            values = re.findall(r"payload: (.*)$", done.output, re.MULTILINE)
            assert [value.split()[-1] for value in values] == [str(n) for n in range(40)]


@pytest.fixture(scope="module")
def ours_in_old_formats(definitions: Definitions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of one of our brokers that stores old formats, stopped."""
    with SordiniProcess(tmp_path_factory.mktemp("ours-old"), SETTINGS) as process:
        broker = _party(process, definitions).broker
        fill(process.bootstrap, broker)
        broker.close()
    return process.data_directory


def test_committed_offsets_are_written_in_the_brokers_old_format_and_are_there_after_a_restart(
    definitions: Definitions, tmp_path: Path
) -> None:
    process = SordiniProcess(tmp_path / "ours", {**SETTINGS, "offsets.topic.num.partitions": 1})
    rows = [
        {"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 77, "committed_metadata": "m"}]}
    ]
    wanted = [{"name": "orders", "partition_indexes": [0]}]
    for life in ("first", "second"):
        with process:
            broker = _party(process, definitions).broker
            broker.create(f"{life}-life")
            ready = until(
                lambda broker=broker: broker.ask("FindCoordinator", 0, key="g")["error_code"], lambda code: code == 0
            )
            assert ready == 0
            if life == "first":
                broker.ask("CreateTopics", 0, timeout_ms=5_000, topics=[
                    {"name": "orders", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
                ])  # fmt: skip
                committed = until(
                    lambda broker=broker: broker.ask(
                        "OffsetCommit",
                        2,
                        group_id="g",
                        generation_id_or_member_epoch=-1,
                        member_id="",
                        retention_time_ms=-1,
                        topics=rows,
                    )["topics"][0]["partitions"][0]["error_code"],
                    lambda code: code == 0,
                )
                assert committed == 0
            fetched = until(
                lambda broker=broker: broker.ask("OffsetFetch", 1, group_id="g", topics=wanted)["topics"][0][
                    "partitions"
                ][0],
                lambda row: row["error_code"] == 0,
            )
            assert (fetched["committed_offset"], fetched["metadata"]) == (77, "m")
            broker.close()
    stored = (process.data_directory / "__consumer_offsets-0" / f"{0:020d}.log").read_bytes()
    assert {entry.magic for entry in entries(stored)} == {1}
