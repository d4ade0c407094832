"""The recipes of docs/testing.md, pasted as its readers do: what takes seconds. See test_longer_recipes.py, too."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.testing.recipes import page
from tests.testing.recipes.page import GITHUB, GITLAB, INSTALL, LONGER_TESTS_OF, TESTS_OF, files, write
from tests.testing.test_plugin import environment, run_pytest

OUTCOME = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED) (\S+\.py)::(\S+)", re.MULTILINE)
ASYNCIO = ("-p", "pytest_asyncio.plugin")
ELSEWHERE = {"quixstreams"}
"""Installed by `make recipes` in an environment of its own."""


class Run(NamedTuple):
    output: str
    outcomes: dict[str, list[str]]
    """Of the tests, by their files."""


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All recipes in one run of pytest, as a reader might have them in one directory."""
    directory = tmp_path_factory.mktemp("recipes")
    write(directory, *TESTS_OF)
    _, output = run_pytest(directory, *ASYNCIO, "-rA", *TESTS_OF)
    outcomes: dict[str, list[str]] = {}
    for outcome, name, _ in OUTCOME.findall(output):
        outcomes.setdefault(name, []).append(outcome)
    return Run(output, outcomes)


def test_every_file_of_the_page_is_run_by_a_test() -> None:
    assert set(files()) == {*TESTS_OF, *LONGER_TESTS_OF, GITHUB, GITLAB}


@pytest.mark.parametrize("name", TESTS_OF)
def test_a_recipe_passes_as_it_is_pasted(recipes: Run, name: str) -> None:
    assert recipes.outcomes.get(name) == ["PASSED"] * TESTS_OF[name], recipes.output


def test_the_recipe_of_unittest_runs_without_pytest(tmp_path: Path) -> None:
    write(tmp_path, "test_unittest.py")
    command = [sys.executable, "-m", "unittest"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 1 test" in done.stderr


def test_what_the_page_installs_is_what_its_recipes_ran_with() -> None:
    lines = INSTALL.findall(page.recipes())
    assert len(lines) == len(TESTS_OF) + len(LONGER_TESTS_OF)
    # A clone beside the project is named by its path.
    packages = {Path(word.partition("[")[0]).name for line in lines for word in shlex.split(line)} - ELSEWHERE
    assert packages >= {"sordini", "pytest", "faststream"}
    for package in packages:
        assert distribution(package)  # It raises an error that names what is missing.
