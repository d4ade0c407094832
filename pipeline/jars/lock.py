"""Which jars Spark's own Kafka source is made of, for each PySpark with which the tests have run it.

Spark resolves that source by itself, by the one coordinate of `packages()`. The lock is for machines that cannot (no
repository can be reached from there, or not every jar is in it), and so that a test or a benchmark runs the same bytes
everywhere. A PySpark that has no entry here was not tested with its source, and may have none yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Final, NamedTuple

from sordini.pipeline.errors import PipelineError


class NoConnector(PipelineError):
    """No jars are locked for a version of PySpark."""


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

_OF_4_2_0 = (
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

CONNECTORS: Final[Mapping[str, tuple[Jar, ...]]] = {"4.2.0": _OF_4_2_0, "4.3.0": _OF_4_2_0}
"""By version of PySpark: the connector first, then all that it needs beside what PySpark brings along.

Maven Central has no connector of 4.3.0; the one of 4.2.0 runs with that PySpark, in the tests, too.

The extra `spark` in pyproject.toml takes no PySpark that is newer than the newest minor version here.
"""

LOCKED: Final = _OF_4_2_0
"""The newest jars, with which the tests run every PySpark."""


def locked(pyspark: str) -> tuple[Jar, ...]:
    """The jars of one version of PySpark. Raises NoConnector, which says how to go on without them."""
    if pyspark in CONNECTORS:
        return CONNECTORS[pyspark]
    known = ", ".join(CONNECTORS)
    raise NoConnector(
        f"Spark's own Kafka source was not tested with PySpark {pyspark}, and may not be published for it yet (it was "
        f"with {known}): use `format: sordini`, which needs no jar, or `pip install pyspark=={list(CONNECTORS)[-1]}`, "
        "or name the jars yourself in spark.config, as spark.jars or spark.jars.packages"
    )


def packages() -> str:
    """What `spark.jars.packages` takes: the connector that was tested with the PySpark that is installed.

    Raises PackageNotFoundError where there is no PySpark, and NoConnector as `locked` does.
    """
    return locked(version("pyspark"))[0].coordinate
