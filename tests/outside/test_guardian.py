"""A run of the tests that is told to end, or is killed, leaves none of the processes that its tests have started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.outside.needs import ROOT

DEADLINE_S = 60

WAITING = """
import subprocess, sys, time
from pathlib import Path
from tests.outside.processes import SordiniProcess

HERE = Path(__file__).parent

def test_that_waits(sordini_broker, tmp_path):
    # A child of a child, in a session of its own, which no fixture stops.
    script = "import subprocess, sys; print(subprocess.Popen(['sleep', '600'], stdout=sys.stderr, start_new_session=True).pid)"
    child = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True).stdout
    (HERE / "pids.new").write_text(f"{sordini_broker.pid} {child}")
    (HERE / "pids.new").rename(HERE / "pids")
    WAIT
"""


def start_run(folder: Path, wait: str, *options: str) -> subprocess.Popen[str]:
    """pytest with the configuration of these tests, and one test that says when its broker runs."""
    test = folder / "test_waiting.py"
    test.write_text(WAITING.replace("WAIT", wait))
    words = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "tests.conftest", *options]
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *words, "--basetemp", str(folder / "temporary"), str(test)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def pids_of(folder: Path, run: subprocess.Popen[str]) -> list[int]:
    """The broker that the test uses, and its child's child."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not (folder / "pids").exists():
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    return [int(word) for word in (folder / "pids").read_text().split()]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def until_gone(pids: list[int]) -> list[int]:
    """Those that still run after a while."""
    deadline_s = time.monotonic() + DEADLINE_S
    while (left := [pid for pid in pids if is_running(pid)]) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    return left


@pytest.mark.parametrize(
    "kind", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)], ids=lambda kind: kind.name
)
def test_a_signal_to_the_controller_alone_ends_what_tests_of_its_workers_have_started(
    tmp_path: Path, kind: signal.Signals
) -> None:
    with start_run(tmp_path, "while True: time.sleep(0.1)", "--numprocesses", "1") as run:
        pids = pids_of(tmp_path, run)
        assert all(map(is_running, pids))
        run.send_signal(kind)
        printed, _ = run.communicate(timeout=DEADLINE_S)
        assert run.returncode != 0
    if kind is signal.SIGINT:
        assert [pid for pid in pids if is_running(pid)] == [], printed
    else:
        assert until_gone(pids) == []  # The guardian ends them soon after the run.


@pytest.mark.parametrize(
    "kind", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)], ids=lambda kind: kind.name
)
def test_a_signal_to_the_whole_group_as_of_a_terminal_or_of_make_ends_them_as_well(
    tmp_path: Path, kind: signal.Signals
) -> None:
    with start_run(tmp_path, "while True: time.sleep(0.1)") as run:
        pids = pids_of(tmp_path, run)
        os.killpg(run.pid, kind)
        printed, _ = run.communicate(timeout=DEADLINE_S)
    assert [pid for pid in pids if is_running(pid)] == [], printed


def test_a_run_that_ends_by_itself_names_what_its_tests_have_left_and_ends_it(tmp_path: Path) -> None:
    with start_run(tmp_path, "pass") as run:
        broker, child = pids_of(tmp_path, run)
        printed, _ = run.communicate(timeout=DEADLINE_S)
    assert run.returncode == 0, printed
    assert f"left by the tests, now killed: {child} sleep 600\n" in printed
    assert f"killed: {broker} " not in printed  # Its fixture has stopped it.
    assert not is_running(child)
