"""kazoo's error records, as lines of the broker's log.

Without a handler Python writes such records to standard error: not to the log file, without a time, and with a
traceback that does not help an operator. Here each becomes one line with its message and the exception's name and text.
A text is written once only: a server with invalid answers sends one at every attempt to connect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from sordini.replication.ports import Logger

LOGGER: Final = "kazoo"
TEXTS_MAX: Final = 100
"""Different texts that are written at most."""


class KazooLines(logging.Handler):
    """Forwards records of kazoo's threads. `post` schedules a call on the loop, from any thread."""

    def __init__(self, log: Logger, post: Callable[..., object]) -> None:
        super().__init__(logging.ERROR)
        self._log = log
        self._post = post
        self._texts: set[str] = set()

    def install(self) -> None:
        """Handle all of kazoo's records, in place of an earlier handler of this kind and of standard error."""
        logger = logging.getLogger(LOGGER)
        for former in [one for one in logger.handlers if isinstance(one, KazooLines)]:
            logger.removeHandler(former)
        logger.addHandler(self)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        error: Any = record.exc_info[1] if record.exc_info else None
        if error is not None:
            text = f"{text}: {type(error).__name__}: {error}"
        if text in self._texts or len(self._texts) >= TEXTS_MAX:
            return
        self._texts.add(text)
        try:
            self._post(self._write, text)
        except RuntimeError:
            return  # The loop is closed: the broker has stopped.

    def _write(self, text: str) -> None:
        self._log.error("ZooKeeper client error", reason=text)
