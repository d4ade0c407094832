"""One event, one line, whatever a peer puts into it."""

from __future__ import annotations

import errno
import io
import json
import os
from pathlib import Path

import pytest

from sordini.broker.process.log_lines import LONG_CHARACTERS_MAX
from sordini.broker.process.log_writer import LogWriter
from sordini.broker.process.logging import LogFile, make_logger
from sordini.storage.disk import SystemDisk


def lines_of(level: str, *calls: tuple[str, str, dict[str, object]]) -> list[str]:
    file = io.StringIO()
    log = make_logger(level, file)
    for method, event, fields in calls:
        getattr(log, method)(event, **fields)
    return file.getvalue().splitlines()


@pytest.mark.parametrize(
    "forged", ["x\n2030-01-01 [error] all is lost", "x\r\nmore", "\x1b[2Jx", "a\u2028b", "a\x85b", "\x00", "tab\there"]
)
def test_a_field_cannot_forge_a_line(forged: str) -> None:
    (line,) = lines_of("info", ("info", "client said", {"client_id": forged, "other": 1}))
    assert line.isprintable()
    assert "other=1" in line


def test_ordinary_text_is_written_as_it_is() -> None:
    (line,) = lines_of("info", ("info", "client said", {"client_id": "Zoë's client", "listener": "PLAINTEXT"}))
    assert "Zoë's client" in line
    assert "listener=PLAINTEXT" in line


def test_a_long_text_is_cut() -> None:
    (line,) = lines_of("info", ("info", "client said", {"client_id": "x" * 30_000}))
    assert len(line) < 500
    for escaped in ("\n" * 30_000, "\u2028" * 250):
        (line,) = lines_of("info", ("info", "client said", {"client_id": escaped}))
        assert len(line) < 500


@pytest.mark.parametrize(("level", "count"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_what_is_below_the_level_is_not_written(level: str, count: int) -> None:
    calls = [(method, "event", {}) for method in ("debug", "info", "warning", "error")]
    assert len(lines_of(level, *calls)) == count


def test_bound_fields_are_in_each_line_of_the_new_logger_and_of_no_other() -> None:
    file = io.StringIO()
    log = make_logger("info", file)
    bound = log.bind(this_broker=2)
    further = bound.bind(partition="orders-0")
    further.info("one", isr=7)
    bound.warning("two", this_broker=3)
    log.error("three")
    shown = [line.split("] ")[1].split() for line in file.getvalue().splitlines()]
    assert shown[0] == ["one", "isr=7", "partition=orders-0", "this_broker=2"]
    assert shown[1:] == [["two", "this_broker=3"], ["three"]]


def test_the_level_may_change_at_any_time_for_bound_loggers_too() -> None:
    file = io.StringIO()
    log = make_logger("warning", file)
    bound = log.bind(this_broker=2)
    bound.info("one")
    log.level = "debug"
    bound.debug("two")
    bound.level = "error"
    log.warning("three")
    assert (log.level, bound.level) == ("error", "error")
    assert [line.split("] ")[1].split()[0] for line in file.getvalue().splitlines()] == ["two"]


def test_a_bound_logger_counts_the_lines_of_the_output_that_were_lost() -> None:
    file = FullDisk()
    log = make_logger("info", file)
    log.bind(this_broker=2).info("lost")
    assert log.lines_lost == 1


def test_fields_may_have_any_name() -> None:
    (line,) = lines_of("info", ("info", "event", {"method_name": 1, "logger": "a", "name": 3}))
    for shown in ("method_name=1", "[a]", "name=3"):
        assert shown in line


def test_a_failure_is_written_with_its_traceback() -> None:
    try:
        raise ValueError("the reason")
    except ValueError as error:
        lines = lines_of("info", ("error", "request failed", {"exc_info": error}))
    assert "request failed" in lines[0]
    assert lines[-1] == "ValueError: the reason"
    assert any("test_logging.py" in line for line in lines)


def test_json_is_one_object_a_line_with_the_same_fields() -> None:
    file = io.StringIO()
    log = make_logger("info", file, "json")
    log.info("client said", client_id="x\ny", count=3, peer=Path("a"))
    try:
        raise ValueError("the reason")
    except ValueError as error:
        log.error("request failed", exc_info=error)  # noqa: TRY400 - not the standard library's.
    first, second = map(json.loads, file.getvalue().splitlines())
    assert first["timestamp"]
    assert {**first, "timestamp": ""} == {
        "timestamp": "",
        "level": "info",
        "event": "client said",
        "client_id": "x\\ny",
        "count": 3,
        "peer": "a",
    }
    assert second["exception"].endswith("ValueError: the reason")


class FullDisk(io.StringIO):
    """A file on a disk that is full for a while."""

    is_full = True

    def write(self, text: str) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


def test_a_line_that_cannot_be_written_is_counted_and_does_not_raise() -> None:
    file = FullDisk()
    log = make_logger("info", file)
    log.info("lost")
    log.error("lost as well")
    file.is_full = False
    log.info("kept")
    assert log.lines_lost == 2
    (line,) = file.getvalue().splitlines()
    assert "kept" in line


def test_a_log_file_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "broker.log"
    path.write_text("before\n")
    log_file = LogFile(SystemDisk(), str(path))
    make_logger("info", LogWriter(log_file.fileno)).info("zoë \udcff")
    assert path.read_text().startswith("before\n")
    assert path.read_text().endswith("zoë \\udcff\n")


def test_a_log_file_that_was_cut_is_written_from_its_new_end(tmp_path: Path) -> None:
    path = tmp_path / "broker.log"
    log_file = LogFile(SystemDisk(), str(path))
    writer = LogWriter(log_file.fileno)
    writer.write("a long line that logrotate copies away\n")
    os.truncate(path, 0)
    writer.write("next\n")
    assert path.read_bytes() == b"next\n", "and not after as many zeros as there were letters"


def test_a_log_file_that_was_moved_is_created_again_when_it_is_reopened(tmp_path: Path) -> None:
    path, moved = tmp_path / "broker.log", tmp_path / "broker.log.1"
    log_file = LogFile(SystemDisk(), str(path))
    writer = LogWriter(log_file.fileno)
    reported: list[int] = []
    log_file.on_reopened = lambda: reported.append(log_file.fileno())
    writer.write("one\n")
    former = log_file.fileno()
    path.rename(moved)
    writer.write("two\n")
    log_file.reopen()
    writer.write("three\n")
    assert (moved.read_text(), path.read_text()) == ("one\ntwo\n", "three\n")
    assert reported == [log_file.fileno()]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(former)


def test_a_log_file_that_cannot_be_reopened_continues_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log_file = LogFile(SystemDisk(), str(tmp_path / "logs" / "broker.log"))
    (tmp_path / "logs").rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError):
        log_file.reopen()
    LogWriter(log_file.fileno).write("still here\n")
    assert (tmp_path / "moved" / "broker.log").read_text() == "still here\n"


def test_of_a_long_stack_the_end_is_kept() -> None:
    text = io.StringIO()
    make_logger(file=text).warning("event loop stalled", calls="outer > " * 1000 + "guilty")
    assert text.getvalue().rstrip().endswith("outer > guilty'")
    assert "..." in text.getvalue()
    assert len(text.getvalue()) < LONG_CHARACTERS_MAX + 200
