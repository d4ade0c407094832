"""Every fault over HTTP, as the Java client sees it: one program of it, in a JVM with one of two releases of the client."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.outside.java import SHORT_LIVED
from tests.outside.needs import client_jars, need_java
from tests.outside.processes import DevProcess
from tests.outside.versions import APACHE_KAFKA, NEWEST_APACHE_KAFKA
from tests.support.parts import part_of

PROGRAM = Path(__file__).with_name("FaultsOverHttp.java")
LOG4J = Path(__file__).resolve().parents[2] / "outside" / "log4j.properties"
EXPECTED = {
    "fail": "2 [one]",
    "fail for good": "TopicAuthorizationException []",
    "drop_answer": "1 [one]",
    "drop_request": "1 [one]",
    "close_connection": "1 [one]",
    "close_connection after": "1 [one, one]",  # Without idempotence.
    "delay": "true [one] [one]",
    "hold": "true [one] [one]",
    "hold before": "true [] [one]",
    "kill": "true [zero, one]",
    "stop": "true [zero, one]",
    "pause": "true [zero, one]",
    "disk": "true [zero, one]",
    "corrupt": "true",
    "leader": "true [one, two, three]",
    "expel": "true",
    "expire": "OffsetOutOfRangeException",
    "fence member": "true 1",
    "hold heartbeats": "false",
    "refuse assignor": "InconsistentGroupProtocolException",
    "fence": "ProducerFencedException",
    "clock": "true",
    "undo": "[]",
}


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the program's classes are: compiled once, with the older client, as an application that is upgraded."""
    target = tmp_path_factory.mktemp("classes")
    compiler = ["-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", str(target), str(PROGRAM)]
    class_path = os.pathsep.join(map(str, client_jars(APACHE_KAFKA)))
    done = subprocess.run(
        [need_java(), *SHORT_LIVED, "-cp", class_path, *compiler], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.mark.parametrize("version", part_of([NEWEST_APACHE_KAFKA, APACHE_KAFKA], 1))
def test_every_fault_is_seen_by_the_java_client(dev: DevProcess, classes: Path, version: str) -> None:
    class_path = os.pathsep.join(map(str, [classes, *client_jars(version)]))
    log = f"-Dlog4j.configuration=file:{LOG4J}"
    command = [need_java(), *SHORT_LIVED, log, "-cp", class_path, PROGRAM.stem, dev.control]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert dict(line.split(": ", 1) for line in done.stdout.splitlines()) == EXPECTED
