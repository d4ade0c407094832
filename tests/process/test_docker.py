"""The Dockerfile without Docker: what it names is there, and its commands, run in its order, make a broker.

Every path of the image stands for a folder below one scratch directory, and the commands are the file's own words
but for those paths, the interpreter and the shared cache of packages.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from dockerfile_parse import DockerfileParser

from tests.outside.ports import free_port
from tests.outside.processes import OutsideProcess

ROOT = Path(__file__).resolve().parents[2]
BUILD, BUILD_PIPELINE, PIPELINE, BROKER = "build", "build-pipeline", "pipeline", "broker"


class Instruction(NamedTuple):
    name: str
    value: str


@cache
def stages() -> tuple[tuple[Instruction, ...], ...]:
    """The instructions from each FROM to the next."""
    found: list[list[Instruction]] = []
    for row in DockerfileParser(path=str(ROOT / "Dockerfile")).structure:
        if row["instruction"] == "FROM":
            found.append([])
        if row["instruction"] != "COMMENT":
            found[-1].append(Instruction(row["instruction"], re.sub(r"\s+", " ", row["value"])))
    return tuple(map(tuple, found))


def stage_named(name: str) -> tuple[Instruction, ...]:
    (found,) = (stage for stage in stages() if stage[0].value.endswith(f" AS {name}"))
    return found


def values(stage: str, name: str) -> list[str]:
    return [instruction.value for instruction in stage_named(stage) if instruction.name == name]


def value(stage: str, name: str) -> str:
    (found,) = values(stage, name)
    return found


@cache
def ignored_patterns() -> tuple[tuple[re.Pattern[str], bool], ...]:
    """Each pattern of .dockerignore, and whether it hides what it matches."""
    found = []
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern = line.removeprefix("!").strip("/")
            parts = [
                ".*" if part == "**" else fnmatch.translate(part)[4:-3].replace(".*", "[^/]*")
                for part in pattern.split("/")
            ]
            text = "/".join(parts).replace(".*/", "(?:.*/)?")
            found.append((re.compile(text), not line.startswith("!")))
    return tuple(found)


def is_hidden(path: str) -> bool:
    """Whether Docker leaves a file of the context out: the last pattern that matches it or a folder above it decides."""
    folders = [path, *(str(folder) for folder in Path(path).parents if str(folder) != ".")]
    hidden = False
    for pattern, hides in ignored_patterns():
        if any(pattern.fullmatch(one) for one in folders):
            hidden = hides
    return hidden


def copies(*stages: str) -> Iterator[tuple[str, str]]:
    """Source in the context and target of every COPY from it."""
    for copied in (copied for stage in stages for copied in values(stage, "COPY")):
        *sources, target = copied.split()
        for source in sources:
            yield source, f"{target}{source}" if target.endswith("/") else target


def files_below(source: str) -> list[str]:
    place = ROOT / source
    return [
        str(path.relative_to(ROOT)) for path in ([place] if place.is_file() else place.rglob("*")) if path.is_file()
    ]


def test_what_is_copied_exists_and_is_not_hidden_from_docker() -> None:
    sources = [source for source, _ in copies(BUILD, BUILD_PIPELINE)]
    assert [source for source in sources if not (ROOT / source).exists()] == []
    for source in sources:
        visible = [path for path in files_below(source) if not is_hidden(path)]
        assert visible, f"{source}: .dockerignore hides all of it"
        assert [path for path in visible if "__pycache__" in path or path.endswith(".pyc")] == []
        hidden = [path for path in files_below(source) if is_hidden(path)]
        assert [path for path in hidden if not path.endswith(".pyc")] == []


@pytest.mark.parametrize("path", [".git/config", "data/.lock", "tests/build.py", ".venv/bin/sordini", "Makefile"])
def test_what_is_not_copied_does_not_even_reach_the_builder(path: str) -> None:
    assert is_hidden(path)
    assert not is_hidden("broker/server.py")
    assert is_hidden("broker/__pycache__/server.cpython-311.pyc")


def test_the_image_is_slim_unprivileged_and_says_what_it_offers() -> None:
    assert [stage[0].value for stage in stages()] == [
        "python:3.11-slim AS build",
        "build AS build-pipeline",
        "python:3.11-slim AS pipeline",
        "python:3.11-slim AS broker",  # The last one is what a build without a target makes.
    ]
    assert value(BROKER, "EXPOSE") == "9092"
    user = value(BROKER, "USER")
    assert user.isdigit()
    assert int(user) > 0
    create, install = values(BROKER, "RUN")
    assert f"--uid {user} " in create
    data = value(BROKER, "VOLUME")
    assert f"-o sordini -g sordini -m 0750 {data}" in create
    assert environment()["KAFKA_LOG_DIRS"] == data == value(BROKER, "WORKDIR")
    order = [instruction.name for instruction in stage_named(BROKER)]
    assert order.index("USER") > len(order) - 1 - order[::-1].index("RUN"), "nothing is installed by the user itself"
    assert value(BROKER, "STOPSIGNAL") == "SIGTERM"
    assert "--mount=type=bind,from=build," in install, "the wheels themselves stay out of the image"


def test_the_licence_that_is_not_ours_is_named() -> None:
    assert "crc32c is under the LGPL-2.1-or-later" in (ROOT / "Dockerfile").read_text()
    assert 'licenses="Apache-2.0 AND LGPL-2.1-or-later"' in value(BROKER, "LABEL")


def environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for text in values(BROKER, "ENV") for pair in shlex.split(text))


class Container(OutsideProcess):
    """ENTRYPOINT and CMD as the image's user, who may read everything here and write what is hers."""

    name = "container"

    def __init__(self, scratch: Path) -> None:
        super().__init__(scratch / "container")
        self.scratch = scratch
        self.port = free_port()
        self.data = scratch / "data"
        self.data.mkdir()
        os.chown(self.data, self.user, self.user)

    @property
    def user(self) -> int:
        return int(value(BROKER, "USER"))

    def as_user(self, command: list[str]) -> list[str]:
        # The test's own interpreter may lie where only root can look: reading is allowed, writing is not.
        user = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
        return [*user, "--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search", *command]

    def command(self) -> list[str]:
        return self.as_user([*json.loads(value(BROKER, "ENTRYPOINT")), *json.loads(value(BROKER, "CMD"))])

    def environment(self) -> dict[str, str]:
        image = {name: text.replace(value(BROKER, "VOLUME"), str(self.data)) for name, text in environment().items()}
        image["SORDINI_BOOTSTRAP"] = image["SORDINI_BOOTSTRAP"].replace("9092", str(self.port))
        given = {"KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{self.port}"}
        return {"PATH": f"{self.scratch}/venv/bin:{os.environ['PATH']}", **image, **given}

    def is_ready(self) -> bool:
        return "sordini is ready" in self.output()

    def is_healthy(self) -> bool:
        check = value(BROKER, "HEALTHCHECK")
        command = json.loads(check[check.index("[") :])
        ended = subprocess.run(
            self.as_user(command), env=self.environment(), check=False, capture_output=True, timeout=20
        )
        assert ended.returncode in (0, 1), ended.stderr
        return ended.returncode == 0


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory that other users may enter, unlike pytest's."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_its_commands_make_a_wheel_an_environment_and_a_healthy_broker(scratch: Path) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("becoming the image's user takes root and setpriv(1)")
    copy_context(scratch / "src", BUILD)
    build = value(BUILD, "RUN")
    assert build.startswith("python -m pip wheel ")
    sh(build, scratch, cwd=scratch / "src")
    install = values(BROKER, "RUN")[1]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", scratch / "venv"], check=True)
    sh(re.sub(r"^--mount=\S+ ", "", install), scratch, f"--python {scratch}/venv/bin/python")
    container = Container(scratch)
    with container:
        assert container.is_healthy()
        owner = (container.data / "sordini.pid").stat().st_uid
        assert owner == container.user
        status = Path(f"/proc/{container.pid}/status").read_text()
        assert re.search(rf"^Uid:\s+{container.user}\s", status, re.MULTILINE)
    assert container.stop() == 0
    assert not container.is_healthy()
    assert (container.data / ".kafka_cleanshutdown").exists()


def test_the_variant_with_the_pipeline_has_java_and_the_extra_and_runs_its_command() -> None:
    java, create, install = values(PIPELINE, "RUN")
    assert " default-jre-headless " in java
    assert f"--uid {value(PIPELINE, 'USER')} " in create
    assert f" {value(PIPELINE, 'VOLUME')}" in create
    assert "--mount=type=bind,from=build-pipeline," in install
    assert install.endswith("'sordini[spark]'")
    assert json.loads(value(PIPELINE, "ENTRYPOINT")) == ["sordini", "pipeline"]


def test_the_variant_s_wheel_holds_the_pipeline(scratch: Path) -> None:
    copy_context(scratch / "src", BUILD, BUILD_PIPELINE)
    build = value(BUILD_PIPELINE, "RUN")
    assert build.endswith(" '.[spark]'")
    # Without what Spark depends on, which is 500 MB and is installed for other tests.
    sh(build.replace("'.[spark]'", "--no-deps ."), scratch, cwd=scratch / "src")
    (wheel,) = (scratch / "wheels-pipeline").glob("sordini-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    missing = {f"sordini/{path}" for path in files_below("pipeline") if not is_hidden(path)} - names
    assert missing == set()


def copy_context(target: Path, *stages: str) -> None:
    """What the COPY lines of these stages bring to the builder."""
    for source, place in copies(*stages):
        for path in files_below(source):
            if not is_hidden(path):
                copied = target / place / Path(path).relative_to(source)
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / path, copied)


def sh(command: str, scratch: Path, pip_options: str = "", cwd: Path | None = None) -> None:
    """Run a RUN, its paths below the scratch directory, with the packages that pip has fetched before."""
    words = command.replace("python -m pip", f"{sys.executable} -m pip --disable-pip-version-check {pip_options}", 1)
    words = words.replace(" /wheels", f" {scratch}/wheels").replace("--no-cache-dir ", "")
    ended = subprocess.run(["sh", "-ec", words], check=False, capture_output=True, text=True, cwd=cwd or scratch)
    assert ended.returncode == 0, f"{words}\n{ended.stdout}\n{ended.stderr}"
