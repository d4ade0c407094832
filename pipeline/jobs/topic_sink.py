"""A topic as a sink: rows as JSON, at least once.

Rows that are repeated after a failure are equal: the header `source` names the row's record as
`topic-partition@offset`, so that a reader can skip duplicates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sordini.pipeline.source.positions import Offsets
from sordini.pipeline.tables import Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class TopicSink:
    """A topic. The option `key` names the column that is the records' key; all others are the writer's."""

    topic: str
    options: Mapping[str, str]

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
        key = sql.col(self.options["key"]) if "key" in self.options else sql.lit(None)
        value = sql.to_json(sql.struct(*(sql.col(name) for name in frame.columns)))
        origin = sql.concat("topic", sql.lit("-"), "partition", sql.lit("@"), "offset")
        header = sql.struct(sql.lit("source").alias("key"), origin.cast("binary").alias("value"))
        records = frame.select(
            key.cast("string").alias("key"), value.alias("value"), sql.array(header).alias("headers")
        ).observe(seen, sql.count(sql.lit(1)).alias("rows"), sql.sum(sql.length("value")).alias("bytes"))
        writer = {name: option for name, option in self.options.items() if name != "key"}
        records.write.format("sordini").mode("append").options(topic=self.topic, **writer).save()
        if before_commit is not None:
            before_commit()
        return Written(seen.get["rows"], 0, seen.get["bytes"] or 0, was_there=False)
