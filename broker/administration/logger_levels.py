"""The log level as a setting: one logger, `root`, whose level is not kept across restarts (KIP-412).

Levels have Apache Kafka's names. TRACE equals DEBUG, and FATAL equals ERROR.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from sordini.broker.configuration.edits import Edit, Operation
from sordini.protocol.errors import BrokerError, ErrorCode

ROOT = "root"
LEVELS = {
    "TRACE": "debug",
    "DEBUG": "debug",
    "INFO": "info",
    "WARN": "warning",
    "ERROR": "error",
    "FATAL": "error",
}
SHOWN = {"debug": "DEBUG", "info": "INFO", "warning": "WARN", "error": "ERROR"}


@runtime_checkable
class HasLogLevel(Protocol):
    """A log with a level: debug, info, warning or error."""

    level: str


class LoggerLevels:
    """The loggers of this process and their levels. A log without levels has no loggers."""

    def __init__(self, log: object) -> None:
        self._log = log if isinstance(log, HasLogLevel) else None

    def levels(self) -> dict[str, str]:
        """Each logger's level."""
        return {} if self._log is None else {ROOT: SHOWN[self._log.level]}

    def alter(self, edits: Sequence[Edit], *, validate_only: bool) -> None:
        """Set levels, all or none. Raises BrokerError INVALID_CONFIG, INVALID_REQUEST."""
        for edit in edits:
            self._check(edit)
        if self._log is not None and not validate_only:
            for edit in edits:
                self._log.level = LEVELS[edit.value or ""]

    def _check(self, edit: Edit) -> None:
        if self._log is None or edit.key != ROOT:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"there is no logger {edit.key}: there is {ROOT}")
        if edit.operation != Operation.SET:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"the level of {ROOT} can be set, and nothing else")
        if edit.value not in LEVELS:
            raise BrokerError(
                ErrorCode.INVALID_CONFIG, f"{edit.value!r} is not a level: allowed is one of {', '.join(LEVELS)}"
            )
