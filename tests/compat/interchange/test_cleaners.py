"""The same history under Apache Kafka's cleaner and ours: the same records are left, and each reads the other's files.

Four topics get the same records, batch for batch and transaction for transaction, from real clients through a real
Apache Kafka. It compacts one of them and ours another, each twice: deletion markers, and the markers of transactions
whose data has gone, go in the second round only. The other two are left as a crash in our swap leaves them.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from sordini.broker.process.cleaning_children import CleaningChildren
from sordini.protocol.records.batch import BatchHeader, read_header, read_records
from sordini.protocol.types import TopicPartition
from sordini.storage.cleaner import LogCleaner
from sordini.storage.compaction.log_selection import CleanerConfig
from sordini.storage.compaction.segment_replacement import stage
from sordini.storage.disk import SystemDisk
from sordini.storage.log_config import LogConfig
from sordini.storage.log_manager import Identity, LogManager
from tests.compat.sent import CODECS
from tests.outside.java import ApacheKafkaProcess
from tests.outside.tools import JavaTools
from tests.support.compacted_logs import Reported, cleaning_of
from tests.support.confluent_admin import admin_of

THEIRS, OURS = "theirs", "ours"
STAGED, SWAPPED = "staged", "swapped"
"""A crash before the swap was in force, and one after it."""
TOPICS = (THEIRS, OURS, STAGED, SWAPPED)
SEGMENT_BYTES = 4_000
RETENTION_MS = 200
TOPIC = {"segment.bytes": str(SEGMENT_BYTES), "delete.retention.ms": str(RETENTION_MS), "index.interval.bytes": "500"}
CLEANING = {**TOPIC, "min.cleanable.dirty.ratio": "0.0001", "cleanup.policy": "compact"}
SETTINGS: dict[str, object] = {
    "log.cleaner.backoff.ms": 50,
    "log.cleaner.dedupe.buffer.size": 4_000_000,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
}
LOG = LogConfig(
    segment_bytes=SEGMENT_BYTES,
    index_interval_bytes=500,
    delete_retention_ms=RETENTION_MS,
    cleanup_delete=False,
    cleanup_compact=True,
    min_cleanable_dirty_ratio=0.0001,
    retention_ms=-1,
)
PRINTED = ("--print-data-log", "--key-decoder-class", "kafka.serializer.StringDecoder")
Record = tuple[int, bytes, bytes | None]
PATIENCE_S = 60.0


class Clients:
    """What writes the topics' histories."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self._chance = random.Random(seed)
        self._now_ms = time.time_ns() // 1_000_000
        usual = {"bootstrap.servers": bootstrap, "linger.ms": 10_000, "log_level": 0}
        self._asking = Consumer({"bootstrap.servers": bootstrap, "group.id": "asking", "log_level": 0})
        self._plain = [Producer({**usual, "compression.type": codec}) for codec in CODECS]
        self._idempotent = Producer({**usual, "enable.idempotence": True})
        self._transactional = Producer({**usual, "transactional.id": "history"})
        self._transactional.init_transactions(30)
        self._ends = {topic: self._end_of(topic) for topic in TOPICS}

        # What a producer has before it knows a partition, it may send in more batches than one.
        for producer in (*self._plain, self._idempotent):
            self._batch(producer, 1)
        self._transactional.begin_transaction()
        self._batch(self._transactional, 1)
        self._transactional.commit_transaction(30)
        self._wait_for_markers()

    def write(self, groups: int) -> None:
        """So many batches to each topic; one in eight is a transaction of its own."""
        for _ in range(groups):
            kind = self._chance.randrange(8)
            if kind == 0:
                self._transactional.begin_transaction()
                for _ in range(self._chance.randint(1, 2)):
                    self._batch(self._transactional, self._chance.randint(1, 8))
                if self._chance.random() < 0.5:
                    self._transactional.commit_transaction(30)
                else:
                    self._transactional.abort_transaction(30)
                self._wait_for_markers()
            else:
                producer = self._idempotent if kind == 1 else self._chance.choice(self._plain)
                self._batch(producer, self._chance.randint(1, 8))

    def _wait_for_markers(self) -> None:
        """They are written after the transaction's end was answered; what is sent next must come after both."""
        for topic in self._ends:
            self._ends[topic] += 1
            end = self._ends[topic]
            eventually(lambda topic=topic, end=end: self._end_of(topic) == end, "no marker came")

    def _end_of(self, topic: str) -> int:
        _, end = self._asking.get_watermark_offsets(ConfluentPartition(topic, 0), 30)
        return int(end)

    def _batch(self, producer: Producer, count: int) -> None:
        records = []
        for _ in range(count):
            value = None if self._chance.random() < 0.15 else self._chance.randbytes(self._chance.randrange(120))
            records.append((b"key-%d" % self._chance.randrange(60), value))
        # The same times, so that batches are as long in each topic, and segments are rolled at the same offsets.
        self._now_ms += 1
        for topic in TOPICS:
            for key, value in records:
                producer.produce(topic, value, key, partition=0, timestamp=self._now_ms)
            self._ends[topic] += len(records)
        assert producer.flush(30) == 0


def configure(admin: AdminClient, topic: str, **entries: str) -> None:
    changes = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in entries.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=changes)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def active_base(directory: Path) -> int:
    return max(int(path.stem) for path in directory.glob("*.log"))


def is_clean(data: Path, topic: str) -> bool:
    """Whether Apache Kafka has written down that it came to the active segment."""
    path = data / "cleaner-offset-checkpoint"
    return f"{topic} 0 {active_base(data / f'{topic}-0')}\n" in (path.read_text() if path.exists() else "")


def batches(directory: Path) -> Iterator[tuple[BatchHeader, memoryview]]:
    for path in sorted(directory.glob("*.log")):
        data = memoryview(path.read_bytes())
        position = 0
        while position < len(data):
            header = read_header(data, position)
            yield header, data[position : position + header.size]
            position += header.size


def records(directory: Path) -> list[Record]:
    """Offset, key and value of all that is no control record."""
    found = []
    for header, batch in batches(directory):
        for record in [] if header.is_control else read_records(batch, header):
            assert record.key is not None
            found.append((record.offset, bytes(record.key), None if record.value is None else bytes(record.value)))
    return found


def outlines(directory: Path) -> list[tuple[Any, ...]]:
    """Every batch by all that a cleaner leaves as it was, and how much is left of it."""
    return [
        (
            header.base_offset,
            header.last_offset,
            header.attributes & ~0x07,  # Which codec a batch is written with again is the cleaner's choice.
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.record_count,
        )
        for header, _ in batches(directory)
    ]


def identity(data: Path) -> Identity:
    text = (data / "meta.properties").read_text()
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return Identity(int(fields["broker.id"]), fields["cluster.id"])


class Opened:
    """Apache Kafka's data directory, opened by our store while Apache Kafka is down."""

    def __init__(self, data: Path, *compacted: str) -> None:
        self.compacted = compacted
        self.disk = SystemDisk()
        self.manager = LogManager(self.disk, [str(data)], identity(data), self._config_of, random.Random(1))
        self.now_ms = time.time_ns() // 1_000_000
        assert self.manager.open(self.now_ms) == []
        self.reported = Reported()

    def _config_of(self, partition: TopicPartition) -> LogConfig:
        return LOG if partition.topic in self.compacted else LogConfig(cleanup_compact=partition.topic.startswith("__"))

    async def clean(self) -> None:
        """One round over our topic, by a child process."""
        worker = CleaningChildren()
        cleaner = LogCleaner(self.manager, worker, self.reported, lambda: time.time_ns() // 1_000_000, CleanerConfig())
        assert await cleaner.clean_once()
        await worker.close()
        assert self.reported.lines == ["cleaned"]

    async def close(self) -> None:
        await self.manager.close()
        self.disk.close()


async def clean_ours(data: Path) -> None:
    opened = Opened(data, OURS)
    await opened.clean()
    await opened.close()


async def leave_half_swapped(data: Path) -> None:
    """Begin to swap compacted segments in, and stop in the middle: before it is in force, and after."""
    opened = Opened(data, STAGED, SWAPPED)
    for topic in (STAGED, SWAPPED):
        log = opened.manager.get(TopicPartition(topic, 0))
        assert log is not None
        result = cleaning_of(log, opened.now_ms)
        assert len(result.replacements) > 2
        stage(log, result.replacements)
    await opened.close()
    # The first of the new segments is the last that `stage` names.
    rename(data / f"{STAGED}-0" / f"{0:020d}.log", ".swap", ".cleaned")
    for suffix in (".log", ".index", ".timeindex"):
        rename(data / f"{SWAPPED}-0" / f"{0:020d}{suffix}", "", ".deleted")
    rename(data / f"{SWAPPED}-0" / f"{0:020d}.log", ".swap", "")


def rename(path: Path, former: str, suffix: str) -> None:
    path.with_name(path.name + former).rename(path.with_name(path.name + suffix))


def consumed(bootstrap: str, topic: str, isolation: str) -> list[Record]:
    """What a real consumer gets from a real Apache Kafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([ConfluentPartition(topic, 0, 0)])
    found: list[Record] = []
    deadline = time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:
                break  # The partition's end.
            found.append((message.offset(), message.key(), message.value()))
    finally:
        consumer.close()
    return found


@pytest.fixture
def apache(zookeeper: str, tmp_path: Path) -> Iterator[ApacheKafkaProcess]:
    process = ApacheKafkaProcess(tmp_path / "apache", f"{zookeeper}/{tmp_path.name}", SETTINGS)
    yield process
    process.stop()


async def test_both_cleaners_leave_the_same_records_in_the_same_batches_and_read_each_others_files(
    apache: ApacheKafkaProcess, tool: JavaTools
) -> None:
    apache.start()
    data = apache.data_directory
    ours, theirs = data / f"{OURS}-0", data / f"{THEIRS}-0"
    admin = admin_of({"bootstrap.servers": apache.bootstrap, "log_level": 0})
    made = admin.create_topics([NewTopic(name, 1, 1, config=TOPIC) for name in TOPICS])
    for future in made.values():
        future.result(30)
    Clients(apache.bootstrap, 7).write(120)
    assert records(ours) == records(theirs)
    first = records(ours)
    apache.stop()

    await clean_ours(data)
    await leave_half_swapped(data)

    apache.start()
    eventually(lambda: THEIRS in admin.list_topics(timeout=30).topics, "Apache Kafka did not find its topics")
    configure(admin, THEIRS, **{key.replace(".", "_"): value for key, value in CLEANING.items()})
    eventually(lambda: is_clean(data, THEIRS), "Apache Kafka's cleaner did not come to the end")
    assert len(records(ours)) < len(first) // 2
    assert records(ours) == records(theirs)
    assert outlines(ours) == outlines(theirs)
    left = records(ours)
    assert records(data / f"{STAGED}-0") == first
    assert records(data / f"{SWAPPED}-0") == left
    committed = consumed(apache.bootstrap, THEIRS, "read_committed")
    for topic in (OURS, SWAPPED):
        assert consumed(apache.bootstrap, topic, "read_committed") == committed
    assert consumed(apache.bootstrap, OURS, "read_uncommitted") == left

    configure(admin, THEIRS, cleanup_policy="delete")
    Clients(apache.bootstrap, 8).write(40)
    configure(admin, THEIRS, cleanup_policy="compact")
    eventually(lambda: is_clean(data, THEIRS), "Apache Kafka's cleaner did not come to the end again")
    apache.stop()
    await clean_ours(data)
    assert records(ours) == records(theirs)
    assert outlines(ours) == outlines(theirs)
    assert any(earlier[2] is None and earlier not in records(ours) for earlier in left), "no tombstone went"
    dumped = tool.run("kafka.tools.DumpLogSegments", "--files", files(ours, "log"), "--deep-iteration", *PRINTED)
    assert dumped.status == 0, dumped.errors
    kept = records(ours)
    assert re.findall(r"^\| offset: (\d+) .*? key: key-", dumped.output, re.MULTILINE) == [str(row[0]) for row in kept]
    checked = tool.run(
        "kafka.tools.DumpLogSegments", "--files", files(ours, "index", "timeindex"), "--verify-index-only"
    )
    for said in (dumped.output, dumped.errors, checked.output, checked.errors):
        for complaint in ("ismatch", "Found", "invalid", "not right", "xception"):
            assert complaint not in said


def files(directory: Path, *suffixes: str) -> str:
    return ",".join(str(path) for suffix in suffixes for path in sorted(directory.glob(f"*.{suffix}")))
