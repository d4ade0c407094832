"""Streams with PySpark 4.0 and 4.1, whose sources in Python can do less.

What their interfaces lack, and what that means here:

    no `latestOffset(start, limit)`       a micro-batch takes all there is: no limits, availableNow is one micro-batch,
    (before 4.2)                          and losses are found when a micro-batch is planned
    no `reportLatestOffset`               a query's progress has no log ends, so it shows no lag
    no writer of a stream's Arrow data    rows come one by one as objects: several times slower
    (before 4.1)

Nothing here imports what only later versions have.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)

from sordini.pipeline.errors import BadSetting, PipelineError
from sordini.pipeline.source import offset_lookup
from sordini.pipeline.source.batch_planning import DataLost, advance, missing, ranges, split
from sordini.pipeline.source.client import Client, ClientSettings
from sordini.pipeline.source.options import SourceOptions
from sordini.pipeline.source.positions import Position
from sordini.pipeline.source.range_reader import RangePartition, read_piece
from sordini.pipeline.source.sink_tasks import StreamTasks
from sordini.protocol.types import TopicPartition

log = logging.getLogger(__name__)

_ROWS: Final = 10_000
"""Of a batch that is made of rows."""
_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_ARROW: Final[Mapping[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "headers": pa.list_(_HEADER),
}


def check_admission(options: SourceOptions, version: str) -> None:
    """Refuse options that need a later PySpark. Raises BadSetting."""
    given = options.admission
    for name, value in (("maxOffsetsPerTrigger", given.offsets_max), ("minOffsetsPerTrigger", given.offsets_min)):
        if value is not None:
            raise BadSetting(
                f"{name} needs PySpark 4.2, and this is {version}, where sources in Python cannot bound a micro-batch: "
                "remove the option, and each micro-batch takes all there is"
            )


class UnboundedStreamReader(DataSourceStreamReader):
    """What Spark calls for one stream."""

    def __init__(self, options: SourceOptions, connect: Callable[[ClientSettings], Client] = Client) -> None:
        self._options = options
        self._connect = connect
        self._connected: Client | None = None
        self._there: set[str] = set()
        """The topics when their ends were last requested."""
        self._reached: Position | None = None
        """Where the last micro-batch of this run ends; None until it is known."""
        self._lost: set[str] = set()
        """What the log has of losses."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint starts."""
        self._reached = offset_lookup.start(self._client, self._options)
        return self._reached.to_json()

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - Spark's, before 4.2.
        """The log ends."""
        latest = offset_lookup.ends(self._client, self._options)
        self._there = set(latest.offsets)
        if self._reached is None:
            self._reached = latest
        else:
            self._report(missing(self._reached, latest))
            self._reached = advance(self._reached, latest, None)
        return self._reached.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Split a micro-batch into tasks. Raises DataLost, with failOnDataLoss, for what is gone below `start`."""
        since, until = Position.from_json(start), Position.from_json(end)
        self._report(missing(since, until))
        pieces = split(ranges(since, until), self._options.partitions_min, self._options.records_per_partition_max)
        return [RangePartition(piece, until.topic_ids.get(piece.topic, "")) for piece in pieces]

    def _report(self, lost: list[str]) -> None:
        """Raises DataLost, with failOnDataLoss."""
        if lost and self._options.fail_on_data_loss:
            raise DataLost("; ".join(lost))
        for what in lost:
            if what not in self._lost:
                log.warning("records lost: %s", what)
        self._lost.update(lost)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one piece, in a worker."""
        return read_piece(self._options, partition) if isinstance(partition, RangePartition) else iter(())

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the query's position to `commit_group`; of the last micro-batch only when another one follows."""
        group = self._options.commit_group
        if group is None:
            return
        offsets = Position.from_json(end).offsets
        named = {
            TopicPartition(topic, number): at
            for topic, each in offsets.items()
            if topic in self._there
            for number, at in each.items()
        }
        try:
            self._client.commit(group, named)
        except PipelineError as error:
            log.warning("offsets not committed to group %s: %s", group, error)

    def stop(self) -> None:
        """Close the connections."""
        if self._connected is not None:
            self._connected.close()
            self._connected = None

    @property
    def _client(self) -> Client:
        if self._connected is None:
            self._connected = self._connect(self._options.client)
        return self._connected


class RowStreamWriter(DataSourceStreamWriter):
    """`StreamWriter` for a Spark that passes rows."""

    def __init__(self, tasks: StreamTasks, columns: Sequence[str]) -> None:
        self._tasks = tasks
        self._columns = [name for name in columns if name in _ARROW]

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write or stage the rows of one task."""
        return self._tasks.write(self._batches(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's.
        """See `StreamTasks`."""
        self._tasks.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's.
        """See `StreamTasks`."""
        self._tasks.abort(messages)

    def _batches(self, rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        while some := list(islice(rows, _ROWS)):
            columns = {name: [_plain(name, row[name]) for row in some] for name in self._columns}
            yield pa.RecordBatch.from_pydict({name: pa.array(values, _ARROW[name]) for name, values in columns.items()})


def _plain(name: str, value: Any) -> Any:
    """A cell as Arrow takes it."""
    if name == "headers" and value is not None:
        return [{"key": header["key"], "value": header["value"]} for header in value]
    if name in {"key", "value"} and isinstance(value, str):
        return value.encode()
    return value
