"""What a load says at its end: what was written, also where it failed."""

from __future__ import annotations

import json

import pytest

from sordini.pipeline.cli.progress import ProgressReporter
from sordini.pipeline.jobs.batch_writer import Batch
from sordini.pipeline.jobs.load import Step


def a_step(rows: int, dead: int, done: int, of: int) -> Step:
    return Step(Batch(0, rows, dead, 1, 10, 1.0, was_there=False), rows + dead, done, of, {})


def test_a_load_that_wrote_nothing_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressReporter("views", as_json=False):
        pass
    assert capsys.readouterr().out == "views: nothing to do, all records were written before\n"


def test_a_load_says_what_all_its_pieces_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressReporter("views", as_json=False) as reporter:
        reporter.step(a_step(36, 4, 40, 80))
        reporter.step(a_step(40, 0, 80, 80))
    assert capsys.readouterr().out == "views: 76 rows, 4 dead letters\n"


def test_a_load_that_fails_says_what_it_wrote_before(capsys: pytest.CaptureFixture[str]) -> None:
    def load(*steps: Step) -> None:
        with ProgressReporter("views", as_json=False) as reporter:
            for step in steps:
                reporter.step(step)
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        load(a_step(36, 4, 40, 80))
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.endswith("views: 36 rows, 4 dead letters were written before it failed\n")
    with pytest.raises(OSError, match="full"):
        load()
    assert capsys.readouterr() == ("", "")


def test_for_programs_there_are_the_pieces_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressReporter("views", as_json=True) as reporter:
        reporter.step(a_step(36, 4, 40, 80))
    said = capsys.readouterr()
    assert (json.loads(said.out)["rows"], said.err) == (36, "")
