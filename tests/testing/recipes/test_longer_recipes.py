"""The recipes that take an environment of their own, or Spark: `make recipes`, which sets SORDINI_RECIPES=all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.outside.needs import ROOT, need_connector, need_quixstreams
from tests.testing.recipes.page import LONGER_TESTS_OF, write
from tests.testing.test_plugin import ARGUMENTS, environment

pytestmark = pytest.mark.skipif(os.environ.get("SORDINI_RECIPES") != "all", reason="runs in `make recipes`")

SPARK = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
}
"""What a machine without a name in the network needs, and one that has other work."""


def passed(python: Path, directory: Path, name: str, given: dict[str, str]) -> str:
    """The output of a run of one recipe of the page. Raises AssertionError unless all of its tests pass."""
    write(directory, name)
    done = subprocess.run(
        [str(python), "-m", "pytest", *ARGUMENTS, name],
        cwd=directory,
        env=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:]
    assert f"{LONGER_TESTS_OF[name]} passed" in done.stdout
    return done.stdout


def test_the_recipe_of_quix_streams_passes_in_its_environment(tmp_path: Path) -> None:
    # Without this environment's packages: its confluent-kafka is another one.
    given = {**environment(), "PYTHONPATH": str(ROOT / ".import")}
    passed(need_quixstreams(), tmp_path, "test_quixstreams.py", given)


def test_the_recipe_of_pyspark_passes_with_both_sources(tmp_path: Path) -> None:
    jars = ",".join(map(str, need_connector()))  # In place of --packages, which asks a repository for the same files.
    settings = " ".join(f"--conf {key}={value}" for key, value in SPARK.items())
    options = f"--jars {jars} {settings} --driver-java-options -XX:TieredStopAtLevel=1 pyspark-shell"
    given = {**environment(), "PYSPARK_SUBMIT_ARGS": options, "PYSPARK_PYTHON": sys.executable}
    passed(Path(sys.executable), tmp_path, "test_pyspark.py", given)
