"""Spark's entry point for the format `sordini`: from options to readers and writers."""

from __future__ import annotations

from typing import Final

import pyspark
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, DataSourceStreamWriter
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.source.batch import BatchReader
from sordini.pipeline.source.options import read_columns, read_options
from sordini.pipeline.source.sink import BatchWriter
from sordini.pipeline.source.sink_options import read_sink_options
from sordini.pipeline.source.sink_tasks import StreamTasks
from sordini.pipeline.source.spark_versions import ADMISSION, ARROW_STREAMS, is_before

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(_HEADER),
}


class SordiniDataSource(DataSource):
    """Topics as tables, with one row for each record."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "sordini"

    def schema(self) -> StructType:
        """The JVM source's columns, or those of them that the option `columns` names."""
        return StructType([StructField(column, _TYPES[column]) for column in read_columns(self.options)])

    def reader(self, schema: StructType) -> BatchReader:
        """For `spark.read`; raises BadSetting and BadPosition."""
        self._check_schema(schema)
        return BatchReader(read_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """For `spark.readStream`; raises BadSetting and BadPosition."""
        self._check_schema(schema)
        options = read_options(self.options, streaming=True)
        if is_before(pyspark.__version__, ADMISSION):
            from sordini.pipeline.source.older_spark import UnboundedStreamReader, check_admission

            check_admission(options, pyspark.__version__)
            return UnboundedStreamReader(options)
        from sordini.pipeline.source.stream import StreamReader  # Older versions cannot import it.

        return StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:  # noqa: FBT001 - Spark's order.
        """For `frame.write`; raises BadSetting."""
        if overwrite:
            raise BadSetting("a topic cannot be overwritten, only appended to: use mode('append')")
        return BatchWriter(read_sink_options(self.options, _kinds(schema)))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, FBT001, N802 - Spark's.
        """For `frame.writeStream`; in complete mode each micro-batch appends the whole result again.

        Raises BadSetting.
        """
        options = read_sink_options(self.options, _kinds(schema))
        if is_before(pyspark.__version__, ARROW_STREAMS):
            from sordini.pipeline.source.older_spark import RowStreamWriter

            return RowStreamWriter(StreamTasks(options), schema.names)
        from sordini.pipeline.source.stream_sink import StreamWriter  # Older versions cannot import it.

        return StreamWriter(options)

    def _check_schema(self, schema: StructType) -> None:
        ours = self.schema()
        if [(field.name, field.dataType) for field in schema] != [(field.name, field.dataType) for field in ours]:
            raise BadSetting(
                f"records have the columns {', '.join(ours.names)}; remove the schema and convert the columns instead"
            )


def _kinds(schema: StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema}
