"""Spark Connect: what of the source and of the jobs goes over it, and what refuses to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.outside.needs import ROOT, need_java
from tests.pipeline.test_library import KEEP, event, send

SCRIPT = Path(__file__).with_name("remote_job.py")
SECONDS_MAX = 300


@pytest.mark.long
def test_over_connect_the_source_and_load_work_and_streams_of_jobs_are_refused(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    need_java()
    topic = make_topic(2, configs=KEEP)
    send(bootstrap, topic, [*map(event, range(20)), b"broken"])
    done = subprocess.run(
        [sys.executable, str(SCRIPT), bootstrap, topic, str(tmp_path)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = dict(json.loads(line) for line in done.stdout.splitlines())
    refused = "needs a session in the program's own process, and this one is of Spark Connect: `load` works with it"
    assert found == {
        "read": 21,
        "streamed": 21,
        "zone": "America/Los_Angeles",
        "loaded": [20, 2],
        "rows": 20,
        "dead": ["from afar", "broken"],
        "stream": f"`stream` {refused}",
        "aggregate": f"`aggregate` {refused}",
    }
