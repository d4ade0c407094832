"""The oldest release of each client that the tests know, and the newest Java client, at one broker that is restarted.

The newest releases of the Python clients are in the environment of the tests: the other files here are about them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from tests.compat.releases.session import RETENTION_MS, Client, Settings, expected
from tests.conftest import QUICK_GROUPS
from tests.outside.java import ApacheKafkaProcess
from tests.outside.needs import ROOT, client_jars, need_java, need_python_clients
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.outside.versions import (
    NEWEST_APACHE_KAFKA,
    NEWEST_PYSPARK,
    NEWEST_PYTHON_CLIENTS,
    OLDEST_JAVA_CLIENT,
    OLDEST_PYSPARK,
    OLDEST_PYTHON_CLIENTS,
)

PROGRAMS = Path(__file__).with_name("releases")
WITHOUT_ZSTD = Client.codecs[:-1]
OLD_PYTHON = [(kind, version) for kind, version in OLDEST_PYTHON_CLIENTS.items()]
RELEASES = [*OLD_PYTHON, ("old-java", OLDEST_JAVA_CLIENT), ("java", NEWEST_APACHE_KAFKA)]
releases = pytest.mark.parametrize(("kind", "release"), RELEASES)


class Running(NamedTuple):
    """A client's program."""

    settings: Settings
    process: subprocess.Popen[str]
    errors: Path

    def wait_for(self, phase: str) -> dict[str, Any]:
        """Its next line, which must be about `phase`. The program ends itself when it takes too long."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"{self.settings.kind} {self.settings.version}:\n{self.errors.read_text()[-6_000:]}"
        event: dict[str, Any] = json.loads(line)
        assert event["phase"] == phase
        return event

    def go_on(self) -> None:
        assert self.process.stdin is not None
        print(file=self.process.stdin, flush=True)


def started(kind: str, release: str, bootstrap: str, errors: Path) -> Running:
    is_java = kind not in OLDEST_PYTHON_CLIENTS
    jars = [str(jar) for jar in client_jars(release)] if is_java and need_java() else []
    python = sys.executable if is_java else str(need_python_clients())
    program = PROGRAMS / ("java_client.py" if is_java else "python_clients.py")
    settings = Settings(kind, release, bootstrap, f"{kind}-{uuid4().hex[:8]}", jars)
    command = [python, str(program), json.dumps(settings._asdict())]
    pipe, path = subprocess.PIPE, {**os.environ, "PYTHONPATH": str(ROOT)}
    with errors.open("w") as written:
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=written, env=path, text=True)
    return Running(settings, process, errors)


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Of the kind that `--broker` names; it is restarted here."""
    home = tmp_path_factory.mktemp("releases-broker")
    process: BrokerProcess
    if request.config.getoption("--broker") == "apache":
        process = ApacheKafkaProcess(home, f"{request.getfixturevalue('zookeeper')}/{uuid4().hex}", QUICK_GROUPS)
    else:
        process = SordiniProcess(home, QUICK_GROUPS)
    with process:
        yield process


@pytest.fixture(scope="module")
def reports(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """What each client reports, by its kind. They run side by side, as starting them is what takes long."""
    home = tmp_path_factory.mktemp("releases")
    with ExitStack() as stack:
        running = [started(kind, release, broker.bootstrap, home / f"{kind}.txt") for kind, release in RELEASES]
        for one in running:
            stack.enter_context(one.process)
            stack.callback(one.process.kill)
        for one in running:
            one.wait_for("half")
        broker.restart()
        for one in running:
            one.go_on()
        yield {one.settings.kind: one.wait_for("done")["report"] for one in running}


def codecs_of(kind: str) -> tuple[str, ...]:
    return WITHOUT_ZSTD if kind == "old-java" else Client.codecs


@releases
def test_it_is_the_release_that_is_said(kind: str, release: str, reports: dict[str, Any]) -> None:
    assert reports[kind]["client"] == release


@releases
def test_every_record_of_every_codec_is_read_once_and_unchanged_across_a_restart(
    kind: str, release: str, reports: dict[str, Any]
) -> None:
    rows = [tuple(row) for row in reports[kind]["rows"]]
    wanted = [tuple(row) for row in expected(codecs_of(kind))]
    assert sorted(rows, key=lambda row: row[:2]) == wanted


@releases
def test_each_acknowledgement_named_the_next_offset(kind: str, release: str, reports: dict[str, Any]) -> None:
    rows = expected(codecs_of(kind))
    for partition, offsets in reports[kind]["offsets"].items():
        assert offsets == [row.offset for row in rows if row.partition == int(partition)]


@releases
def test_the_group_has_committed_all_it_read_and_an_administrator_sees_it(
    kind: str, release: str, reports: dict[str, Any]
) -> None:
    ends = {partition: len(offsets) for partition, offsets in reports[kind]["offsets"].items()}
    assert reports[kind]["committed"] == ends
    assert reports[kind]["group_offsets"] in (None, ends)
    assert (reports[kind]["group_offsets"] is None) == (kind == "old-java")  # It has no such request.


@releases
def test_its_administrator_makes_lists_and_describes_topics(kind: str, release: str, reports: dict[str, Any]) -> None:
    assert (reports[kind]["is_topic_listed"], reports[kind]["retention_ms"]) == (True, RETENTION_MS)


@pytest.mark.parametrize(("client", "newest"), NEWEST_PYTHON_CLIENTS.items())
def test_the_newest_python_clients_are_in_the_environment_of_the_tests(client: str, newest: str) -> None:
    assert _numbers(version(client)) >= _numbers(newest)


def test_the_environment_has_the_newest_pyspark() -> None:
    assert version("pyspark") in (NEWEST_PYSPARK, OLDEST_PYSPARK)  # The older one is put before it for some runs.


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))
