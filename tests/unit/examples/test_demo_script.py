"""`make demo` runs with what is installed, and installs only what is missing."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.outside.needs import ROOT

SCRIPT = ROOT / "scripts" / "demo.py"


@pytest.fixture(scope="module")
def demo() -> Any:
    spec = importlib.util.spec_from_file_location("demo_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("pyspark", "missing", "serves"),
    [
        ("4.2.0", [], True),
        ("4.10.1", ["matplotlib", "kafka"], True),
        ("4.1.9", [], False),
        ("", ["pyspark"], False),
        ("4.2.0", ["deltalake"], False),
        ("4.2.0", ["matplotlib", "sordini"], False),
    ],
)
def test_a_python_with_all_that_is_large_serves(demo: Any, pyspark: str, missing: list[str], *, serves: bool) -> None:
    assert demo.Found(Path(sys.executable), pyspark, missing).serves is serves


def test_the_environment_of_the_tests_has_everything_and_one_that_does_not_run_has_nothing(demo: Any) -> None:
    found = demo.inspect(Path(sys.executable))
    assert (found.serves, found.missing) == (True, [])
    assert demo.inspect(Path("/bin/false")) is None


def test_an_active_environment_goes_before_the_path_and_each_python_is_looked_at_once(
    demo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, name in (("active", "python"), ("path", "python3"), ("path", "python")):
        (tmp_path / folder / "bin").mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "bin" / name).touch()
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "path" / "bin")] * 2))
    found = [path for path in demo.candidates() if path != demo.VENV_PYTHON]
    assert (
        found
        == [
            tmp_path / "active/bin/python",
            Path(sys.executable),
            tmp_path / "path/bin/python3",
            tmp_path / "path/bin/python",
        ]
        or Path(sys.executable) == demo.VENV_PYTHON
    )


def test_where_pyspark_is_nothing_is_installed_and_the_example_gets_the_options(
    demo: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, arguments: run.append(arguments))
    monkeypatch.setenv("JAVA_HOME", "somewhere")
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    monkeypatch.chdir(ROOT)
    demo.main(["--rate", "5"])
    assert [arguments[-4:] for arguments in run] == [["-m", "examples.activity", "--rate", "5"]]
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.endswith(": nothing is installed\n")


def test_without_java_it_says_so_before_it_installs_anything() -> None:
    done = subprocess.run([sys.executable, SCRIPT], env={"PATH": ""}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("the demo needs Java 17 or newer")
