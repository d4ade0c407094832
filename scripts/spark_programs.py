"""PySparks of other versions, and the jars that tests give to Spark: its Kafka source, Delta's and Iceberg's own."""

from __future__ import annotations

import sys

from scripts.debian_packages import install_programs
from scripts.fetching import COPY_PLUGIN, ROOT, fetch, fetch_dependencies, fetch_environment, install, maven
from tests.outside import versions

SPARK = ROOT / ".cache" / "spark"
CONNECTOR = SPARK / "connector"
ICEBERG_REST = ROOT / ".cache" / "iceberg-rest"
SPARK_POM = ROOT / "tests" / "outside" / "spark.pom.xml"
ICEBERG_REST_POM = SPARK_POM.with_name("iceberg_rest.pom.xml")


def fetch_spark(version: str) -> None:
    """PySpark, which holds Spark itself, in its own environment, then the jars of its Kafka source."""
    folder = SPARK / version / "lib"
    if (folder / f"spark-sql-kafka-0-10_2.13-{version}.jar").exists():
        return
    install(SPARK / version / "venv", f"pyspark=={version}")
    goal = f"{COPY_PLUGIN}:copy-dependencies"
    fetch(folder, [*maven(), "-f", str(SPARK_POM), f"-Dspark.version={version}", "-DincludeScope=runtime", goal])


def fetch_iceberg() -> None:
    """Iceberg's own engine: its runtime for Spark with that PySpark, and what its catalog reads SQLite with."""
    folder = SPARK / "iceberg"
    install_programs(("java", "mvn"))
    for name, artifact in versions.ICEBERG_JARS.items():
        if not (folder / "lib" / name).exists():
            fetch(folder / "lib", [*maven(), f"-Dartifact={artifact}", f"{COPY_PLUGIN}:copy"])
    fetch_environment(folder / "pyspark", f"pyspark=={versions.ICEBERG_PYSPARK}")


def fetch_delta() -> None:
    """Delta's connector with the PySpark that it is for, and what both reach a bucket by."""
    install_programs(("java", "mvn"))
    fetch_spark(versions.OLDEST_PYSPARK)
    for name, artifact in (versions.DELTA_JARS | versions.S3A_JARS).items():
        if not (SPARK / "delta" / "lib" / name).exists():
            fetch(SPARK / "delta" / "lib", [*maven(), f"-Dartifact={artifact}", f"{COPY_PLUGIN}:copy"])


def fetch_unbounded_spark() -> None:
    """PySparks of before 4.2, without the jars of their Kafka source."""
    for version in versions.UNBOUNDED_PYSPARK:
        install(SPARK / version / "venv", f"pyspark=={version}")


def fetch_connector() -> None:
    """The jars of `pipeline.jars.LOCKED`, each byte of them as locked."""
    sys.path.insert(0, str(ROOT / ".import"))
    from sordini.pipeline.jars import LOCKED

    for jar in LOCKED:
        if not (CONNECTOR / jar.file_name).exists():
            fetch(CONNECTOR, [*maven(), f"-Dartifact={jar.coordinate}", f"{COPY_PLUGIN}:copy"], jar.sha256)


def fetch_iceberg_rest() -> None:
    """The server with all it needs but Hadoop's classes, which PySpark has."""
    version = versions.ICEBERG_REST
    jar = f"iceberg-open-api-{version}-test-fixtures.jar"
    fetch_dependencies(ICEBERG_REST / version / "lib", jar, ICEBERG_REST_POM, f"-Diceberg.version={version}")
