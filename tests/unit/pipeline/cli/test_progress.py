"""What a load says at its end: what was written, also where it failed; what is said and counted of a batch."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest

from sordini.pipeline.cli.progress import ProgressReporter, reported_batches
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


@pytest.mark.parametrize(("job", "query"), [("", "visits"), ("views", "views/visits")])
def test_a_batch_is_printed_and_counted_under_the_name_of_its_query(
    capsys: pytest.CaptureFixture[str], job: str, query: str
) -> None:
    listeners: list[Any] = []
    streams = SimpleNamespace(addListener=listeners.append, removeListener=listeners.remove)
    spark: Any = SimpleNamespace(streams=streams)
    with reported_batches(ProgressReporter(as_json=True), spark, ("127.0.0.1", 0), job) as on_batch:
        assert len(listeners) == 1
        on_batch("visits", a_step(36, 4, 40, 80).batch._replace(records=41))
        said = capsys.readouterr()
        address = re.search(r"http://\S+", said.err)
        assert address is not None
        with urlopen(address[0], timeout=10) as answer:
            counted = answer.read().decode()
    assert json.loads(said.out)["name"] == "visits"
    for name, value in (("rows", 36), ("dead_letters", 4), ("records", 41), ("files", 1)):
        assert f'sordini_pipeline_{name}_total{{query="{query}"}} {value}.0' in counted
    assert listeners == []


def test_without_an_address_a_batch_is_printed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    spark: Any = None
    with reported_batches(ProgressReporter(as_json=True), spark, None) as on_batch:
        on_batch("visits", a_step(36, 4, 40, 80).batch)
    assert json.loads(capsys.readouterr().out)["rows"] == 36
