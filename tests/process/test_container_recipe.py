"""examples/ci/containers.yml, which takes Docker: its programs exist, match the documentation, and clean up."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from scripts import tour
from tests.outside.ports import free_port
from tests.process.test_cluster_commands import EVERYTHING, compose
from tests.process.test_cluster_page import parse

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "examples" / "ci" / "containers.yml"
WORKFLOW: dict[Any, Any] = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))
JOBS: dict[str, dict[str, Any]] = WORKFLOW["jobs"]
PROGRAMS = {"docker", "kcat", "python3", "sudo", "test", "echo", "timeout", "sh", "true", "grep", "for", "done", "do"}


def scripts() -> Iterator[str]:
    for job in JOBS.values():
        for step in job["steps"]:
            if "run" in step:
                yield step["run"]


def lines() -> list[str]:
    return [line.strip() for script in scripts() for line in script.splitlines() if line.strip()]


def commands_on_pages() -> set[str]:
    """What the pages tell a reader to do with Docker."""
    head = re.findall(r"^#   (docker .*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    compose_head = re.findall(
        r"^#   (docker compose .*?)(?:  .*)?$", (ROOT / "docker-compose.yml").read_text(), re.MULTILINE
    )
    page = re.findall(r"^(docker compose .*)$", (ROOT / "docs" / "cluster.md").read_text(), re.MULTILINE)
    assert head
    assert compose_head
    assert page
    return {line.strip() for line in (*head, *compose_head, *page)}


def test_it_may_read_the_repository_and_nothing_else_and_every_job_ends() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    # YAML takes the word `on` for a truth.
    assert set(WORKFLOW[True]) == {"push", "pull_request", "schedule"}, "pull_request_target would lend secrets"
    for job in JOBS.values():
        assert "permissions" not in job
        assert job["timeout-minutes"] <= 30
        assert re.fullmatch(r"ubuntu-\d+\.\d+", job["runs-on"]), "`latest` changes by itself"
    text = RECIPE.read_text(encoding="utf-8")
    assert "secrets." not in text
    assert "docker push" not in text
    assert "docker login" not in text


def test_its_actions_are_pinned_by_commit_and_leave_no_token() -> None:
    used = re.findall(r"uses: (.*)", RECIPE.read_text(encoding="utf-8"))
    assert len(used) == len(JOBS)
    for action in used:
        assert re.fullmatch(r"actions/checkout@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)
    checkouts = [step for job in JOBS.values() for step in job["steps"] if "uses" in step]
    assert all(step["with"] == {"persist-credentials": False} for step in checkouts)


def test_every_script_is_a_script_and_none_waits_for_ever() -> None:
    for script in scripts():
        checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")
        for line in script.splitlines():
            assert not re.search(r"\b(until|while|sleep)\b", line) or line.startswith("timeout "), line


def test_it_runs_what_the_pages_say() -> None:
    there = "\n".join(lines())
    # Of the head of the Dockerfile, those that are about other machines, other data or other settings.
    left_out = {
        line for line in commands_on_pages() if "example.org" in line or "/jobs" in line or "PARTITIONS" in line
    }
    assert len(left_out) == 3
    for command in commands_on_pages() - left_out:
        # The recipe lets containers run in the background, and gives them names.
        wanted = command.replace("docker run ", "").removesuffix(" sordini")
        assert wanted in there, command


def test_the_commands_it_runs_exist() -> None:
    services, found = set(compose()["services"]), []
    for line in lines():
        words = shlex.split(line.replace("$(", " ( ").replace(")", " ) "), comments=True)
        assert words[0].rpartition("=")[0] in ("PATH", "") or words[0] in PROGRAMS, line
        if words[:2] == ["docker", "compose"]:
            found += [words[index + 1 :] for index, word in enumerate(words) if word == "sordini"]
        for verb in ("stop", "start"):
            if words[:3] == ["docker", "compose", verb]:
                assert set(words[3:]) <= services, line
        if "exec" in words:
            (name, *_) = [word for word in words[words.index("exec") + 1 :] if not word.startswith("-")]
            assert name in services | {"$service"}, line
        for file in re.findall(r"\b(?:scripts|config)/[\w./-]+\w", line):
            assert (ROOT / file).exists(), line
    assert len(found) >= 8
    for words in found:
        parse(words)
    with pytest.raises(click.UsageError):
        parse(["cluster", "status", "--chekc"])


def test_it_asserts_that_down_leaves_nothing_of_one_zookeeper_and_of_three() -> None:
    down = [index for index, line in enumerate(lines()) if line.startswith("docker compose down")]
    nothing = [index for index, line in enumerate(lines()) if line == 'test -z "$(docker ps --all --quiet)"']
    assert len(nothing) == 2
    assert all(index - 1 in down for index in nothing)
    ensemble = next(index for index, line in enumerate(lines()) if "ensemble.env up" in line)
    assert nothing[0] < ensemble < nothing[1], "without the variables, as typed by hand"
    assert all("ensemble.env" not in lines()[index] for index in down)


def test_the_tour_is_readmes_with_another_way_to_start_and_stop() -> None:
    script = tour.tour("STOP", "START", "10.0.0.1:1")
    assert (script.count("\nSTART\n"), script.count("STOP\n")) == (1, 2)
    assert "make run" not in script
    assert "127.0.0.1:9092" not in script
    assert "kcat -P -b 10.0.0.1:1 -t licence -l LICENSE\n" in script


@pytest.mark.skipif(not EVERYTHING, reason="a minute of a reader's time: with SORDINI_MIXED=all")
def test_the_tour_goes_through_with_a_broker_that_is_stopped_and_started_by_others(tmp_path: Path) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    address = f"127.0.0.1:{free_port()}"
    properties = tmp_path / "server.properties"
    lines_ = [f"listeners=PLAINTEXT://{address}", f"log.dirs={tmp_path}/data", "num.partitions=3"]
    properties.write_text("\n".join(lines_))
    start, stop = f"sordini serve {properties} --daemon", f"sordini stop {properties}"
    path = os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "SORDINI_BOOTSTRAP": address}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)

    assert run("bash", "-c", f"{start} > /dev/null 2>&1").returncode == 0
    try:
        # With files in the place of pipes, whose end a daemon would keep open.
        with (tmp_path / "tour.log").open("w+") as log:
            command = [sys.executable, str(ROOT / "scripts" / "tour.py"), stop, start, address]
            done = subprocess.run(
                command, stdout=log, stderr=subprocess.STDOUT, check=False, env=environment, timeout=300
            )
            log.seek(0)
            output = log.read()
        assert done.returncode == 0, output
        assert "100 more lines read" in output
    finally:
        run("bash", "-c", f"{stop} --force")
