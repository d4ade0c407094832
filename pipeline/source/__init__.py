"""The Spark data source `sordini`: reads topics of any Kafka into Arrow, and writes them, without a JAR.

    from sordini.pipeline.source import register

    register(spark)
    spark.readStream.format("sordini").option("kafka.bootstrap.servers", "...").option("subscribe", "views").load()

`decode` converts record batches to Arrow, without Spark or sockets; `client` connects to brokers, without Spark or
Arrow. `options`, `positions` and `batch_planning` are pure; `offset_lookup` requests the first and end offsets of
partitions; Spark calls `data_source`, `batch`, `stream` and `sink`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.source.spark_versions import OLDEST, is_before

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["TooOld", "register"]


class TooOld(PipelineError):
    """A PySpark that cannot run the source."""


def register(spark: SparkSession) -> None:
    """Register the format `sordini` with a session, for batches and streams, reading and writing.

    Registering again is harmless. Executors need this package as well: installed there, or shipped with the job.
    Raises TooOld.
    """
    if is_before(spark.version, OLDEST):
        oldest = ".".join(map(str, OLDEST))
        raise TooOld(f"this is Spark {spark.version}, and the source sordini needs {oldest} or later: use Spark's own")
    # A late import: PySpark takes half a second to import, and users of the decoder may not have it.
    from sordini.pipeline.source.data_source import SordiniDataSource

    spark.dataSource.register(SordiniDataSource)
