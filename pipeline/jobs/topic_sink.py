"""A topic as a sink: rows as JSON, at least once.

Rows that are repeated after a failure are equal: the header `source` names the row's record as
`topic-partition@offset`, so that a reader can skip duplicates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sordini.pipeline.jobs.topic_records import records_of, writer_options
from sordini.pipeline.schemas.fields import RECORD, RecordColumns
from sordini.pipeline.source.positions import Offsets
from sordini.pipeline.tables import Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class TopicSink:
    """A topic. The option `key` names the column that is the records' key; all others are the writer's."""

    topic: str
    options: Mapping[str, str]
    record: RecordColumns = RECORD
    """The rows' columns with the position of their record."""

    def append(
        self,
        frame: DataFrame,
        batch_id: int,  # noqa: ARG002
        offsets: Offsets | None = None,  # noqa: ARG002
        before_commit: Callable[[], object] | None = None,
    ) -> Written:
        """Write all rows. A repeated batch is written twice, so its number and offsets are not used.

        The commit is the done in the job's state, after this call: `before_commit` is called at the end.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as sql

        seen = Observation()
        counts = sql.count(sql.lit(1)).alias("rows"), sql.sum(sql.length("value")).alias("bytes")
        records = records_of(frame, self.options, self.record).observe(seen, *counts)
        options = {"topic": self.topic, **writer_options(self.options)}
        records.write.format("sordini").mode("append").options(**options).save()
        if before_commit is not None:
            before_commit()
        return Written(seen.get["rows"], 0, seen.get["bytes"] or 0, was_there=False)
