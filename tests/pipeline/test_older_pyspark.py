"""The scenarios of the sources once more, with older PySparks than the one of this environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.outside.needs import ROOT, need_spark
from tests.outside.versions import UNBOUNDED_PYSPARK

HERE = Path(__file__).parent
SOURCES = ("jvm", "source")
SECONDS_MAX = 900

pytestmark = pytest.mark.long


@pytest.mark.parametrize("source", SOURCES)
def test_every_scenario_passes_with_the_older_pyspark(source: str, tmp_path: Path) -> None:
    """With the connector as Spark resolves it."""
    run(need_spark(), [f"test_{source}_{name}.py" for name in ("reading", "streaming", "writing")], tmp_path)


@pytest.mark.parametrize("version", UNBOUNDED_PYSPARK)
def test_batches_and_streams_without_limits_work_before_4_2(version: str, tmp_path: Path) -> None:
    files = ["test_source_reading.py", "test_source_writing.py", "unbounded_streaming.py"]
    run(need_spark(version), files, tmp_path, "and not sparks_own")


def run(packages: Path, files: list[str], folder: Path, but: str = "") -> None:
    """Run tests with the PySpark in a folder: it is found before the one of this environment, which has all else."""
    environment = {**os.environ, "PYTHONPATH": str(packages), "SORDINI_PIPELINE": "all", "SORDINI_PART": "all"}
    kept = f"not three and not apache {but}".strip()
    options = ["-q", "-p", "no:cacheprovider", "-n0", "-k", kept, f"--basetemp={folder / 'inner'}"]
    command = [sys.executable, "-m", "pytest", *options, *(str(HERE / name) for name in files)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stdout[-8_000:]
    assert " passed" in done.stdout
