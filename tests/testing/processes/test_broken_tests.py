"""A test that ends badly leaves no process, port or file: whether it fails, raises, or is interrupted or killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.parts import part_of

SAMPLE = """
import json, os, time
from pathlib import Path

from sordini.testing import make_kafka as started_by_hand

left = []


def test_orders(kafka, make_kafka):
    left.append(started_by_hand(isolation=os.environ["ISOLATION"]).start())  # Is never closed.
    second = make_kafka(brokers=2)
    orders = kafka.topic()
    kafka.produce(orders, ["one"])
    kafka.on("Produce", topic=orders).hold()
    second.brokers[0].pause()
    servers = [one.bootstrap_servers for one in (kafka, second, left[0])]
    Path(os.environ["READY"]).write_text(json.dumps(",".join(servers).split(",")))
    end = os.environ["END"]
    if end == "assertion":
        kafka.assert_produced(orders, ["two"])
    if end == "exception":
        raise RuntimeError("the test is broken")
    time.sleep(600)
"""
EXIT = {"assertion": 1, "exception": 1, "interrupt": 2, "kill": -9}
WAYS = [("thread", "kill"), ("process", "interrupt"), ("process", "kill"), ("thread", "assertion")]
WAYS += [("process", "exception"), ("thread", "interrupt"), ("process", "assertion"), ("thread", "exception")]
"""Every isolation with every end: a run has three of them (`tests/support/parts.py`)."""
PATIENCE_S = 20.0


def processes_with(mark: str) -> list[str]:
    """The command lines of all processes that were started with a mark in their environment."""
    found = []
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit() or directory.name == str(os.getpid()):
            continue
        try:
            if mark.encode() in (directory / "environ").read_bytes():
                found.append((directory / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # It has ended meanwhile, or is another user's.
    return found


def is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(("isolation", "end"), part_of(WAYS, 3))
def test_a_broken_test_leaves_no_process_port_or_file(tmp_path: Path, isolation: str, end: str) -> None:
    mark = uuid4().hex
    work, scratch, ready = tmp_path / "work", tmp_path / "scratch", tmp_path / "ready"
    work.mkdir()
    scratch.mkdir()
    (work / "test_sample.py").write_text(SAMPLE)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "TMPDIR": str(scratch),
        "ISOLATION": isolation,
        "READY": str(ready),
        "END": end,
        "MARK": mark,
    }
    plugins = ["-p", "no:cacheprovider", "-p", "sordini.testing.plugin"]
    options = [*plugins, "-c", os.devnull, "--rootdir", str(work), "-o", f"kafka_isolation={isolation}", "-W", "ignore"]
    command = [sys.executable, "-m", "pytest", "-q", *options, str(work)]
    with subprocess.Popen(
        command, cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as test:
        try:
            deadline = time.monotonic() + 60
            while not (ready.exists() and ready.read_text()) and test.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert ready.exists(), test.communicate()[0]
            addresses = json.loads(ready.read_text())
            if end in ("interrupt", "kill"):
                assert all(map(is_open, addresses))
                assert len(processes_with(mark)) == (1 if isolation == "thread" else 4)
                test.send_signal(signal.SIGINT if end == "interrupt" else signal.SIGKILL)
            # Its pipe is inherited by no other process: it ends with the test.
            output = test.communicate(timeout=60)[0]
        finally:
            test.kill()
    assert test.returncode == EXIT[end], output
    deadline = time.monotonic() + PATIENCE_S
    while found := processes_with(mark):
        assert time.monotonic() < deadline, found
        time.sleep(0.01)
    assert len(addresses) == 4  # A port ends with its process; meanwhile another program may have got the same one.
    assert list(scratch.iterdir()) == []
    assert [path.name for path in work.iterdir()] == ["test_sample.py"]
    if end == "assertion":
        assert "- 0: expected 'two'\n" in output
        assert "is held, used 0 times" in output, "the report of a failure names the faults of the test"
