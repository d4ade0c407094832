"""One event, one line, whatever a peer puts into it."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from sordini.broker.logging import Logger

SOURCES = Path(__file__).resolve().parents[3] / ".import"


def lines_of(level: str, *calls: tuple[str, str, dict[str, object]]) -> list[str]:
    file = io.StringIO()
    log = Logger(level, file)
    for method, event, fields in calls:
        getattr(log, method)(event, **fields)
    return file.getvalue().splitlines()


@pytest.mark.parametrize(
    "forged", ["x\n2030-01-01 [error] all is lost", "x\r\nmore", "\x1b[2Jx", "a\u2028b", "a\x85b", "\x00", "tab\there"]
)
def test_nobody_can_forge_a_line(forged: str) -> None:
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


def test_a_failure_is_written_with_its_traceback() -> None:
    try:
        raise ValueError("the reason")
    except ValueError as error:
        lines = lines_of("info", ("error", "request failed", {"exc_info": error}))
    assert "request failed" in lines[0]
    assert lines[-1] == "ValueError: the reason"
    assert any("test_logging.py" in line for line in lines)


def test_structlog_is_not_imported_before_there_is_something_to_say() -> None:
    script = (
        "import sys\n"
        "from sordini.broker.logging import Logger\n"
        "log = Logger('warning')\n"
        "log.info('quiet')\n"
        "assert 'structlog' not in sys.modules\n"
        "log.warning('loud')\n"
        "assert 'structlog' in sys.modules\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(SOURCES)}, check=False, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert "loud" in ended.stderr
