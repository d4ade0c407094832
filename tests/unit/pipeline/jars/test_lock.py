"""The lock of the connector's jars, and the coordinate that needs no lock."""

from __future__ import annotations

import re
import tomllib

import pyspark
import pytest

from sordini.pipeline.jars import CONNECTORS, LOCKED, locked, packages
from sordini.pipeline.jars.lock import Jar, NoConnector
from sordini.pipeline.jobs.session import PYSPARK_MIN
from tests.outside.needs import ROOT
from tests.outside.versions import NEWEST_PYSPARK, OLDEST_PYSPARK


def test_the_coordinate_is_that_of_the_connector_tested_with_the_pyspark_that_is_installed() -> None:
    assert packages() == CONNECTORS[pyspark.__version__][0].coordinate


def test_the_locked_connector_is_that_of_the_oldest_pyspark_that_the_tests_run() -> None:
    assert LOCKED[0].coordinate == f"org.apache.spark:spark-sql-kafka-0-10_2.13:{OLDEST_PYSPARK}"


def test_each_pyspark_that_the_tests_run_has_a_locked_connector_of_its_own_version_or_an_older_one() -> None:
    assert set(CONNECTORS) == {OLDEST_PYSPARK, NEWEST_PYSPARK}
    for version, jars in CONNECTORS.items():
        group, artifact, connector = jars[0].coordinate.split(":")
        assert (group, artifact) == ("org.apache.spark", "spark-sql-kafka-0-10_2.13")
        assert connector in CONNECTORS
        assert connector <= version
        assert locked(version) == jars


def test_a_pyspark_without_a_locked_connector_is_reported_with_the_ways_to_go_on() -> None:
    with pytest.raises(NoConnector) as caught:
        locked("9.9.9")
    for said in ("PySpark 9.9.9", *CONNECTORS, "format: sordini", "pip install pyspark==", "spark.jars.packages"):
        assert said in str(caught.value)


def test_jobs_take_the_minor_versions_of_pyspark_that_have_a_locked_connector_and_the_extra_no_newer_ones() -> None:
    """The source alone works from 4.0 on."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    [wanted] = [one for one in extras["spark"] if one.startswith("pyspark")]
    minors = {tuple(map(int, version.split(".")[:2])) for version in CONNECTORS}
    major, minor = max(minors)
    assert wanted == f"pyspark>=4.0,<{major}.{minor + 1}"
    assert minors == {(major, number) for number in range(PYSPARK_MIN[1], minor + 1)}


def test_every_locked_jar_has_a_hash_of_its_own() -> None:
    hashes = {jar.sha256 for jar in LOCKED}
    assert len(hashes) == len(LOCKED) == 4
    assert all(re.fullmatch(r"[0-9a-f]{64}", one) for one in hashes)


def test_a_jar_is_below_its_group_its_name_and_its_version() -> None:
    jar = Jar("org.apache.kafka", "kafka-clients", "3.9.2", "0" * 64)
    assert jar.path == "org/apache/kafka/kafka-clients/3.9.2/kafka-clients-3.9.2.jar"
