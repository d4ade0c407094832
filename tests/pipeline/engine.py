"""What Spark's engine does with a stream reader, without Spark: micro-batches until all is read, and a checkpoint.

For tests of what a reader decides and reads against live brokers. How Spark itself calls it is for the tests that start
Spark.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from sordini.pipeline.source.options import read_options
from sordini.pipeline.source.stream import StreamReader
from tests.pipeline.sent import Row

BATCHES_MAX = 100


class Engine:
    """One query's checkpoint, and the rows of each micro-batch that its sink has taken."""

    def __init__(self) -> None:
        self._logged: list[str] = []
        self._done = 0
        self.rows: list[list[Row]] = []

    @property
    def everything(self) -> list[Row]:
        return sorted((row for batch in self.rows for row in batch), key=lambda row: row[:2])

    def drain(self, options: Mapping[str, str], *, is_sink_broken: bool = False) -> None:
        """Start the query, again if it ran before, and run it until all that is there now has come."""
        reader = StreamReader(read_options(options, streaming=True))
        try:
            reader.prepareForTriggerAvailableNow()
            for _ in range(BATCHES_MAX):
                start = json.loads(self._logged[self._done - 1]) if self._done else reader.initialOffset()
                if self._done == len(self._logged):
                    end = json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit()))
                    if self._done and end == self._logged[-1]:
                        return
                    self._logged.append(end)
                found = self._read(reader, start, json.loads(self._logged[self._done]))
                if is_sink_broken:
                    return
                if found:
                    self.rows.append(found)
                self._done += 1
            raise AssertionError(f"there was no end after {BATCHES_MAX} micro-batches")
        finally:
            reader.stop()

    def _read(self, reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[Row]:
        pieces = pickle.loads(pickle.dumps(reader.partitions(start, end)))
        return sorted(row for piece in pieces for batch in reader.read(piece) for row in _rows(batch))


def _rows(batch: pa.RecordBatch) -> list[Row]:
    table = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    return [
        Row(
            table["partition"][index],
            table["offset"][index],
            times[index] // 1000,
            _text(table["key"][index]),
            _text(table["value"][index]),
            _pairs(table["headers"][index]),
        )
        for index in range(batch.num_rows)
    ]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _pairs(headers: list[dict[str, Any]] | None) -> tuple[tuple[str, bytes | None], ...] | None:
    return None if headers is None else tuple((header["key"], header["value"]) for header in headers)
