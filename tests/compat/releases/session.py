"""What a client of any release does at a broker, and says of it: one program's way through a restart of the broker.

A topic is made, records of each codec are produced and read in a group, half of them before the broker is restarted
and the others afterwards, with the same producer and consumer. The program gets its task as an argument, `Settings` as
JSON, and speaks in lines of JSON: `{"phase": "half"}`, upon which it waits for a line, and at the end `Report`. It
needs nothing but the standard library and its client, in whatever environment that is.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

from tests.compat.sent import Sent, records

SECONDS_MAX = 300
PARTITIONS = 2
BEFORE, AFTER = 60, 10
RETENTION_MS = "86400000000"
"""The records are of 2024: a broker would soon find them too old."""


class Settings(NamedTuple):
    """jars are of Java clients."""

    kind: str
    version: str
    bootstrap: str
    topic: str
    jars: list[str]

    @property
    def group(self) -> str:
        return f"group-of-{self.topic}"


class Row(NamedTuple):
    """A record as it is read; bytes are in hexadecimal."""

    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None
    headers: list[list[str | None]]


class Report(NamedTuple):
    """offsets: what each produced record was acknowledged with, by partition; group_offsets: as an administrator sees
    them, None where this release has no request for it."""

    client: str
    offsets: dict[int, list[int]]
    rows: list[Row]
    committed: dict[int, int]
    is_topic_listed: bool
    retention_ms: str | None
    group_offsets: dict[int, int] | None


class Client(ABC):
    """One release of one library."""

    codecs: ClassVar[tuple[str, ...]] = ("none", "gzip", "snappy", "lz4", "zstd")

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @property
    @abstractmethod
    def version(self) -> str:
        """As the library itself says."""

    @abstractmethod
    def create_topic(self) -> None:
        """Of PARTITIONS partitions, with RETENTION_MS."""

    @abstractmethod
    def is_topic_listed(self) -> bool: ...

    @abstractmethod
    def retention_ms(self) -> str | None: ...

    @abstractmethod
    def produce(self, codec: str, sent: list[Sent], partition: int) -> list[int]:
        """With acks=all, and idempotent where it can be; the offsets."""

    @abstractmethod
    def poll(self) -> list[Row]:
        """What a member of the group gets within a second or less; it joins first."""

    @abstractmethod
    def commit(self) -> None:
        """Commit what was read, and wait for it."""

    @abstractmethod
    def committed(self, partition: int) -> int: ...

    def group_offsets(self) -> dict[int, int] | None:
        return None

    def close(self) -> None:  # noqa: B027  Not every one has something to close.
        """Leave the group."""

    def wait(self) -> None:
        sys.stdin.readline()


def as_row(partition: int, offset: int, time_ms: int, key: Any, value: Any, headers: Any) -> Row:
    pairs = [[name, _hexadecimal(content)] for name, content in headers or ()]
    return Row(partition, offset, time_ms, _hexadecimal(key), _hexadecimal(value), pairs)


def _hexadecimal(content: bytes | None) -> str | None:
    return None if content is None else content.hex()


def expected(codecs: tuple[str, ...]) -> list[Row]:
    """What has to be read, by partition and offset: the codecs in turn, each to the next partition, then the rest."""
    sent, found = records(BEFORE + AFTER), []
    ends = [0] * PARTITIONS
    for number, part in enumerate([*_parts(sent[:BEFORE], len(codecs)), sent[BEFORE:]]):
        partition = number % PARTITIONS
        for record in part:
            row = as_row(partition, ends[partition], record.timestamp_ms, record.key, record.value, record.headers)
            found.append(row)
            ends[partition] += 1
    return sorted(found)


def _parts(sent: list[Sent], count: int) -> list[list[Sent]]:
    size = -(-len(sent) // count)
    return [sent[start : start + size] for start in range(0, len(sent), size)]


def run(client: Client) -> None:
    """The whole session; it ends the program when it takes longer than SECONDS_MAX."""
    faulthandler.dump_traceback_later(SECONDS_MAX, exit=True)
    sent, rows = records(BEFORE + AFTER), []
    offsets: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    client.create_topic()
    parts = _parts(sent[:BEFORE], len(client.codecs))
    for number, (codec, part) in enumerate(zip(client.codecs, parts, strict=True)):
        offsets[number % PARTITIONS] += client.produce(codec, part, number % PARTITIONS)
    while len(rows) < BEFORE:
        rows += client.poll()
    client.commit()
    is_listed, retention_ms = client.is_topic_listed(), client.retention_ms()
    _say({"phase": "half"})
    client.wait()
    partition = len(parts) % PARTITIONS
    offsets[partition] += client.produce(client.codecs[-1], sent[BEFORE:], partition)
    while len(rows) < BEFORE + AFTER:
        rows += client.poll()
    client.commit()
    report = Report(
        client.version,
        offsets,
        rows,
        {partition: client.committed(partition) for partition in range(PARTITIONS)},
        is_listed,
        retention_ms,
        client.group_offsets(),
    )
    client.close()
    _say({"phase": "done", "report": report._asdict()})


def _say(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def settings() -> Settings:
    return Settings(**json.loads(sys.argv[1]))
