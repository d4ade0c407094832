"""PySparks of other versions, and the jars that tests give to Spark: its Kafka source, Delta's and Iceberg's own."""

from __future__ import annotations

from scripts.debian_packages import install_programs
from scripts.fetching import ROOT, fetch_dependencies, fetch_environment, fetch_jar, install
from tests.outside import versions

SPARK = ROOT / ".cache" / "spark"
CONNECTOR = SPARK / "connector"
ICEBERG_REST = ROOT / ".cache" / "iceberg-rest"
ICEBERG_REST_POM = ROOT / "tests" / "outside" / "iceberg_rest.pom.xml"


def fetch_spark(version: str) -> None:
    """PySpark, which holds Spark itself, in its own environment."""
    environment = SPARK / version / "venv"
    if not list(environment.glob("lib/python*/site-packages/pyspark-*.dist-info/RECORD")):  # What pip writes last.
        install(environment, f"pyspark=={version}")


def fetch_iceberg() -> None:
    """Iceberg's own engine: its runtime for Spark with that PySpark, and what its catalog reads SQLite with."""
    folder = SPARK / "iceberg"
    install_programs(("java", "mvn"))
    for coordinate in versions.ICEBERG_JARS:
        fetch_jar(folder / "lib", coordinate)
    fetch_environment(folder / "pyspark", f"pyspark=={versions.ICEBERG_PYSPARK}")


def fetch_delta() -> None:
    """Delta's connector with the PySpark that it is for."""
    install_programs(("java", "mvn"))
    fetch_spark(versions.OLDEST_PYSPARK)
    for coordinate in versions.DELTA_JARS:
        fetch_jar(SPARK / "delta" / "lib", coordinate)


def fetch_delta_s3() -> None:
    """Delta's connector, and what it reaches a bucket by."""
    fetch_delta()
    for coordinate in versions.S3A_JARS:
        fetch_jar(SPARK / "delta" / "lib", coordinate)


def fetch_unbounded_spark() -> None:
    """PySparks of before 4.2."""
    for version in versions.UNBOUNDED_PYSPARK:
        fetch_spark(version)


def fetch_connector() -> None:
    """Spark's own Kafka source, each byte of it as `versions.py` says."""
    for coordinate, sha256 in versions.CONNECTOR_JARS.items():
        fetch_jar(CONNECTOR, coordinate, sha256)


def fetch_iceberg_rest() -> None:
    """The server with all it needs but Hadoop's classes, which PySpark has."""
    version = versions.ICEBERG_REST
    jar = f"iceberg-open-api-{version}-test-fixtures.jar"
    fetch_dependencies(ICEBERG_REST / version / "lib", jar, ICEBERG_REST_POM, f"-Diceberg.version={version}")
