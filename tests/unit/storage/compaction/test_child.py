"""The process that cleans: tasks and answers as lines."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sordini.storage import names
from sordini.storage.compaction.task import CleaningResult, CleaningTask
from tests.support.compaction_history import DIRECTORY, History


def a_task(folder: Path) -> CleaningTask:
    """A small log in a real directory."""
    history = History()
    for key in (b"a", b"b", b"a"):
        history.data([(key, b"x")])
    history.roll()
    history.write_files()
    for path, content in history.disk.tree(DIRECTORY).items():
        folder.joinpath(Path(path).name).write_bytes(content)
    return history.task(directory=str(folder))


def test_a_task_and_an_answer_survive_the_way_between_two_processes() -> None:
    history = History()
    for key in (b"a", b"b", b"a"):
        history.data([(key, b"x")], producer_id=3)
    history.roll()
    for rate in (1.5, float("inf")):
        task = history.task(io_bytes_per_second=rate)
        text = json.dumps(task.as_json(), allow_nan=False)
        assert CleaningTask.from_json(json.loads(text)) == task
    result = history.clean()
    assert CleaningResult.from_json(json.loads(json.dumps(result.as_json(), allow_nan=False))) == result


@contextmanager
def a_child() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "sordini.storage.compaction.child"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def ask(child: subprocess.Popen[str], line: str) -> dict[str, Any]:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(f"{line}\n")
    child.stdin.flush()
    answer: dict[str, Any] = json.loads(child.stdout.readline())
    return answer


def test_it_answers_each_line_with_a_line(tmp_path: Path) -> None:
    good, damaged, missing = (tmp_path / name for name in ("good", "damaged", "missing"))
    tasks = []
    for folder in (good, damaged, missing):
        folder.mkdir()
        tasks.append(a_task(folder))
    log = damaged / names.file_name(0, names.LOG)
    log.write_bytes(log.read_bytes()[:-1] + b"!")
    (missing / names.file_name(0, names.LOG)).unlink()
    with a_child() as child:
        answers = [ask(child, line) for line in [*(json.dumps(task.as_json()) for task in tasks), "{}"]]
    assert [answer.get("kind") for answer in answers] == [None, "damage", "io", "bug"]
    result = CleaningResult.from_json(answers[0]["result"])
    assert (result.cleaned_to, len(result.replacements)) == (3, 1)
    assert (good / (names.file_name(0, names.LOG) + names.CLEANED)).stat().st_size == result.replacements[0].size
    assert str(log) in answers[1]["error"]
    assert "KeyError" in answers[3]["error"]


def test_it_ends_with_its_input_even_in_the_middle_of_a_task(tmp_path: Path) -> None:
    task = a_task(tmp_path)._replace(io_bytes_per_second=0.001)
    with a_child() as child:
        assert child.stdin is not None
        child.stdin.write(json.dumps(task.as_json()) + "\n")
        child.stdin.close()
        # It would sleep for days.
        assert child.wait(timeout=60) == 0
