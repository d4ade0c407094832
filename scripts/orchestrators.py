"""Airflow and Dagster for the examples, each with the pipeline in an environment of its own: their pins differ."""

from __future__ import annotations

import tomllib

from scripts.client_suites import own_requirements
from scripts.fetching import ROOT, fetch_environment
from tests.outside import versions

AIRFLOW = ROOT / ".cache" / "airflow"
DAGSTER = ROOT / ".cache" / "dagster"


def fetch_orchestrators() -> None:
    """Both, with what the extra `spark` needs."""
    pipeline = [*own_requirements(), *spark_requirements(), f"pyspark=={versions.NEWEST_PYSPARK}"]
    fetch_environment(AIRFLOW, *pipeline, *versions.AIRFLOW)
    fetch_environment(DAGSTER, *pipeline, *versions.DAGSTER)


def spark_requirements() -> list[str]:
    """The extra `spark`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: list[str] = project["optional-dependencies"]["spark"]
    return found
