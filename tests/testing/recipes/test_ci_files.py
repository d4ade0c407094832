"""Files of CI services and of containers: against the services' own schemas; and the commands of the recipes are run.

The commands are run in their order in a directory with one recipe, in an environment that has the libraries of these
tests, but not Sordini: `pip install` is given no index, and installs what is committed here from the clone that a job
makes. What else a service does for a job (`uses`, `image`, `cache`, `artifacts`) is not run. A run has one service's,
`make recipes` those of both.
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.support.parts import part_of
from tests.testing.recipes.page import GITHUB, GITLAB, ROOT, files, write

IS_LONG = os.environ.get("SORDINI_RECIPES") == "all"
RECIPE = "test_confluent_kafka.py"
SCHEMAS = {
    "vendor.github-workflows": (GITHUB, "examples/ci/containers.yml", "examples/ci/release.yml"),
    "vendor.gitlab-ci": (GITLAB,),
    "vendor.compose-spec": ("docker-compose.yml", "examples/control/compose.yml"),
}
"""Files of the repository and of the page, by the names that check-jsonschema has for the schemas that it brings."""


def refused(schema: str, *paths: Path) -> str:
    """What check-jsonschema says against the files; empty when it says nothing."""
    from check_jsonschema import main as check_jsonschema  # Its import takes seconds, which every worker would spend.

    done = CliRunner().invoke(check_jsonschema, ["--builtin-schema", schema, *map(str, paths)])
    assert done.exit_code in (0, 1), done.output
    return done.output if done.exit_code else ""


def of_page_or_repository(name: str, directory: Path) -> Path:
    if name not in files():
        return ROOT / name
    write(directory, name)
    return directory / name


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_file_of_a_service_is_as_the_service_wants_it(schema: str, tmp_path: Path) -> None:
    assert refused(schema, *(of_page_or_repository(name, tmp_path) for name in SCHEMAS[schema])) == ""


def test_a_wrong_key_in_a_file_of_a_service_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "tests.yml"
    wrong.write_text(files()[GITHUB].replace("runs-on", "runs_on"))
    assert "runs_on" in refused("vendor.github-workflows", wrong)


def github_commands(workflow: dict[str, Any]) -> list[str]:
    (job,) = workflow["jobs"].values()
    return [step["run"] for step in job["steps"] if "run" in step]


def gitlab_commands(pipeline: dict[str, Any]) -> list[str]:
    (job,) = pipeline.values()
    return [*job["before_script"], *job["script"]]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment without Sordini, whose libraries are those of these tests."""
    folder = tmp_path_factory.mktemp("ci") / "environment"
    venv.create(folder, symlinks=True)
    libraries = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    # A path of a .pth file is searched last, and its own .pth files, that of our editable install, are not read.
    (libraries / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    programs = folder / "bin"
    for name in ("pip", "pytest"):
        (programs / name).write_text(f'#!/bin/sh\nexec "{programs}/python" -m {name} "$@"\n')
        (programs / name).chmod(0o755)
    return programs


def run(commands: Sequence[str], directory: Path, programs: Path) -> tuple[int, str]:
    """The status and the output of commands in one shell, each of which must succeed."""
    given = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "PYTEST_"))}
    given |= {"PATH": os.pathsep.join([str(programs), os.environ["PATH"]]), "SORDINI_REPOSITORY": str(ROOT)}
    given |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    given["PIP_NO_COMPILE"] = "1"  # Most modules are not imported.
    given["PIP_NO_BUILD_ISOLATION"] = "0"  # pip's spelling of "without": hatchling is there.
    done = subprocess.run(
        ["sh", "-e", "-c", "\n".join(commands)],
        cwd=directory,
        env=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    return done.returncode, done.stdout


def github_runs_it(project: Path, programs: Path) -> None:
    commands = github_commands(yaml.safe_load(files()[GITHUB]))
    assert [command.split()[0] for command in commands] == ["git", "pip", "pytest"]
    code, output = run(commands, project, programs)
    assert code == 0, output
    assert "1 passed" in output


def gitlab_runs_it_and_writes_its_report(project: Path, programs: Path) -> None:
    pipeline = yaml.safe_load(files()[GITLAB])
    code, output = run(gitlab_commands(pipeline), project, programs)
    assert code == 0, output
    report = project / pipeline["tests"]["artifacts"]["reports"]["junit"]
    assert 'tests="1"' in report.read_text()


SERVICES = [gitlab_runs_it_and_writes_its_report, github_runs_it]


@pytest.mark.parametrize("runs", SERVICES if IS_LONG else part_of(SERVICES, 1), ids=lambda runs: runs.__name__)
def test_the_commands_for_a_service_run_the_recipe(
    bare: Path, tmp_path: Path, runs: Callable[[Path, Path], None]
) -> None:
    write(tmp_path / "project", RECIPE)
    runs(tmp_path / "project", bare)
