"""The Spark data source `sordini`: reads topics of any Kafka into Arrow, and writes them, without a JAR.

    from sordini.pipeline.source import register

    register(spark)
    spark.readStream.format("sordini").option("kafka.bootstrap.servers", "...").option("subscribe", "views").load()

`decode` makes Arrow of record batches and knows neither Spark nor sockets; `client` speaks to brokers and knows
neither Spark nor Arrow. `options`, `positions` and `planning` decide and reach nothing of the world; `lookup` asks a
broker where partitions begin and end; `source` with `batch`, `stream` and `sink` is what Spark calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sordini.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["TooOld", "register"]

OLDEST: Final = (4, 2)
"""The first PySpark whose data sources can limit a micro-batch and report the ends of their logs."""


class TooOld(PipelineError):
    """A PySpark that cannot run the source."""


def register(spark: SparkSession) -> None:
    """Make the format `sordini` known to a session, for batch and streams, reading and writing.

    Registering again is harmless. Executors need this package as well: installed there, or shipped with the job.
    Raises TooOld.
    """
    if tuple(int(part) for part in spark.version.split(".")[:2]) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise TooOld(f"this is Spark {spark.version}, and the source sordini needs {oldest} or later: use Spark's own")
    # Here, because PySpark takes half a second to import and the decoder's users may have none.
    from sordini.pipeline.source.data_source import SordiniDataSource

    spark.dataSource.register(SordiniDataSource)
