"""The connector of Spark's own Kafka source, for each PySpark with which the tests have run it.

Spark downloads it, with all that it depends on, by the one coordinate in `spark.jars.packages`. A PySpark that has no
entry here was not tested with its source, and may have none yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sordini.pipeline.errors import PipelineError


class NoConnector(PipelineError):
    """No connector was tested with a version of PySpark."""


_OF_4_2_0 = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"  # 2.13 is the Scala that every PySpark 4 is built with.

CONNECTORS: Final[Mapping[str, str]] = {"4.2.0": _OF_4_2_0, "4.3.0": _OF_4_2_0}
"""Coordinates of Maven by version of PySpark.

Maven Central has no connector of 4.3.0; the one of 4.2.0 runs with that PySpark, in the tests, too.

The extra `spark` in pyproject.toml takes no PySpark that is newer than the newest minor version here.
"""


def connector(pyspark: str) -> str:
    """What `spark.jars.packages` takes with a version of PySpark. Raises NoConnector, which says how to do without."""
    if pyspark in CONNECTORS:
        return CONNECTORS[pyspark]
    known = ", ".join(CONNECTORS)
    raise NoConnector(
        f"Spark's own Kafka source was not tested with PySpark {pyspark}, and may not be published for it yet (it was "
        f"with {known}): use `format: sordini`, which needs no jar, or `pip install pyspark=={list(CONNECTORS)[-1]}`, "
        "or name the jars yourself in spark.config, as spark.jars or spark.jars.packages"
    )
