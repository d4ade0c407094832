"""What libraries log, by Python's logging or by structlog, arrives in the process's log, each record as one line."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator

import pytest
import structlog

from sordini.broker.process.library_lines import LibraryLines, take_over_libraries
from sordini.broker.process.logging import ProcessLogger, make_logger

Taken = Callable[..., tuple[ProcessLogger, io.StringIO]]


@pytest.fixture
def taken() -> Iterator[Taken]:
    root = logging.getLogger()
    former = list(root.handlers)

    def take(level: str = "info", form: str = "text") -> tuple[ProcessLogger, io.StringIO]:
        written = io.StringIO()
        log = make_logger(level, written, form)
        take_over_libraries(log)
        return log, written

    yield take
    root.handlers[:] = former
    structlog.reset_defaults()


def test_a_record_of_a_library_is_one_line_with_its_time_its_level_and_its_logger(taken: Taken) -> None:
    _, written = taken()
    logging.getLogger("figs.client").warning("lost %s\n2030-01-01 [error    ] all is lost", "fig-1")
    (line,) = written.getvalue().splitlines()
    assert line.isprintable()
    assert " [warning  ] lost fig-1\\n2030-01-01 [error    ] all is lost [figs.client]" in line


def test_in_json_a_record_is_one_object(taken: Taken) -> None:
    _, written = taken(form="json")
    try:
        raise ValueError("the reason")
    except ValueError:
        logging.getLogger("figs").exception("not sent", extra={"secret": "not a field"})
    (line,) = written.getvalue().splitlines()
    found = json.loads(line)
    assert found.pop("timestamp")
    assert found.pop("exception").endswith("ValueError: the reason")
    assert found == {"event": "not sent", "logger": "figs", "level": "error"}


def test_what_asyncio_says_of_a_failed_task_is_a_line_and_its_traceback(taken: Taken) -> None:
    _, written = taken()

    async def main() -> None:
        asyncio.get_running_loop().call_soon(int, "no number")
        await asyncio.sleep(0)

    asyncio.run(main())
    lines = written.getvalue().splitlines()
    assert "[error    ] Exception in callback int('no number')" in lines[0]
    assert lines[0].endswith("[asyncio]")
    assert lines[-1] == "ValueError: invalid literal for int() with base 10: 'no number'"


def test_libraries_are_logged_from_warnings_on_and_from_the_processs_level_on(taken: Taken) -> None:
    log, written = taken("debug")
    library = logging.getLogger("figs")
    library.info("not of a library")
    assert not written.getvalue()
    log.level = "error"
    library.warning("below the level")
    structlog.get_logger().warning("below the level")
    assert not written.getvalue()
    library.error("one")
    library.critical("two")
    log.level = "warning"
    library.warning("three")
    structlog.get_logger().warning("four")
    shown = [line.split("] ")[1].split()[0] for line in written.getvalue().splitlines()]
    assert shown == ["one", "two", "three", "four"]


def test_a_plug_in_that_logs_by_structlog_writes_lines_like_the_brokers(taken: Taken) -> None:
    log, written = taken()
    log.info("policy loaded", name="figs")
    structlog.get_logger().bind(name="figs").info("policy loaded")
    structlog.get_logger().debug("below the level")
    try:
        raise ValueError("the reason")
    except ValueError:
        structlog.get_logger().exception("policy\nfailed")
    own, theirs, failed, *_, last = (line.split(" ", 1)[-1] for line in written.getvalue().splitlines())
    assert own == theirs
    assert failed == "[error    ] policy\\nfailed"
    assert last == "the reason"


def test_a_record_whose_arguments_do_not_fit_raises_nothing(taken: Taken, capsys: pytest.CaptureFixture[str]) -> None:
    log, written = taken()
    # Not through the logger: pytest has a handler there, too, which does raise.
    LibraryLines(log.output).handle(logging.LogRecord("figs", logging.ERROR, "", 0, "%d figs", ("none",), None))
    assert not written.getvalue()
    assert "Logging error" in capsys.readouterr().err


def test_a_second_log_of_the_process_takes_the_place_of_the_first(taken: Taken) -> None:
    _, first = taken()
    _, second = taken()
    logging.getLogger("figs").error("once")
    assert (first.getvalue(), second.getvalue().count("once")) == ("", 1)
    assert sum(isinstance(one, LibraryLines) for one in logging.getLogger().handlers) == 1
