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
"""In an environment of its own; the first one that our source supports, and the newest whose Kafka connector is locked."""

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
QUIXSTREAMS = ("quixstreams==3.28.1", "pytest>=8.3")
"""In an environment of its own: it requires a certain release of confluent-kafka, older than the one of the tests."""
FRANZ_GO = "v1.20.2"
GO = "1.24"
"""The language of the module that tests it."""


def go_module() -> str:
    """The go.mod of a test with franz-go."""
    return f"module example.org/orders\n\ngo {GO}\n\nrequire github.com/twmb/franz-go {FRANZ_GO}\n"


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
