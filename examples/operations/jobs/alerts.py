"""The transform of alerts.yaml: measures in, alerts out. Pure: it says what is to be computed, Spark does it."""

from __future__ import annotations

from itertools import chain

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

LIMITS = {"cpu_percent": 92.0, "io_mb_per_s": 400.0, "request_ms": 1_000.0}
"""Metric -> more than this is an alert; metrics that are not named have no limit."""


def above_limits(measures: DataFrame) -> DataFrame:
    """Those measures that are out of their limits, each with its limit."""
    limits = sql.create_map(*(sql.lit(part) for part in chain.from_iterable(LIMITS.items())))
    return measures.withColumn("limit", limits[sql.col("metric")]).where(sql.col("value") > sql.col("limit"))
