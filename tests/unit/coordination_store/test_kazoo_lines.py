"""kazoo's own errors come out as lines of the broker's log."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from sordini.coordination_store.kazoo_lines import LOGGER, TEXTS_MAX, KazooLines
from tests.support.fake_ports import ListLog


def at_once(call: Callable[[str], None], text: str) -> None:
    call(text)


def test_an_error_of_kazoo_s_is_one_line_however_often_it_comes_and_never_a_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = ListLog()
    lines = KazooLines(log, at_once)
    KazooLines(ListLog(), at_once).install()
    lines.install()
    logger = logging.getLogger(f"{LOGGER}.client")
    try:
        for _ in range(3):
            try:
                raise ValueError("an answer of no use")
            except ValueError:
                logger.exception("Unhandled exception in connection loop")
        logger.warning("Connection dropped")
    finally:
        logging.getLogger(LOGGER).removeHandler(lines)
    reason = "Unhandled exception in connection loop: ValueError: an answer of no use"
    assert log.lines == [("error", "ZooKeeper client error", {"reason": reason})]
    assert capsys.readouterr().err == ""


def test_texts_that_differ_each_time_are_written_up_to_a_bound_and_after_the_loop_s_end_not_at_all() -> None:
    log = ListLog()
    lines = KazooLines(log, at_once)
    for number in range(2 * TEXTS_MAX):
        lines.emit(logging.makeLogRecord({"msg": f"failure {number}", "levelno": logging.ERROR}))
    assert len(log.lines) == TEXTS_MAX

    def closed(*_: object) -> None:
        raise RuntimeError("Event loop is closed")

    KazooLines(log, closed).emit(logging.makeLogRecord({"msg": "late"}))
    assert len(log.lines) == TEXTS_MAX
