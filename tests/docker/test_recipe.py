"""examples/ci/containers.yml, step by step; tests/process/test_container_recipe.py shows that it runs what the pages say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.docker.engine import ROOT, Engine

JOBS = yaml.safe_load((ROOT / "examples" / "ci" / "containers.yml").read_text(encoding="utf-8"))["jobs"]
# What only a new machine needs: here kcat is installed, and our commands are in the environment of the tests.
PREPARATIONS = ("sudo apt-get ", "python3 -m venv ")


def scripts(job: str) -> Iterator[str]:
    """The text of each step that runs in a good run."""
    for step in JOBS[job]["steps"]:
        if "run" in step and step.get("if") != "failure()":
            lines = [line for line in step["run"].splitlines() if not line.strip().startswith(PREPARATIONS)]
            yield "\n".join(lines)


@pytest.mark.parametrize("job", ["single", "pipeline", "cluster"])
def test_every_step_of_the_recipe_passes(engine: Engine, job: str, source: Path) -> None:
    environment = source / ".venv"
    if not environment.exists():
        environment.symlink_to(ROOT / ".venv")
    for script in scripts(job):
        engine.run("bash", "-e", "-x", "-o", "pipefail", "-c", script)


def test_the_page_of_the_control_starts_three_brokers_in_one_container(engine: Engine) -> None:
    def compose(*words: str) -> str:
        command = ["docker", "compose", "--file", "examples/control/compose.yml", *words]
        # Without the file of differences: it has other services. The image is built already.
        return engine.run(*command, variables={"COMPOSE_FILE": ""})

    compose("up", "--detach", "--wait")
    status = json.loads(engine.run("sordini", "cluster", "status", "--json", "-b", "localhost:9093"))
    assert len(status["brokers"]) == 3
    assert "/faults" in engine.run("curl", "--silent", "--fail", "http://localhost:9080/")
    compose("down")
    assert engine.docker("ps", "--all", "--quiet") == ""
