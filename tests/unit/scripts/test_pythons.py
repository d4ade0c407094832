"""`make pythons`: which interpreters are found, and what is read of pytest's output."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from scripts import pythons
from scripts.pythons import Interpreter, Result


def interpreter(path: Path, **facts: object) -> Path:
    """A program that says of itself what a Python of these facts would."""
    said = {"name": "cpython", "version": [3, 12, 1], "level": "final", "has_no_lock": False, **facts}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{json.dumps([*said.values(), str(path)])}'\n")
    path.chmod(0o700)
    return path


def test_pythons_of_the_path_of_pyenv_and_of_uv_are_found_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = interpreter(tmp_path / "bin" / "python3.12")
    of_pyenv = interpreter(tmp_path / "pyenv" / "versions" / "3.13.0" / "bin" / "python3.13", version=[3, 13, 0])
    of_uv = interpreter(tmp_path / "uv" / "cpython-3.14.0" / "bin" / "python3.14", version=[3, 14, 0])
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "python3.12").symlink_to(named)
    (tmp_path / "again" / "python3.13").write_text("no program")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{tmp_path / 'again'}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "uv"))
    found = [path for path in pythons.candidates() if path.is_relative_to(tmp_path)]
    assert found == [named, tmp_path / "again" / "python3.13", of_pyenv, of_uv]
    assert pythons.about(tmp_path / "again" / "python3.13") is None
    assert pythons.about(of_uv) == Interpreter((3, 14, 0), str(of_uv))


@pytest.mark.parametrize("facts", [{"name": "pypy"}, {"level": "beta"}, {"has_no_lock": True}])
def test_what_is_no_released_cpython_with_a_lock_is_passed_over(tmp_path: Path, facts: dict[str, object]) -> None:
    assert pythons.about(interpreter(tmp_path / "python3.12", **facts)) is None


def test_this_python_says_its_version_and_path() -> None:
    found = pythons.about(Path(sys.executable))
    assert found == Interpreter(sys.version_info[:3], sys.executable)


def test_of_a_minor_version_the_newest_release_is_used_and_of_one_release_the_first() -> None:
    older, newer, same = (
        Interpreter((3, 11, 2), "a"),
        Interpreter((3, 11, 12), "b"),
        Interpreter((3, 11, 12), "c"),
    )
    other = Interpreter((3, 13, 0), "d")
    assert pythons.newest_of_each([older, newer, same, other]) == {"3.11": newer, "3.13": other}


@pytest.mark.parametrize(
    ("output", "summary"),
    [
        ("...\n11 failed, 9684 passed, 4 errors in 548.81s (0:09:08)\n", "11 failed, 9684 passed, 4 errors"),
        ("1 passed in 0.01s\n", "1 passed"),
        ("ERROR: file or directory not found\n", ""),
    ],
)
def test_the_numbers_are_those_of_pytests_last_line(output: str, summary: str) -> None:
    assert pythons.summary_of(output) == summary


def test_the_table_names_each_python_its_result_and_those_that_are_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = [
        Result("3.11.2", "/a/python3.11", "9 passed (1 s)", is_passed=True),
        Result("3.12.1", "/b/3.12", "1 failed (2 s)", is_passed=False),
    ]
    pythons.print_table(results, "3.14")
    assert capsys.readouterr().out == (
        "3.11.2   passed  /a/python3.11  9 passed (1 s)\n"
        "3.12.1   FAILED  /b/3.12        1 failed (2 s)\n"
        "not run, because this machine has no such Python: 3.14\n"
    )


def test_every_path_of_the_selection_exists() -> None:
    assert [path for path in (*pythons.TESTS, *pythons.LEFT_OUT) if not (pythons.ROOT / path).exists()] == []
