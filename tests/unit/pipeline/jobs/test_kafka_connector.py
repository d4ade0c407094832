"""The connector of Spark's own Kafka source, by version of PySpark."""

from __future__ import annotations

import re
import tomllib

import pytest

from sordini.pipeline.jobs.kafka_connector import CONNECTORS, NoConnector, connector
from sordini.pipeline.jobs.session import PYSPARK_MIN
from tests.outside.needs import ROOT
from tests.outside.versions import CONNECTOR_JARS, NEWEST_PYSPARK, OLDEST_PYSPARK

PAGES = ("spark-source.md", "testing.md", "pipeline.md", "compatibility.md")


def test_each_pyspark_that_the_tests_run_has_a_connector_of_its_own_version_or_an_older_one() -> None:
    assert set(CONNECTORS) == {OLDEST_PYSPARK, NEWEST_PYSPARK}
    for version, coordinate in CONNECTORS.items():
        artifact, _, release = coordinate.rpartition(":")
        assert artifact == "org.apache.spark:spark-sql-kafka-0-10_2.13"
        assert release in CONNECTORS
        assert release <= version
        assert connector(version) == coordinate


def test_the_connectors_are_the_one_that_the_tests_run_and_the_documents_name() -> None:
    assert set(CONNECTORS.values()) == {next(iter(CONNECTOR_JARS))}
    for page in PAGES:
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        assert set(re.findall(r"org\.apache\.spark:spark-sql-kafka[\w.:-]+\d", text)) == set(CONNECTORS.values()), page


def test_the_documents_name_the_jars_that_the_tests_run() -> None:
    text = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\borg\.apache\.\w+:[\w.-]+:[\d.]+\b", text)) == sorted(CONNECTOR_JARS)


def test_a_pyspark_without_a_connector_is_reported_with_the_ways_to_go_on() -> None:
    with pytest.raises(NoConnector) as caught:
        connector("9.9.9")
    for said in ("PySpark 9.9.9", *CONNECTORS, "format: sordini", "pip install pyspark==", "spark.jars.packages"):
        assert said in str(caught.value)


def test_jobs_take_the_minor_versions_of_pyspark_that_have_a_connector_and_the_extra_no_newer_ones() -> None:
    """The source alone works from 4.0 on."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    [wanted] = [one for one in extras["spark"] if one.startswith("pyspark")]
    minors = {tuple(map(int, version.split(".")[:2])) for version in CONNECTORS}
    major, minor = max(minors)
    assert wanted == f"pyspark>=4.0,<{major}.{minor + 1}"
    assert minors == {(major, number) for number in range(PYSPARK_MIN[1], minor + 1)}
