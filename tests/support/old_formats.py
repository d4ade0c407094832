"""Old message formats for tests: what is sent, and how a log that holds them is read."""

from __future__ import annotations

import gzip
import random
import re
import subprocess
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from kafka import KafkaProducer

from sordini.protocol.records.batch import Record, build_batch, read_header
from sordini.protocol.records.compression import GZIP, LZ4, SNAPPY, ZSTD, compress
from sordini.protocol.records.legacy import entries, message_header, read_any
from sordini.storage.disk import SystemDisk
from sordini.storage.log import Log
from sordini.storage.log_config import LogConfig
from sordini.storage.log_manager import Identity, LogManager
from tests.compat.situations.batches import THEN, batch, message, record
from tests.compat.situations.wire import Broker
from tests.outside.needs import need_program
from tests.outside.versions import OLDER_APACHE_KAFKA

# As a cluster was between two steps of an upgrade; 3.9.1 with protocol 2.8 answered and stored the same.
JUDGE = OLDER_APACHE_KAFKA
SETTINGS: dict[str, object] = {
    "broker.id": 0,
    "inter.broker.protocol.version": "0.10.2",
    "log.message.format.version": "0.10.2",
    "log.retention.ms": -1,
    "log.index.interval.bytes": 400,
    "log.index.size.max.bytes": 4096,
    "controlled.shutdown.enable": "false",
}
VERSIONS = {0: "0.9.0", 1: "0.10.2"}
"""A `message.format.version` for each format."""


class Sent(NamedTuple):
    """One Produce request's records, and the request's version."""

    data: bytes
    version: int = 2


def messages(magic: int, count: int = 3) -> bytes:
    return b"".join(message(b"v%d" % n, magic=magic, offset=n, timestamp=THEN + n) for n in range(count))


def wrapper(inner: bytes, magic: int, codec: int = GZIP, *, offset: int = 2, timestamp: int = THEN + 2) -> bytes:
    data = gzip.compress(inner, mtime=0) if codec == GZIP else compress(codec, inner)
    return message(data, magic=magic, key=None, attributes=codec, offset=offset, timestamp=timestamp)


def _of_format(magic: int) -> dict[str, Sent]:
    counted_from_0 = b"".join(message(b"v%d" % n, magic=magic, offset=0) for n in range(3))
    nested = wrapper(wrapper(messages(magic), magic), magic)
    good = messages(magic)
    cases = {
        "plain": good,
        "offsets that mean nothing": message(b"a", magic=magic, offset=7) + message(b"b", magic=magic, offset=7),
        "neither key nor value": message(None, magic=magic, key=None),
        "unknown attributes": message(b"x", magic=magic, attributes=0xF0 - 256),
        "gzip": wrapper(good, magic),
        "gzip whose wrapper is at 0": wrapper(good, magic, offset=0),
        "gzip whose wrapper is at 100": wrapper(good, magic, offset=100),
        "gzip whose messages are all at 0": wrapper(counted_from_0, magic, offset=0),
        "gzip whose wrapper has an early time": wrapper(good, magic, timestamp=5),
        "snappy": wrapper(good, magic, SNAPPY),
        "no time": message(b"x", magic=magic, timestamp=-1),
        "a wrong CRC": message(b"x", magic=magic, crc=1),
        "a wrong CRC in a wrapper": wrapper(message(b"x", magic=magic, crc=1), magic, offset=0),
        "a wrapper in a wrapper": nested,
        "a wrapper of the other format's": wrapper(messages(1 - magic), magic),
        "two wrappers": wrapper(good, magic) * 2,
        "both formats": message(b"a", magic=magic) + message(b"b", magic=1 - magic, offset=1),
        "the end cut off": good[:-2],
    }
    if magic == 1:
        cases["lz4"] = wrapper(good, magic, LZ4)
    return {f"format {magic}, {name}": Sent(data) for name, data in cases.items()}


SENT: dict[str, Sent] = {
    **_of_format(0),
    **_of_format(1),
    "a batch": Sent(batch(3), 8),
    "a batch in Produce v2": Sent(batch(2)),
    "a gzip batch": Sent(build_batch([Record(n, THEN + n, b"k", b"v") for n in range(3)], codec=GZIP), 8),
    "an lz4 batch": Sent(build_batch([Record(n, THEN + n, b"k", b"v") for n in range(3)], codec=LZ4), 8),
    "a batch without times": Sent(batch([record(b"v")], base_timestamp=-1, max_timestamp=-1), 8),
    "zstd": Sent(build_batch([Record(0, THEN, b"k", b"v")], codec=ZSTD), 8),
    "an idempotent producer's batch": Sent(batch(1, producer_id=1, producer_epoch=0, base_sequence=0), 8),
}
NOT_THE_SAME = {
    "a batch with a time before 1970": (Sent(batch([record(b"v")], base_timestamp=-9, max_timestamp=-9), 8), -1, 32),
    "a record with headers": (Sent(build_batch([Record(0, THEN, b"k", b"v", (("h", b"x"),))]), 8), -1, 43),
}
"""Differences: Apache Kafka's answer and ours. docs/evidence/record-checks.md gives the reasons."""

TOPICS: dict[str, dict[str, str]] = {
    "as-it-came": {},
    "own-time": {"message_timestamp_type": "LogAppendTime"},
    "gzip": {"compression_type": "gzip"},
    "uncompressed": {"compression_type": "uncompressed"},
    "of-today": {"message_timestamp_difference_max_ms": "60000"},
}


def opened(directory: Path) -> LogManager:
    """The logs of a broker that was stopped or copied, opened by ours."""
    config = LogConfig(index_interval_bytes=400)
    cluster_id = re.search(r"cluster\.id=(\S+)", (directory / "meta.properties").read_text())
    assert cluster_id is not None
    logs = LogManager(SystemDisk(), [str(directory)], Identity(0, cluster_id[1]), lambda _: config, random.Random(1))
    findings = logs.open(0)
    assert not any("damaged" in finding for finding in findings), findings
    return logs


def records_of(log: Log) -> list[Record]:
    """Everything in a log, read as a consumer reads it: look up an offset, read there, continue at the next offset."""
    found: list[Record] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 2_000, log.log_end_offset, whole_first=True)
        assert piece is not None
        data = piece.read()
        piece.release()
        before = len(found)
        for entry in entries(data):
            batch_data = data[entry.position : entry.position + entry.size]
            header = message_header(batch_data, 0, entry.size) or read_header(batch_data)
            found += [one for one in read_any(batch_data, header) if one.offset >= offset]
        assert len(found) > before
        offset = found[-1].offset + 1
    return found


def look_ups_are_right(log: Log, records: list[Record]) -> None:
    times = sorted({record.timestamp for record in records if record.timestamp >= 0})
    for time in times[:3] + times[-3:]:
        found = log.find_timestamp(time, log.log_end_offset)
        expected = next(record for record in records if record.timestamp >= time)
        assert found is not None
        assert found[:2] == (expected.timestamp, expected.offset)
    latest = log.max_timestamp()
    assert (latest is None) == (not times)
    assert latest is None or latest.timestamp == times[-1]
    assert log.find_timestamp((times[-1] if times else 0) + 1, log.log_end_offset) is None


CODECS = ("none", "gzip", "snappy", "lz4")
CLIENTS = [f"{name}-{magic}-{codec}" for name in ("kcat", "python") for magic in (0, 1) for codec in CODECS]


def fill(bootstrap: str, broker: Broker) -> dict[str, str]:
    """Let clients of two ages write with each codec to topics of each format; the topics."""
    topics = {name: broker.create(name, message_format_version=VERSIONS[int(name.split("-")[1])]) for name in CLIENTS}
    kcat = need_program("kcat", "kcat")
    running = []
    for name in CLIENTS[: len(CLIENTS) // 2]:
        _, magic, codec = name.split("-")
        # So it knows message sets alone, of the topic's format.
        old = ["-X", "api.version.request=false", "-X", f"broker.version.fallback={VERSIONS[int(magic)]}.1"]
        command = [
            kcat,
            "-b",
            bootstrap,
            "-P",
            "-t",
            topics[name],
            "-p",
            "0",
            "-z",
            codec,
            "-K",
            ":",
            "-X",
            "linger.ms=300",
            *old,
        ]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdin is not None
        process.stdin.write("".join(f"key{n}:{name} {n}\n" for n in range(40)))
        process.stdin.close()
        running.append(process)
    for codec in CODECS:
        settings = {
            "compression_type": None if codec == "none" else codec,
            "linger_ms": 10,
            "enable_idempotence": False,
        }
        with closing(KafkaProducer(bootstrap_servers=bootstrap, **settings)) as producer:
            for name in (f"python-{magic}-{codec}" for magic in (0, 1)):
                for n in range(40):
                    value = b"%s %d" % (name.encode(), n)
                    producer.send(topics[name], value, key=b"key%d" % n, partition=0, timestamp_ms=THEN + n)
            producer.flush(timeout=15)
    for process in running:
        assert process.stderr is not None
        with process.stderr:
            assert process.wait(20) == 0, process.stderr.read()
    return topics
