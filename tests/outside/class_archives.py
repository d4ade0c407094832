"""Archives of the classes that Apache Kafka's broker, ZooKeeper and Spark load: `python -m tests.outside.class_archives`.

A JVM that maps such an archive (JEP 350) neither reads nor verifies those classes, so it starts with far less processor
time. Each archive is written at the end of a program that has started and worked a little. It is good for the jars and
the JVM that made it; another JVM ignores it.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.outside.java import (
    BROKER_CLASS,
    QUICK_COMPILER,
    SHORT_LIVED,
    ZOOKEEPER_CLASS,
    ApacheKafkaProcess,
    ZooKeeperProcess,
    class_archive,
)
from tests.outside.spark import DRIVER_ARCHIVE
from tests.outside.versions import APACHE_KAFKA, OLDER_APACHE_KAFKA
from tests.support.wire_client import Client

BROKERS = (APACHE_KAFKA, OLDER_APACHE_KAFKA)


SPARK_PROGRAM = """
import sys
from pyspark import SparkContext
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for name in ("spark.driver.host", "spark.driver.bindAddress"):
    builder = builder.config(name, "127.0.0.1")
spark = builder.config("spark.driver.extraJavaOptions", sys.argv[1]).config("spark.sql.shuffle.partitions", "2").getOrCreate()
spark.range(10).selectExpr("id % 2 AS half", "id").groupBy("half").sum("id").collect()
spark.createDataFrame([(1, "a")], "a int, b string").write.format("noop").mode("overwrite").save()
query = spark.readStream.format("rate").load().writeStream.format("noop").trigger(once=True).start()
query.awaitTermination()
spark.stop()
java = SparkContext._gateway.proc
SparkContext._gateway.shutdown()
java.stdin.close()
java.wait()
"""


def main() -> None:
    """Make the archives that do not exist yet."""
    logging.getLogger("kazoo").addHandler(logging.NullHandler())  # It reports each connection that it closes.
    with tempfile.TemporaryDirectory() as name:
        _make_of_brokers(Path(name))
        _make_of_spark(Path(name) / DRIVER_ARCHIVE.name)


def _make_of_brokers(directory: Path) -> None:
    wanted = {version: class_archive(BROKER_CLASS, version) for version in BROKERS}
    of_zookeeper = class_archive(ZOOKEEPER_CLASS, APACHE_KAFKA)
    if all(archive.exists() for archive in (of_zookeeper, *wanted.values())):
        return
    for archive in (of_zookeeper, *wanted.values()):
        archive.unlink(missing_ok=True)  # A program cannot both use an archive and make one.
    zookeeper = ZooKeeperProcess(directory / "zookeeper")
    made = directory / of_zookeeper.name
    zookeeper.more_flags = [f"-XX:ArchiveClassesAtExit={made}"]
    with zookeeper:
        for version, archive in wanted.items():
            _make_broker_archive(directory / version, f"{zookeeper.connect}/{version}", version, archive)
    _keep(made, of_zookeeper)


def _make_of_spark(made: Path) -> None:
    if not DRIVER_ARCHIVE.exists():
        options = f"{QUICK_COMPILER} -XX:ArchiveClassesAtExit={made}"
        program = [sys.executable, "-c", SPARK_PROGRAM, options]
        done = subprocess.run(program, cwd=made.parent, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            sys.exit(f"Spark ended with status {done.returncode}\n{done.stderr}")
        _keep(made, DRIVER_ARCHIVE)


def _make_broker_archive(directory: Path, zookeeper: str, version: str, archive: Path) -> None:
    made = directory / archive.name
    flags = ["-Xmx256m", *SHORT_LIVED, f"-XX:ArchiveClassesAtExit={made}"]
    topic = CreatableTopic(name="archived", num_partitions=1, replication_factor=1)
    with (
        ApacheKafkaProcess(directory, zookeeper, version=version, flags=flags) as broker,
        Client("127.0.0.1", broker.port) as client,
    ):
        client.ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=[topic], timeout_ms=20_000))
    _keep(made, archive)


def _keep(made: Path, archive: Path) -> None:
    """Put it in its place in one step: tests may be running."""
    sys.stderr.write(f"made {archive.name} of {archive.parent.name}\n")
    archive.parent.mkdir(parents=True, exist_ok=True)
    beside = archive.with_name(f"{archive.name}.arriving")
    shutil.copyfile(made, beside)
    beside.replace(archive)


if __name__ == "__main__":
    main()
