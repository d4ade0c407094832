"""Writing a log line never waits for the reader, and lines come out in order."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sordini.broker.process.log_writer import LogWriter
from sordini.broker.process.logging import make_logger
from tests.support.linux_calls import needs_linux_calls

PIPE_BYTES = 4096
"""The least that a pipe can be made to hold."""


class Pipe:
    """A pipe of one page that is read on demand."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        fcntl.fcntl(self.writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.is_open = True

    def fill(self) -> None:
        """Leave no room: a thread that writes to it makes none in the writer's queue either."""
        os.write(self.writing, b"\n" * PIPE_BYTES)

    def hang_up(self) -> None:
        if self.is_open:
            self.is_open = False
            os.close(self.reading)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.hang_up()  # Which ends a thread's wait.
    os.close(made.writing)


def lines(count: int, start: int = 0) -> list[str]:
    return [f"line {number:06} {'x' * 85}\n" for number in range(start, start + count)]


def everything(pipe: Pipe, writer: LogWriter) -> list[str]:
    """The output read until the writer's queue is empty, without what filled the pipe."""
    found = bytearray()

    def read() -> None:
        while not found.endswith(b"END"):
            found.extend(os.read(pipe.reading, 65536))

    reader = threading.Thread(target=read)
    reader.start()
    writer.close(30)
    os.write(pipe.writing, b"END")
    reader.join()
    return found.decode().lstrip("\n").splitlines()[:-1]


def test_lines_to_a_pipe_without_a_reader_are_kept_and_come_out_in_order(pipe: Pipe) -> None:
    writer = LogWriter(lambda: pipe.writing)
    written = lines(1000)
    for line in written:
        writer.write(line)
    assert writer.lines_lost == 0
    assert everything(pipe, writer) == [line.rstrip() for line in written]


def test_past_the_buffer_lines_are_dropped_counted_and_reported_when_there_is_room(pipe: Pipe) -> None:
    pipe.fill()
    writer = LogWriter(lambda: pipe.writing, bytes_max=20_000)
    written = lines(1000)
    for line in written:
        writer.write(line)
    lost = writer.lines_lost
    kept = 1000 - lost
    assert 20_000 // len(written[0]) <= kept <= 20_000 // len(written[0]) + 1  # And one that the thread is writing.
    out = everything(pipe, writer)
    assert out == [line.rstrip() for line in written[:kept]] + [f"{lost} log lines dropped"]


def test_the_loggers_own_line_tells_how_many_were_dropped(pipe: Pipe) -> None:
    pipe.fill()
    writer = LogWriter(lambda: pipe.writing, bytes_max=10_000)
    log = make_logger("info", writer, "json")
    for number in range(500):
        log.info("an event", number=number)
    assert log.lines_lost == writer.lines_lost > 0
    (line,) = [line for line in everything(pipe, writer) if "dropped" in line]
    assert '"event": "log lines dropped"' in line
    assert f'"count": {log.lines_lost}' in line


@needs_linux_calls
def test_a_line_is_with_its_reader_before_write_returns_while_there_is_room(pipe: Pipe) -> None:
    writer = LogWriter(lambda: pipe.writing)
    writer.write("at once\n")
    assert os.read(pipe.reading, 100) == b"at once\n"
    assert "sordini-log" not in {thread.name for thread in threading.enumerate() if thread is writer._thread}


def test_the_descriptor_that_others_share_stays_in_the_mode_it_was_in(pipe: Pipe) -> None:
    LogWriter(lambda: pipe.writing).write("x\n")
    assert os.get_blocking(pipe.writing)


@needs_linux_calls
def test_a_reader_that_is_gone_costs_the_lines_and_nothing_else(pipe: Pipe) -> None:
    writer = LogWriter(lambda: pipe.writing)
    writer.write("heard\n")
    pipe.hang_up()
    for line in lines(3):
        writer.write(line)
    writer.close(30)
    assert writer.lines_lost == 3


@needs_linux_calls
def test_a_reader_that_goes_while_lines_wait_for_it_ends_the_wait(pipe: Pipe) -> None:
    writer = LogWriter(lambda: pipe.writing)
    for line in lines(200):
        writer.write(line)
    pipe.hang_up()
    writer.close(30)
    assert 0 < writer.lines_lost < 200


def test_closing_waits_for_a_reader_no_longer_than_the_timeout(pipe: Pipe) -> None:
    writer = LogWriter(lambda: pipe.writing)
    for line in lines(200):
        writer.write(line)
    writer.close(0)
    assert writer._queue, "it did not wait"
    pipe.hang_up()
    writer.close(30)  # Its thread uses the descriptor, whose number the next test may get.


@needs_linux_calls
def test_a_full_disk_drops_lines_and_their_number_is_logged_when_there_is_room(tmp_path: Path) -> None:
    full, room = os.open("/dev/full", os.O_WRONLY), os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    where = [full]
    writer = LogWriter(lambda: where[0])
    writer.write("lost\n")
    writer.write("lost\n")
    where[0] = room
    writer.write("kept\n")
    assert os.pread(room, 100, 0) == b"2 log lines dropped\nkept\n"
    assert writer.lines_lost == 2
    os.close(full)
    os.close(room)


def test_a_fifo_as_log_file_is_no_different(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    descriptor = os.open(tmp_path / "fifo", os.O_RDWR)
    writer = LogWriter(lambda: descriptor, bytes_max=10_000)
    for line in lines(2000):
        writer.write(line)
    assert writer.lines_lost
    assert os.read(descriptor, 65536).decode().startswith(lines(1)[0])
    writer.close(30)  # There is room now for what its buffer holds.
    os.close(descriptor)
