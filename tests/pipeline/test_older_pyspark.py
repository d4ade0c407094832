"""The scenarios of both sources once more, with the older PySpark and its connector as Spark resolves it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.outside.needs import ROOT, need_spark

HERE = Path(__file__).parent
SOURCES = ("jvm", "source")
SECONDS_MAX = 900


@pytest.mark.long
@pytest.mark.parametrize("source", SOURCES)
def test_every_scenario_passes_with_the_older_pyspark(source: str, tmp_path: Path) -> None:
    """It is found before the one of this environment, which has all else that the tests import."""
    packages, _ = need_spark()
    files = [str(HERE / f"test_{source}_{name}.py") for name in ("reading", "streaming", "writing")]
    environment = {**os.environ, "PYTHONPATH": str(packages), "SORDINI_PIPELINE": "all"}
    options = ["-q", "-p", "no:cacheprovider", "-k", "not three and not apache", f"--basetemp={tmp_path / 'inner'}"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stdout[-8_000:]
    assert " passed" in done.stdout.splitlines()[-1]
