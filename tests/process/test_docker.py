"""The Dockerfile without Docker: what it names is there, and its commands, run in its order, make a broker.

Every path of the image stands for a folder below one scratch directory, and the commands are the file's own words
but for those paths, the interpreter and the shared cache of packages.
"""

from __future__ import annotations

import fnmatch
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.request import urlopen

import pytest

from scripts import base_images
from tests.process.container import Container, why_not
from tests.process.image import (
    BROKER,
    BUILD,
    BUILD_PIPELINE,
    LIBRARIES,
    PIPELINE,
    ROOT,
    environment,
    stage_named,
    stages,
    value,
    values,
)
from tests.process.test_compaction import produce
from tests.support import worst_batches
from tests.support.wire_client import Client


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
    copied_there = [copied for stage in stages for copied in values(stage, "COPY")]
    for copied in (copied for copied in copied_there if not copied.startswith("--from=")):
        *sources, target = copied.split()
        for source in sources:
            yield source, f"{target}{Path(source).name}" if target.endswith("/") else target


def files_below(source: str) -> list[str]:
    place = ROOT / source
    return [
        str(path.relative_to(ROOT)) for path in ([place] if place.is_file() else place.rglob("*")) if path.is_file()
    ]


def test_what_is_copied_exists_and_is_not_hidden_from_docker() -> None:
    sources = [source for source, _ in copies(LIBRARIES, BUILD, BUILD_PIPELINE)]
    assert [source for source in sources if not (ROOT / source).exists()] == []
    for source in sources:
        visible = [path for path in files_below(source) if not is_hidden(path)]
        assert visible, f"{source}: .dockerignore hides all of it"
        assert [path for path in visible if "__pycache__" in path or path.endswith(".pyc")] == []
        hidden = [path for path in files_below(source) if is_hidden(path)]
        assert [path for path in hidden if not path.endswith(".pyc")] == []


def test_every_part_of_the_wheel_is_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    parts = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    assert set(parts) == {source for source, _ in copies(BUILD, BUILD_PIPELINE)} - {
        "LICENSE",
        "README.md",
        "pyproject.toml",
        "scripts/package_metadata.py",
    }


@pytest.mark.parametrize(
    "path", [".git/config", "data/.lock", "tests/support/builders.py", ".venv/bin/sordini", "Makefile"]
)
def test_what_is_not_copied_does_not_even_reach_the_builder(path: str) -> None:
    assert is_hidden(path)
    assert not is_hidden("broker/wiring/server.py")
    assert is_hidden("broker/__pycache__/server.cpython-311.pyc")


def test_the_image_is_slim_unprivileged_and_says_what_it_offers() -> None:
    (base,) = [str(pin) for pin in base_images.pins(ROOT) if pin.file == "Dockerfile"]
    assert base.startswith("python:3.11-slim@sha256:")
    assert [stage[0].value for stage in stages()] == [
        f"{base} AS libraries",
        "libraries AS libraries-pipeline",
        "libraries AS build",
        "libraries-pipeline AS build-pipeline",
        f"{base} AS pipeline",
        f"{base} AS broker",  # The last one is what a build without a target makes.
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


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    """A directory that other users may enter, unlike pytest's."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def installed(scratch: Path) -> Path:
    """What the image's RUN commands make, below one directory: the wheels, and an environment in which they are."""
    if reason := why_not():
        pytest.skip(reason)
    copy_context(scratch / "src", LIBRARIES, BUILD)
    libraries = value(LIBRARIES, "RUN")
    assert libraries.startswith("python -m pip wheel ")
    for command in (libraries, value(BUILD, "RUN")):
        sh(command, scratch, cwd=scratch / "src")
    install = values(BROKER, "RUN")[1]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", scratch / "venv"], check=True)
    sh(re.sub(r"^--mount=\S+ ", "", install), scratch, f"--python {scratch}/venv/bin/python")
    return scratch


CLIENT = """
from kafka import KafkaConsumer, KafkaProducer

producer = KafkaProducer(bootstrap_servers="localhost:9092", max_block_ms=60_000)
for number in range(100):
    producer.send("orders", b"order %d" % number)
producer.flush(60)
reading = dict(bootstrap_servers="localhost:9092", auto_offset_reset="earliest", group_id="readers")
consumer = KafkaConsumer("orders", consumer_timeout_ms=60_000, **reading)
print(*sorted({next(consumer).value.decode() for _ in range(100)}), sep="\\n")
"""


@pytest.mark.slow
def test_docker_run_as_the_header_says_serves_the_clients_of_the_host(installed: Path) -> None:
    container = Container(installed / "as-written", installed)
    container.variables = {"KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0"}
    with container:
        (line,) = [line for line in container.output().splitlines() if "is ready" in line]
        assert "listens on :9092 and advertises localhost:9092 " in line
        assert "(clients elsewhere need advertised.listeners, or KAFKA_ADVERTISED_LISTENERS in the environment)" in line
        client = container.run_on_host([sys.executable, "-c", CLIENT])
        assert client.stdout.splitlines() == sorted(f"order {number}" for number in range(100)), client.stderr
        assert container.is_healthy()
        listed = container.run(["sordini", "topics", "list"])
        assert "orders" in listed.stdout, listed.stderr
        assert container.stop() == 0
    assert (container.volume / ".kafka_cleanshutdown").exists()


@pytest.mark.slow
def test_a_container_without_privileges_writes_nothing_but_its_volume_and_does_all_its_work(installed: Path) -> None:
    """The second container uses the volume of a killed one: `docker kill` keeps the files, and process ids start again."""
    container = Container(installed / "confined", installed)
    container.start()
    container.kill()
    container.variables = {
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://127.0.0.1:9092",
        "KAFKA_LOG_CLEANUP_POLICY": "compact",
        "KAFKA_LOG_SEGMENT_BYTES": "100000",
        "KAFKA_LOG_CLEANER_BACKOFF_MS": "20",
        "KAFKA_LOG_CLEANER_MIN_CLEANABLE_RATIO": "0.01",
        "SORDINI_METRICS_PORT": "9100",
    }
    with container:
        assert writable_places(container.first_pid) == [environment()["KAFKA_LOG_DIRS"]]
        status = Path(f"/proc/{container.first_pid}/status").read_text()
        user = value(BROKER, "USER")
        assert re.search(rf"^Uid:\t{user}\t{user}\t{user}\t{user}$", status, re.MULTILINE)
        assert set(re.findall(r"^Cap\w+:\t(\w+)$", status, re.MULTILINE)) == {"0" * 16}
        assert "\nNoNewPrivs:\t1\n" in status
        assert "and advertises 127.0.0.1:9092 (" in container.output(), "a key that is set needs no advice"
        assert (container.volume / "sordini.pid").read_text() == "1\n"
        container.on_host(lambda: work(container))
        assert container.stop() == 0
    owners = {path.stat().st_uid for path in container.volume.rglob("*")}
    assert owners == {int(user)}


def work(container: Container) -> None:
    """Let records be compacted by one child process, and opened and compressed by another; until both are counted."""
    with Client("127.0.0.1", 9092) as client:
        assert client.create("compacted") == [0]
        produce(client, "compacted", range(40))
        (row,) = client.produce("compacted", [worst_batches.bomb()])
        assert row.error_code == 0

        def counted() -> bool:
            with urlopen("http://127.0.0.1:9100/metrics", timeout=10) as answer:
                text = answer.read().decode()
            found = dict(re.findall(r"^(sordini_\w+?)(?:\{[^}]*\})? ([\d.e+]+)$", text, re.MULTILINE))
            return all(float(found[name]) > 0 for name in ("sordini_record_jobs_total", CLEANED))

        container.wait_until(counted, 60, "open records and compact")


CLEANED = "sordini_cleaner_runs_total"


def writable_places(pid: int) -> list[str]:
    """Mount points of a process that may be written to, but for those of the kernel's own files."""
    rows = [line.split(" - ") for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
    # Of several mounts on one place the last is the one that is seen.
    seen = {left.split()[4]: (left.split()[5].split(","), right.split()[0]) for left, right in rows}
    return [place for place, (options, kind) in seen.items() if "ro" not in options and kind != "proc"]


def test_the_variant_with_the_pipeline_has_java_and_the_extra_and_runs_its_command() -> None:
    java, create, install = values(PIPELINE, "RUN")
    assert " default-jre-headless " in java
    assert f"--uid {value(PIPELINE, 'USER')} " in create
    assert f" {value(PIPELINE, 'VOLUME')}" in create
    assert "--mount=type=bind,from=build-pipeline," in install
    assert install.endswith("'sordini[spark]'")
    assert json.loads(value(PIPELINE, "ENTRYPOINT")) == ["sordini", "pipeline"]


@pytest.mark.slow
def test_the_variant_s_wheel_holds_the_pipeline(scratch: Path) -> None:
    assert "--from=build /src /src" in values(BUILD_PIPELINE, "COPY")
    # Without what Spark depends on (the stage libraries-pipeline), which is 500 MB and is installed for other tests.
    copy_context(scratch / "src", LIBRARIES, BUILD, BUILD_PIPELINE)
    if not (scratch / "build-tools").exists():
        _, tools = value(LIBRARIES, "RUN").split(" && ")
        sh(tools, scratch, cwd=scratch / "src")
    sh(value(BUILD_PIPELINE, "RUN"), scratch, cwd=scratch / "src")
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
    words = command.replace("python -m pip", f"{sys.executable} -m pip --disable-pip-version-check {pip_options}")
    for place in ("/wheels", "/build-tools"):
        words = re.sub(rf"(?<=[ =]){place}", f"{scratch}{place}", words)
    words = words.replace("--no-cache-dir ", "")
    ended = subprocess.run(["sh", "-ec", words], check=False, capture_output=True, text=True, cwd=cwd or scratch)
    assert ended.returncode == 0, f"{words}\n{ended.stdout}\n{ended.stderr}"
