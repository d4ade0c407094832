"""Reads the Parquet files of a table into Spark, without a connector for that kind of table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sordini.pipeline.tables.columns import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_COLUMN = "__file"


def read_files(
    spark: SparkSession, paths: Sequence[str], schema: pa.Schema, values: Mapping[str, Mapping[str, Any]]
) -> DataFrame:
    """The rows of `paths` with the columns of `schema`.

    `values` has the partition values by file name, for columns that are only in the log; empty if the files have all
    columns.
    """
    from pyspark.sql.functions import broadcast, col

    if not paths:
        return spark.createDataFrame([], spark_schema(schema))
    partition_by = list(next(iter(values.values()), ()))
    inside = pa.schema([each for each in schema if each.name not in partition_by])
    rows = spark.read.schema(spark_schema(inside)).parquet(*paths)
    if not partition_by:
        return rows
    outside = pa.schema([pa.field(FILE_COLUMN, pa.string()), *(schema.field(name) for name in partition_by)])
    listed = [(name, *(each[column] for column in partition_by)) for name, each in values.items()]
    of_files = spark.createDataFrame(listed, spark_schema(outside))
    joined = rows.withColumn(FILE_COLUMN, col("_metadata.file_name")).join(broadcast(of_files), FILE_COLUMN)
    return joined.select(*(col(f"`{name}`") for name in schema.names))
