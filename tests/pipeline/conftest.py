"""What the tests of the pipeline share: one Spark session, brokers, and topics of a wanted shape.

A plain run has a short slice. What is marked `long` runs in `make pipeline`, which sets SORDINI_PIPELINE=all.
Starting Spark takes as long as many tests do, hence one session for all of them: leave no query running, and no
setting changed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest

from sordini.pipeline.jobs.kafka_connector import connector
from tests.outside.needs import ROOT, SPARK, need_connector
from tests.outside.processes import DevProcess
from tests.outside.spark import WITHOUT_COMPILER, driver_options
from tests.outside.versions import OLDEST_PYSPARK
from tests.pipeline.topics import Place
from tests.support.collected import leave_out, of_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERYTHING = os.environ.get("SORDINI_PIPELINE") == "all"
PLACES = ("bootstrap", "three", "apache")
"""Fixtures with addresses."""
FOREIGN = (
    "ignore:unclosed:ResourceWarning",  # kafka-python forgets sockets whose connection was refused, py4j its idle ones.
    "ignore:.*is deprecated:DeprecationWarning:pyspark",
    "ignore:.*is deprecated:FutureWarning:pyspark",
)
"""Warnings of libraries that the tests here may raise."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: runs with SORDINI_PIPELINE=all alone, as `make pipeline` sets it")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = of_folder(items, "tests/pipeline")
    for item in ours:
        for warning in FOREIGN:
            item.add_marker(pytest.mark.filterwarnings(warning))
    left_out = [] if EVERYTHING else [item for item in ours if item.get_closest_marker("long")]
    leave_out(config, items, left_out)


@pytest.fixture(scope="session")
def spark_settings(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The settings of every session here, the shared one and those of tests that start programs of their own."""
    home = tmp_path_factory.mktemp("spark")
    return {
        "spark.master": "local[2]",
        "spark.app.name": "tests",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": driver_options(f"-Djava.io.tmpdir={home}"),
        **_connector(),
        "spark.local.dir": str(home),
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        **({} if EVERYTHING else WITHOUT_COMPILER),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _connector() -> Mapping[str, str]:
    """Spark's own source: as its users have it with the older PySpark, as `scripts/outside.py` fetches it with that of this environment.

    The connector of the newer is not in every repository; that of the older serves both.
    """
    if version("pyspark") == OLDEST_PYSPARK:
        return {"spark.jars.packages": connector(OLDEST_PYSPARK), "spark.jars.ivy": str(SPARK / "ivy")}
    return {"spark.jars": ",".join(map(str, need_connector()))}


@pytest.fixture(scope="session")
def spark(spark_settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """The one session, with our source and Spark's own (`sordini` and `kafka`): local[2], UTC."""
    from pyspark.sql import SparkSession

    from sordini.pipeline.source import register

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        # Functions that tests pass to Spark's Python workers are in `tests`; a run's own path stays in front of it.
        patch.setenv("PYTHONPATH", os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)]))
        builder = SparkSession.builder
        for key, value in spark_settings.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    register(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def dev_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    """Three of our brokers in one process (`sordini dev`), shared by the session: use topics of your own."""
    with DevProcess(tmp_path_factory.mktemp("three"), "--brokers", "3") as process:
        yield process


@pytest.fixture(scope="session")
def three(dev_cluster: DevProcess) -> str:
    """The bootstrap address of a cluster of three of our brokers."""
    return dev_cluster.bootstrap


@pytest.fixture(scope="session")
def apache(apache_kafka: str) -> str:
    """The bootstrap address of an Apache Kafka 3.9.1, by which transactions, TLS and SASL of the client are judged."""
    return apache_kafka


@pytest.fixture(scope="module", params=PLACES if EVERYTHING else PLACES[:1])
def place(request: pytest.FixtureRequest) -> Place:
    """The brokers of a source's scenario: one of ours; with EVERYTHING also three, and an Apache Kafka as the judge."""
    address: str = request.getfixturevalue(request.param)
    return Place(address, replicas=3 if request.param == "three" else 1)


@pytest.fixture
def make_topic(bootstrap: str) -> Callable[..., str]:
    """`make_topic(4, at=three, replicas=3, configs={...})` creates a topic for this test alone and returns its name."""

    def make(
        partitions: int = 1, *, at: str = bootstrap, replicas: int = 1, configs: Mapping[str, str] | None = None
    ) -> str:
        return Place(at, replicas).make_topic(partitions, configs=configs)

    return make
