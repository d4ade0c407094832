"""The lock of the connector's jars, and the coordinate that needs no lock."""

from __future__ import annotations

import re

import pyspark

from sordini.pipeline.jars import LOCKED, packages
from sordini.pipeline.jars.lock import Jar
from tests.outside.versions import OLDEST_PYSPARK


def test_the_coordinate_follows_the_pyspark_that_is_installed() -> None:
    assert packages() == f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


def test_the_locked_connector_is_that_of_the_oldest_pyspark_that_the_tests_run() -> None:
    assert LOCKED[0].coordinate == f"org.apache.spark:spark-sql-kafka-0-10_2.13:{OLDEST_PYSPARK}"


def test_every_locked_jar_has_a_hash_of_its_own() -> None:
    hashes = {jar.sha256 for jar in LOCKED}
    assert len(hashes) == len(LOCKED) == 4
    assert all(re.fullmatch(r"[0-9a-f]{64}", one) for one in hashes)


def test_a_jar_is_below_its_group_its_name_and_its_version() -> None:
    jar = Jar("org.apache.kafka", "kafka-clients", "3.9.2", "0" * 64)
    assert jar.path == "org/apache/kafka/kafka-clients/3.9.2/kafka-clients-3.9.2.jar"
