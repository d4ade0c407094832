"""The file of the audit log, `sordini.audit.log.file`: opened at the start, and again by SIGHUP after it was renamed.

It is written as the log is (`log_writer.py`): never blocking, and a disk that is full costs lines, which are counted,
and not the broker. A file that cannot be opened prevents the start: the operator asked for it.
"""

from __future__ import annotations

from sordini.broker.configuration.config import Config
from sordini.broker.process.log_writer import file_output
from sordini.broker.process.logging import LogFile
from sordini.broker.security.audit.audit_lines import AuditEvent, audit_line
from sordini.storage.disk import Disk
from sordini.system.clock import SystemClock, utc_text


class AuditFile:
    """An `AuditOutput`."""

    def __init__(self, disk: Disk, path: str, broker_id: int) -> None:
        """`broker_id` is the configured one, for lines about lines that could not be written. Raises OSError."""
        self._file = LogFile(disk, path)
        self._broker_id = broker_id
        self._clock = SystemClock()
        self._writer = file_output(self._file.fileno)
        self._writer.dropped_line = self._dropped_line
        self.path = path

    def write(self, text: str, /) -> int:
        return self._writer.write(text)

    @property
    def lines_lost(self) -> int:
        return self._writer.lines_lost

    def reopen(self) -> None:
        """Continue in the file that has the path now, or in a new one. Raises OSError; then nothing has changed."""
        self._file.reopen()

    def _dropped_line(self, count: int) -> str:
        fields = {"dropped": "any", "address": "", "count": count, "reason": "not written"}
        return audit_line(utc_text(self._clock.now_ms()), self._broker_id, AuditEvent.DROPPED, fields)


def open_audit_file(disk: Disk, config: Config) -> AuditFile | None:
    """The file of the audit log; None where none is configured. Raises OSError."""
    if not config.audit_log_file:
        return None
    return AuditFile(disk, config.audit_log_file, config.broker_id)
