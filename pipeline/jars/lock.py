"""Which jars Spark's own Kafka source is made of, for the PySpark that the tests run.

Who uses that source needs none of this: `packages()` is the one coordinate that Spark resolves by itself, through
`spark.jars.packages`. The lock is for machines whose Maven repository does not hold all of it, and so that a test or
a benchmark runs the same bytes everywhere.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import NamedTuple


class Jar(NamedTuple):
    """One artifact of a Maven repository."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def coordinate(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def path(self) -> str:
        """Where it is below a repository's address, in Maven's default layout."""
        return "/".join([*self.group.split("."), self.artifact, self.version, self.file_name])


SCALA = "2.13"  # What every PySpark 4 is built with.

LOCKED = (
    Jar(
        "org.apache.spark",
        f"spark-sql-kafka-0-10_{SCALA}",
        "4.2.0",
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    Jar(
        "org.apache.spark",
        f"spark-token-provider-kafka-0-10_{SCALA}",
        "4.2.0",
        "641c7947afc8aa1189e433b7c2d305293993c8691bc1c2062d6d4f513b12518c",
    ),
    Jar(
        "org.apache.kafka",
        "kafka-clients",
        "3.9.2",
        "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    ),
    Jar(
        "org.apache.commons",
        "commons-pool2",
        "2.13.1",
        "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
    ),
)
"""The connector with all that it needs beside what PySpark brings along."""


def packages() -> str:
    """What `spark.jars.packages` takes: the connector of the PySpark that is installed.

    Raises PackageNotFoundError where there is none.
    """
    return f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{version('pyspark')}"
