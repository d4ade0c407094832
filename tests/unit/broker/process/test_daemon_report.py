"""What a daemon writes to its starter, and when the starter goes on."""

from __future__ import annotations

import os

import pytest

from sordini.broker.process.daemon import FAILED, READY, PipeReport


def test_a_starter_goes_on_as_soon_as_its_daemon_is_ready() -> None:
    reading, writing = os.pipe()
    PipeReport(writing).ready("it is ready")
    assert os.read(reading, 100) == READY + b"it is ready"
    assert os.read(reading, 100) == b""
    os.close(reading)


def test_a_starter_waits_until_a_daemon_that_cannot_start_has_removed_its_files_and_ended() -> None:
    reading, writing = os.pipe()
    PipeReport(writing).failed("no port")
    assert os.read(reading, 100) == FAILED + b"no port"
    os.set_blocking(reading, False)
    with pytest.raises(BlockingIOError):
        os.read(reading, 100)
    os.close(writing)  # As the end of the process does.
    assert os.read(reading, 100) == b""
    os.close(reading)


def test_a_start_has_one_outcome() -> None:
    reading, writing = os.pipe()
    report = PipeReport(writing)
    report.ready("it is ready")
    report.failed("a later error")
    assert os.read(reading, 100) == READY + b"it is ready"
    assert os.read(reading, 100) == b""
    os.close(reading)
