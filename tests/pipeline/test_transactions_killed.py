"""The driver's part of a transactional sink, killed with -9 before and after each of its requests, without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.outside.needs import ROOT
from tests.pipeline.sent import committed_values
from tests.pipeline.topics import Place

SECONDS_MAX = 300


def test_a_batch_is_there_once_whenever_its_driver_is_killed(place: Place, tmp_path: Path) -> None:
    topic = place.make_topic(2)
    script = str(ROOT / "tests" / "pipeline" / "transaction_killer.py")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / '.import'}:{ROOT}"}
    ran = subprocess.run(
        [sys.executable, script, place.bootstrap, topic, str(tmp_path / "staging")],
        env=environment,
        timeout=SECONDS_MAX,
        capture_output=True,
        check=False,
        encoding="utf-8",
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [line["lived"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert len(lines) > 20
    # Not committed up to some moment, committed from then on.
    found = [line["was_there"] for line in lines]
    assert found == sorted(found)
    assert not found[0]
    assert found[-2], "the last requests come after the commit"
    expected = sorted(f"value-{batch}-{number}" for batch in range(len(lines)) for number in range(40))
    assert committed_values(place.bootstrap, topic) == expected
    assert not list((tmp_path / "staging").iterdir()), "what was staged is deleted, lost attempts included"
