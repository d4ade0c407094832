"""A broker whose log lines and messages go to an unread pipe."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.outside.ports import is_listening
from tests.outside.processes import SordiniProcess
from tests.support.builders import a_batch
from tests.support.wire_client import PATIENCE_S, Client

Connect = Callable[..., Client]

CRASH = """
import sys
from sordini.broker.process.log_writer import standard_error
standard_error()
sys.stderr.write("a line before the end\\n")
assert False, "the reason"
"""


class FullPipe:
    """A pipe of one page that is full of letters x."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        fcntl.fcntl(self.writing, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(self.writing, False)
        self.filled = os.write(self.writing, b"x" * 4096)
        os.set_blocking(self.writing, True)

    def let_go(self) -> None:
        """Leave the writing end to the process that was given it."""
        os.close(self.writing)

    def read_to_end(self) -> str:
        found = bytearray()
        while piece := os.read(self.reading, 65536):
            found += piece
        return found[self.filled :].decode()


class PipedSordini(SordiniProcess):
    """A broker with its standard output and standard error on one descriptor, and its log lines there, too."""

    start_seconds_max = 60.0

    def __init__(self, directory: Path, output: int, redirection: str = "") -> None:
        super().__init__(directory)
        self._output = output
        self._redirection = redirection

    def launch(self) -> None:
        words = ["sh", "-c", f'exec "$@" {self._redirection}', "sh", *self.command(), "--log-level", "debug"]
        self._process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._output, cwd=self.directory
        )

    def is_ready(self) -> bool:
        return is_listening(self.port)


@pytest.fixture
def pipe() -> Iterator[FullPipe]:
    made = FullPipe()
    yield made
    os.close(made.reading)


def test_an_unread_pipe_does_not_stop_the_broker_and_holds_its_lines_in_order(
    tmp_path: Path, connect: Connect, pipe: FullPipe
) -> None:
    with PipedSordini(tmp_path, pipe.writing) as broker:
        pipe.let_go()
        client = connect(broker)
        assert client.create("orders") == [0]
        assert client.produce("orders", [a_batch()])[0].error_code == 0
        broker.terminate()
        found: list[str] = []
        reader = threading.Thread(target=lambda: found.append(pipe.read_to_end()))
        reader.start()
        assert broker.wait_for_exit(PATIENCE_S) == 0
        reader.join()
    (text,) = found
    assert "sordini is ready" in text
    assert text.index("broker registered") < text.index("broker stopping") < text.index("controller resigned")
    assert "dropped" not in text


def test_a_broker_exits_with_the_right_code_when_its_last_lines_are_never_read(
    tmp_path: Path, connect: Connect, pipe: FullPipe
) -> None:
    with PipedSordini(tmp_path, pipe.writing) as broker:
        connect(broker).metadata()
        broker.terminate()
        assert broker.wait_for_exit(PATIENCE_S) == 0
    pipe.let_go()


@pytest.mark.parametrize("redirection", ["", "0<&- >&- 2>&-"])
def test_outputs_whose_reader_is_gone_or_that_are_closed_stop_nothing(
    tmp_path: Path, connect: Connect, redirection: str
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        with PipedSordini(tmp_path, writing, redirection) as broker:
            client = connect(broker)
            assert client.create("orders") == [0]
            assert client.produce("orders", [a_batch()])[0].error_code == 0
            assert broker.stop() == 0
    finally:
        os.close(writing)
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_a_crash_has_its_traceback_behind_the_last_lines(pipe: FullPipe) -> None:
    ended = subprocess.run([sys.executable, "-c", CRASH], capture_output=True, text=True, check=False, timeout=30)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[0] == "a line before the end"
    assert ended.stderr.splitlines()[-1] == "AssertionError: the reason"
    stuck = subprocess.Popen([sys.executable, "-c", CRASH], stderr=pipe.writing)
    assert stuck.wait(30) == 1, "it exits although its message is not read"
