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

# In a plain run one kind of table.
SOME = [kind if kind == "delta" else pytest.param(kind, marks=pytest.mark.long) for kind in KINDS]


KEPT = [[2, 1], [3, 1], [6, 1], [7, 1]]
CHANGED_BEFORE = [[each, 1] for each in BEFORE]
CHANGED_AFTER = sorted([*KEPT, [4, 2], [5, 2], [8, 2], [9, 2]])
CHANGES = 6
"""Rows of a table of upserts as id and sequence, before and after a batch of so many changes, two of them deletions."""

# In a plain run a few moments, of which the last is after the commit.
EVERY = [pytest.param(1, marks=pytest.mark.long), 17]


def killed(kind: str, deed: str, folder: Path, every: int = 1) -> list[dict[str, Any]]:
    """What was seen after each death, and last without one: the lines of table_writer.py."""
    folder.mkdir()
    command = [
        sys.executable,
        str(ROOT / "tests" / "pipeline" / "table_writer.py"),
        kind,
        deed,
        str(folder),
        str(every),
    ]
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
        assert line["seen"] in (BEFORE, AFTER)
        assert line["after"] == line["listed_after"] == AFTER


@pytest.mark.parametrize("kind", SOME)
@pytest.mark.long
def test_a_compaction_killed_at_any_step_loses_nothing_and_shows_nothing_twice(kind: str, tmp_path: Path) -> None:
    for line in killed(kind, "compact", tmp_path / "compact"):
        assert line["seen"] == BEFORE
        assert line["after"] == BEFORE


@pytest.mark.parametrize("every", EVERY)
def test_an_upsert_killed_at_any_step_is_in_the_table_as_a_whole_or_not_at_all(every: int, tmp_path: Path) -> None:
    lines = killed("iceberg", "upsert", tmp_path / "upsert", every)
    assert len(lines) > (10 if every == 1 else 1)
    for line in lines:
        assert line["seen"] in (CHANGED_BEFORE, CHANGED_AFTER)
        assert line["after"] == CHANGED_AFTER
        # What was deleted stays deleted, and nothing is left of the attempt that was killed.
        assert line["late"] == CHANGES
        assert line["unnamed"] == []
    assert lines[0]["seen"] == CHANGED_BEFORE


@pytest.mark.long
def test_a_compaction_of_upserts_killed_at_any_step_keeps_rows_and_deletions(tmp_path: Path) -> None:
    lines = killed("iceberg", "compact-upserts", tmp_path / "compact")
    assert len(lines) > 10
    for line in lines:
        assert line["seen"] == line["after"] == CHANGED_AFTER
        assert line["late"] == CHANGES
