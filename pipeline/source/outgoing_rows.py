"""Rows of Arrow batches as records to send, and the partition that each of them goes to."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.source.key_hashes import key_hashes

_COLUMNS: Final = ("topic", "key", "value", "partition", "headers")


class NotWritten(PipelineError):
    """Records were not acknowledged; some of them may be in the topic nevertheless."""


class OutgoingRow(NamedTuple):
    """A record; without a partition its key decides, and without a key any will do."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None
    headers: list[tuple[str, bytes | None]]
    key_hash: int
    """Of a key, see `key_hashes`."""


def outgoing_rows(batch: pa.RecordBatch, topic: str | None) -> Iterator[OutgoingRow]:
    """The rows of a batch; `topic` is for all of them. Raises NotWritten for a row without a topic."""
    count = batch.num_rows
    columns: dict[str, list[Any]] = {name: [None] * count for name in _COLUMNS}
    hashes = [0] * count
    for name in set(batch.schema.names) & set(_COLUMNS):
        column = batch.column(name)
        if name in {"key", "value"}:
            column = column.cast(pa.binary())
        if name == "key":
            hashes = key_hashes(column).tolist()
        columns[name] = column.to_pylist()
    if topic is not None:
        columns["topic"] = [topic] * count
    rows = zip(*(columns[field] for field in _COLUMNS), hashes, strict=True)
    for name, key, value, partition, headers, key_hash in rows:
        if name is None:
            raise NotWritten("a row's topic is null, and the option topic is not set")
        yield OutgoingRow(name, key, value, partition, [(one["key"], one["value"]) for one in headers or ()], key_hash)


class PartitionChooser:
    """Chooses a record's partition: the row's own, that of its key, or one for many records in a row."""

    def __init__(self, topic: str, partitions: Sequence[int]) -> None:
        self._topic = topic
        self._partitions = partitions
        self._current = random.randrange(len(partitions))  # noqa: S311 - balance, not secrecy.

    def partition_of(self, row: OutgoingRow) -> int:
        if row.partition is not None:
            if row.partition not in self._partitions:
                raise NotWritten(f"topic {self._topic!r} has no partition {row.partition}, which a row names")
            return row.partition
        if row.key is not None:
            return self._partitions[row.key_hash % len(self._partitions)]
        return self._partitions[self._current]

    def next_partition(self) -> None:
        """Send records without a key to the next partition, as a batch is full."""
        self._current = (self._current + 1) % len(self._partitions)
