"""Writers killed with -9 at every step: whatever the moment, plain readers see whole batches, and a restart heals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.outside.needs import ROOT
from tests.support.frames import KINDS

SECONDS_MAX = 300
BEFORE = list(range(8))
AFTER = list(range(16))

# In a plain run the kind whose every step is ours.
SOME = [kind if kind == "parquet" else pytest.param(kind, marks=pytest.mark.long) for kind in KINDS]


def killed(kind: str, deed: str, folder: Path) -> list[dict[str, Any]]:
    """What was seen after each death, and last without one: the lines of table_writer.py."""
    folder.mkdir()
    command = [sys.executable, str(ROOT / "tests" / "pipeline" / "table_writer.py"), kind, deed, str(folder)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / '.import'}:{ROOT}"}
    ran = subprocess.run(
        command, env=environment, timeout=SECONDS_MAX, capture_output=True, check=False, encoding="utf-8"
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [line["lived"] for line in lines] == [False] * (len(lines) - 1) + [True]
    return lines


@pytest.mark.parametrize("kind", SOME)
def test_a_writer_killed_at_any_step_of_an_append_leaves_a_table_that_a_restart_completes(
    kind: str, tmp_path: Path
) -> None:
    lines = killed(kind, "append", tmp_path / "append")
    assert len(lines) > 5
    for line in lines:
        if kind == "parquet":
            # Files of a committed batch appear one by one; those of no other ever do, for however naive a reader.
            assert line["seen"] == line["listed"]
            assert line["seen"] in (BEFORE, AFTER[:12], BEFORE + AFTER[12:], AFTER)
        else:
            assert line["seen"] in (BEFORE, AFTER)
        assert line["after"] == line["listed_after"] == AFTER


@pytest.mark.parametrize("kind", SOME)
@pytest.mark.long
def test_a_compaction_killed_at_any_step_loses_nothing_and_shows_nothing_twice(kind: str, tmp_path: Path) -> None:
    for line in killed(kind, "compact", tmp_path / "compact"):
        if kind == "parquet":
            # Of what is being replaced, a listing may lack rows until the next who opens the table.
            assert len(line["listed"]) == len(set(line["listed"]))
            assert set(line["listed"]) <= set(BEFORE)
            assert line["listed_after"] == BEFORE
        else:
            assert line["seen"] == BEFORE
        assert line["after"] == BEFORE
